use bytes::Bytes;
use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::scan;

fn of(kind: CallKind, body: &str) -> Option<Canonical> {
    Canonical::of(kind, &scan(&Bytes::copy_from_slice(body.as_bytes())).unwrap())
}

fn text(body: &str) -> Option<String> {
    Some(String::from_utf8(of(CallKind::Chat, body)?.text().to_vec()).unwrap())
}

#[test]
fn the_same_call_is_known_however_it_is_written() {
    let one = text(r#"{"model":"a","messages":[{"role":"user","content":"h\u00e9 \/"}],"temperature":0,"user":"ann"}"#);
    let other =
        text("{\"temperature\": 0.0, \"messages\":\n [{\"content\":\"hé /\", \"role\":\"user\"}], \"model\":\"b\"}");
    assert_eq!(
        one.as_deref(),
        Some(r#"{"messages":[{"content":"hé /","role":"user"}],"temperature":0.0}"#)
    );
    assert_eq!(one, other);
}

#[test]
fn what_changes_the_answer_makes_another_call() {
    let base = r#"{"messages":[{"role":"user","content":"a"}],"temperature":0"#;
    let mut seen = std::collections::BTreeSet::from([text(&format!("{base}}}"))]);
    for more in [
        r#""stream":true"#,
        r#""stream":true,"stream_options":{"include_usage":true}"#,
        r#""seed":7"#,
        r#""max_tokens":5"#,
        r#""stop":["x"]"#,
        r#""stop":"x""#,
        r#""tools":[]"#,
        r#""unknown":null"#,
        r#""cache_salt":"z""#,
    ] {
        let text = text(&format!("{base},{more}}}"));
        assert!(text.is_some());
        assert!(seen.insert(text), "{more}");
    }
}

#[test]
fn what_can_be_read_in_two_ways_has_no_form() {
    for body in [
        r#"{"a":{"b":1,"b":2}}"#,
        r#"{"a":1,"\u0061":2}"#,
        r#"{"seed":9007199254740993}"#,
        r#"{"seed":-9007199254740993}"#,
        r#"{"seed":18446744073709551617}"#,
        r#"{"a":1e999}"#,
        r#"{"a":"\ud800"}"#,
        r#"{"store":true}"#,
    ] {
        assert_eq!(text(body), None, "{body}");
    }
    assert!(text(r#"{"store":false,"seed":9007199254740992}"#).is_some());
    assert_eq!(of(CallKind::Responses, r#"{"input":"a","temperature":0}"#), None);
}

#[test]
fn only_greedy_calls_and_vectors_are_deterministic() {
    let is = |kind, body| of(kind, body).unwrap().is_deterministic();
    assert!(is(CallKind::Chat, r#"{"temperature":0}"#));
    assert!(is(CallKind::Chat, r#"{"temperature":-0.0}"#));
    assert!(!is(CallKind::Chat, r#"{"temperature":0.1}"#));
    assert!(!is(CallKind::Chat, r#"{"temperature":null}"#));
    assert!(!is(CallKind::Chat, "{}"));
    assert!(is(CallKind::Embeddings, r#"{"input":"a"}"#));
}

/// Any JSON, its objects in a random order of members.
fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-1000i64..1000).prop_map(Value::from),
        (-1000i32..1000).prop_map(|number| Value::from(f64::from(number) / 8.0)),
        "[a-c\"\\\\é\n]{0,3}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map("[a-d]", inner, 0..3).prop_map(Value::from_iter),
        ]
    })
}

/// Writes it anew: members the other way round, and everything on lines of its own.
fn rewritten(value: &Value) -> Value {
    match value {
        Value::Object(members) => members
            .iter()
            .rev()
            .map(|(name, value)| (name.clone(), rewritten(value)))
            .collect(),
        Value::Array(values) => values.iter().map(rewritten).collect(),
        other => other.clone(),
    }
}

/// Numbers compare as numbers.
fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one.as_f64() == other.as_f64(),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one
                    .iter()
                    .all(|(name, value)| other.get(name).is_some_and(|other| same(value, other)))
        }
        _ => one == other,
    }
}

proptest! {
    /// Two bodies have the same form exactly if they hold the same.
    #[test]
    fn the_form_is_the_same_exactly_if_the_call_is(one in json(), other in json()) {
        let body = |value: &Value| serde_json::json!({ "messages": value });
        let form = |value: &Value| text(&serde_json::to_string(&body(value)).unwrap());
        let pretty = text(&serde_json::to_string_pretty(&body(&rewritten(&one))).unwrap());
        prop_assert_eq!(form(&one), pretty);
        prop_assert!(form(&one).is_some());
        prop_assert_eq!(form(&one) == form(&other), same(&one, &other));
    }
}
