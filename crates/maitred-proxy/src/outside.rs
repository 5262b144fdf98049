//! What crosses the gateway towards a provider, and back.
//!
//! Our own endpoints see a call nearly as it came. A provider is somebody else, and is called with an account that all callers share:
//! it gets what it needs to answer, and callers get of its headers what describes the answer. Paths by which the account is managed,
//! or through which tenants would see what others keep there, are not served.

use http::header::{
    ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_LANGUAGE,
    CONTENT_TYPE, HOST, RETRY_AFTER, USER_AGENT,
};
use http::{HeaderMap, HeaderName, HeaderValue};
use maitred_llm::CallKind;
use maitred_types::FaultKind;

use crate::fault::Fault;
use crate::headers::put;

/// Request headers that say how an answer is to be. `Idempotency-Key` is not among them: with one account for all, a tenant who repeats
/// another's key would get the other's answer.
const ASKED: [HeaderName; 5] = [
    ACCEPT,
    CONTENT_TYPE,
    HeaderName::from_static("openai-beta"),
    HeaderName::from_static("anthropic-version"),
    HeaderName::from_static("anthropic-beta"),
];

/// Headers of an answer that describe it.
const ANSWERED: [HeaderName; 6] = [
    CACHE_CONTROL,
    CONTENT_DISPOSITION,
    CONTENT_ENCODING,
    CONTENT_LANGUAGE,
    CONTENT_TYPE,
    RETRY_AFTER,
];

/// How the gateway calls itself.
const AGENT: &str = concat!("maitred/", env!("CARGO_PKG_VERSION"));

/// Paths beside the known ones that keep nothing and show nothing of what others keep.
const OTHERS: [&str; 9] = [
    "/v1/audio/speech",
    "/v1/audio/transcriptions",
    "/v1/audio/translations",
    "/v1/images/edits",
    "/v1/images/generations",
    "/v1/images/variations",
    "/v1/moderations",
    "/v1/rerank",
    "/v1/score",
];

/// Whether calls to the path go to providers.
pub(crate) fn serves(kind: CallKind, path: &str) -> Result<(), Fault> {
    if kind != CallKind::Other || OTHERS.contains(&path) {
        return Ok(());
    }
    Err(Fault::new(
        FaultKind::UnknownPath,
        "this model is a provider's, and only paths that run a model are served there",
    ))
}

/// Writes the headers of a call to a provider. The length of the body and the request id are the caller's to add.
pub(crate) fn headers(out: &mut Vec<u8>, client: &HeaderMap, authority: &str, credential: Option<&HeaderValue>) {
    put(out, &HOST, authority.as_bytes());
    for name in &ASKED {
        for value in client.get_all(name) {
            put(out, name, value.as_bytes());
        }
    }
    put(out, &USER_AGENT, AGENT.as_bytes());
    // Only bytes that are not compressed can be read on the way.
    put(out, &ACCEPT_ENCODING, b"identity");
    if let Some(credential) = credential {
        put(out, &AUTHORIZATION, credential.as_bytes());
    }
}

/// The headers of a provider's answer as the caller gets them.
pub(crate) fn for_client(mut headers: HeaderMap) -> HeaderMap {
    let gone: Vec<HeaderName> = headers
        .keys()
        .filter(|name| !ANSWERED.contains(name))
        .cloned()
        .collect();
    for name in gone {
        headers.remove(name);
    }
    headers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pairs = pairs.iter();
        pairs
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect()
    }

    #[test]
    fn a_provider_gets_what_it_needs_and_no_more() {
        let client = map(&[
            ("authorization", "Bearer CANARY"),
            ("x-api-key", "CANARY"),
            ("api-key", "CANARY"),
            ("cookie", "CANARY"),
            ("openai-organization", "CANARY"),
            ("openai-project", "CANARY"),
            ("x-forwarded-for", "CANARY"),
            ("idempotency-key", "CANARY"),
            ("x-anything", "CANARY"),
            ("connection", "openai-beta"),
            ("content-type", "application/json"),
            ("openai-beta", "assistants=v2"),
        ]);
        let mut out = Vec::new();
        let key = HeaderValue::from_static("Bearer ours");
        headers(&mut out, &client, "api.example.com", Some(&key));
        let text = String::from_utf8(out).unwrap();
        assert!(!text.contains("CANARY"), "{text}");
        for line in [
            "host: api.example.com\r\n",
            "authorization: Bearer ours\r\n",
            "content-type: application/json\r\n",
        ] {
            assert!(text.contains(line), "{text}");
        }
    }

    #[test]
    fn an_answer_tells_nothing_of_the_account() {
        let answer = map(&[
            ("content-type", "application/json"),
            ("retry-after", "3"),
            ("openai-organization", "CANARY"),
            ("x-ratelimit-remaining-tokens", "CANARY"),
            ("set-cookie", "CANARY"),
            ("alt-svc", "CANARY"),
            ("location", "CANARY"),
            ("x-request-id", "CANARY"),
        ]);
        let kept = for_client(answer);
        assert_eq!(kept.len(), 2, "{kept:?}");
    }

    #[test]
    fn only_paths_that_run_a_model_are_served() {
        for kind in CallKind::ALL {
            assert_eq!(serves(kind, "/v1/x").is_ok(), kind != CallKind::Other, "{kind:?}");
        }
        assert!(serves(CallKind::Other, "/v1/audio/speech").is_ok());
        for path in [
            "/v1/files",
            "/v1/files/file-1/content",
            "/v1/batches",
            "/v1/organization/usage",
            "/v1/responses/resp_1",
        ] {
            let fault = serves(CallKind::Other, path).unwrap_err();
            assert_eq!(fault.kind, FaultKind::UnknownPath, "{path}");
        }
    }
}
