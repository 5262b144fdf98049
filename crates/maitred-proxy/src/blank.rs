//! Blanks the gateway's own credential out of what an endpoint says. Some servers repeat the key that they refuse, and a proxy in
//! between may return the whole request; neither a caller nor a log is to see it.
//!
//! This is for headers, refusals and words about failures. Good answers are relayed as they are: nobody could tell there whether it is
//! the credential or what the model made up.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue};
use maitred_runtime::Booking;
use memchr::memmem;

/// What stands in its place.
const BLANK: &[u8] = b"***";
/// Shorter ones occur in words by chance, and protect nothing.
const SECRET_MIN: usize = 8;

/// What must not come out of an attempt.
#[derive(Debug)]
pub(crate) struct Blank(Option<HeaderValue>);

impl Blank {
    pub(crate) fn of(booking: Option<&Booking>) -> Self {
        Self(booking.and_then(|booking| booking.upstream().credential().cloned()))
    }

    /// The secret part of the header's value: without the scheme.
    fn secret(&self) -> Option<&[u8]> {
        let value = self.0.as_ref()?.as_bytes();
        let secret = value.rsplit(|byte| *byte == b' ').next()?;
        (secret.len() >= SECRET_MIN).then_some(secret)
    }

    /// Removes headers that have it.
    pub(crate) fn headers(&self, headers: &mut HeaderMap) {
        let Some(secret) = self.secret() else { return };
        let finder = memmem::Finder::new(secret);
        let names: Vec<_> = headers
            .iter()
            .filter(|(_, value)| finder.find(value.as_bytes()).is_some())
            .map(|(name, _)| name.clone())
            .collect();
        for name in names {
            headers.remove(name);
        }
    }

    /// The bytes without it.
    pub(crate) fn bytes(&self, bytes: Bytes) -> Bytes {
        let Some(secret) = self.secret() else { return bytes };
        let mut rest = bytes.as_ref();
        let mut blanked = Vec::new();
        while let Some(at) = memmem::find(rest, secret) {
            let (before, after) = rest.split_at(at);
            blanked.extend_from_slice(before);
            blanked.extend_from_slice(BLANK);
            rest = after.get(secret.len()..).unwrap_or_default();
        }
        if blanked.is_empty() {
            return bytes;
        }
        blanked.extend_from_slice(rest);
        blanked.into()
    }

    /// The text without it.
    pub(crate) fn text(&self, text: String) -> String {
        match self.secret() {
            Some(secret) if memmem::find(text.as_bytes(), secret).is_some() => {
                String::from_utf8_lossy(&self.bytes(text.into())).into_owned()
            }
            _ => text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blank(value: &'static str) -> Blank {
        Blank(Some(HeaderValue::from_static(value)))
    }

    #[test]
    fn it_is_blanked_wherever_it_occurs() {
        let blank = blank("Bearer sk-0123456");
        let check = |told: &str, blanked: &str| {
            assert_eq!(blank.bytes(Bytes::copy_from_slice(told.as_bytes())), blanked);
            assert_eq!(blank.text(told.to_owned()), blanked);
        };
        check("no sk-01234", "no sk-01234");
        check("sk-0123456", "***");
        check("é sk-0123456, sk-0123456!", "é ***, ***!");
        let mut headers = HeaderMap::new();
        headers.insert("x-good", HeaderValue::from_static("good"));
        headers.append("x-echo", HeaderValue::from_static("one"));
        headers.append("x-echo", HeaderValue::from_static("Bearer sk-0123456"));
        blank.headers(&mut headers);
        assert_eq!(
            headers.keys().map(http::HeaderName::as_str).collect::<Vec<_>>(),
            ["x-good"]
        );
    }

    #[test]
    fn what_is_no_secret_blanks_nothing() {
        assert_eq!(blank("Bearer x").bytes(Bytes::from_static(b"x")), "x");
        assert_eq!(Blank::of(None).bytes(Bytes::from_static(b"any")), "any");
    }
}
