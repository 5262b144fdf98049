//! Addresses: where maitred listens, and where endpoints do.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use maitred_types::Address;

use super::TextForm;

/// An IP address and port to listen on: `127.0.0.1:8080`, `[::1]:8080`. Port 0 lets the system choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Socket(SocketAddr);

impl Socket {
    pub(crate) const fn new(address: SocketAddr) -> Self {
        Self(address)
    }

    /// The address.
    #[must_use]
    pub(crate) const fn get(self) -> SocketAddr {
        self.0
    }
}

impl TextForm for Socket {
    const FORMAT: &'static str = "maitred-socket";
    const TYPE: &'static str = "IP address and port";
    const EXAMPLE: &'static str = "127.0.0.1:8080";

    fn read(text: &str) -> Result<Self, String> {
        if let Some(port) = text.strip_prefix("localhost:") {
            return Err(format!(
                "to listen needs an IP address, not a name; write `127.0.0.1:{port}`"
            ));
        }
        if text.parse::<IpAddr>().is_ok() {
            return Err("the port is missing; write `ADDRESS:PORT`".to_owned());
        }
        text.parse().map(Self).map_err(|_| {
            "to listen needs an IP address and a port, such as `127.0.0.1:8080` or `[::1]:8080`".to_owned()
        })
    }
}

impl fmt::Display for Socket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Where an endpoint listens: `10.0.0.5:8000`, `vllm-0.internal:8000`, `[fd00::5]:8000`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostPort(String);

impl HostPort {
    /// The address.
    #[must_use]
    pub(crate) fn get(&self) -> Address {
        Address::from(self.0.as_str())
    }

    /// The IP address, if that stands in the place of a name.
    pub(crate) fn ip(&self) -> Option<IpAddr> {
        let (host, _) = self.0.rsplit_once(':')?;
        host.trim_start_matches('[').trim_end_matches(']').parse().ok()
    }
}

impl TextForm for HostPort {
    const FORMAT: &'static str = "maitred-host-port";
    const TYPE: &'static str = "host and port";
    const EXAMPLE: &'static str = "10.0.0.5:8000";

    fn read(text: &str) -> Result<Self, String> {
        if let Some((scheme, rest)) = text.split_once("://") {
            return Err(match scheme {
                "http" => {
                    let authority = rest.split('/').next().unwrap_or(rest);
                    format!("an address has neither scheme nor path; write `{authority}`")
                }
                _ => "an address has no scheme; endpoints are spoken to in clear-text HTTP/1.1, so put TLS to an endpoint into a sidecar".to_owned(),
            });
        }
        let (host, port) = text.rsplit_once(':').ok_or("the port is missing; write `HOST:PORT`")?;
        check_port(port)?;
        check_host(host)?;
        Ok(Self(format!("{host}:{port}")))
    }
}

pub(super) fn check_port(port: &str) -> Result<(), String> {
    let is_number = port.bytes().all(|byte| byte.is_ascii_digit());
    match port.parse::<u16>() {
        Ok(number) if is_number && number > 0 => Ok(()),
        _ => Err("the port is a number from 1 to 65535".to_owned()),
    }
}

pub(super) fn check_host(host: &str) -> Result<(), String> {
    if let Some(inner) = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        return match inner.parse::<Ipv6Addr>() {
            Ok(_) => Ok(()),
            Err(_) => Err(format!("`{inner}` is not an IPv6 address")),
        };
    }
    check_host_name(host)
}

/// Whether `host` may be a host name or an IPv4 address (RFC 1123, section 2.1; underscores are met in container names).
fn check_host_name(host: &str) -> Result<(), String> {
    if host.contains(':') {
        return Err("an IPv6 address stands in brackets, such as `[fd00::5]:8000`".to_owned());
    }
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    };
    let name = host.strip_suffix('.').unwrap_or(host);
    if host.len() > 253 || !name.split('.').all(label) {
        return Err(format!("`{host}` is neither a host name nor an IP address"));
    }
    if ends_in_number(name) && host.parse::<Ipv4Addr>().is_err() {
        return Err(format!(
            "`{host}` is no host name, and resolvers disagree about which IP address it is; write it as four numbers from 0 to 255"
        ));
    }
    Ok(())
}

/// Whether resolvers may take it for an IPv4 address, such as `127.1`, `0x7f000001` or `2130706433`.
fn ends_in_number(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or_default();
    let is_hexadecimal = || {
        let digits = last.strip_prefix("0x").or_else(|| last.strip_prefix("0X"));
        digits.is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
    };
    last.bytes().all(|byte| byte.is_ascii_digit()) || is_hexadecimal()
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A name to look up in DNS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostName(String);

impl HostName {
    /// The name.
    #[must_use]
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl TextForm for HostName {
    const FORMAT: &'static str = "maitred-host-name";
    const TYPE: &'static str = "host name";
    const EXAMPLE: &'static str = "vllm.inference.svc.cluster.local";

    fn read(text: &str) -> Result<Self, String> {
        if text.contains("://") || text.contains(':') {
            return Err("only the name; the port has an option of its own".to_owned());
        }
        check_host_name(text)?;
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
