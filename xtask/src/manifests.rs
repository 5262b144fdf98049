//! What every crate's `Cargo.toml` says alike.

use crate::{File, Finding, Tree};

/// Crates that do not take the workspace's lints, do not switch doctests off, or pin a version of their own.
#[must_use]
pub fn manifests(tree: &Tree) -> Vec<Finding> {
    let crates = tree
        .files
        .iter()
        .filter(|file| file.path.ends_with("/Cargo.toml") && !file.path.starts_with("fuzz/"));
    crates.flat_map(|file| manifest(tree, file)).collect()
}

fn manifest(tree: &Tree, file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    let says = |section: &str, line: &str| section_lines(&file.text, section).any(|(_, found)| found == line);
    if !says("lints", "workspace = true") {
        findings.push(Finding::new(&file.path, "has no `[lints] workspace = true`"));
    }
    let folder = file.path.strip_suffix("Cargo.toml").unwrap_or_default();
    if tree.get(&format!("{folder}src/lib.rs")).is_some() && !says("lib", "doctest = false") {
        findings.push(Finding::new(
            &file.path,
            "has a library without `[lib] doctest = false`",
        ));
    }
    for section in ["dependencies", "dev-dependencies", "build-dependencies"] {
        for (index, line) in section_lines(&file.text, section) {
            if !line.contains("workspace = true") {
                let what = format!("`{line}` has a version of its own: say it in the root's [workspace.dependencies]");
                findings.push(Finding::new(file.line(index), what));
            }
        }
    }
    findings
}

/// The lines of one section of a TOML file with their numbers (from 0), without blank lines and comments.
pub(crate) fn section_lines<'a>(text: &'a str, section: &'a str) -> impl Iterator<Item = (usize, &'a str)> {
    let mut inside = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let line = line.trim();
        if let Some(header) = line.strip_prefix('[') {
            inside = header.strip_suffix(']') == Some(section);
            return None;
        }
        (inside && !line.is_empty() && !line.starts_with('#')).then_some((index, line))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str =
        "[lints]\nworkspace = true\n\n[lib]\ndoctest = false\n\n[dependencies]\nbytes.workspace = true\n";

    fn check(text: &str, findings: usize) {
        let found = manifests(&Tree::of(&[("crates/a/Cargo.toml", text), ("crates/a/src/lib.rs", "")]));
        assert_eq!(found.len(), findings, "{found:?}");
    }

    #[test]
    fn what_is_missing_is_found() {
        check(GOOD, 0);
        check(&GOOD.replace("[lints]\nworkspace = true", ""), 1);
        check(&GOOD.replace("doctest = false", ""), 1);
        check(&GOOD.replace("bytes.workspace = true", "bytes = \"1\""), 1);
        check("", 2);
    }
}
