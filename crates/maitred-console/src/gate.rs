//! Who is asking, and whether that is enough.

use std::net::SocketAddr;

use axum::extract::{ConnectInfo, MatchedPath, Request, State};
use axum::http::header::{AUTHORIZATION, HOST, ORIGIN, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use maitred_runtime::{Actor, Deed, Role};

use crate::door::Peer;
use crate::routes::{Need, ROUTES};
use crate::{Console, problem};

/// Under which name the audit knows those who come in where nobody is listed.
const ANYBODY: &str = "anybody";

/// Lets a request through to its page, or not. Without a line in the table, and without a proof of who asks, there is no way.
pub(crate) async fn admit(State(console): State<Console>, mut request: Request, next: Next) -> Response {
    if is_of_a_page(&console, request.headers()) {
        let why = problem("this listener is for programs, not for web pages");
        return (StatusCode::FORBIDDEN, why).into_response();
    }
    let need = need(&request);
    if need != Some(Need::Nothing) {
        let actor = match actor(&console, &request) {
            Ok(actor) => actor,
            Err(why) => return unknown(why),
        };
        if let Some(Need::Role(role)) = need
            && !actor.role.covers(role)
        {
            let target = format!("{} {}", request.method(), request.uri().path());
            let deed = Deed {
                action: "ask",
                target: &target,
                diff: serde_json::Value::Null,
                version: None,
            };
            console.runtime.note_denied(&actor, deed);
            let why = format!(
                "this needs the role `{role}`, and `{}` has the role `{}`",
                actor.name, actor.role
            );
            return (StatusCode::FORBIDDEN, problem(&why)).into_response();
        }
        request.extensions_mut().insert(actor);
    }
    next.run(request).await
}

/// What the table says of the request; `None` for what it does not know, which then ends at no page.
fn need(request: &Request) -> Option<Need> {
    let path = request.extensions().get::<MatchedPath>()?.as_str();
    let asked = request.method();
    let method = if *asked == Method::HEAD { &Method::GET } else { asked };
    let mut lines = ROUTES.iter();
    lines
        .find(|route| route.path == path && route.method == *method)
        .map(|route| route.need)
}

fn unknown(why: &str) -> Response {
    let challenge = [(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))];
    (StatusCode::UNAUTHORIZED, challenge, problem(why)).into_response()
}

/// Who is asking: by the token, else by the certificate. Where nobody may administer, whoever reaches the listener (which is on
/// loopback then) operates, but is not let near the keys.
fn actor(console: &Console, request: &Request) -> Result<Actor, &'static str> {
    let snapshot = console.runtime.snapshot();
    let access = &snapshot.settings().admin.access;
    if access.is_empty() {
        return Ok(Actor {
            name: ANYBODY.into(),
            role: Role::Operator,
        });
    }
    let now = console.runtime.clock().unix_now();
    if let Some(token) = token(request.headers())? {
        let found = access.check(token, now);
        return found
            .cloned()
            .map_err(|_| "the token is not one this listener accepts, or has expired");
    }
    let peer = request.extensions().get::<ConnectInfo<Peer>>();
    let names = peer.and_then(|ConnectInfo(peer)| peer.certificate.as_deref());
    let found = names.and_then(|names| access.of_certificate(names, now));
    found
        .cloned()
        .ok_or("no token: send `Authorization: Bearer TOKEN`, as `admin.access` knows it, or a client certificate")
}

/// The one token of a request. Of two nobody could say which counts.
fn token(headers: &HeaderMap) -> Result<Option<&str>, &'static str> {
    let mut values = headers.get_all(AUTHORIZATION).into_iter();
    let first = match (values.next(), values.next()) {
        (None, _) => return Ok(None),
        (Some(first), None) => first.to_str().ok(),
        (Some(_), Some(_)) => None,
    };
    let scheme_and_token = first.and_then(|value| value.split_once(' '));
    match scheme_and_token {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => Ok(Some(token.trim())),
        _ => Err("the header `authorization` must occur once, as `Bearer TOKEN`"),
    }
}

/// Whether a browser sends this on behalf of a page: a request with an `Origin`, and, where no token is needed, one whose `Host`
/// is a name that somebody pointed at loopback.
fn is_of_a_page(console: &Console, headers: &HeaderMap) -> bool {
    let is_open = console.runtime.snapshot().settings().admin.access.is_empty();
    headers.contains_key(ORIGIN) || (is_open && !names_this_machine(headers))
}

fn names_this_machine(headers: &HeaderMap) -> bool {
    let Some(host) = headers.get(HOST) else { return true };
    let Ok(host) = host.to_str() else { return false };
    let name = host
        .rsplit_once(':')
        .map_or(host, |(name, port)| if port.ends_with(']') { host } else { name });
    name.eq_ignore_ascii_case("localhost")
        || host.parse::<SocketAddr>().is_ok()
        || name
            .trim_start_matches('[')
            .trim_end_matches(']')
            .parse::<std::net::IpAddr>()
            .is_ok()
}

#[cfg(test)]
mod tests;
