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
    for status in [301, 302, 307, 408, 500, 502, 503, 504, 599, 100, 0, 600] {
        check(head(status), HeadVerdict::ServerError);
    }
    for status in [400, 405, 409, 413, 415, 422, 499, 501] {
        check(head(status), HeadVerdict::ClientError);
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
            judge_refusal(engine, &head(status), &read),
            wanted,
            "{engine} {status} {body}"
        );
    };
    let no_model = r#"{"error":{"message":"The model `nope` does not exist. Valid aliases: tiny.","type":"NotFoundError","param":"model","code":404}}"#;
    let no_model_messages = r#"{"type":"error","error":{"type":"NotFoundError","message":"The model `nope` does not exist. Valid aliases: tiny."}}"#;
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
        r#"{"object":"error","message":"The following requested LoRA adapters are not loaded: b","code":400}"#,
        HeadVerdict::ModelGone,
    );
    check(
        Engine::Triton,
        400,
        r#"{"detail":"Unknown model: x"}"#,
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
