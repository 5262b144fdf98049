//! URLs: of files on servers, and of hosted APIs.

use std::fmt;
use std::net::IpAddr;

use super::TextForm;
use super::address::{check_host, check_port};

/// Longest URL, in bytes.
const URL_LEN_MAX: usize = 2048;

/// A URL of a file on a server: `https://HOST/PATH`, or `http://` for servers on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebUrl {
    text: String,
    host: String,
    port: u16,
    path_at: usize,
}

impl WebUrl {
    /// Reads a URL of either scheme.
    fn parse(text: &str) -> Result<Self, String> {
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
        Ok(Self {
            host: host.to_owned(),
            port,
            path_at: text.len() - path.len(),
            text: text.to_owned(),
        })
    }

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

    /// The server's IP address, if that stands in the place of a name.
    #[must_use]
    pub fn ip(&self) -> Option<IpAddr> {
        self.host().parse().ok()
    }

    /// Whether it names this machine, by `localhost` or by a loopback address.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        self.host == "localhost" || self.ip().is_some_and(|address| address.to_canonical().is_loopback())
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
        let url = Self::parse(text)?;
        if !url.is_tls() && !url.is_loopback() {
            return Err(
                "without TLS whoever is on the way could put other keys in place of the issuer's; write `https://`"
                    .to_owned(),
            );
        }
        Ok(url)
    }
}

impl fmt::Display for WebUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Where a hosted API begins, as its SDKs want it: `https://HOST/v1`. What stands after `/v1` in a call's path is added to its path;
/// a query stays at the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseUrl(WebUrl);

impl BaseUrl {
    /// Whether it is spoken to with TLS.
    #[must_use]
    pub fn is_tls(&self) -> bool {
        self.0.is_tls()
    }

    /// Whether it names this machine, by `localhost` or by a loopback address.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        self.0.is_loopback()
    }

    /// The server's name or IP address, without brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        self.0.host()
    }

    /// The server's IP address, if that stands in the place of a name.
    #[must_use]
    pub fn ip(&self) -> Option<IpAddr> {
        self.0.ip()
    }

    /// The server's port.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.0.port()
    }

    /// Host and port as they stand in the URL, for `Host`.
    #[must_use]
    pub fn authority(&self) -> &str {
        self.0.authority()
    }

    /// The path without a slash at its end; empty for the root.
    #[must_use]
    pub fn path(&self) -> &str {
        let path = self.0.path();
        let path = path.split_once('?').map_or(path, |(path, _)| path);
        path.trim_end_matches('/')
    }

    /// The query, if there is one.
    #[must_use]
    pub fn query(&self) -> Option<&str> {
        self.0.path().split_once('?').map(|(_, query)| query)
    }

    /// The URL.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl TextForm for BaseUrl {
    const FORMAT: &'static str = "maitred-base-url";
    const TYPE: &'static str = "URL";
    const EXAMPLE: &'static str = "https://api.example.com/v1";

    fn read(text: &str) -> Result<Self, String> {
        let url = WebUrl::parse(text)?;
        let path = url.path();
        let path = path.split_once('?').map_or(path, |(path, _)| path);
        if path.split('/').any(|segment| matches!(segment, "." | "..")) {
            return Err("a path has no segments `.` and `..`".to_owned());
        }
        if path.ends_with("/chat/completions") {
            return Err("only where the API begins, up to `/v1`; the path of each call is added".to_owned());
        }
        Ok(Self(url))
    }
}

impl fmt::Display for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
