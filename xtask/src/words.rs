//! Words that do not belong in the source.
//!
//! The unwanted words are put together from parts, so that this file does not find itself.

use crate::layers::PURE;
use crate::rust_text::{code_only, test_lines};
use crate::{File, Finding, Tree};

/// Marks of unfinished work. What is not done is not in the tree.
const UNFINISHED: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("X", "XX")];
/// Paths of one machine, and words of how the project is run rather than what it does.
const PLACES: &[&str] = &[
    concat!("/wo", "rk/"),
    concat!("/ro", "ot/"),
    concat!("/fa", "rm/"),
    concat!("issue", " #"),
];
/// A test that is not run is not a test.
const IGNORED: &str = concat!("#[ig", "nore");
/// Endings of type names that say nothing about what a thing is.
const EMPTY_ENDINGS: &[&str] = &[
    "Manager", "Helper", "Helpers", "Util", "Utils", "Handler", "Info", "Data",
];
/// Words inside type names for which the lexicon has another word, and that word.
const SYNONYMS: &[(&str, &str)] = &[
    ("Backend", "endpoint"),
    ("Worker", "endpoint"),
    ("Instance", "endpoint"),
    ("Replica", "endpoint"),
    ("Customer", "tenant"),
];
/// Names of modules that collect what has no place.
const EMPTY_MODULES: &[&str] = &["utils", "util", "common", "helpers", "misc", "mod"];

/// Every unwanted word in the tree.
#[must_use]
pub fn words(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &tree.files {
        texts(file, &mut findings);
        if file.is_rust() {
            rust_words(file, &mut findings);
        }
    }
    findings
}

/// What no file may say, in code, comment or prose.
fn texts(file: &File, findings: &mut Vec<Finding>) {
    if file.path == "Cargo.lock" || file.path == "LICENSE" {
        return;
    }
    for (index, line) in file.text.lines().enumerate() {
        for word in UNFINISHED.iter().filter(|word| has_word(line, word)) {
            findings.push(Finding::new(
                file.line(index),
                format!("says {word}: finish it, or leave it out"),
            ));
        }
        for place in PLACES.iter().filter(|place| line.contains(**place)) {
            findings.push(Finding::new(
                file.line(index),
                format!("says `{place}`, which means nothing to a reader"),
            ));
        }
    }
}

fn rust_words(file: &File, findings: &mut Vec<Finding>) {
    let code = code_only(&file.text);
    let marks = test_lines(&code);
    let is_pure = PURE
        .iter()
        .any(|name| file.path.starts_with(&format!("crates/{name}/")));
    // Sleeping in paused time takes none, and is how a test says "later".
    let mut is_paused = false;
    for (index, line) in code.lines().enumerate() {
        if line.trim_start().starts_with("#[tokio::test") || line.contains("#[test]") {
            is_paused = line.contains("start_paused = true");
        }
        let is_test = file.is_test() || marks.get(index) == Some(&true);
        let mut found = |what: String| findings.push(Finding::new(file.line(index), what));
        if is_test && !is_paused && line.contains("sleep(") {
            found("a test that sleeps: wait for a line, a channel or paused time".to_owned());
        }
        if line.contains(IGNORED) {
            found("an ignored test: mend it or delete it".to_owned());
        }
        if is_pure && has_word(line, "tracing") {
            found("a PURE crate does not log: return an event".to_owned());
        }
        if let Some(name) = declared_type(line) {
            found_in_type(name, &mut found);
        }
        if let Some(module) = declared_module(line).filter(|name| EMPTY_MODULES.contains(name)) {
            found(format!("module `{module}` says nothing about what is in it"));
        }
    }
    let stem = file.path.rsplit('/').next().and_then(|name| name.strip_suffix(".rs"));
    if let Some(stem) = stem.filter(|stem| EMPTY_MODULES.contains(stem)) {
        findings.push(Finding::new(
            &file.path,
            format!("module `{stem}` says nothing about what is in it"),
        ));
    }
}

fn found_in_type(name: &str, found: &mut impl FnMut(String)) {
    for ending in EMPTY_ENDINGS.iter().filter(|ending| name.ends_with(**ending)) {
        found(format!("type `{name}`: {ending} says nothing; name what it is"));
    }
    for (word, instead) in SYNONYMS.iter().filter(|(word, _)| name.contains(word)) {
        found(format!("type `{name}`: the lexicon says {instead}, not {word}"));
    }
}

/// The name that a `struct`, `enum`, `trait` or `union` on this line gives, or a `type` that is not a trait's own.
fn declared_type(line: &str) -> Option<&str> {
    let alias = if line.starts_with(' ') { "" } else { "type" };
    named_after(line, &["struct", "enum", "trait", "union", alias])
}

fn declared_module(line: &str) -> Option<&str> {
    named_after(line, &["mod"])
}

fn named_after<'a>(line: &'a str, keywords: &[&str]) -> Option<&'a str> {
    let mut parts = line.split_whitespace().skip_while(|part| part.starts_with("pub"));
    let keyword = parts.next()?;
    let name = parts.next().filter(|_| keywords.contains(&keyword))?;
    name.split(|c: char| !c.is_alphanumeric() && c != '_').next()
}

/// Whether `word` stands in `line` with no letter or digit on either side.
fn has_word(line: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let before = line.get(..at).and_then(|text| text.chars().next_back());
        let after = line.get(at + word.len()..).and_then(|text| text.chars().next());
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, text: &str, findings: usize) {
        let found = words(&Tree::of(&[(path, text)]));
        assert_eq!(found.len(), findings, "{path}: {text}: {found:?}");
    }

    #[test]
    fn unfinished_work_and_private_places_are_found_everywhere() {
        check("a.rs", "// the rest later\n", 0);
        for mark in UNFINISHED {
            check("a.rs", &format!("// {mark}: the rest\n"), 1);
            check("docs/a.md", &format!("{mark}\n"), 1);
            check("a.rs", &format!("// A{mark}B\n"), 0);
        }
        for place in PLACES {
            check("a.rs", &format!("let path = \"{place}1\";\n"), 1);
            check("Makefile", &format!("\tcat {place}1\n"), 1);
        }
    }

    #[test]
    fn a_sleeping_test_is_found_and_a_sleeping_server_is_not() {
        check("crates/a/src/b/tests.rs", "thread::sleep(x);\n", 1);
        check("crates/a/tests/it/b.rs", "tokio::time::sleep(x).await;\n", 1);
        check("a.rs", "#[cfg(test)]\nmod tests {\n    sleep(x);\n}\n", 1);
        check("a.rs", "sleep(x);\n", 0);
        let paused = "#[tokio::test(start_paused = true)]\nasync fn a() {\n    sleep(x).await;\n}\n";
        check("crates/a/src/b/tests.rs", paused, 0);
        check(
            "crates/a/src/b/tests.rs",
            &format!("{paused}#[tokio::test]\nasync fn c() {{\n    sleep(x).await;\n}}\n"),
            1,
        );
        check("crates/a/src/b/tests.rs", "// never sleep(x)\n", 0);
    }

    #[test]
    fn ignored_tests_are_found() {
        check("a.rs", &format!("{IGNORED}]\nfn a() {{}}\n"), 1);
    }

    #[test]
    fn pure_crates_do_not_log() {
        check("crates/maitred-sched/src/a.rs", "use tracing::info;\n", 1);
        check("crates/maitred-sched/src/a.rs", "// no tracing here\n", 0);
        check("crates/maitred-proxy/src/a.rs", "use tracing::info;\n", 0);
    }

    #[test]
    fn empty_names_and_synonyms_are_found() {
        check("a.rs", "pub struct PoolManager {\n", 1);
        check("a.rs", "pub(crate) struct ConfigData<T>(T);\n", 1);
        check("a.rs", "enum BackendState {\n", 1);
        check("a.rs", "pub struct Metadata;\n", 0);
        check("a.rs", "pub type ConfigData = u8;\n", 1);
        check("a.rs", "    type Data = Bytes;\n", 0);
        check("a.rs", "let manager = PoolManager;\n", 0);
        check("a.rs", "mod utils;\n", 1);
        check("src/common.rs", "//! Things.\n", 1);
        check("src/a/mod.rs", "//! Things.\n", 1);
    }
}
