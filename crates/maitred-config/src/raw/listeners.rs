//! `listeners` and `admin`.

use std::net::{Ipv4Addr, SocketAddr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use maitred_tenant::Role;

use super::access::CertificateName;
use super::word::Word;
use crate::forms::{FilePath, KeyHashText, Moment, Name, Socket};

pub(super) fn defaults() -> Vec<Listener> {
    vec![Listener {
        address: loopback(8080),
        tls: None,
        http2: Http2::default(),
    }]
}

fn loopback(port: u16) -> Socket {
    Socket::new(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
}

/// A socket that clients connect to, with HTTP/1.1 and HTTP/2.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Listener {
    /// Where to listen. Without keys (`auth.anonymous`) only loopback addresses are accepted.
    pub(crate) address: Socket,
    /// Certificate and private key; without them the listener speaks clear text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tls: Option<Tls>,
    /// Limits of HTTP/2 connections.
    #[serde(default)]
    pub(crate) http2: Http2,
}

/// Certificate and private key of a listener.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Tls {
    /// File with the certificate chain in PEM, the server's own certificate first.
    pub(crate) cert: FilePath,
    /// File with the private key in PEM.
    pub(crate) key: FilePath,
    /// File with the certificates in PEM of those who issue certificates of clients. What a client's certificate grants
    /// stands in `auth.certificates`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) client_ca: Option<FilePath>,
    /// Sends clients away that show no certificate. Otherwise they need a key or token.
    #[serde(default)]
    pub(crate) client_required: bool,
}

/// Limits of HTTP/2 connections.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Http2 {
    /// Most calls at one time on one connection.
    #[schemars(range(min = 1, max = 10_000))]
    pub(crate) max_concurrent_streams: u32,
}

impl Default for Http2 {
    fn default() -> Self {
        Self {
            max_concurrent_streams: 32,
        }
    }
}

/// The administrative listener.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Admin {
    /// Where to listen. Without `access` only a loopback address is accepted.
    pub(crate) address: Socket,
    /// Who may administer. If nobody is listed, whoever reaches the address has the role `operator`, and nobody changes keys.
    pub(crate) access: Vec<Access>,
    /// The file in which changes of keys, tenants and limits at run time are kept, on a disk that outlives the gateway. With
    /// `sharing`, gateways of one group share their changes. Without it nothing can be changed at run time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) changes: Option<FilePath>,
    /// Certificate and private key; without them the listener speaks clear text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tls: Option<Tls>,
}

/// One way in for somebody who administers: a token, or a client certificate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Access {
    /// The name under which the audit knows what was done so.
    pub(crate) name: Name,
    /// What may be done.
    pub(crate) role: Word<Role>,
    /// The hash that `maitred keys new` prints beside the token, which is sent as `Authorization: Bearer TOKEN`. It makes no calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-secret" = true))]
    pub(crate) hash: Option<KeyHashText>,
    /// The name in a client certificate, where `admin.tls.client_ca` says who issues them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) certificate: Option<CertificateName>,
    /// When this ceases to be valid: a date (its first instant in UTC) or a time with an offset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) expires: Option<Moment>,
}

impl Default for Admin {
    fn default() -> Self {
        Self {
            address: loopback(9091),
            access: Vec::new(),
            changes: None,
            tls: None,
        }
    }
}
