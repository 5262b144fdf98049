use super::*;
use crate::scan;

fn view(body: &str) -> BodyView {
    scan(&Bytes::copy_from_slice(body.as_bytes())).unwrap()
}

fn text(spliced: &Spliced) -> String {
    String::from_utf8(spliced.segments().concat()).unwrap()
}

#[test]
fn the_model_is_replaced_in_its_place() {
    let check = |body: &str, name: &str, edited: &str| {
        let view = view(body);
        let mut edits = Edits::new(&view);
        edits.set_model(name);
        assert_eq!(edits.is_empty(), body == edited);
        assert_eq!(text(&edits.apply()), edited);
    };
    check(r#"{"model":"a"}"#, "b", r#"{"model":"b"}"#);
    check(r#"{ "model" : "a" , "x":1}"#, "b\"c", r#"{ "model" : "b\"c" , "x":1}"#);
    check(r#"{"x":"a","model":"a"}"#, "", r#"{"x":"a","model":""}"#);
    // The same name stays as it is, unless it is written with escapes, which not every endpoint may resolve alike.
    check(r#"{"model":"a"}"#, "a", r#"{"model":"a"}"#);
    check(r#"{"model":"\u0061"}"#, "a", r#"{"model":"a"}"#);
    // No member is added.
    check(r#"{"x":1}"#, "b", r#"{"x":1}"#);
    check("{}", "b", "{}");
}

#[test]
fn the_last_name_set_counts() {
    let view = view(r#"{"model":"a"}"#);
    let mut edits = Edits::new(&view);
    edits.set_model("b");
    edits.set_model("c");
    assert_eq!(text(&edits.apply()), r#"{"model":"c"}"#);
}

#[test]
fn usage_is_asked_for_in_every_shape_of_options() {
    let check = |body: &str, edited: &str, ask: UsageAsk| {
        for kind in [CallKind::Chat, CallKind::Completions] {
            let view = view(body);
            let mut edits = Edits::new(&view);
            assert_eq!(edits.ask_for_usage(kind), ask, "{body}");
            assert_eq!(edits.ask_for_usage(kind), ask, "asking twice is asking once");
            assert_eq!(text(&edits.apply()), edited);
        }
    };
    let by_gateway = |body: &str, edited: &str| check(body, edited, UsageAsk::ByGateway);
    by_gateway(
        r#"{"stream":true}"#,
        r#"{"stream_options":{"include_usage":true},"stream":true}"#,
    );
    by_gateway(
        "\n { \"stream\":true}",
        "\n {\"stream_options\":{\"include_usage\":true}, \"stream\":true}",
    );
    by_gateway(
        r#"{"stream_options": null ,"stream":true}"#,
        r#"{"stream_options": {"include_usage":true} ,"stream":true}"#,
    );
    by_gateway(
        r#"{"stream":true,"stream_options":{ }}"#,
        r#"{"stream":true,"stream_options":{"include_usage":true }}"#,
    );
    by_gateway(
        r#"{"stream":true,"stream_options":{"continuous_usage_stats":true}}"#,
        r#"{"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}}"#,
    );
    by_gateway(
        r#"{"stream":true,"stream_options":{"x":[],"include_usage": false}}"#,
        r#"{"stream":true,"stream_options":{"x":[],"include_usage": true}}"#,
    );
    by_gateway(
        r#"{"stream":true,"stream_options":{"include_usage":null}}"#,
        r#"{"stream":true,"stream_options":{"include_usage":true}}"#,
    );
    let asked = r#"{"stream":true,"stream_options":{"include_usage":true}}"#;
    check(asked, asked, UsageAsk::ByClient);
    for body in [
        r#"{"model":"a"}"#,
        r#"{"stream":false}"#,
        r#"{"stream":null,"stream_options":null}"#,
    ] {
        check(body, body, UsageAsk::Nobody);
    }
}

#[test]
fn only_openais_streams_have_the_option() {
    for kind in CallKind::ALL {
        let view = view(r#"{"stream":true}"#);
        let mut edits = Edits::new(&view);
        let ask = edits.ask_for_usage(kind);
        assert_eq!(ask == UsageAsk::ByGateway, kind.has_usage_option(), "{kind:?}");
        assert_eq!(edits.is_empty(), !kind.has_usage_option(), "{kind:?}");
    }
}

#[test]
fn unknown_members_and_their_bytes_survive() {
    let unknown: String = (0..20)
        .map(|n| format!("  \"x-{n}\" :\t{{\"a\" : [1.0e5 , \"\\u00e9\u{e9}\\/\" ],\r\n \"z\":0, \"b\":{n}.50}},\n"))
        .collect();
    let body = format!("{{{unknown}\"model\":\"public\",{unknown}\"stream\":true}}");
    let view = view(&body);
    let mut edits = Edits::new(&view);
    edits.set_model("inner");
    edits.ask_for_usage(CallKind::Chat);
    let spliced = edits.apply();
    let asked = r#""stream_options":{"include_usage":true},"#;
    assert_eq!(
        text(&spliced),
        format!("{{{asked}{unknown}\"model\":\"inner\",{unknown}\"stream\":true}}")
    );
    assert_eq!(spliced.len(), spliced.segments().iter().map(Bytes::len).sum::<usize>());
    assert!(!spliced.is_empty());
}

#[test]
fn nothing_of_the_body_is_copied() {
    let body = Bytes::from(format!(
        r#"{{"model":"a","prompt":"{}","stream":true}}"#,
        "x".repeat(10_000)
    ));
    let view = scan(&body).unwrap();
    let mut edits = Edits::new(&view);
    edits.set_model("b");
    edits.ask_for_usage(CallKind::Completions);
    let segments = edits.apply().into_segments();
    assert_eq!(segments.len(), 5);
    assert!(!segments.spilled());
    let own = |segment: &&Bytes| !body.as_ptr_range().contains(&segment.as_ptr());
    let new: usize = segments.iter().filter(own).map(Bytes::len).sum();
    assert_eq!(new, "\"stream_options\":{\"include_usage\":true},\"b\"".len());
}

#[test]
fn an_output_without_a_limit_gets_one() {
    let check = |kind, body: &str, edited: &str| {
        let view = view(body);
        assert_eq!(view.output_limit(kind), None, "{body}");
        let mut edits = Edits::new(&view);
        edits.limit_output(kind, 99);
        assert_eq!(text(&edits.apply()), edited);
        assert_eq!(
            scan(&Bytes::from(edited.to_owned())).unwrap().output_limit(kind),
            Some(99)
        );
    };
    check(CallKind::Chat, r#"{"a":1}"#, r#"{"max_tokens":99,"a":1}"#);
    check(CallKind::Chat, "{ }", r#"{"max_tokens":99 }"#);
    check(
        CallKind::Chat,
        r#"{"max_completion_tokens": null }"#,
        r#"{"max_completion_tokens": 99 }"#,
    );
    check(
        CallKind::Chat,
        r#"{"max_tokens":7,"max_completion_tokens":-1}"#,
        r#"{"max_tokens":7,"max_completion_tokens":99}"#,
    );
    check(
        CallKind::Chat,
        r#"{"max_tokens":700,"max_completion_tokens":0.5}"#,
        r#"{"max_tokens":99,"max_completion_tokens":99}"#,
    );
    check(
        CallKind::Responses,
        r#"{"max_tokens":1}"#,
        r#"{"max_output_tokens":99,"max_tokens":1}"#,
    );
    check(CallKind::Messages, r#"{"a":1}"#, r#"{"max_tokens":99,"a":1}"#);
}

#[test]
fn a_limit_and_the_wish_for_usage_stand_side_by_side() {
    let view = view(r#"{"model":"a","stream":true}"#);
    let mut edits = Edits::new(&view);
    edits.set_model("b");
    edits.ask_for_usage(CallKind::Chat);
    edits.limit_output(CallKind::Chat, 8);
    edits.limit_output(CallKind::Chat, 9);
    assert_eq!(
        text(&edits.apply()),
        r#"{"max_tokens":9,"stream_options":{"include_usage":true},"model":"b","stream":true}"#
    );
}
