//! Links between the project's own pages.

use std::collections::BTreeMap;

use crate::{Finding, Tree};

/// Links in pages of prose to files, folders or headings of the project that do not exist.
#[must_use]
pub fn dead_links(tree: &Tree) -> Vec<Finding> {
    let anchors: BTreeMap<&str, Vec<String>> = tree
        .markdown()
        .map(|page| (page.path.as_str(), anchors(&page.text)))
        .collect();
    let mut findings = Vec::new();
    for page in tree.markdown() {
        for (index, line) in prose_lines(&page.text) {
            for target in targets(line) {
                if !is_alive(tree, &anchors, &page.path, target) {
                    findings.push(Finding::new(
                        page.line(index),
                        format!("links to `{target}`, which does not exist"),
                    ));
                }
            }
        }
    }
    findings
}

fn is_alive(tree: &Tree, anchors: &BTreeMap<&str, Vec<String>>, from: &str, target: &str) -> bool {
    if target.contains("://") || target.starts_with("mailto:") {
        return true;
    }
    let (path, anchor) = target
        .split_once('#')
        .map_or((target, None), |(path, anchor)| (path, Some(anchor)));
    let path = if path.is_empty() {
        Some(from.to_owned())
    } else {
        resolve(from, path)
    };
    let Some(path) = path else { return false };
    match (anchor, anchors.get(path.as_str())) {
        (Some(anchor), Some(known)) => known.iter().any(|heading| heading == anchor),
        _ => tree.holds(&path),
    }
}

/// `path` as seen from the page `from`; nothing when it leaves the project.
fn resolve(from: &str, path: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in path.trim_end_matches('/').split('/') {
        match part {
            "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// Lines outside fenced code, with their numbers (from 0).
fn prose_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter(move |(_, line)| {
        let is_fence = line.trim_start().starts_with("```");
        fenced ^= is_fence;
        !fenced && !is_fence
    })
}

/// What the links of one line point to.
fn targets(line: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = line;
    while let Some((_, after)) = rest.split_once("](") {
        let Some((target, next)) = after.split_once(')') else {
            break;
        };
        found.extend(target.split_whitespace().next());
        rest = next;
    }
    found
}

/// The anchors of a page: its headings as code hosts write them, and explicit `<a id="…">`.
fn anchors(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (_, line) in prose_lines(text) {
        if let Some(heading) = line.strip_prefix('#') {
            found.push(slug(heading.trim_start_matches('#')));
        }
        for part in line.split("<a id=\"").skip(1) {
            found.extend(part.split_once('"').map(|(id, _)| id.to_owned()));
        }
    }
    found
}

fn slug(heading: &str) -> String {
    let kept = heading
        .trim()
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(page: &str, findings: usize) {
        let other = "# Title\n\n## A `code` heading, with a comma\n\n<a id=\"saturated\"></a>\n";
        let tree = Tree::of(&[
            ("docs/page.md", page),
            ("docs/other.md", other),
            ("examples/a.yaml", ""),
        ]);
        let found = dead_links(&tree);
        assert_eq!(found.len(), findings, "{page}: {found:?}");
    }

    #[test]
    fn living_links_pass() {
        check("[a](other.md) and [b](../examples/a.yaml), [c](../examples/)", 0);
        check("[a](other.md#a-code-heading-with-a-comma) [b](other.md#saturated)", 0);
        check(
            "# Here\n[a](#here) [b](https://example.org/x) [c](mailto:a@example.org)",
            0,
        );
        check("```\n[a](gone.md)\n```", 0);
    }

    #[test]
    fn dead_links_are_found() {
        check("[a](gone.md)", 1);
        check("[a](other.md) [b](gone.md) [c](../../outside.md)", 2);
        check("[a](other.md#no-such-heading)", 1);
        check("[a](#nowhere)", 1);
    }
}
