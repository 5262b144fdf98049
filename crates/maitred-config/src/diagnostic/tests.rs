use super::*;

fn diagnostic(line: usize, column: usize, width: usize) -> Diagnostic {
    Diagnostic {
        severity: Severity::Error,
        file: "maitred.yaml".to_owned(),
        path: String::new(),
        line,
        column,
        message: "this is wrong".to_owned(),
        help: None,
        width,
        blank_from: None,
    }
}

/// The excerpt and the marks below it.
fn drawn(diagnostic: &Diagnostic, text: &str) -> (String, String) {
    let rendered = render(std::slice::from_ref(diagnostic), text);
    let mut lines = rendered
        .lines()
        .skip(3)
        .map(|line| line.get(4..).unwrap_or_default().to_owned());
    (lines.next().unwrap(), lines.next().unwrap())
}

#[test]
fn the_mark_stands_below_the_place() {
    let check = |text: &str, (column, width): (usize, usize), mark: &str| {
        let (excerpt, found) = drawn(&diagnostic(1, column, width), text);
        assert_eq!((excerpt.as_str(), found.as_str()), (text.trim_end(), mark));
    };
    check("abc: def", (6, 3), "     ^^^");
    check("größe: 5", (8, 1), "       ^");
    check("abc", (2, usize::MAX), " ^^");
    check("abc", (4, 1), "   ^");
    check("abc", (40, 7), &format!("{}^", " ".repeat(39)));
    check("", (1, 0), "^");
}

#[test]
fn a_long_line_is_cut_around_the_place() {
    let text = format!("{}HERE{}", "a".repeat(500), "b".repeat(500));
    let (excerpt, mark) = drawn(&diagnostic(1, 501, 4), &text);
    assert_eq!(excerpt, format!("...{}HERE{}", "a".repeat(30), "b".repeat(86)));
    assert_eq!(mark, format!("{}^^^^", " ".repeat(33)));
    let (excerpt, mark) = drawn(&diagnostic(1, 11, 990), &text);
    assert_eq!(
        (excerpt.len(), mark.len()),
        (120, 120),
        "the mark is no longer than the line"
    );
}

#[test]
fn control_characters_are_not_printed() {
    let text = "a: \u{1b}[31mred\u{202e}\u{7}";
    let mut found = diagnostic(1, 4, 3);
    found.message = format!("`{text}`");
    found.help = Some(text.to_owned());
    found.path = text.to_owned();
    let rendered = render(&[found], text);
    assert!(
        rendered.chars().all(|char| char == '\n' || !char.is_control()),
        "{rendered:?}"
    );
    assert!(!rendered.contains('\u{202e}'));
}

#[test]
fn what_one_diagnostic_blanks_no_other_shows() {
    let text = "{ api_key: canary, foo: 1 }";
    let secret = Diagnostic {
        blank_from: Some(12),
        ..diagnostic(1, 12, 6)
    };
    let rendered = render(&[diagnostic(1, 20, 3), secret], text);
    assert!(!rendered.contains("canary"), "{rendered}");
    assert_eq!(rendered.matches("{ api_key: ******* **** * *").count(), 2, "{rendered}");
}

#[test]
fn a_line_that_is_not_there_is_drawn_empty() {
    assert_eq!(drawn(&diagnostic(7, 1, 1), "one line"), (String::new(), "^".to_owned()));
}

#[test]
fn a_near_miss_is_near() {
    let known = ["endpoints", "engine", "name"];
    let check = |found: &str, expected: Option<&str>| assert_eq!(near_miss(found, known), expected, "{found}");
    check("enigne", Some("engine"));
    check("ENGINE", Some("engine"));
    check("endpoint", Some("endpoints"));
    check("nam", Some("name"));
    check("timeout", None);
    check("", None);
}

#[test]
fn names_are_listed_as_in_a_sentence() {
    let check = |names: &[&str], expected: &str| assert_eq!(listed(names.iter().copied(), "or"), expected);
    check(&[], "nothing");
    check(&["a"], "`a`");
    check(&["a", "b"], "`a` or `b`");
    check(&["a", "b", "c"], "`a`, `b` or `c`");
}
