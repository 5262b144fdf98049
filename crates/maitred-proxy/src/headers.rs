//! Which headers cross the gateway, in either direction.
//!
//! Hop-by-hop headers (RFC 9110 §7.6.1) never do: the fixed ones and those that `Connection` names. The caller's
//! credential stays here, and what names or steers maitred's own inside does not come in from outside.

use http::header::{
    ACCEPT_ENCODING, ACCEPT_RANGES, ALT_SVC, AUTHORIZATION, CONNECTION, CONTENT_DISPOSITION, CONTENT_ENCODING,
    CONTENT_LANGUAGE, CONTENT_LENGTH, CONTENT_LOCATION, CONTENT_RANGE, CONTENT_TYPE, COOKIE, ETAG, EXPECT, HOST,
    LAST_MODIFIED, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, SERVER, SET_COOKIE, TE, TRAILER, TRANSFER_ENCODING,
    UPGRADE,
};
use http::{HeaderMap, HeaderName, HeaderValue};
use maitred_types::RequestId;
use smallvec::SmallVec;

/// The client's id of a call, kept if it is sane.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Anthropic's way to send a key.
pub(crate) const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
/// Asks to be told, and tells, which endpoint answered.
pub(crate) const ENDPOINT: HeaderName = HeaderName::from_static("x-maitred-endpoint");
/// The token of the user that a service makes a call for.
pub(crate) const USER_TOKEN: HeaderName = HeaderName::from_static("x-maitred-user-token");
/// Names the model of a call whose body maitred does not read (a form, for instance).
pub(crate) const MODEL: HeaderName = HeaderName::from_static("x-maitred-model");
/// Names a call's class, as far as its key allows it.
pub(crate) const CLASS: HeaderName = HeaderName::from_static("x-maitred-class");
/// How many gateways a call has come through. The one header of our own that goes on, so that a loop comes to an end.
pub(crate) const GATEWAYS: HeaderName = HeaderName::from_static("x-maitred-gateways");
/// Tells proxies in front not to hold back a stream.
pub(crate) const ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");
/// Longest request id that is kept, in bytes; a longer one is replaced.
const REQUEST_ID_MAX: usize = 128;

/// Headers that concern one connection only.
const HOP_BY_HOP: [HeaderName; 9] = [
    CONNECTION,
    KEEP_ALIVE,
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    PROXY_CONNECTION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// Headers that describe the body they come with, and are wrong of any other.
const OF_THE_BODY: [HeaderName; 13] = [
    ACCEPT_RANGES,
    CONTENT_DISPOSITION,
    CONTENT_ENCODING,
    CONTENT_LANGUAGE,
    CONTENT_LOCATION,
    CONTENT_RANGE,
    CONTENT_TYPE,
    ETAG,
    LAST_MODIFIED,
    HeaderName::from_static("content-digest"),
    HeaderName::from_static("content-md5"),
    HeaderName::from_static("digest"),
    HeaderName::from_static("repr-digest"),
];

fn is_reserved(name: &HeaderName) -> bool {
    name.as_str().starts_with("x-maitred-") || name.as_str().starts_with("x-internal-")
}

/// Whether a request header stays at the gateway although it is not hop-by-hop. Keys stay, also those in headers that other gateways
/// and clouds take them from: who sends one there has mistaken us for them.
fn stays_here(name: &HeaderName) -> bool {
    [
        AUTHORIZATION,
        API_KEY,
        HeaderName::from_static("api-key"),
        HeaderName::from_static("ocp-apim-subscription-key"),
        HeaderName::from_static("x-goog-api-key"),
        HeaderName::from_static("x-auth-token"),
        HeaderName::from_static("x-access-token"),
        HeaderName::from_static("x-amz-security-token"),
        COOKIE,
        HOST,
        CONTENT_LENGTH,
        EXPECT,
        ACCEPT_ENCODING,
        REQUEST_ID,
    ]
    .contains(name)
        || is_reserved(name)
}

/// Names that `Connection` declares to be hop-by-hop for this message.
fn named_by_connection(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let values = headers
        .get_all(CONNECTION)
        .into_iter()
        .filter_map(|value| value.to_str().ok());
    values
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .filter(|name| !name.is_empty())
}

/// Names that `Connection` declares, found once per message; most messages have none.
type Named<'a> = SmallVec<[&'a str; 2]>;

fn crosses(named: &Named<'_>, name: &HeaderName) -> bool {
    !HOP_BY_HOP.contains(name) && !named.iter().any(|named| name.as_str().eq_ignore_ascii_case(named))
}

/// Writes the headers of an attempt: the client's, less what must not cross, plus the gateway's own. The length of the body and
/// the request id are the caller's to add.
pub(crate) fn for_endpoint(out: &mut Vec<u8>, client: &HeaderMap, address: &str, credential: Option<&HeaderValue>) {
    put(out, &HOST, address.as_bytes());
    let named: Named<'_> = named_by_connection(client).collect();
    for (name, value) in client {
        if !stays_here(name) && crosses(&named, name) {
            put(out, name, value.as_bytes());
        }
    }
    // Only bytes that are not compressed can be read on the way.
    put(out, &ACCEPT_ENCODING, b"identity");
    if let Some(credential) = credential {
        put(out, &AUTHORIZATION, credential.as_bytes());
    }
}

/// Writes one header as it goes onto the wire. Names and values come out of [`HeaderMap`]s or are the gateway's own, so that no
/// end of a line can be in them.
pub(crate) fn put(out: &mut Vec<u8>, name: &HeaderName, value: &[u8]) {
    out.extend_from_slice(name.as_str().as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// The headers of an answer: the endpoint's, less what must not cross. A cookie of an endpoint would bind other tenants' clients
/// together, and `Alt-Svc` would send them past the gateway.
pub(crate) fn for_client(mut headers: HeaderMap) -> HeaderMap {
    let gone: SmallVec<[HeaderName; 6]> = {
        let named: Named<'_> = named_by_connection(&headers).collect();
        let stays = |name: &&HeaderName| {
            [SERVER, CONTENT_LENGTH, REQUEST_ID, SET_COOKIE, ALT_SVC].contains(name)
                || is_reserved(name)
                || !crosses(&named, name)
        };
        headers.keys().filter(stays).cloned().collect()
    };
    for name in gone {
        headers.remove(name);
    }
    headers
}

/// The headers of an answer whose body the gateway has written in the place of the endpoint's, in JSON.
pub(crate) fn for_own_body(mut headers: HeaderMap) -> HeaderMap {
    for name in OF_THE_BODY {
        headers.remove(name);
    }
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers
}

/// Whether the body is packed, so that it cannot be read as it is.
pub(crate) fn is_encoded(headers: &HeaderMap) -> bool {
    let values = headers.get_all(CONTENT_ENCODING).into_iter();
    let mut codings = values.flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
    codings.any(|coding| {
        let coding = coding.trim_ascii();
        !coding.is_empty() && !coding.eq_ignore_ascii_case(b"identity")
    })
}

/// The client's request id, if it is short and printable.
pub(crate) fn kept_request_id(headers: &HeaderMap) -> Option<RequestId> {
    let id = headers.get(REQUEST_ID)?.to_str().ok()?;
    let is_sane = !id.is_empty() && id.len() <= REQUEST_ID_MAX && id.bytes().all(|byte| byte.is_ascii_graphic());
    is_sane.then(|| RequestId::from(id))
}

/// The key that a call presents: a bearer token, or Anthropic's header.
///
/// `Err` when it presents several, since the endpoint of a chain of proxies might read another one than we do.
pub(crate) fn presented_key(headers: &HeaderMap) -> Result<Option<&str>, SeveralKeys> {
    let mut found = None;
    for value in headers.get_all(AUTHORIZATION) {
        let text = value.to_str().unwrap_or_default();
        let (scheme, token) = text.split_once(' ').unwrap_or((text, ""));
        let token = if scheme.eq_ignore_ascii_case("bearer") {
            token.trim()
        } else {
            ""
        };
        if found.replace(token).is_some() {
            return Err(SeveralKeys);
        }
    }
    for value in headers.get_all(API_KEY) {
        let token = value.to_str().unwrap_or_default().trim();
        // Clients exist that send the same key both ways.
        if found.replace(token).is_some_and(|before| before != token) {
            return Err(SeveralKeys);
        }
    }
    Ok(found)
}

/// A call presents more than one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SeveralKeys;

#[cfg(test)]
mod tests;
