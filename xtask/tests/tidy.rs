//! Every rule, applied to the project itself.
#![expect(
    clippy::expect_used,
    reason = "without the tree and the graph there is nothing to test"
)]

use std::sync::OnceLock;

use xtask::{ALLOWED_LONGER, Finding, Graph, PURE, TABLE, Tree, project_root};

fn tree() -> &'static Tree {
    static TREE: OnceLock<Tree> = OnceLock::new();
    TREE.get_or_init(|| Tree::read(&project_root()).expect("the project can be read"))
}

fn graph() -> &'static Graph {
    static GRAPH: OnceLock<Graph> = OnceLock::new();
    GRAPH.get_or_init(|| Graph::read().expect("cargo metadata --locked succeeds"))
}

#[track_caller]
fn assert_none(findings: &[Finding]) {
    let lines: Vec<String> = findings.iter().map(|finding| format!("  {finding}")).collect();
    assert!(lines.is_empty(), "{} findings:\n{}", lines.len(), lines.join("\n"));
}

#[test]
fn crates_keep_to_their_layers() {
    assert_none(&xtask::layering(graph(), TABLE));
}

#[test]
fn pure_crates_are_pure() {
    assert_none(&xtask::purity(graph(), PURE));
}

#[test]
fn manifests_say_the_same() {
    assert_none(&xtask::manifests(tree()));
}

#[test]
fn files_are_short() {
    assert_none(&xtask::file_sizes(tree(), ALLOWED_LONGER));
}

#[test]
fn words_belong() {
    assert_none(&xtask::words(tree()));
}

#[test]
fn the_architecture_page_is_short_and_complete() {
    assert_none(&xtask::architecture(tree(), graph()));
}

#[test]
fn the_makefile_is_short() {
    assert_none(&xtask::makefile(tree()));
}

#[test]
fn modules_say_what_they_are_for() {
    assert_none(&xtask::module_docs(tree()));
}

#[test]
fn decisions_are_complete() {
    assert_none(&xtask::decisions(tree()));
}

#[test]
fn dependencies_are_within_budget() {
    assert_none(&xtask::dependency_budget(tree()));
}

#[test]
fn dependencies_are_named_and_used() {
    assert_none(&xtask::dependencies_named(tree(), graph()));
}

#[test]
fn the_errors_page_is_fresh() {
    assert_none(&xtask::errors_page_fresh(tree()));
}

#[test]
fn links_are_alive() {
    assert_none(&xtask::dead_links(tree()));
}

#[test]
fn the_licence_is_apache() {
    assert_none(&xtask::licence(tree()));
}
