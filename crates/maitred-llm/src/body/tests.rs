use maitred_types::FaultKind;
use proptest::prelude::*;
use serde_json::{Map, Value};

use super::*;
use crate::fuzzing::{fuzz_answer, fuzz_request_scanner};

fn read(body: impl AsRef<[u8]>) -> Result<BodyView, BodyError> {
    scan(&Bytes::copy_from_slice(body.as_ref()))
}

#[test]
fn the_members_are_found_wherever_they_stand() {
    let body = r#" {"x":{"model":"no","stream":false},"messages" : [ {"a":"\"model\""} ],
        "max_tokens":7,"max_completion_tokens":12,"n":2,"user":"u\u0031","stream":true,"model":"tiny",
        "tools":[],"prompt":"p","input":[1],"system":"s" } "#;
    let view = read(body).unwrap();
    assert_eq!(view.model(), Some("tiny"));
    assert_eq!(view.require_model(), Ok("tiny"));
    assert!(view.wants_stream());
    assert!(!view.wants_usage());
    assert_eq!(view.output_limit(CallKind::Chat), Some(12));
    assert_eq!(view.choices(), 2);
    assert_eq!(view.user().as_deref(), Some("u1"));
    let raw = |span: Option<Span>| str::from_utf8(view.raw(span.unwrap())).unwrap();
    assert_eq!(raw(view.messages()), r#"[ {"a":"\"model\""} ]"#);
    assert_eq!(raw(view.prompt()), r#""p""#);
    assert_eq!(raw(view.input()), "[1]");
    assert_eq!(raw(view.tools()), "[]");
    assert_eq!(raw(view.system()), r#""s""#);
    assert_eq!(view.body(), body);
}

#[test]
fn what_is_not_said_is_not_known() {
    for body in [
        "{}",
        " { } ",
        r#"{"stream":null,"max_tokens":null,"n":null,"user":null,"stream_options":null}"#,
    ] {
        let view = read(body).unwrap();
        assert_eq!(view.model(), None);
        assert_eq!(view.require_model(), Err(BodyError::MissingModel));
        assert!(!view.wants_stream());
        assert!(!view.wants_usage());
        assert_eq!(view.output_limit(CallKind::Chat), None);
        assert_eq!(view.choices(), 1);
        assert_eq!(view.user(), None);
        assert_eq!(view.messages(), None);
    }
    assert_eq!(
        read(r#"{"model":""}"#).unwrap().require_model(),
        Err(BodyError::MissingModel)
    );
}

#[test]
fn escapes_are_resolved_in_names_and_keys() {
    let check = |body: &str, model: &str| assert_eq!(read(body).unwrap().model(), Some(model), "{body}");
    check(r#"{"model":"acme\/t\u0069ny"}"#, "acme/tiny");
    check(r#"{"model":"\ud83d\ude00"}"#, "\u{1f600}");
    check(r#"{"mod\u0065l":"tiny"}"#, "tiny");
    check("{\"model\":\"mod\u{e8}le\"}", "mod\u{e8}le");
    assert!(read(r#"{"\u0073tream":true}"#).unwrap().wants_stream());
    let options = r#"{"stream_options":{"include\u005fusage":true}}"#;
    assert!(read(options).unwrap().wants_usage());
}

#[test]
fn of_two_equal_keys_the_last_one_counts() {
    let view = read(r#"{"n":2,"n":3,"max_tokens":4,"max_tokens":null,"messages":[1],"messages":[2]}"#).unwrap();
    assert_eq!(view.choices(), 3);
    assert_eq!(view.output_limit(CallKind::Chat), None);
    assert_eq!(view.raw(view.messages().unwrap()), b"[2]");
}

#[test]
fn figures_that_make_no_sense_are_left_to_the_endpoint() {
    for figure in ["-1", "1.5", "18446744073709551616", "1e999"] {
        let body = format!(r#"{{"max_completion_tokens":{figure},"max_tokens":1}}"#);
        assert_eq!(read(&body).unwrap().output_limit(CallKind::Chat), None, "{figure}");
    }
    for (figure, whole) in [("1e3", 1000), ("2.0", 2), ("1E+1", 10), ("-0", 0)] {
        let body = format!(r#"{{"max_tokens":{figure}}}"#);
        assert_eq!(
            read(&body).unwrap().output_limit(CallKind::Chat),
            Some(whole),
            "{figure}"
        );
    }
}

#[test]
fn the_largest_limit_that_an_endpoint_may_read_counts() {
    let check = |kind, body: &str, limit| assert_eq!(read(body).unwrap().output_limit(kind), limit, "{body}");
    check(
        CallKind::Chat,
        r#"{"max_tokens":1,"max_completion_tokens":600}"#,
        Some(600),
    );
    check(
        CallKind::Chat,
        r#"{"max_tokens":600,"max_completion_tokens":1}"#,
        Some(600),
    );
    check(
        CallKind::Chat,
        r#"{"max_tokens":600,"max_completion_tokens":null}"#,
        Some(600),
    );
    // What the path does not have limits nothing on it.
    check(CallKind::Chat, r#"{"max_output_tokens":1}"#, None);
    check(CallKind::Completions, r#"{"max_completion_tokens":1}"#, None);
    check(
        CallKind::Messages,
        r#"{"max_completion_tokens":1,"max_tokens":2}"#,
        Some(2),
    );
    check(CallKind::Responses, r#"{"max_tokens":1}"#, None);
    check(CallKind::Responses, r#"{"max_output_tokens":9}"#, Some(9));
}

#[test]
fn every_answer_is_counted() {
    let check = |body: &str, choices| assert_eq!(read(body).unwrap().choices(), choices, "{body}");
    check(r#"{"n":2,"best_of":5}"#, 5);
    check(r#"{"n":1e1}"#, 10);
    check(r#"{"n":1.5}"#, 2);
    check(r#"{"n":-1}"#, 1);
    check(r#"{"n":1e999}"#, u64::MAX);
    check(r#"{"prompt":["a", "b" ,"c"],"n":2}"#, 6);
    check(r#"{"prompt":[[1,2],[3]]}"#, 2);
    check(r#"{"prompt":[1,2,3]}"#, 1);
    check(r#"{"prompt":[]}"#, 1);
    check(r#"{"prompt":"a"}"#, 1);
    check(r#"{"prompt":null,"prompt_embeds":["x","y"]}"#, 2);
    assert!(read(r#"{"prompt":["a",]}"#).is_err());
    assert!(read(r#"{"prompt":["a" "b"]}"#).is_err());
}

#[test]
fn a_refusal_names_the_byte_and_what_was_expected() {
    let check = |body: &str, at: usize, expected: &str| match read(body) {
        Err(BodyError::Syntax {
            at: found,
            expected: said,
        }) => assert_eq!((found, said), (at, expected), "{body}"),
        other => panic!("{body}: {other:?}"),
    };
    check("", 0, "`{`");
    check("  ", 2, "`{`");
    check("[1]", 0, "`{`");
    check("\u{feff}{}", 0, "`{`");
    check("{", 1, "a key in quotes");
    check("{1:2}", 1, "a key in quotes");
    check("{'a':2}", 1, "a key in quotes");
    check(r#"{"a" 1}"#, 5, "`:`");
    check(r#"{"a":}"#, 5, "a value");
    check(r#"{"a":"#, 5, "a value");
    check(r#"{"a":NaN}"#, 5, "a value");
    check(r#"{"a":1 "b":2}"#, 7, "`,` or `}`");
    check(r#"{"a":1,}"#, 7, "a key in quotes");
    check(r#"{"a":[1,]}"#, 8, "a value");
    check(r#"{"a":[1 2]}"#, 8, "`,` or `]`");
    check(r#"{"a":{"b":1]}"#, 11, "`,` or `}`");
    check(r#"{"a":[1}"#, 7, "`,` or `]`");
    check(r#"{"a":"b"#, 7, "the closing quote of a string");
    check(r#"{"a":"\x"}"#, 6, "a known escape");
    check(r#"{"a":"\u12G4"}"#, 6, "a known escape");
    check("{\"a\":\"\u{1}\"}", 6, "no bare control character in a string");
    check("{\"a\":\"\n\"}", 6, "no bare control character in a string");
    check(r#"{"a":01}"#, 6, "`,` or `}`");
    check(r#"{"a":-}"#, 6, "a digit");
    check(r#"{"a":1.}"#, 7, "a digit");
    check(r#"{"a":1e+}"#, 8, "a digit");
    check(r#"{"a":+1}"#, 5, "a value");
    check(r#"{"a":tru}"#, 5, "`true`, `false` or `null`");
    check(r#"{"a":nulll}"#, 9, "`,` or `}`");
    check(r"{} x", 3, "nothing after the object");
    check(r"{}{}", 2, "nothing after the object");
    check(r#"{"\ud800":1}"#, 1, "a key without broken surrogates");
}

#[test]
fn a_wrong_type_names_the_field() {
    let check = |body: &str, message: &str| {
        let error = read(body).unwrap_err();
        assert_eq!(error.fault(), FaultKind::InvalidField, "{body}");
        assert_eq!(error.to_string(), message);
        assert!(message.contains(error.field().unwrap()));
    };
    check(r#"{"model":5}"#, "`model` must be a string (offset 9)");
    check(r#"{"model": null}"#, "`model` must be a string (offset 10)");
    check(r#"{"model":["a"]}"#, "`model` must be a string (offset 9)");
    check(r#"{"model":"\ud800"}"#, "`model` must be a string (offset 9)");
    check(r#"{"stream":"yes"}"#, "`stream` must be true or false (offset 10)");
    check(r#"{"stream":1}"#, "`stream` must be true or false (offset 10)");
    check(
        r#"{"stream_options":[]}"#,
        "`stream_options` must be an object (offset 18)",
    );
    check(
        r#"{"stream_options":true}"#,
        "`stream_options` must be an object (offset 18)",
    );
    let include = r#"{"stream_options":{"include_usage":"no"}}"#;
    check(
        include,
        "`stream_options.include_usage` must be true or false (offset 35)",
    );
    check(r#"{"max_tokens":"12"}"#, "`max_tokens` must be a number (offset 14)");
    check(r#"{"n":[]}"#, "`n` must be a number (offset 5)");
    check(r#"{"user":{}}"#, "`user` must be a string (offset 8)");
    check(
        r#"{"model":"a","model":"b"}"#,
        "`model` occurs twice (second time at offset 13)",
    );
    check(
        r#"{"model":"a","mod\u0065l":"b"}"#,
        "`model` occurs twice (second time at offset 13)",
    );
    check(
        r#"{"stream":null,"stream":true}"#,
        "`stream` occurs twice (second time at offset 15)",
    );
    let twice = r#"{"stream_options":null,"stream_options":{}}"#;
    check(twice, "`stream_options` occurs twice (second time at offset 23)");
    let twice = r#"{"stream_options":{"include_usage":null,"include_usage":true}}"#;
    check(
        twice,
        "`stream_options.include_usage` occurs twice (second time at offset 40)",
    );
}

#[test]
fn every_refusal_has_its_fault() {
    let check = |body: &[u8], fault: FaultKind| assert_eq!(read(body).unwrap_err().fault(), fault, "{body:?}");
    check(b"{", FaultKind::InvalidJson);
    check(&[b"{\"a\":".as_slice(), &[b'['; 200]].concat(), FaultKind::InvalidJson);
    check(b"{\"model\":5}", FaultKind::InvalidField);
    check(b"{\"model\":\"caf\xe9\"}", FaultKind::InvalidUtf8);
    assert_eq!(BodyError::MissingModel.fault(), FaultKind::MissingModel);
    assert_eq!(BodyError::MissingModel.field(), Some("model"));
}

#[test]
fn bytes_that_are_no_text_are_called_so() {
    let check = |body: &[u8], at: usize| assert_eq!(read(body).unwrap_err(), BodyError::Utf8 { at }, "{body:?}");
    check(b"{\"model\":\"caf\xe9\"}", 13);
    check(b"{\"a\":\"\xc0\xaf\"}", 6);
    check(b"{\"a\":\"\xed\xa0\x80\"}", 6);
    check(b"{\"a\":\"\xff", 6);
    check(b"\xff\xfe{\0}\0", 0);
    // The grammar breaks first here.
    assert!(matches!(read(b"x\xff").unwrap_err(), BodyError::Syntax { at: 0, .. }));
}

#[test]
fn nesting_has_a_limit_and_costs_no_stack() {
    let nested = |depth: usize, open: &str, close: &str| {
        let body = format!(r#"{{"a":{}1{}}}"#, open.repeat(depth), close.repeat(depth));
        read(body).map(drop)
    };
    let limit = MAX_DEPTH as usize - 1;
    for (open, close) in [("[", "]"), (r#"{"b":"#, "}")] {
        assert_eq!(nested(limit, open, close), Ok(()));
        let error = nested(limit + 1, open, close).unwrap_err();
        assert!(matches!(error, BodyError::TooDeep { .. }), "{error}");
    }
    assert!(read("{\"a\":".repeat(1_000_000)).is_err());
    assert!(read(["{\"a\":", &"[".repeat(1_000_000)].concat()).is_err());
}

/// A JSON value of any shape, with the scanner's own keys among its keys.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (0_u64..5000).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        "[a-z \\\\\"\n\u{e9}\u{65e5}]{0,90}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(any_key(), inner, 0..4).prop_map(object),
        ]
    })
}

fn any_key() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(vec![
            "model",
            "stream",
            "stream_options",
            "include_usage",
            "max_tokens",
            "n",
            "user",
            "messages",
            "prompt",
            "usage",
            "error",
        ])
        .prop_map(str::to_owned),
        any::<String>(),
    ]
}

fn object(members: impl IntoIterator<Item = (String, Value)>) -> Value {
    Value::Object(Map::from_iter(members))
}

/// A body whose known members have the right types, most of the time.
fn any_body() -> impl Strategy<Value = Value> {
    let options = prop_oneof![
        Just(Value::Null),
        prop::collection::btree_map(any_key(), any::<bool>().prop_map(Value::from), 0..3).prop_map(object),
    ];
    let known = (
        prop::option::of(any::<String>()),
        prop::option::of(any::<bool>()),
        prop::option::of(options),
    );
    let others = prop::collection::btree_map(any_key(), any_json(), 0..6);
    (known, others, any::<bool>()).prop_map(|((model, stream, options), others, is_wild)| {
        let mut body = object(others);
        if !is_wild {
            for key in ["n", "user", "max_tokens", "model", "stream", "stream_options"] {
                body.as_object_mut().unwrap().remove(key);
            }
        }
        let known = [
            ("model", model.map(Value::from)),
            ("stream", stream.map(Value::from)),
            ("stream_options", options),
        ];
        for (key, value) in known {
            if let Some(value) = value {
                body[key] = value;
            }
        }
        body
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn agrees_with_serde_json_on_generated_bodies(body in any_body()) {
        let compact = serde_json::to_vec(&body).unwrap();
        fuzz_request_scanner(&compact);
        fuzz_request_scanner(&serde_json::to_vec_pretty(&body).unwrap());
        fuzz_answer(&compact);
    }

    /// Negative control for the test above: bodies cut short or with a byte changed are seen to be broken, if they are.
    #[test]
    fn agrees_with_serde_json_on_damaged_bodies(body in any_body(), at: prop::sample::Index, byte: u8) {
        let mut damaged = serde_json::to_vec(&body).unwrap();
        let at = at.index(damaged.len());
        fuzz_request_scanner(&damaged[..at]);
        damaged[at] = byte;
        fuzz_request_scanner(&damaged);
    }

    #[test]
    fn well_typed_bodies_are_accepted(model: String, stream: bool, others in prop::collection::btree_map("x[a-z]*", any_json(), 0..6)) {
        let mut body = object(others);
        body["model"] = model.clone().into();
        body["stream"] = stream.into();
        let view = read(serde_json::to_vec(&body).unwrap()).unwrap();
        prop_assert_eq!(view.model(), Some(model.as_str()));
        prop_assert_eq!(view.wants_stream(), stream);
    }
}

#[test]
fn what_a_call_asks_for_is_seen_in_every_dialect() {
    #[track_caller]
    fn check(body: &str, expected: [bool; 3]) {
        let view = scan(&Bytes::copy_from_slice(body.as_bytes())).unwrap();
        let found = [view.has_tools(), view.has_images(), view.wants_json_schema()];
        assert_eq!(found, expected, "tools, images, schema of {body}");
    }
    let nothing = [false; 3];
    check(
        r#"{"messages":[{"role":"user","content":"type image_url json_schema"}],"tools":[ ],"response_format":null}"#,
        nothing,
    );
    check(
        r#"{"tools":null,"functions":null,"guided_json":null,"structured_outputs":{"regex":"a"}}"#,
        nothing,
    );
    check(
        r#"{"tools":[{"type":"function","function":{"parameters":{"type":"image"}}}]}"#,
        [true, false, false],
    );
    check(r#"{"functions":[{"name":"f"}],"tools":[]}"#, [true, false, false]);
    check(
        r#"{"messages":[{"content":[{"type":"text"},{"image_url":{"url":"u"},"type": "image_url"}]}]}"#,
        [false, true, false],
    );
    check(
        r#"{"input":[{"content":[{"type":"input_image","file_id":"f"}]}]}"#,
        [false, true, false],
    );
    check(
        r#"{"messages":[{"content":[{"type":"tool_result","content":[{"type":"image","source":{}}]}]}]}"#,
        [false, true, false],
    );
    check(r#"{"response_format":{"type":"json_object"}}"#, nothing);
    check(
        r#"{"response_format":{"type":"json_schema","json_schema":{}}}"#,
        [false, false, true],
    );
    check(
        r#"{"text":{"format":{"type":"json_schema","schema":{}}}}"#,
        [false, false, true],
    );
    check(
        r#"{"output_config":{"format":{"type":"json_schema"}}}"#,
        [false, false, true],
    );
    check(r#"{"guided_json":{}}"#, [false, false, true]);
    check(r#"{"structured_outputs":{"json":{}}}"#, [false, false, true]);
    // A schema that a tool speaks of is not one for the answer, and an image that a tool could make is not in the call.
    check(
        r#"{"tools":[{"type":"json_schema"},{"type":"image_url"}],"messages":[]}"#,
        [true, false, false],
    );
}
