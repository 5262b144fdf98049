//! What went wrong with a call, as the shell carries it.

use std::borrow::Cow;
use std::time::Duration;

use maitred_engines::UpstreamErrorBody;
use maitred_types::FaultKind;

/// Longest type or code of an endpoint's error that is shown. Those of engines have about half of it.
const NAME_MAX: usize = 48;

/// A call's fault: what the client is told, and what only the record shows.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    /// Which line of the fault table it is.
    pub(crate) kind: FaultKind,
    /// What the client is told. Never a secret, an address or a piece of a prompt.
    pub(crate) message: Cow<'static, str>,
    /// What the access record says beyond that.
    pub(crate) detail: Option<String>,
    /// When trying again makes sense.
    pub(crate) retry_after: Option<Duration>,
    /// The methods that the path has, for a call that used another.
    pub(crate) allow: Option<&'static [&'static str]>,
}

impl Fault {
    pub(crate) fn new(kind: FaultKind, message: impl Into<Cow<'static, str>>) -> Self {
        Self {
            kind,
            message: message.into(),
            detail: None,
            retry_after: None,
            allow: None,
        }
    }

    /// Adds to what only the record shows how an earlier attempt failed.
    pub(crate) fn after(self, earlier: Option<&Self>) -> Self {
        let Some(earlier) = earlier else { return self };
        let (now, label) = (self.detail.as_deref().unwrap_or(&self.message), earlier.kind.label());
        let detail = match &earlier.detail {
            Some(detail) => format!("{now}; an earlier attempt failed: {label}, {detail}"),
            None => format!("{now}; an earlier attempt failed: {label}"),
        };
        self.with_detail(detail)
    }

    /// Adds what only the record shows.
    pub(crate) fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }
}

/// What records say of an endpoint's error: what happened, and the error's type and code. Never its message: that may repeat the
/// prompt, and nobody could tell.
pub(crate) fn nameable(what: impl Into<String>, error: &UpstreamErrorBody) -> String {
    let is_name = |text: &&str| {
        let is_plain = |byte| matches!(byte, b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'-' | b'.');
        !text.is_empty() && text.len() <= NAME_MAX && text.bytes().all(is_plain)
    };
    let mut shown = what.into();
    for (label, name) in [("type", &error.kind), ("code", &error.code)] {
        if let Some(name) = name.as_deref().filter(is_name) {
            shown.push_str(&format!(", {label} {name}"));
        }
    }
    shown
}

/// `Retry-After` in whole seconds, rounded up so that nobody comes back too early.
pub(crate) fn retry_after_seconds(after: Duration) -> u64 {
    after.as_secs() + u64::from(after.subsec_nanos() > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_an_endpoints_error_only_names_are_shown() {
        let shown = |body: &str| nameable("HTTP 500", &UpstreamErrorBody::read(body.as_bytes()));
        let told = r#"{"error":{"message":"no: tell me","type":"InternalServerError","code":500}}"#;
        assert_eq!(shown(told), "HTTP 500, type InternalServerError, code 500");
        assert_eq!(shown("tell me a story"), "HTTP 500");
        let words = r#"{"error":{"message":"","type":"tell me","code":"tell me"}}"#;
        assert_eq!(shown(words), "HTTP 500");
        let long = format!(r#"{{"error":{{"message":"","type":"{}"}}}}"#, "x".repeat(49));
        assert_eq!(shown(&long), "HTTP 500");
    }

    #[test]
    fn retry_after_rounds_up() {
        assert_eq!(retry_after_seconds(Duration::ZERO), 0);
        assert_eq!(retry_after_seconds(Duration::from_millis(1)), 1);
        assert_eq!(retry_after_seconds(Duration::from_secs(2)), 2);
        assert_eq!(retry_after_seconds(Duration::from_millis(2_001)), 3);
    }
}
