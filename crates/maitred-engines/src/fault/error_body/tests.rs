use proptest::prelude::*;

use super::*;

fn check(body: &str, form: ErrorForm, message: &str, words: [Option<&str>; 3]) {
    let read = UpstreamErrorBody::read(body.as_bytes());
    let found = [read.kind.as_deref(), read.param.as_deref(), read.code.as_deref()];
    assert_eq!(
        (read.form, read.message.as_str(), found),
        (form, message, words),
        "{body}"
    );
}

#[test]
fn every_known_form_is_read() {
    check(
        r#"{"error":{"message":"m","type":"BadRequestError","param":"p","code":400}}"#,
        ErrorForm::OpenAi,
        "m",
        [Some("BadRequestError"), Some("p"), Some("400")],
    );
    check(
        r#"{"error":{"message":"m","type":"t","param":null,"code":"context_length_exceeded"}}"#,
        ErrorForm::OpenAi,
        "m",
        [Some("t"), None, Some("context_length_exceeded")],
    );
    check(
        r#"{"error":"Unauthorized"}"#,
        ErrorForm::Text,
        "Unauthorized",
        [None; 3],
    );
    check(
        r#"{"type":"error","error":{"type":"NotFoundError","message":"m"}}"#,
        ErrorForm::Anthropic,
        "m",
        [Some("NotFoundError"), None, None],
    );
    check(
        r#"{"object":"error","message":"m","type":"t","param":null,"code":400}"#,
        ErrorForm::Flat,
        "m",
        [Some("t"), None, Some("400")],
    );
    check(
        r#"{"message":"Model not found","type":"Not Found","code":404}"#,
        ErrorForm::Flat,
        "Model not found",
        [Some("Not Found"), None, Some("404")],
    );
    check(
        r#"{"detail":"Not Found"}"#,
        ErrorForm::Framework,
        "Not Found",
        [None; 3],
    );
    check(
        r#"{"detail":[{"loc":["body","messages",0],"msg":"Field required"}]}"#,
        ErrorForm::Framework,
        "Field required",
        [None, Some("body.messages.0"), None],
    );
}

#[test]
fn what_is_not_json_becomes_an_excerpt() {
    check("", ErrorForm::Empty, "", [None; 3]);
    check(" \r\n", ErrorForm::Empty, "", [None; 3]);
    check(
        "Internal Server Error",
        ErrorForm::Plain,
        "Internal Server Error",
        [None; 3],
    );
    check(
        "<html>\n<head><title>502 Bad Gateway</title></head></html>",
        ErrorForm::Html,
        "502 Bad Gateway",
        [None; 3],
    );
    check(
        "<html><body><h1>503 Service Unavailable</h1>\nNo server</body>",
        ErrorForm::Html,
        "503 Service Unavailable",
        [None; 3],
    );
    check("<x", ErrorForm::Html, "HTML", [None; 3]);
    check(r#"{"odd":1}"#, ErrorForm::Plain, r#"{"odd":1}"#, [None; 3]);
    check("[1]", ErrorForm::Plain, "[1]", [None; 3]);
    check(
        r#"{"error":null,"message":5}"#,
        ErrorForm::Plain,
        r#"{"error":null,"message":5}"#,
        [None; 3],
    );
}

#[test]
fn overload_and_a_missing_model_are_told_from_faults() {
    let read = |body: &str| UpstreamErrorBody::read(body.as_bytes());
    let full =
        read(r#"{"object":"error","message":"The request queue is full.","type":"SERVICE_UNAVAILABLE","code":503}"#);
    assert!(full.is_overload(Engine::Sglang));
    let fault =
        read(r#"{"error":{"message":"EngineCore encountered an issue.","type":"InternalServerError","code":500}}"#);
    assert!(!fault.is_overload(Engine::Vllm));
    assert!(!read(r#"{"error":{"message":"The queue broke.","code":500}}"#).is_overload(Engine::Vllm));
    assert!(read(r#"{"error":{"message":"Queue limit reached.","code":503}}"#).is_overload(Engine::Vllm));
    assert!(read(r#"{"type":"error","error":{"type":"overloaded_error","message":"m"}}"#).is_overload(Engine::Vllm));
    assert!(read(r#"{"error":{"message":"slow down","code":429}}"#).is_overload(Engine::Triton));
    assert!(!read("<html><title>queue is full</title>").is_overload(Engine::Vllm));

    let no_model =
        read(r#"{"error":{"message":"The model `x` does not exist.","type":"NotFoundError","param":"model"}}"#);
    assert!(no_model.is_model_gone(Engine::Vllm, 404, "x"));
    assert!(!no_model.is_model_gone(Engine::Vllm, 400, "x"));
    assert!(!no_model.is_model_gone(Engine::Vllm, 404, "y"));
    assert!(!no_model.is_model_gone(Engine::Sglang, 404, "x"));
    let other = read(r#"{"error":{"message":"Response with id 'x' not found.","type":"NotFoundError"}}"#);
    assert!(!other.is_model_gone(Engine::Vllm, 404, "x"));
    let adapter = read(r#"{"object":"error","message":"The following requested LoRA adapters are not loaded: x"}"#);
    assert!(adapter.is_model_gone(Engine::Sglang, 400, "base:x"));
    // The caller can name an adapter in a field of SGLang's own.
    assert!(!adapter.is_model_gone(Engine::Sglang, 400, "x"));
    assert!(!adapter.is_model_gone(Engine::Sglang, 400, "base:y"));
    let flat = read(r#"{"message":"Model not found","type":"Not Found","code":404}"#);
    assert!(flat.is_model_gone(Engine::TrtllmServe, 404, "x"));
    let code = read(r#"{"error":{"message":"m","code":"model_not_found"}}"#);
    assert!(code.is_model_gone(Engine::Triton, 404, "x"));
    assert!(!code.is_model_gone(Engine::Triton, 400, "x"));
}

proptest! {
    #[test]
    fn any_body_is_read_and_bounded(body in prop::collection::vec(any::<u8>(), 0..2000)) {
        let read = UpstreamErrorBody::read(&body);
        prop_assert!(read.message.len() <= MAX_EXCERPT);
    }

    #[test]
    fn any_message_is_bounded_and_keeps_no_trace(message in "\\PC{0,900}", tail in "\\PC{0,20}") {
        let json = serde_json::json!({"error": {"message": format!("{message}\n\n  File \"/secret/{tail}")}});
        let read = UpstreamErrorBody::read(json.to_string().as_bytes());
        prop_assert!(read.message.len() <= MAX_EXCERPT);
        prop_assert!(!read.message.contains("/secret/"));
    }
}
