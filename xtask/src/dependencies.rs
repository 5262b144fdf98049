//! How many packages the project stands on, and why each direct one is there.

use std::collections::BTreeSet;

use crate::manifests::section_lines;
use crate::{Finding, Graph, Tree};

/// Packages in the lock file, our own included.
const LOCKED_MAX: usize = 460;
/// The page with the reasons.
const PAGE: &str = "docs/dependencies.md";

/// Whether the lock file is within its budget.
#[must_use]
pub fn budget(tree: &Tree) -> Vec<Finding> {
    let Some(lock) = tree.get("Cargo.lock") else {
        return vec![Finding::new("Cargo.lock", "is missing")];
    };
    let locked = lock.text.lines().filter(|line| *line == "[[package]]").count();
    let over = locked > LOCKED_MAX;
    over.then(|| Finding::new("Cargo.lock", format!("{locked} packages, {LOCKED_MAX} allowed")))
        .into_iter()
        .collect()
}

/// Whether the page and the root manifest name just the crates that the workspace uses.
#[must_use]
pub fn named(tree: &Tree, graph: &Graph) -> Vec<Finding> {
    let used = graph.outside();
    let page = tree.get(PAGE).map_or("", |file| file.text.as_str());
    let mut findings = compare(PAGE, &used, &rows(page));
    let root = tree.get("Cargo.toml").map_or("", |file| file.text.as_str());
    let listed =
        section_lines(root, "workspace.dependencies").filter_map(|(_, line)| line.split([' ', '.', '=']).next());
    let listed = listed.filter(|name| !graph.members.contains_key(*name)).collect();
    findings.extend(compare("Cargo.toml", &used, &listed));
    findings
}

fn compare(place: &str, used: &BTreeSet<&str>, listed: &BTreeSet<&str>) -> Vec<Finding> {
    let missing = used
        .difference(listed)
        .map(|name| Finding::new(place, format!("does not name {name}, which is used")));
    let stale = listed
        .difference(used)
        .map(|name| Finding::new(place, format!("names {name}, which no crate uses")));
    missing.chain(stale).collect()
}

/// The crates that head the rows of the page's tables: ``| `name` | why | licence |``.
fn rows(page: &str) -> BTreeSet<&str> {
    let cells = page
        .lines()
        .filter_map(|line| line.trim().strip_prefix("| `")?.split_once('`'));
    cells.map(|(name, _)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layers::Member;

    fn check(page: &str, root: &str, expected: &[&str]) {
        let mut graph = Graph::default();
        let member = Member {
            normal: ["bytes".to_owned(), "a".to_owned()].into(),
            ..Member::default()
        };
        graph.members.insert("a".to_owned(), member);
        let found = named(&Tree::of(&[(PAGE, page), ("Cargo.toml", root)]), &graph);
        let found: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn page_and_manifest_name_what_is_used_and_nothing_else() {
        let (page, root) = (
            "| `bytes` | buffers | MIT |\n",
            "[workspace.dependencies]\nbytes = \"1\"\n",
        );
        check(page, root, &[]);
        check("", root, &["docs/dependencies.md: does not name bytes, which is used"]);
        check(page, "", &["Cargo.toml: does not name bytes, which is used"]);
        check(
            &format!("{page}| `rand` | dice | MIT |\n"),
            &format!("{root}log.workspace = true\n"),
            &[
                "docs/dependencies.md: names rand, which no crate uses",
                "Cargo.toml: names log, which no crate uses",
            ],
        );
    }

    #[test]
    fn too_many_packages_are_found() {
        let lock = |packages: usize| "[[package]]\nname = \"a\"\n".repeat(packages);
        let check = |packages: usize, findings: usize| {
            assert_eq!(
                budget(&Tree::of(&[("Cargo.lock", &lock(packages))])).len(),
                findings,
                "{packages}"
            );
        };
        check(LOCKED_MAX, 0);
        check(LOCKED_MAX + 1, 1);
        assert_eq!(budget(&Tree::default()).len(), 1);
    }
}
