//! What is wrong with a configuration, where, and what would be right.

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The configuration cannot be used.
    Error,
    /// The configuration can be used, but it probably does not do what its author wants.
    Warning,
}

impl Severity {
    /// The word at the head of a printed diagnostic.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }
}

/// A place in the text: from a column of a line, over a number of characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Region {
    /// The line, from 1.
    pub(crate) line: usize,
    /// The character in the line, from 1.
    pub(crate) column: usize,
    /// Characters, all in this line.
    pub(crate) width: usize,
}

/// One thing that is wrong with a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// The file's name, as the caller gave it.
    pub file: String,
    /// The option, such as `pools[1].endpoints[0].address`; empty for the file as a whole.
    pub path: String,
    /// The line, from 1.
    pub line: usize,
    /// The character in the line, from 1.
    pub column: usize,
    /// What was found and what is wrong with it.
    pub message: String,
    /// What is allowed, or what to write instead.
    pub help: Option<String>,
    pub(crate) width: usize,
    /// The character, from 1, from which on the line is not shown, since a secret may stand there by mistake.
    pub(crate) blank_from: Option<usize>,
}

/// Characters of a line that an excerpt shows.
const EXCERPT_WIDTH_MAX: usize = 120;
/// Characters shown before the place when a line is too long to be shown from its start.
const EXCERPT_LEAD: usize = 30;

/// Prints diagnostics of one file, each with the line it is about and a mark below the place.
///
/// `text` is the file's text. Control characters are not printed, and values that may be secrets are blanked.
#[must_use]
pub fn render(diagnostics: &[Diagnostic], text: &str) -> String {
    let lines: Vec<String> = text
        .lines()
        .enumerate()
        .map(|(index, line)| shown(line, blank_from(diagnostics, index + 1)))
        .collect();
    let mut out = String::new();
    for diagnostic in diagnostics {
        if !out.is_empty() {
            out.push('\n');
        }
        render_one(&mut out, diagnostic, &lines);
    }
    out
}

/// Where the part of line `number` begins that none of the diagnostics may show.
fn blank_from(diagnostics: &[Diagnostic], number: usize) -> Option<usize> {
    let of_line = diagnostics.iter().filter(|diagnostic| diagnostic.line == number);
    of_line.filter_map(|diagnostic| diagnostic.blank_from).min()
}

/// The line as it may be shown.
fn shown(line: &str, blank_from: Option<usize>) -> String {
    let is_blank = |index: usize| blank_from.is_some_and(|from| index + 1 >= from);
    let char = |(index, char): (usize, char)| {
        if is_blank(index) && char != ' ' {
            '*'
        } else {
            printable_char(char)
        }
    };
    line.chars().enumerate().map(char).collect()
}

fn render_one(out: &mut String, diagnostic: &Diagnostic, lines: &[String]) {
    let number = diagnostic.line.to_string();
    let margin = " ".repeat(number.len());
    let source = lines
        .get(diagnostic.line.saturating_sub(1))
        .map(String::as_str)
        .unwrap_or_default();
    let (excerpt, mark) = excerpt(diagnostic, source);
    let place = match diagnostic.path.as_str() {
        "" => String::new(),
        path => format!(" ({})", printable(path)),
    };
    let mut line = |text: &str| {
        out.push_str(text.trim_end());
        out.push('\n');
    };
    line(&format!(
        "{}: {}",
        diagnostic.severity.label(),
        printable(&diagnostic.message)
    ));
    line(&format!(
        "{margin}--> {}:{}:{}{place}",
        diagnostic.file, diagnostic.line, diagnostic.column
    ));
    line(&format!("{margin} |"));
    line(&format!("{number} | {excerpt}"));
    line(&format!("{margin} | {mark}"));
    if let Some(help) = &diagnostic.help {
        let mut help = help.lines();
        line(&format!(
            "{margin} = help: {}",
            printable(help.next().unwrap_or_default())
        ));
        for more in help {
            line(&format!("{margin}         {}", printable(more)));
        }
    }
}

/// The part of the line to show, and the line of marks below it.
fn excerpt(diagnostic: &Diagnostic, source: &str) -> (String, String) {
    let start = diagnostic.column.saturating_sub(1);
    let chars: Vec<char> = source.chars().collect();
    let width = diagnostic.width.min(chars.len().saturating_sub(start)).max(1);
    let is_long = start + width > EXCERPT_WIDTH_MAX;
    let skipped = if is_long { start.saturating_sub(EXCERPT_LEAD) } else { 0 };
    let lead = if skipped > 0 { "..." } else { "" };
    let before = start - skipped;
    let shown: String = chars.iter().skip(skipped).take(EXCERPT_WIDTH_MAX).collect();
    let mark = "^".repeat(width.min(EXCERPT_WIDTH_MAX.saturating_sub(before)).max(1));
    (format!("{lead}{shown}"), " ".repeat(lead.len() + before) + &mark)
}

/// Text from the file, safe for a terminal.
fn printable(text: &str) -> String {
    text.chars().map(printable_char).collect()
}

fn printable_char(char: char) -> char {
    match char {
        '\t' => ' ',
        char if char.is_control() => char::REPLACEMENT_CHARACTER,
        // What has no width or turns the direction of writing would let a line look like another.
        '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' => {
            char::REPLACEMENT_CHARACTER
        }
        char => char,
    }
}

/// The one of `allowed` that `found` was probably meant to be.
pub(crate) fn near_miss<'a>(found: &str, allowed: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let found = found.to_lowercase();
    let limit = (found.chars().count() / 3).max(1);
    allowed
        .into_iter()
        .map(|name| (strsim::damerau_levenshtein(&found, &name.to_lowercase()), name))
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// Names in backticks, joined by commas and a last word.
pub(crate) fn listed<'a>(names: impl IntoIterator<Item = &'a str>, last: &str) -> String {
    let names: Vec<String> = names.into_iter().map(|name| format!("`{name}`")).collect();
    match names.as_slice() {
        [] => "nothing".to_owned(),
        [only] => only.clone(),
        [head @ .., tail] => format!("{} {last} {tail}", head.join(", ")),
    }
}

#[cfg(test)]
mod tests;
