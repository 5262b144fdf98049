use super::*;

fn parse(text: &str) -> Node {
    Node::parse(text).unwrap().unwrap()
}

fn refused(text: &str) -> TreeError {
    Node::parse(text).expect_err(text)
}

/// The tree in the words of Rust's `Debug`, without places.
fn sketch(node: &Node) -> String {
    match &node.shape {
        Shape::Null => "null".to_owned(),
        Shape::Bool(value) => value.to_string(),
        Shape::Integer(value) => value.to_string(),
        Shape::Float(value) => format!("{value:?}"),
        Shape::Text(text) => format!("{text:?}"),
        Shape::List(items) => format!("[{}]", items.iter().map(sketch).collect::<Vec<_>>().join(" ")),
        Shape::Map(entries) => {
            let entries = entries
                .iter()
                .map(|entry| format!("{}={}", entry.key, sketch(&entry.value)));
            format!("{{{}}}", entries.collect::<Vec<_>>().join(" "))
        }
    }
}

#[test]
fn scalars_have_the_types_of_the_core_schema() {
    let check = |text: &str, expected: &str| {
        let tree = parse(&format!("- {text}\n"));
        assert_eq!(sketch(&tree), format!("[{expected}]"), "{text}");
    };
    check("5", "5");
    check("-5", "-5");
    check("010", "10");
    check("0.5", "0.5");
    check("1e3", "1000.0");
    check("true", "true");
    check("False", "false");
    check("~", "null");
    check("null", "null");
    check("no", "\"no\"");
    check("yes", "\"yes\"");
    check("'5'", "\"5\"");
    check("\"true\"", "\"true\"");
    check("5s", "\"5s\"");
    check("1.2.3", "\"1.2.3\"");
    check("2027-01-31", "\"2027-01-31\"");
    check("0x10", "\"0x10\"");
    check(".inf", "\".inf\"");
    check("1e999", "\"1e999\"");
    check("a:1", "\"a:1\"");
    check("|\n  x\n  y\n", "\"x\\ny\\n\"");
}

#[test]
fn everything_knows_its_place() {
    let text = "a: 1\nlist:\n  - x: yes\n    y: 'q # w'  # comment\n  - [1, {z: 2}]\n";
    let tree = parse(text);
    let check = |path: &Path, (line, column, width): (usize, usize, usize)| {
        let region = Region { line, column, width };
        assert_eq!(tree.locate(path), region, "{path}");
    };
    let list = Path::top("list");
    check(&Path::default(), (1, 1, 1));
    check(&Path::top("a"), (1, 4, 1));
    check(&list, (2, 1, 4));
    check(&list.index(0), (3, 5, 1));
    check(&list.index(0).key("x"), (3, 8, 3));
    check(&list.index(0).key("y"), (4, 8, 7));
    check(&list.index(1), (5, 6, 1));
    check(&list.index(1).index(1).key("z"), (5, 13, 1));
    // What is not there is shown at what it would be in.
    check(&list.index(0).key("missing"), (3, 5, 1));
    check(&Path::top("missing").key("deeper"), (1, 1, 1));
}

#[test]
fn texts_are_found_through_lists() {
    let tree =
        parse("pools:\n  - { name: a, models: [{ name: x }, { name: y }] }\n  - { name: [b] }\n  - { name: 5 }\n");
    assert_eq!(tree.texts(&["pools", "name"]), ["a", "b"]);
    assert_eq!(tree.texts(&["pools", "models", "name"]), ["x", "y"]);
    assert!(tree.texts(&["profiles", "name"]).is_empty());
}

#[test]
fn aliases_are_copied() {
    let tree = parse("base: &b { x: 1 }\nuse: [*b, *b]\n");
    assert_eq!(sketch(&tree), "{base={x=1} use=[{x=1} {x=1}]}");
}

#[test]
fn a_key_may_occur_twice_here() {
    assert_eq!(sketch(&parse("a: 1\na: 2\n")), "{a=1 a=2}");
}

#[test]
fn nothing_is_nothing() {
    for text in ["", "\n\n", "# only a comment\n"] {
        assert!(Node::parse(text).unwrap().is_none(), "{text:?}");
    }
}

#[test]
fn hostile_texts_cost_little() {
    let check = |text: &str, words: &str| {
        let message = refused(text).message;
        assert!(message.contains(words), "{message}");
    };
    let bomb: String = (1..10)
        .map(|level| {
            format!(
                "l{level}: &l{level} [{}]\n",
                vec![format!("*l{}", level - 1); 10].join(", ")
            )
        })
        .collect();
    check(&format!("l0: &l0 x\n{bomb}"), "more than 100000 values");
    check(&"[".repeat(100), "nested more than 32 levels");
    check(&"- ".repeat(100), "nested more than 32 levels");
    check(&format!("{}x", "{a: ".repeat(100)), "nested more than 32 levels");
    let deep = format!(
        "a: &a {}1{}\nb: {}*a{}\n",
        "[".repeat(20),
        "]".repeat(20),
        "[".repeat(20),
        "]".repeat(20)
    );
    check(&deep, "this alias nests more than 32 levels");
    let anchors: String = (0..30).map(|level| format!("&a{level} [")).collect();
    check(
        &format!("{anchors}{}{}", "1, ".repeat(50_000), "]".repeat(30)),
        "more than 100000 values",
    );
    check(&"x".repeat(TEXT_LEN_MAX + 1), "at most 1048576 are read");
    check("a: &a [*a]\n", "inside what it refers to");
    check("a: *nowhere\n", "not YAML");
}

#[test]
fn what_has_no_use_here_is_refused() {
    let check = |text: &str, words: &str| {
        let message = refused(text).message;
        assert!(message.contains(words), "{message}");
    };
    check("a: !!str 5\n", "tags");
    check("a: !secret x\n", "tags");
    check("a: 1\n---\nb: 2\n", "more than one document");
    check("[a, b]: 1\n", "the name of an option is text");
    check(": 1\n", "is missing before");
}

#[test]
fn a_tab_is_pointed_at_where_it_is() {
    let error = Node::parse("a:\n  b: one\n\tc: two\n").unwrap_err();
    assert_eq!((error.region.line, error.region.column), (3, 1));
    assert!(error.help.unwrap().contains("spaces"));
}
