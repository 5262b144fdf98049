use super::*;

const LAYERS: &[(&str, &[&str])] = &[
    ("maitred-types", &[]),
    ("maitred-sched", &["maitred-types"]),
    ("maitred-proxy", &["maitred-types"]),
    ("maitred-test", &[]),
];

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// A graph that breaks no rule, after `change`.
fn graph(change: impl FnOnce(&mut Graph)) -> Graph {
    let mut graph = Graph::default();
    for (name, allowed) in LAYERS {
        let member = Member {
            normal: set(allowed),
            dev: set(&["proptest"]),
            closure: set(allowed),
        };
        graph.members.insert((*name).to_owned(), member);
    }
    change(&mut graph);
    graph
}

fn member<'a>(graph: &'a mut Graph, name: &str) -> &'a mut Member {
    graph.members.get_mut(name).expect("a member of the graph")
}

fn check(change: impl FnOnce(&mut Graph), expected: &[&str]) {
    let graph = graph(change);
    let mut found = layering(&graph, LAYERS);
    found.extend(purity(&graph, &["maitred-types", "maitred-sched"]));
    let found: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert_eq!(found, expected);
}

#[test]
fn a_good_graph_has_no_findings() {
    check(|_| {}, &[]);
}

#[test]
fn an_edge_outside_the_table_is_found() {
    let edge = |graph: &mut Graph| _ = member(graph, "maitred-proxy").normal.insert("maitred-sched".to_owned());
    check(edge, &["maitred-proxy: may not depend on maitred-sched"]);
}

#[test]
fn nothing_that_serves_depends_on_the_harness_but_its_tests_may() {
    let normal = |graph: &mut Graph| _ = member(graph, "maitred-sched").normal.insert("maitred-test".to_owned());
    check(normal, &["maitred-sched: may not depend on maitred-test"]);
    let dev = |graph: &mut Graph| _ = member(graph, "maitred-sched").dev.insert("maitred-test".to_owned());
    check(dev, &[]);
}

#[test]
fn the_tests_of_a_pure_crate_stay_pure() {
    let edge = |graph: &mut Graph| _ = member(graph, "maitred-sched").dev.insert("maitred-proxy".to_owned());
    check(
        edge,
        &["maitred-sched: may not depend on maitred-proxy, not even in tests"],
    );
}

#[test]
fn unknown_and_vanished_crates_are_found() {
    let unknown = |graph: &mut Graph| _ = graph.members.insert("maitred-new".to_owned(), Member::default());
    check(
        unknown,
        &["maitred-new: is not in the table of layers: say what it may depend on"],
    );
    let gone = |graph: &mut Graph| _ = graph.members.remove("maitred-proxy");
    check(gone, &["maitred-proxy: is in the table of layers, but does not exist"]);
}

#[test]
fn a_runtime_behind_a_pure_crate_is_found_however_far_away() {
    let reach = |graph: &mut Graph| _ = member(graph, "maitred-sched").closure.insert("tokio".to_owned());
    check(reach, &["maitred-sched: is PURE, but reaches tokio"]);
}

#[test]
fn every_pure_crate_is_in_the_table_and_depends_on_pure_crates_only() {
    for name in PURE {
        let (_, allowed) = TABLE
            .iter()
            .find(|(known, _)| known == name)
            .expect("a line of the table");
        assert!(allowed.iter().all(|dependency| PURE.contains(dependency)), "{name}");
    }
}

#[test]
fn a_printed_tree_is_read() {
    let tree = "0a v1 (/x)\n1b v2\n2c v3\n\n0d v1 (/y)\n1c v3\n";
    let expected = BTreeMap::from([("a", set(&["b", "c"])), ("d", set(&["c"]))]);
    assert_eq!(closures(tree), expected);
}
