//! How long files may be.

use crate::rust_text::{code_only, test_lines};
use crate::{File, Finding, Tree};

/// Lines of a source file, inline tests not counted.
const SOURCE_LINES_MAX: usize = 600;
/// Lines of a file that is all test.
const TEST_LINES_MAX: usize = 1000;

/// A file that may be longer than the rule allows, and why.
#[derive(Clone, Copy, Debug)]
pub struct Longer {
    /// The file.
    pub path: &'static str,
    /// Its own limit: its length when it was listed. It may only go down.
    pub lines: usize,
    /// Why splitting it would make it worse.
    pub reason: &'static str,
}

/// The files that may be longer. This list may only shrink.
pub const ALLOWED_LONGER: &[Longer] = &[];

/// Files over the limit, and entries of `allowed` that are no longer needed.
#[must_use]
pub fn file_sizes(tree: &Tree, allowed: &[Longer]) -> Vec<Finding> {
    let mut findings: Vec<Finding> = tree.rust().filter_map(|file| too_long(file, allowed)).collect();
    findings.extend(allowed.iter().filter_map(|entry| stale(tree, entry)));
    findings
}

/// The lines of `file` that count, and how many it may have.
fn measured(file: &File) -> (usize, usize) {
    if file.is_test() {
        (file.text.lines().count(), TEST_LINES_MAX)
    } else {
        let marks = test_lines(&code_only(&file.text));
        (marks.iter().filter(|is_test| !**is_test).count(), SOURCE_LINES_MAX)
    }
}

fn too_long(file: &File, allowed: &[Longer]) -> Option<Finding> {
    let (lines, general) = measured(file);
    let own = allowed.iter().find(|entry| entry.path == file.path);
    let limit = own.map_or(general, |entry| entry.lines);
    (lines > limit).then(|| {
        Finding::new(
            &file.path,
            format!("{lines} lines, {limit} allowed: split it by responsibility"),
        )
    })
}

fn stale(tree: &Tree, entry: &Longer) -> Option<Finding> {
    let Some(file) = tree.get(entry.path) else {
        return Some(Finding::new(
            entry.path,
            "is on the allow list of long files, but does not exist",
        ));
    };
    let (lines, general) = measured(file);
    if entry.reason.is_empty() {
        return Some(Finding::new(
            entry.path,
            "is on the allow list of long files without a reason",
        ));
    }
    (lines <= general).then(|| Finding::new(entry.path, "no longer needs its place on the allow list of long files"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &'static str, lines: usize, allowed: &[Longer], findings: usize) {
        let text = "x\n".repeat(lines);
        let found = file_sizes(&Tree::of(&[(path, &text)]), allowed);
        assert_eq!(found.len(), findings, "{path}, {lines} lines: {found:?}");
    }

    #[test]
    fn a_long_file_is_found() {
        check("crates/a/src/b.rs", 600, &[], 0);
        check("crates/a/src/b.rs", 601, &[], 1);
        check("crates/a/src/b/tests.rs", 1000, &[], 0);
        check("crates/a/tests/it/b.rs", 1001, &[], 1);
    }

    #[test]
    fn inline_tests_do_not_count() {
        let text = format!(
            "{}#[cfg(test)]\nmod tests {{\n{}}}\n",
            "x\n".repeat(600),
            "y\n".repeat(300)
        );
        assert_eq!(file_sizes(&Tree::of(&[("a.rs", &text)]), &[]), []);
    }

    #[test]
    fn the_allow_list_may_only_shrink() {
        let entry = |lines, reason| Longer {
            path: "a.rs",
            lines,
            reason,
        };
        check("a.rs", 650, &[entry(650, "one table")], 0);
        check("a.rs", 651, &[entry(650, "one table")], 1);
        check("a.rs", 600, &[entry(650, "one table")], 1);
        check("a.rs", 650, &[entry(650, "")], 1);
        check("b.rs", 10, &[entry(650, "one table")], 1);
    }
}
