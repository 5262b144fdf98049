//! What of a call's query goes on.
//!
//! Keys end up in queries: by SDKs of other clouds, by mistake, by links. What a query means is known for the known paths, so there only
//! what SDKs send on purpose goes on. Elsewhere a query says what is wanted (`?limit=`, `?after=`), so there everything goes on but what
//! is called like a secret.

use std::borrow::Cow;

use maitred_llm::CallKind;

/// Parameters that SDKs add to known paths: OpenAI's for Azure, and Anthropic's for its beta functions.
const KNOWN: [&str; 2] = ["api-version", "beta"];

/// Names of secrets, in lower case and without `-` and `_`.
const SECRETS: [&str; 22] = [
    "accesskey",
    "accesstoken",
    "apikey",
    "apitoken",
    "auth",
    "authorization",
    "authtoken",
    "bearer",
    "clientsecret",
    "code",
    "credential",
    "idtoken",
    "jwt",
    "key",
    "passwd",
    "password",
    "refreshtoken",
    "secret",
    "sig",
    "signature",
    "subscriptionkey",
    "token",
];

/// How names of secrets end that have something before it, such as `x-goog-signature`.
const SECRET_ENDS: [&str; 8] = [
    "apikey",
    "subscriptionkey",
    "credential",
    "password",
    "secret",
    "securitytoken",
    "signature",
    "accesstoken",
];

/// The query that goes on; `None` if nothing is left of it.
pub(crate) fn forwarded(kind: CallKind, query: &str) -> Option<Cow<'_, str>> {
    let goes = |parameter: &&str| {
        let name = parameter.split('=').next().unwrap_or_default();
        match kind {
            CallKind::Other => !is_secret(name),
            _ => KNOWN.contains(&name),
        }
    };
    let kept: Vec<&str> = query.split('&').filter(goes).collect();
    match kept.iter().map(|parameter| parameter.len() + 1).sum::<usize>() {
        0 => None,
        length if length == query.len() + 1 => Some(Cow::Borrowed(query)),
        _ => Some(Cow::Owned(kept.join("&"))),
    }
}

/// Whether a parameter of that name holds a secret. One whose name is escaped where it need not be hides something.
fn is_secret(name: &str) -> bool {
    if name.contains('%') && !is_bracketed(name) {
        return true;
    }
    let bare: String = name
        .chars()
        .filter(|character| !matches!(character, '-' | '_'))
        .map(|character| character.to_ascii_lowercase())
        .collect();
    SECRETS.contains(&bare.as_str()) || SECRET_ENDS.iter().any(|end| bare.ends_with(end))
}

/// Whether the escapes in a name are those of square brackets only, as in `include%5B%5D`.
fn is_bracketed(name: &str) -> bool {
    let pieces = name.split('%').skip(1);
    pieces.map(|piece| piece.get(..2)).all(|digits| {
        digits.is_some_and(|digits| digits.eq_ignore_ascii_case("5b") || digits.eq_ignore_ascii_case("5d"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(kind: CallKind, query: &str, left: Option<&str>) {
        assert_eq!(forwarded(kind, query).as_deref(), left, "{query}");
    }

    #[test]
    fn known_paths_keep_what_sdks_mean() {
        check(CallKind::Chat, "api-version=2026-01-01", Some("api-version=2026-01-01"));
        check(CallKind::Messages, "beta=true", Some("beta=true"));
        check(CallKind::Chat, "api_key=CANARY", None);
        check(CallKind::Chat, "anything=CANARY", None);
        check(
            CallKind::Chat,
            "key=CANARY&api-version=1&x=CANARY",
            Some("api-version=1"),
        );
        check(CallKind::Chat, "", None);
        check(CallKind::Chat, "&&", None);
    }

    #[test]
    fn other_paths_lose_what_is_called_like_a_secret() {
        let kept = "limit=10&after=file-1&include%5B%5D=usage&order=desc&next_token_id=1";
        check(CallKind::Other, kept, Some(kept));
        for name in [
            "api_key",
            "API-KEY",
            "apiKey",
            "key",
            "token",
            "access_token",
            "Ocp-Apim-Subscription-Key",
            "subscription-key",
            "X-Amz-Signature",
            "X-Amz-Security-Token",
            "x-goog-credential",
            "authorization",
            "code",
            "sig",
            "client_secret",
            "my_password",
            "%61pi_key",
            "api%5Fkey",
        ] {
            let canary = format!("a=1&{name}=CANARY&b=2");
            check(CallKind::Other, &canary, Some("a=1&b=2"));
        }
    }
}
