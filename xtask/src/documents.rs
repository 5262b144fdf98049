//! What must be written down, and in which form.

use crate::{File, Finding, Graph, Tree};

/// The map of the project stays readable in one sitting.
const ARCHITECTURE_LINES_MAX: usize = 250;
/// What needs more than a line per verb is a script or a program.
const MAKEFILE_LINES_MAX: usize = 40;
/// A decision record has these headings, in this order.
const DECISION_SECTIONS: &[&str] = &["Context", "Decision", "Alternatives", "Consequences", "Revisit when"];

/// Whether ARCHITECTURE.md is short enough and names every crate.
#[must_use]
pub fn architecture(tree: &Tree, graph: &Graph) -> Vec<Finding> {
    const PAGE: &str = "ARCHITECTURE.md";
    let Some(page) = tree.get(PAGE) else {
        return vec![Finding::new(PAGE, "is missing")];
    };
    let mut findings = Vec::new();
    let lines = page.text.lines().count();
    if lines > ARCHITECTURE_LINES_MAX {
        findings.push(Finding::new(
            PAGE,
            format!("{lines} lines, {ARCHITECTURE_LINES_MAX} allowed"),
        ));
    }
    for name in graph
        .members
        .keys()
        .filter(|name| !page.text.contains(&format!("`{name}`")))
    {
        findings.push(Finding::new(PAGE, format!("does not name the crate `{name}`")));
    }
    findings
}

/// Whether the Makefile is short enough to be read at a glance.
#[must_use]
pub fn makefile(tree: &Tree) -> Vec<Finding> {
    let lines = tree
        .get("Makefile")
        .map_or(usize::MAX, |file| file.text.lines().count());
    let is_long = lines > MAKEFILE_LINES_MAX;
    let finding = || {
        Finding::new(
            "Makefile",
            format!("is missing or has more than {MAKEFILE_LINES_MAX} lines"),
        )
    };
    is_long.then(finding).into_iter().collect()
}

/// Modules that do not say what they are for.
#[must_use]
pub fn module_docs(tree: &Tree) -> Vec<Finding> {
    let modules = tree.rust().filter(|file| !file.path.ends_with("/tests.rs"));
    let silent = modules.filter(|file| !file.text.trim_start().starts_with("//!"));
    silent
        .map(|file| Finding::new(&file.path, "does not begin with a `//!` that says what it is for"))
        .collect()
}

/// Decision records that lack a section, or whose numbers have gaps or doubles.
#[must_use]
pub fn decisions(tree: &Tree) -> Vec<Finding> {
    let records = tree.markdown().filter(|file| file.path.starts_with("docs/decisions/"));
    let mut findings = Vec::new();
    for (index, record) in records.enumerate() {
        let number = format!("docs/decisions/{:04}-", index + 1);
        if !record.path.starts_with(&number) {
            findings.push(Finding::new(&record.path, format!("should be number {:04}", index + 1)));
        }
        findings.extend(decision(record));
    }
    findings
}

fn decision(record: &File) -> Option<Finding> {
    let headings: Vec<&str> = record
        .text
        .lines()
        .filter_map(|line| line.strip_prefix("## "))
        .map(str::trim)
        .collect();
    (headings != DECISION_SECTIONS).then(|| {
        Finding::new(
            &record.path,
            format!("has the sections {headings:?}, not {DECISION_SECTIONS:?}"),
        )
    })
}

/// Whether the licence is the one that the manifests name.
#[must_use]
pub fn licence(tree: &Tree) -> Vec<Finding> {
    let text = tree.get("LICENSE").map_or("", |file| file.text.as_str());
    let is_apache = text.contains("Apache License") && text.contains("Version 2.0, January 2004");
    let root = tree.get("Cargo.toml").map_or("", |file| file.text.as_str());
    let mut findings = Vec::new();
    if !is_apache {
        findings.push(Finding::new("LICENSE", "is not the Apache License 2.0"));
    }
    if !root.contains("license = \"Apache-2.0\"") {
        findings.push(Finding::new("Cargo.toml", "does not say `license = \"Apache-2.0\"`"));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layers::Member;

    #[test]
    fn a_long_or_incomplete_map_is_found() {
        let mut graph = Graph::default();
        graph.members.insert("maitred-types".to_owned(), Member::default());
        let check = |text: &str, findings: usize| {
            let found = architecture(&Tree::of(&[("ARCHITECTURE.md", text)]), &graph);
            assert_eq!(found.len(), findings, "{found:?}");
        };
        check("`maitred-types`\n", 0);
        check("maitred-types\n", 1);
        check(&"`maitred-types`\n".repeat(251), 1);
        assert_eq!(architecture(&Tree::default(), &graph).len(), 1);
    }

    #[test]
    fn a_long_or_missing_makefile_is_found() {
        let check = |lines: usize, findings: usize| {
            let found = makefile(&Tree::of(&[("Makefile", &"a:\n".repeat(lines))]));
            assert_eq!(found.len(), findings, "{lines}");
        };
        check(40, 0);
        check(41, 1);
        assert_eq!(makefile(&Tree::default()).len(), 1);
    }

    #[test]
    fn a_module_without_a_purpose_is_found() {
        let check = |path: &str, text: &str, findings: usize| {
            assert_eq!(module_docs(&Tree::of(&[(path, text)])).len(), findings, "{path}");
        };
        check("src/a.rs", "//! Things.\nfn a() {}\n", 0);
        check("src/a.rs", "fn a() {}\n", 1);
        check("src/a/tests.rs", "use super::*;\n", 0);
    }

    #[test]
    fn an_incomplete_or_misnumbered_decision_is_found() {
        let good = "# Title\n\n## Context\n\n## Decision\n\n## Alternatives\n\n## Consequences\n\n## Revisit when\n";
        let check = |path: &str, text: &str, findings: usize| {
            assert_eq!(decisions(&Tree::of(&[(path, text)])).len(), findings, "{path}");
        };
        check("docs/decisions/0001-a.md", good, 0);
        check("docs/decisions/0001-a.md", &good.replace("## Alternatives\n", ""), 1);
        check("docs/decisions/0002-a.md", good, 1);
    }

    #[test]
    fn another_licence_is_found() {
        let check = |licence_text: &str, root: &str, findings: usize| {
            let found = licence(&Tree::of(&[("LICENSE", licence_text), ("Cargo.toml", root)]));
            assert_eq!(found.len(), findings, "{found:?}");
        };
        let (text, root) = (
            "Apache License\nVersion 2.0, January 2004\n",
            "license = \"Apache-2.0\"\n",
        );
        check(text, root, 0);
        check("MIT License\n", root, 1);
        check(text, "license = \"MIT\"\n", 1);
    }
}
