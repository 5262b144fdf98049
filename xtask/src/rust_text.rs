//! As much of Rust's grammar as the rules need: what is code, what is comment or literal, and where test modules lie.

/// The text with comments and the insides of literals blanked out; line breaks and byte positions of lines stay.
pub(crate) fn code_only(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while let Some(&current) = chars.get(at) {
        let end = skip_end(&chars, at);
        if end > at {
            out.extend(
                chars
                    .get(at..end)
                    .into_iter()
                    .flatten()
                    .map(|c| if *c == '\n' { '\n' } else { ' ' }),
            );
            at = end;
        } else {
            out.push(current);
            at += 1;
        }
    }
    out
}

/// Where the comment or literal that begins at `at` ends; `at` itself when none begins there.
fn skip_end(chars: &[char], at: usize) -> usize {
    let peek = |offset: usize| chars.get(at + offset).copied();
    match (peek(0), peek(1)) {
        (Some('/'), Some('/')) => find(chars, at, |c| c == '\n'),
        (Some('/'), Some('*')) => block_comment_end(chars, at),
        (Some('"'), _) => quoted_end(chars, at, '"'),
        (Some('r'), Some('"' | '#')) if !follows_name(chars, at) => raw_end(chars, at),
        (Some('\''), Some('\\')) => quoted_end(chars, at, '\''),
        (Some('\''), Some(_)) if peek(2) == Some('\'') => at + 3,
        _ => at,
    }
}

/// Whether the character before `at` belongs to an identifier, so that an `r` here opens no raw string. A `b` before it does.
fn follows_name(chars: &[char], at: usize) -> bool {
    let before = at.checked_sub(1).and_then(|index| chars.get(index)).copied();
    before.is_some_and(|c| c != 'b' && (c.is_alphanumeric() || c == '_'))
}

fn find(chars: &[char], from: usize, wanted: impl Fn(char) -> bool) -> usize {
    let rest = chars.get(from..).unwrap_or_default();
    from + rest.iter().position(|c| wanted(*c)).unwrap_or(rest.len())
}

fn block_comment_end(chars: &[char], at: usize) -> usize {
    let (mut depth, mut index) = (0_usize, at);
    while index < chars.len() {
        match (chars.get(index), chars.get(index + 1)) {
            (Some('/'), Some('*')) => depth += 1,
            (Some('*'), Some('/')) => depth -= 1,
            _ => {
                index += 1;
                continue;
            }
        }
        index += 2;
        if depth == 0 {
            break;
        }
    }
    index
}

fn quoted_end(chars: &[char], at: usize, quote: char) -> usize {
    let mut index = at + 1;
    while let Some(&c) = chars.get(index) {
        match c {
            '\\' => index += 2,
            c if c == quote => return index + 1,
            _ => index += 1,
        }
    }
    chars.len()
}

fn raw_end(chars: &[char], at: usize) -> usize {
    let open = find(chars, at + 1, |c| c != '#');
    if chars.get(open) != Some(&'"') {
        return at;
    }
    let hashes = open - at - 1;
    let mut index = open + 1;
    loop {
        index = find(chars, index, |c| c == '"');
        if index >= chars.len() {
            return chars.len();
        }
        let closing = chars.get(index + 1..index + 1 + hashes).unwrap_or_default();
        if closing.len() == hashes && closing.iter().all(|c| *c == '#') {
            return index + 1 + hashes;
        }
        index += 1;
    }
}

/// For each line, whether it lies in an inline `#[cfg(test)] mod … { … }`.
pub(crate) fn test_lines(code: &str) -> Vec<bool> {
    let lines: Vec<&str> = code.lines().collect();
    let mut marks = vec![false; lines.len()];
    let mut index = 0;
    while index < lines.len() {
        let is_attribute = lines.get(index).is_some_and(|line| line.trim() == "#[cfg(test)]");
        let opens = lines.get(index + 1).is_some_and(|line| is_inline_module(line));
        let end = if is_attribute && opens {
            block_end(&lines, index + 1)
        } else {
            index
        };
        if end > index {
            marks.get_mut(index..end).unwrap_or_default().fill(true);
        }
        index = end.max(index + 1);
    }
    marks
}

fn is_inline_module(line: &str) -> bool {
    let line = line.trim();
    line.starts_with("mod ") && line.ends_with('{')
}

/// The line after the one that closes the block opened on line `from`.
fn block_end(lines: &[&str], from: usize) -> usize {
    let mut depth = 0_i64;
    for (offset, line) in lines.iter().skip(from).enumerate() {
        for c in line.chars() {
            depth += i64::from(c == '{') - i64::from(c == '}');
        }
        if depth <= 0 {
            return from + offset + 1;
        }
    }
    lines.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blanked() {
        let check = |text: &str, code: &str| assert_eq!(code_only(text), code, "{text}");
        check("a // b\nc", "a     \nc");
        check("a /* b /* c */ d */ e", "a                   e");
        check(r#"f("x\"y") + 1"#, "f(      ) + 1");
        check("r#\"a\"b\"# ;", "         ;");
        check("br\"x\" y", "b     y");
        check("'x' 'a: &'a str", "    'a: &'a str");
        check(r"'\'' z", "     z");
        check("car\"x\"", "car   ");
        check("r#type", "r#type");
    }

    #[test]
    fn unfinished_literals_reach_to_the_end() {
        for text in ["\"abc", "r##\"abc\"#", "/* abc", "'\\", "r#"] {
            assert_eq!(code_only(text).chars().count(), text.chars().count(), "{text}");
        }
    }

    #[test]
    fn inline_test_modules_are_found() {
        let code = "fn a() {}\n#[cfg(test)]\nmod tests {\n fn b() {}\n}\nfn c() {}\n#[cfg(test)]\nmod tests;\n";
        assert_eq!(test_lines(code), [false, true, true, true, true, false, false, false]);
    }
}
