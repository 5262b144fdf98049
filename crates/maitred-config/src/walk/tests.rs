use serde_json::json;

use super::*;
use crate::reference::annotated_schema;

#[test]
fn the_walk_understands_every_part_of_the_schema() {
    fn visit(root: &Value, schema: &Value, path: &str, seen: &mut usize) {
        *seen += 1;
        match Kind::of(root, schema) {
            Kind::Group(group) => {
                let closed = kind::resolve(root, schema).get("additionalProperties");
                assert_eq!(closed, Some(&Value::Bool(false)), "{path} takes unknown options");
                for (name, option) in group.options {
                    visit(root, option, &format!("{path}.{name}"), seen);
                }
            }
            Kind::List { items, .. } => visit(root, items, &format!("{path}[]"), seen),
            Kind::Tagged(choices) => {
                assert!(choices.len() > 1, "{path}");
                for choice in choices {
                    visit(root, choice.schema, &format!("{path}.{}", choice.tag), seen);
                }
            }
            Kind::Words(words) => assert!(words.len() > 1, "{path}"),
            Kind::Text(form) => assert!(form.is_some(), "{path} is text without a form"),
            Kind::Flag | Kind::Count(_) | Kind::Number(_) => {}
            Kind::Other => panic!("{path} is of no known kind: {schema}"),
        }
    }
    let schema = annotated_schema();
    let mut seen = 0;
    visit(schema, schema, "", &mut seen);
    assert!(seen > 80, "{seen} options");
}

#[test]
fn what_is_right_survives_what_is_wrong() {
    let text = "version: 1\npools:\n  - { name: a, models: [{ name: x }], max_calls: 0, whatever: 1 }\n  - { models: [{ name: y }] }\n  - { name: c, models: [{ name: z }, { served_as: w }] }\nlog: 5\n";
    let schema = annotated_schema();
    let walked = walk(schema, &Node::parse(text).unwrap().unwrap());
    assert_eq!(
        walked.rest,
        Some(json!({
            "version": 1,
            "pools": [
                { "name": "a", "models": [{ "name": "x" }] },
                { "name": "c", "models": [{ "name": "z" }] },
            ],
        }))
    );
    let paths: Vec<_> = walked.findings.iter().map(|finding| finding.path.to_string()).collect();
    assert_eq!(
        paths,
        [
            "pools[0].max_calls",
            "pools[0].whatever",
            "pools[1].name",
            "pools[2].models[1].name",
            "log"
        ]
    );
    let left = Path::top("pools").index(1).key("models").index(0);
    assert_eq!(walked.original(&left).to_string(), "pools[2].models[0]");
}

#[test]
fn without_a_required_option_nothing_is_left() {
    let schema = annotated_schema();
    let walked = walk(schema, &Node::parse("log: {}\n").unwrap().unwrap());
    assert_eq!(walked.rest, None);
    assert_eq!(walked.findings.len(), 1);
}
