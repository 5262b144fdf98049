//! Addresses: where maitred listens, and where endpoints do.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use maitred_types::Address;

use super::TextForm;

/// Longest URL, in bytes.
const URL_LEN_MAX: usize = 2048;

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

fn check_port(port: &str) -> Result<(), String> {
    let is_number = port.bytes().all(|byte| byte.is_ascii_digit());
    match port.parse::<u16>() {
        Ok(number) if is_number && number > 0 => Ok(()),
        _ => Err("the port is a number from 1 to 65535".to_owned()),
    }
}

fn check_host(host: &str) -> Result<(), String> {
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
    if host.len() <= 253 && name.split('.').all(label) {
        Ok(())
    } else {
        Err(format!("`{host}` is neither a host name nor an IP address"))
    }
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

/// A URL of a file on a server: `https://HOST/PATH`, or `http://` for servers on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebUrl {
    text: String,
    host: String,
    port: u16,
    path_at: usize,
}

impl WebUrl {
    /// Whether it is spoken to with TLS.
    #[must_use]
    pub fn is_tls(&self) -> bool {
        self.text.starts_with("https://")
    }

    /// The server's name or IP address, without brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        self.host.trim_start_matches('[').trim_end_matches(']')
    }

    /// The server's port.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Host and port as they stand in the URL.
    #[must_use]
    pub fn authority(&self) -> &str {
        let start = if self.is_tls() {
            "https://".len()
        } else {
            "http://".len()
        };
        self.text.get(start..self.path_at).unwrap_or_default()
    }

    /// Path and query.
    #[must_use]
    pub fn path(&self) -> &str {
        match self.text.get(self.path_at..) {
            None | Some("") => "/",
            Some(path) => path,
        }
    }

    /// The URL.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl TextForm for WebUrl {
    const FORMAT: &'static str = "maitred-url";
    const TYPE: &'static str = "URL";
    const EXAMPLE: &'static str = "https://login.example.com/.well-known/jwks.json";

    fn read(text: &str) -> Result<Self, String> {
        let (rest, port) = match (text.strip_prefix("https://"), text.strip_prefix("http://")) {
            (Some(rest), _) => (rest, 443),
            (_, Some(rest)) => (rest, 80),
            _ => return Err("a URL begins with `https://`".to_owned()),
        };
        if text.len() > URL_LEN_MAX || !text.bytes().all(|byte| byte.is_ascii_graphic()) || text.contains('#') {
            return Err(format!(
                "a URL has at most {URL_LEN_MAX} visible ASCII characters, and no `#`"
            ));
        }
        let length = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(length);
        if path.starts_with('?') {
            return Err("a path begins with `/`".to_owned());
        }
        if authority.contains('@') {
            return Err("a URL with a password in it ends up where passwords should not be; leave it out".to_owned());
        }
        let is_bare = authority.ends_with(']') || !authority.contains(':');
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !is_bare => {
                check_port(port)?;
                (host, port.parse().unwrap_or(0))
            }
            _ => (authority, port),
        };
        check_host(host)?;
        if text.starts_with("http://") && !is_loopback_host(host) {
            return Err(
                "without TLS whoever is on the way could put other keys in place of the issuer's; write `https://`"
                    .to_owned(),
            );
        }
        Ok(Self {
            host: host.to_owned(),
            port,
            path_at: text.len() - path.len(),
            text: text.to_owned(),
        })
    }
}

fn is_loopback_host(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost"
        || bare
            .parse::<IpAddr>()
            .is_ok_and(|address| address.to_canonical().is_loopback())
}

impl fmt::Display for WebUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
