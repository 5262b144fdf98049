//! What is served, and who may ask for it: one table.

use axum::http::Method;
use axum::routing::{MethodRouter, delete, get, post};
use maitred_runtime::Role;

use crate::{Console, changes, keys, pages, usage};

/// Who may ask for a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Anybody who reaches the listener. Such a page tells nothing but that the gateway lives, and whether it is ready.
    Nothing,
    /// Whoever has a role that covers this one.
    Role(Role),
}

/// One line of the table.
#[derive(Clone, Debug)]
pub struct Route {
    /// The method; `HEAD` is answered where `GET` is.
    pub method: Method,
    /// The path, with its variable segments in braces.
    pub path: &'static str,
    /// Who may ask.
    pub need: Need,
    pub(crate) page: fn() -> MethodRouter<Console>,
}

const VIEWER: Need = Need::Role(Role::Viewer);
const KEY_ADMIN: Need = Need::Role(Role::KeyAdmin);
const ADMIN: Need = Need::Role(Role::Admin);
const OPERATOR: Need = Need::Role(Role::Operator);

/// Everything that is served. A page that is not here is served to nobody.
pub const ROUTES: &[Route] = &[
    line(Method::GET, "/healthz", Need::Nothing, || get(pages::health)),
    line(Method::GET, "/readyz", Need::Nothing, || get(pages::ready)),
    line(Method::GET, "/metrics", VIEWER, || get(pages::metrics)),
    line(Method::GET, "/endpoints", VIEWER, || get(pages::endpoints)),
    line(Method::GET, "/admin/v1/whoami", VIEWER, || get(pages::whoami)),
    line(Method::GET, "/admin/v1/decisions", VIEWER, || get(pages::decisions)),
    line(Method::GET, "/admin/v1/decisions/{id}", VIEWER, || get(pages::decision)),
    line(Method::GET, "/admin/v1/degradation", VIEWER, || get(pages::degradation)),
    line(Method::GET, "/admin/v1/usage", VIEWER, || get(usage::page)),
    line(Method::GET, "/admin/v1/keys", VIEWER, || get(keys::list)),
    line(Method::POST, "/admin/v1/keys", KEY_ADMIN, || post(keys::create)),
    line(Method::DELETE, "/admin/v1/keys/{id}", KEY_ADMIN, || {
        delete(keys::revoke)
    }),
    line(Method::POST, "/admin/v1/keys/{id}/rotate", KEY_ADMIN, || {
        post(keys::rotate)
    }),
    line(Method::GET, "/admin/v1/tenants", VIEWER, || get(keys::tenants)),
    line(Method::POST, "/admin/v1/tenants", KEY_ADMIN, || post(keys::put_tenant)),
    line(Method::GET, "/admin/v1/limits", VIEWER, || get(keys::limits)),
    line(Method::POST, "/admin/v1/limits", KEY_ADMIN, || post(keys::put_limit)),
    line(Method::DELETE, "/admin/v1/limits/{name}", KEY_ADMIN, || {
        delete(keys::remove_limit)
    }),
    line(Method::GET, "/admin/v1/changes", VIEWER, || get(changes::list)),
    line(Method::GET, "/admin/v1/changes/{version}/restoration", VIEWER, || {
        get(changes::preview)
    }),
    line(Method::POST, "/admin/v1/changes/{version}/restoration", ADMIN, || {
        post(changes::restore)
    }),
    line(
        Method::POST,
        "/pools/{pool}/endpoints/{address}/drain",
        OPERATOR,
        || post(pages::drain),
    ),
];

const fn line(method: Method, path: &'static str, need: Need, page: fn() -> MethodRouter<Console>) -> Route {
    Route {
        method,
        path,
        need,
        page,
    }
}
