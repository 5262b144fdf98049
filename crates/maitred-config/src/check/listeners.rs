//! Checks of `listeners` and `admin`.

use std::net::SocketAddr;

use super::Checker;
use crate::path::Path;
use crate::raw;
use crate::settings::{ListenerSettings, TlsFiles};

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
            if listener
                .tls
                .as_ref()
                .is_some_and(|tls| tls.client_required && tls.client_ca.is_none())
            {
                self.error(
                    &Path::top("listeners").index(index).key("tls").key("client_required"),
                    "no certificate of a client can be checked, so nobody could connect",
                    "name in `client_ca` who issues them",
                );
            }
        }
        let checked = listeners.iter().map(|listener| ListenerSettings {
            address: listener.address.get(),
            tls: listener.tls.as_ref().map(|tls| TlsFiles {
                cert: tls.cert.as_str().to_owned(),
                key: tls.key.as_str().to_owned(),
                client_ca: tls.client_ca.as_ref().map(|path| path.as_str().to_owned()),
                client_required: tls.client_required,
            }),
            max_concurrent_streams: listener.http2.max_concurrent_streams,
        });
        checked.collect()
    }

    pub(super) fn admin(&mut self, raw: &raw::File) -> SocketAddr {
        let admin = raw.admin.address.get();
        let path = Path::top("admin").key("address");
        if !is_loopback(admin) {
            self.error(
                &path,
                format!("the administrative listener cannot listen on {admin}: it has no keys, so whoever reaches it can drain endpoints"),
                "use a loopback address such as `127.0.0.1:9091`, and reach it by a tunnel or a proxy that authenticates",
            );
        }
        if admin.port() != 0 && raw.listeners.iter().any(|listener| listener.address.get() == admin) {
            self.error(
                &path,
                format!("{admin} is already one of `listeners`"),
                "the administrative listener needs an address of its own",
            );
        }
        admin
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

fn address(index: usize) -> Path {
    Path::top("listeners").index(index).key("address")
}

fn is_loopback(address: SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}
