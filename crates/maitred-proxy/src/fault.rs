//! What went wrong with a call, as the shell carries it.

use std::borrow::Cow;
use std::time::Duration;

use maitred_types::FaultKind;

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

    /// Adds what only the record shows.
    pub(crate) fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }
}

/// `Retry-After` in whole seconds, rounded up so that nobody comes back too early.
pub(crate) fn retry_after_seconds(after: Duration) -> u64 {
    after.as_secs() + u64::from(after.subsec_nanos() > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_rounds_up() {
        assert_eq!(retry_after_seconds(Duration::ZERO), 0);
        assert_eq!(retry_after_seconds(Duration::from_millis(1)), 1);
        assert_eq!(retry_after_seconds(Duration::from_secs(2)), 2);
        assert_eq!(retry_after_seconds(Duration::from_millis(2_001)), 3);
    }
}
