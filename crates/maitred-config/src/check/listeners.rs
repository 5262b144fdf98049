//! Checks of `listeners` and `admin`.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use maitred_tenant::{Actor, ActorGrant, ActorProof, ActorRing, KeyHasher};

use super::Checker;
use super::issuers::certificate_name;
use crate::forms::Moment;
use crate::path::Path;
use crate::raw;
use crate::settings::{AdminSettings, ListenerSettings, TlsFiles};

impl Checker<'_> {
    pub(super) fn listeners(&mut self, listeners: &[raw::Listener]) -> Vec<ListenerSettings> {
        let fixed = listeners
            .iter()
            .enumerate()
            .filter(|(_, listener)| listener.address.get().port() != 0);
        self.unique(
            "listening address",
            fixed.map(|(index, listener)| (listener.address.get(), address(index))),
        );
        for (index, listener) in listeners.iter().enumerate() {
            self.client_required(listener.tls.as_ref(), &Path::top("listeners").index(index).key("tls"));
        }
        let checked = listeners.iter().map(|listener| ListenerSettings {
            address: listener.address.get(),
            tls: listener.tls.as_ref().map(tls_files),
            max_concurrent_streams: listener.http2.max_concurrent_streams,
        });
        checked.collect()
    }

    fn client_required(&mut self, tls: Option<&raw::Tls>, path: &Path) {
        if tls.is_some_and(|tls| tls.client_required && tls.client_ca.is_none()) {
            self.error(
                &path.key("client_required"),
                "no certificate of a client can be checked, so nobody could connect",
                "name in `client_ca` who issues them",
            );
        }
    }

    pub(super) fn admin(&mut self, raw: &raw::File, hasher: KeyHasher) -> AdminSettings {
        let admin = &raw.admin;
        let at = admin.address.get();
        let path = Path::top("admin").key("address");
        if !is_loopback(at) && admin.access.is_empty() {
            self.error(
                &path,
                format!("the administrative listener cannot listen on {at}: nobody is in `admin.access`, so whoever reaches it could drain endpoints"),
                "use a loopback address such as `127.0.0.1:9091`, or list in `admin.access` who may administer",
            );
        }
        if !is_loopback(at) && !admin.access.is_empty() && admin.tls.is_none() {
            self.warn(
                &path,
                format!("administrative tokens go over the network to {at} in clear text"),
                "add `admin.tls`, unless something in between encrypts",
            );
        }
        if at.port() != 0 && raw.listeners.iter().any(|listener| listener.address.get() == at) {
            self.error(
                &path,
                format!("{at} is already one of `listeners`"),
                "the administrative listener needs an address of its own",
            );
        }
        self.client_required(admin.tls.as_ref(), &Path::top("admin").key("tls"));
        self.access(raw);
        AdminSettings {
            address: at,
            access: ActorRing::new(hasher, admin.access.iter().filter_map(actor)),
            changes: admin.changes.as_ref().map(|path| path.as_str().to_owned()),
            tls: admin.tls.as_ref().map(tls_files),
        }
    }

    fn access(&mut self, raw: &raw::File) {
        let top = Path::top("admin").key("access");
        for (index, access) in raw.admin.access.iter().enumerate() {
            if let Some(expires) = access.expires {
                self.warn_from(
                    expires.get(),
                    &top.index(index).key("expires"),
                    format!(
                        "`{}` has expired at {expires} and administers nothing any more",
                        access.name
                    ),
                    "remove the entry, or make it valid for longer",
                );
            }
        }
        let hashes = raw.admin.access.iter().enumerate();
        let tokens = hashes.filter_map(|(index, access)| {
            let id = access.hash.as_ref()?.get().id().clone();
            Some((id, top.index(index).key("hash")))
        });
        // A key that makes calls too would be two things at once. What is twice among the keys is told there.
        let keys = Path::top("auth").key("keys");
        let callers = raw.auth.keys.iter().enumerate();
        let callers: BTreeMap<_, _> = callers
            .map(|(index, key)| (key.hash.get().id().clone(), keys.index(index).key("hash")))
            .collect();
        let all: Vec<_> = callers.into_iter().chain(tokens).collect();
        self.unique("token", all);
        let issues = raw.admin.tls.as_ref().is_some_and(|tls| tls.client_ca.is_some());
        for (index, access) in raw.admin.access.iter().enumerate() {
            let path = top.index(index);
            if access.hash.is_some() == access.certificate.is_some() {
                self.error(
                    &path,
                    format!("`{}` must show either a token or a certificate", access.name),
                    "write one of `hash` and `certificate`",
                );
            }
            if access.certificate.is_some() && !issues {
                self.error(
                    &path.key("certificate"),
                    "the administrative listener asks for no certificates",
                    "name in `admin.tls.client_ca` who issues them",
                );
            }
        }
    }

    /// No authentication, no service beyond loopback.
    pub(super) fn exposure(&mut self, raw: &raw::File) {
        if raw.auth.anonymous.is_none() {
            return;
        }
        for (index, listener) in raw.listeners.iter().enumerate() {
            let at = listener.address.get();
            if !is_loopback(at) {
                self.error(
                    &address(index),
                    format!("{at} can be reached from other machines, and `auth.anonymous` would let anyone in without a key"),
                    "remove `auth.anonymous` and list keys in `auth.keys` (`maitred keys new` makes one), or listen on `127.0.0.1`",
                );
            }
        }
    }
}

fn tls_files(tls: &raw::Tls) -> TlsFiles {
    TlsFiles {
        cert: tls.cert.as_str().to_owned(),
        key: tls.key.as_str().to_owned(),
        client_ca: tls.client_ca.as_ref().map(|path| path.as_str().to_owned()),
        client_required: tls.client_required,
    }
}

fn actor(access: &raw::Access) -> Option<ActorGrant> {
    let token = access.hash.as_ref().map(|hash| ActorProof::Token(hash.get().clone()));
    let certificate = || {
        access
            .certificate
            .as_ref()
            .map(certificate_name)
            .map(ActorProof::Certificate)
    };
    Some(ActorGrant {
        actor: Actor {
            name: access.name.as_str().into(),
            role: access.role.0,
        },
        proof: token.or_else(certificate)?,
        expires: access.expires.map(Moment::get),
    })
}

fn address(index: usize) -> Path {
    Path::top("listeners").index(index).key("address")
}

fn is_loopback(address: SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}
