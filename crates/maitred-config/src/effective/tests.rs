use proptest::prelude::*;
use serde_json::{Map, Number};

use super::*;
use crate::tree::{Node, Shape};

/// The tree as JSON, to compare with what was printed.
fn value(node: &Node) -> Value {
    match &node.shape {
        Shape::Null => Value::Null,
        Shape::Bool(value) => Value::from(*value),
        Shape::Integer(value) => Value::from(*value),
        Shape::Float(value) => Number::from_f64(*value).map_or(Value::Null, Value::Number),
        Shape::Text(text) => Value::from(text.as_str()),
        Shape::List(items) => Value::Array(items.iter().map(value).collect()),
        Shape::Map(entries) => {
            let entries = entries.iter().map(|entry| (entry.key.clone(), value(&entry.value)));
            Value::Object(Map::from_iter(entries))
        }
    }
}

fn printed(value: &Value) -> String {
    let mut out = String::new();
    block(&mut out, value, 0);
    out
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-1e6..1e6).prop_map(|number: f64| Value::from(number)),
        "[a-zA-Z0-9:%./_~*&! -]{0,12}".prop_map(Value::from),
        "(no|yes|null|true|5s|1e5|0x1f|127.0.0.1:80|a: b|- x|# c|é|\n|\t|\"|')".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::Array),
            prop::collection::btree_map("[a-z_]{2,8}x", inner, 0..5).prop_map(|map| Value::Object(Map::from_iter(map))),
        ]
    })
}

proptest! {
    #[test]
    fn whatever_is_printed_reads_back(content in any_value()) {
        let content = serde_json::json!({ "top": content });
        let text = printed(&content);
        let tree = Node::parse(&text).map_err(|error| TestCaseError::fail(format!("{error:?}\n{text}")))?;
        prop_assert_eq!(value(&tree.unwrap()), content, "{}", text);
    }
}

#[test]
fn lists_of_groups_look_as_people_write_them() {
    let content = serde_json::json!({ "a": [{ "b": 1, "c": ["x", "y"] }, [], [1, [2]]], "d": {} });
    insta::assert_snapshot!(printed(&content), @r#"
    a:
      - b: 1
        c:
          - x
          - "y"
      - []
      - - 1
        - - 2
    d: {}
    "#);
}
