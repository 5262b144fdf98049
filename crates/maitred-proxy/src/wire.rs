//! A request's head as it goes onto the wire.

use http::Method;
use http::header::CONTENT_LENGTH;
use http::request::Parts;
use maitred_llm::CallKind;
use maitred_runtime::Upstream;
use maitred_types::{Address, RequestId};

use crate::fault::Fault;
use crate::link::Segments;
use crate::{headers, intake, outside, query};

/// Room for the head of a usual request.
const WIRE_HEAD: usize = 512;

/// Request line and headers as they go to an endpoint or provider: the path in origin form, the body with its length.
///
/// # Errors
/// When the path is not served by a provider.
pub(crate) fn head(
    kind: CallKind,
    client: &Parts,
    body: &Segments,
    upstream: &Upstream,
    address: &Address,
) -> Result<Vec<u8>, Fault> {
    let path = client.uri.path();
    let query = client.uri.query().and_then(|query| query::forwarded(kind, query));
    let mut out = Vec::with_capacity(WIRE_HEAD);
    let method = &client.method;
    out.extend_from_slice(method.as_str().as_bytes());
    out.push(b' ');
    match (upstream.provider(), query.as_deref()) {
        (Some(provider), query) => {
            outside::serves(kind, path)?;
            out.extend_from_slice(provider.target(path, query).as_bytes());
        }
        (None, None) => out.extend_from_slice(path.as_bytes()),
        (None, Some(query)) => {
            for part in [path, "?", query] {
                out.extend_from_slice(part.as_bytes());
            }
        }
    }
    out.extend_from_slice(b" HTTP/1.1\r\n");
    let length: usize = body.iter().map(bytes::Bytes::len).sum();
    // A method that usually has a body says so even of an empty one (RFC 9110 section 8.6).
    if length > 0 || matches!(*method, Method::POST | Method::PUT | Method::PATCH) {
        headers::put(&mut out, &CONTENT_LENGTH, length.to_string().as_bytes());
    }
    // The intake has seen that they are not too many.
    let gateways = intake::gateways(&client.headers).map_or(1, u64::from);
    headers::put(&mut out, &headers::GATEWAYS, gateways.to_string().as_bytes());
    let credential = upstream.credential();
    match upstream.provider() {
        Some(provider) => outside::headers(&mut out, &client.headers, provider.authority(), credential),
        None => headers::for_endpoint(&mut out, &client.headers, address.as_str(), credential),
    }
    Ok(out)
}

/// The head with the call's id, and its end.
pub(crate) fn with_id(mut head: Vec<u8>, id: &RequestId) -> Vec<u8> {
    headers::put(&mut head, &headers::REQUEST_ID, id.as_str().as_bytes());
    head.extend_from_slice(b"\r\n");
    head
}
