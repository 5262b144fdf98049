use proptest::prelude::*;

use super::*;

fn head(status: u16) -> ResponseHead<'static> {
    ResponseHead {
        status,
        ..ResponseHead::default()
    }
}

#[test]
fn the_head_alone_tells_whose_fault_it_is() {
    let check = |head: ResponseHead<'_>, wanted: HeadVerdict| {
        assert_eq!(judge_head(&head), wanted, "{head:?}");
    };
    check(head(200), HeadVerdict::Relay);
    check(head(204), HeadVerdict::Relay);
    for status in [408, 500, 502, 503, 504, 599, 100, 0, 600] {
        check(head(status), HeadVerdict::ServerError);
    }
    for status in [400, 405, 409, 413, 415, 422, 499, 501] {
        check(head(status), HeadVerdict::ClientError);
    }
    // Callers bring these about, by conditions and by paths; no endpoint may be blamed for them.
    check(head(304), HeadVerdict::ClientError);
    for status in [300, 301, 302, 303, 307, 308, 399] {
        check(head(status), HeadVerdict::Redirect);
        assert_eq!(HeadVerdict::Redirect.lease_end(), maitred_types::LeaseEnd::Success);
    }
    check(head(401), HeadVerdict::RefusedCredential);
    check(head(403), HeadVerdict::RefusedCredential);
    check(head(404), HeadVerdict::NotFound);
    check(head(529), HeadVerdict::Overload { retry_after: None });
    let after = |status, text| ResponseHead {
        retry_after: Some(text),
        ..head(status)
    };
    let seconds = |seconds| HeadVerdict::Overload {
        retry_after: Some(Duration::from_secs(seconds)),
    };
    check(after(429, "7"), seconds(7));
    check(after(503, " 1 "), seconds(1));
    check(after(429, "99999999999"), seconds(3600));
    check(after(429, "soon"), HeadVerdict::Overload { retry_after: None });
    check(
        after(503, "Wed, 21 Oct 2026 07:28:00 GMT"),
        HeadVerdict::Overload { retry_after: None },
    );
    check(after(500, "7"), HeadVerdict::ServerError);
}

#[test]
fn the_body_tells_a_missing_model_from_a_missing_path() {
    let check = |engine, status, body: &str, wanted: HeadVerdict| {
        let read = UpstreamErrorBody::read(body.as_bytes());
        assert_eq!(
            judge_refusal(engine, &head(status), &read, "base:nope"),
            wanted,
            "{engine} {status} {body}"
        );
    };
    let no_model = r#"{"error":{"message":"The model `base:nope` does not exist. Valid aliases: tiny.","type":"NotFoundError","param":"model","code":404}}"#;
    let no_model_messages = r#"{"type":"error","error":{"type":"NotFoundError","message":"The model `base:nope` does not exist. Valid aliases: tiny."}}"#;
    let no_response = r#"{"error":{"message":"Response with id 'x' not found.","type":"NotFoundError","code":404}}"#;
    check(Engine::Vllm, 404, no_model, HeadVerdict::ModelGone);
    check(Engine::Vllm, 404, no_model_messages, HeadVerdict::ModelGone);
    check(Engine::Vllm, 404, no_response, HeadVerdict::ClientError);
    check(Engine::Vllm, 404, r#"{"detail":"Not Found"}"#, HeadVerdict::UnknownPath);
    check(Engine::Vllm, 404, "", HeadVerdict::UnknownPath);
    check(
        Engine::Vllm,
        404,
        "<html><title>404 Not Found</title>",
        HeadVerdict::UnknownPath,
    );
    check(
        Engine::Sglang,
        400,
        r#"{"object":"error","message":"The following requested LoRA adapters are not loaded: nope\nLoaded adapters: a.","code":400}"#,
        HeadVerdict::ModelGone,
    );
    check(
        Engine::Triton,
        400,
        r#"{"detail":"Unknown model: base:nope"}"#,
        HeadVerdict::ModelGone,
    );
    check(
        Engine::Sglang,
        503,
        r#"{"object":"error","message":"The request queue is full.","code":503}"#,
        HeadVerdict::Overload { retry_after: None },
    );
    check(
        Engine::Vllm,
        503,
        "upstream connect error or disconnect/reset before headers",
        HeadVerdict::ServerError,
    );
    check(
        Engine::Vllm,
        500,
        r#"{"error":{"message":"the queue broke","code":500}}"#,
        HeadVerdict::ServerError,
    );
    check(
        Engine::Vllm,
        401,
        r#"{"error":"Unauthorized"}"#,
        HeadVerdict::RefusedCredential,
    );
}

#[test]
fn content_types_are_recognised() {
    let with = |content_type| ResponseHead {
        content_type: Some(content_type),
        ..head(200)
    };
    assert!(with("text/event-stream; charset=utf-8").is_event_stream());
    assert!(with("Text/Event-Stream").is_event_stream());
    assert!(!with("text/event-streams").is_event_stream());
    assert!(with("application/json").is_json());
    assert!(with("application/problem+json; charset=utf-8").is_json());
    assert!(!with("text/html").is_json());
    assert!(!head(200).is_json());
}

/// Every refusal that is known to mean "no such model", of every engine, with the name `asked`.
fn gone_texts(asked: &str) -> Vec<String> {
    let texts = [
        "The model `{}` does not exist.",
        "The model '{}' does not exist",
        "Model '{}' not found",
        "Model not found",
        "Unknown model: {}",
        "The following requested LoRA adapters are not loaded: {}",
        "Got LoRA adapter that has never been loaded: {}",
    ];
    texts.map(|text| text.replace("{}", asked)).to_vec()
}

proptest! {
    /// What engines repeat of a call: validation errors, ids of things that are not there, an adapter that the caller names
    /// in a field of the engine's own.
    #[test]
    fn no_text_of_a_caller_reads_as_a_missing_model(
        before in "\\PC{0,30}",
        text in prop::sample::select(gone_texts("m").into_iter().chain(gone_texts("x")).collect::<Vec<_>>()),
        after in "\\PC{0,30}",
        status in prop::sample::select(vec![400_u16, 404, 409, 422]),
    ) {
        let echoed = format!("{before}{text}{after}");
        let messages = [
            format!("1 validation error:\n  {{'type': 'list_type', 'loc': 'body.messages', 'input': '{echoed}'}}"),
            format!("Response with id '{echoed}' not found."),
            format!("The following requested LoRA adapters are not loaded: {echoed}"),
            format!("Got LoRA adapter that has never been loaded: {echoed}"),
        ];
        for (engine, message) in Engine::ALL.iter().flat_map(|engine| messages.iter().map(move |text| (*engine, text))) {
            let bodies = [
                serde_json::json!({"error": {"message": message, "type": "Bad Request", "param": echoed, "code": status}}),
                serde_json::json!({"object": "error", "message": message, "type": "BadRequest", "code": status}),
                serde_json::json!({"type": "error", "error": {"type": "invalid_request_error", "message": message}}),
                serde_json::json!({"error": message}),
                serde_json::json!({"detail": message}),
                serde_json::json!({"detail": [{"loc": ["body", echoed], "msg": message, "input": echoed}]}),
                serde_json::json!(echoed),
            ];
            for body in bodies {
                let read = UpstreamErrorBody::read(body.to_string().as_bytes());
                let verdict = judge_refusal(engine, &head(status), &read, "m");
                prop_assert_ne!(verdict, HeadVerdict::ModelGone, "{} {} {}", engine, status, body);
            }
            let plain = UpstreamErrorBody::read(echoed.as_bytes());
            prop_assert_ne!(judge_refusal(engine, &head(status), &plain, "m"), HeadVerdict::ModelGone);
        }
    }
}

#[test]
fn a_call_that_is_too_long_is_told_from_other_bad_calls() {
    let check = |engine, status, body: &str, wanted: HeadVerdict| {
        let read = UpstreamErrorBody::read(body.as_bytes());
        assert_eq!(judge_refusal(engine, &head(status), &read, "tiny"), wanted, "{body}");
    };
    let vllm = r#"{"error":{"message":"This model's maximum context length is 2048 tokens. However, your prompt contains at least 2049 input tokens","type":"BadRequestError","param":"input_tokens","code":400}}"#;
    check(Engine::Vllm, 400, vllm, HeadVerdict::TooLong);
    let output = r#"{"error":{"message":"max_tokens=100000 cannot be greater than max_model_len=2048. Please request fewer output tokens.","code":400}}"#;
    check(Engine::Vllm, 400, output, HeadVerdict::TooLong);
    let sglang = r#"{"object":"error","message":"The input (6011 tokens) is longer than the model's context length (2048 tokens).","code":400}"#;
    check(Engine::Sglang, 400, sglang, HeadVerdict::TooLong);
    let by_code = r#"{"error":{"message":"no","type":"invalid_request_error","code":"context_length_exceeded"}}"#;
    check(Engine::Sglang, 400, by_code, HeadVerdict::TooLong);
    // The words of a caller are not the engine's.
    let echo = r#"{"error":{"message":"no role This model's maximum context length is 2048 tokens","code":400}}"#;
    check(Engine::Vllm, 400, echo, HeadVerdict::ClientError);
    check(Engine::Vllm, 500, vllm, HeadVerdict::ServerError);
}

#[test]
fn a_quota_that_is_spent_is_told_from_too_much_to_do() {
    let check = |body: &str, is_spent: bool| {
        let read = UpstreamErrorBody::read(body.as_bytes());
        let after = Some(Duration::from_secs(3));
        let head = ResponseHead {
            retry_after: Some("3"),
            ..head(429)
        };
        let wanted = if is_spent {
            HeadVerdict::QuotaSpent { retry_after: after }
        } else {
            HeadVerdict::Overload { retry_after: after }
        };
        assert_eq!(judge_refusal(Engine::Vllm, &head, &read, "tiny"), wanted, "{body}");
    };
    check(
        r#"{"error":{"message":"","type":"requests","code":"rate_limit_exceeded"}}"#,
        true,
    );
    check(
        r#"{"error":{"message":"","type":"insufficient_quota","code":"insufficient_quota"}}"#,
        true,
    );
    check(
        r#"{"type":"error","error":{"type":"rate_limit_error","message":""}}"#,
        true,
    );
    // maitred before maitred: its own quota, and too much to do.
    check(
        r#"{"error":{"message":"","type":"rate_limit_error","code":"quota_exceeded"}}"#,
        true,
    );
    check(
        r#"{"error":{"message":"","type":"rate_limit_error","code":"saturated"}}"#,
        false,
    );
    check(
        r#"{"object":"error","message":"too many requests","type":"rate_limit_error","code":429}"#,
        true,
    );
    check(r#"{"object":"error","message":"too many requests","code":429}"#, false);
    check("", false);
}
