use super::*;

#[test]
fn known_paths_have_their_kind() {
    let check = |path: &str, kind: CallKind| {
        assert_eq!(CallPath::parse(path).map(|path| path.kind), Ok(kind), "{path}");
    };
    check("/v1/chat/completions", CallKind::Chat);
    check("/v1/completions", CallKind::Completions);
    check("/v1/embeddings", CallKind::Embeddings);
    check("/v1/models", CallKind::Models);
    check("/v1/models/tiny", CallKind::Models);
    check("/v1/messages", CallKind::Messages);
    check("/v1/messages/count_tokens", CallKind::CountTokens);
    check("/v1/responses", CallKind::Responses);
    check("/v1/responses/resp_1", CallKind::Other);
    check("/v1/rerank", CallKind::Other);
    check("/v1/audio/transcriptions", CallKind::Other);
    check("/v1/messages/batches", CallKind::Other);
    check("/v1/files/a%20b", CallKind::Other);
    check("/v1/files/%C3%A9", CallKind::Other);
}

#[test]
fn a_path_in_any_but_its_plain_form_is_refused() {
    let check = |path: &str, error: PathError| assert_eq!(CallPath::parse(path), Err(error), "{path}");
    check("", PathError::NotUnderV1);
    check("/", PathError::NotUnderV1);
    check("/v1", PathError::NotUnderV1);
    check("/v2/models", PathError::NotUnderV1);
    check("/V1/models", PathError::NotUnderV1);
    check("/metrics", PathError::NotUnderV1);
    check("//v1/models", PathError::NotUnderV1);
    check("/v1/", PathError::EmptySegment);
    check("/v1/models/", PathError::EmptySegment);
    check("/v1//models", PathError::EmptySegment);
    check("/v1/chat/completions/", PathError::EmptySegment);
    check("/v1/./models", PathError::DotSegment);
    check("/v1/../metrics", PathError::DotSegment);
    check("/v1/models/..", PathError::DotSegment);
    check("/v1/rerank?x=1", PathError::BadByte);
    check("/v1/rerank#x", PathError::BadByte);
    check("/v1/re rank", PathError::BadByte);
    check("/v1/re\\rank", PathError::BadByte);
    check("/v1/re\nrank", PathError::BadByte);
    check("/v1/r\u{e9}rank", PathError::BadByte);
    check("/v1/load_lora_adapter", PathError::ChangesAnEndpoint);
    check("/v1/unload_lora_adapter", PathError::ChangesAnEndpoint);
    check("/v1/%6coad_lora_adapter", PathError::BadEscape);
    check("/v1/x%2fy", PathError::BadEscape);
    check("/v1/x%2Fy", PathError::BadEscape);
    check("/v1/x%5cy", PathError::BadEscape);
    check("/v1/%2e%2e/metrics", PathError::BadEscape);
    check("/v1/%63ompletions", PathError::BadEscape);
    check("/v1/%2563ompletions", PathError::BadEscape);
    check("/v1/x%00", PathError::BadEscape);
    check("/v1/x%0a", PathError::BadEscape);
    check("/v1/x%", PathError::BadEscape);
    check("/v1/x%2", PathError::BadEscape);
    check("/v1/x%zz", PathError::BadEscape);
    check("/v1/models/%", PathError::BadEscape);
    check("/v1/models/a%00", PathError::BadEscape);
    check("/v1/models/%ff", PathError::BadEscape);
    for error in [PathError::NotUnderV1, PathError::DotSegment] {
        assert_eq!(error.fault(), FaultKind::UnknownPath);
    }
}

#[test]
fn the_id_of_a_model_may_hold_slashes_in_either_form() {
    let check = |path: &str, id: Option<&str>| {
        let path = CallPath::parse(path).unwrap();
        assert_eq!(path.model.as_deref(), id);
    };
    check("/v1/models", None);
    check("/v1/models/tiny", Some("tiny"));
    check("/v1/models/acme/tiny-8b", Some("acme/tiny-8b"));
    check("/v1/models/acme%2Ftiny-8b", Some("acme/tiny-8b"));
    check("/v1/models/ti%C3%A9ny%20x", Some("ti\u{e9}ny x"));
    check("/v1/models/tiny:latest", Some("tiny:latest"));
    check("/v1/chat/completions", None);
}

#[test]
fn each_kind_says_how_it_may_be_called() {
    for kind in CallKind::ALL {
        assert!(!kind.methods().is_empty(), "{kind:?}");
        assert!(!kind.allows("post"), "methods are case-sensitive");
        assert_eq!(
            kind.model_place() == ModelPlace::Body,
            kind.methods() == ["POST"],
            "{kind:?}"
        );
        assert!(!kind.has_usage_option() || kind.generates(), "{kind:?}");
    }
    assert!(CallKind::Chat.allows("POST") && !CallKind::Chat.allows("GET"));
    assert!(CallKind::Models.allows("GET") && !CallKind::Models.allows("DELETE"));
    assert!(CallKind::Other.allows("DELETE") && !CallKind::Other.allows("OPTIONS"));
    assert!(CallKind::Embeddings.is_inference() && !CallKind::Embeddings.generates());
    assert!(!CallKind::CountTokens.is_inference());
    assert_eq!(CallKind::CountTokens.dialect(), Dialect::Anthropic);
    assert_eq!(CallKind::Other.dialect(), Dialect::OpenAi);
}

#[test]
fn refusals_have_a_dialect_too() {
    let check = |path: &str, dialect: Dialect| assert_eq!(dialect_of(path), dialect, "{path}");
    check("/v1/messages", Dialect::Anthropic);
    check("/v1/messages/batches", Dialect::Anthropic);
    check("/v1/messages/../x", Dialect::Anthropic);
    check("/v1/messages-2", Dialect::OpenAi);
    check("/v1/chat/completions", Dialect::OpenAi);
    check("", Dialect::OpenAi);
    for (path, kind) in [("/v1/messages", CallKind::Messages), ("/v1/models", CallKind::Models)] {
        assert_eq!(dialect_of(path), kind.dialect());
    }
}
