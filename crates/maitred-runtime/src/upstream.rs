//! What a pool's endpoints are sent, and how a provider is reached.

use std::io;
use std::time::Duration;

use http::HeaderValue;
use maitred_config::{PoolSettings, ProviderSettings};
use maitred_types::Address;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::dial::dial;
use crate::tls::connector;

/// The key, and where it may be sent: one of settings, so that a reload never sends the key of one place to another.
#[derive(Debug)]
pub struct Upstream {
    credential: Option<HeaderValue>,
    provider: Option<Provider>,
}

/// How a hosted API is reached.
pub struct Provider {
    address: Address,
    settings: ProviderSettings,
    /// What makes connections with TLS, if that is wanted, or why there can be none.
    tls: Option<Result<TlsConnector, String>>,
}

impl std::fmt::Debug for Provider {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Provider")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

/// A connection to a provider.
#[derive(Debug)]
pub enum Connected {
    /// In clear text.
    Plain(TcpStream),
    /// With TLS, and the server's certificate checked.
    Tls(Box<TlsStream<TcpStream>>),
}

impl Upstream {
    pub(crate) fn new(settings: &PoolSettings) -> Self {
        let provider = settings.provider.as_ref().map(Provider::new);
        if let Some(Err(error)) = provider.as_ref().and_then(|provider| provider.tls.as_ref()) {
            tracing::error!(provider = %settings.name, error, "the provider cannot be connected to");
        }
        Self {
            credential: credential(settings),
            provider,
        }
    }

    /// What is sent as `Authorization`.
    #[must_use]
    pub const fn credential(&self) -> Option<&HeaderValue> {
        self.credential.as_ref()
    }

    /// The provider, if it is one.
    #[must_use]
    pub const fn provider(&self) -> Option<&Provider> {
        self.provider.as_ref()
    }
}

impl Provider {
    fn new(settings: &ProviderSettings) -> Self {
        Self {
            address: Address::from(settings.url.as_str()),
            tls: settings.url.is_tls().then(|| connector(settings.ca.as_deref())),
            settings: settings.clone(),
        }
    }

    /// Its URL, as the address of the pool's one endpoint.
    #[must_use]
    pub const fn address(&self) -> &Address {
        &self.address
    }

    /// Host and port as `Host` says them.
    #[must_use]
    pub fn authority(&self) -> &str {
        self.settings.url.authority()
    }

    /// Where a call to `path` goes there, query included: what stands after `/v1` in it is added to the URL's path.
    #[must_use]
    pub fn target(&self, path: &str, query: Option<&str>) -> String {
        let url = &self.settings.url;
        let rest = path.strip_prefix("/v1").unwrap_or(path);
        let mut target = [url.path(), rest].concat();
        let mut mark = '?';
        for query in [url.query(), query].into_iter().flatten() {
            target.push(mark);
            target.push_str(query);
            mark = '&';
        }
        target
    }

    /// Connects.
    ///
    /// # Errors
    /// When it cannot be reached, resolves to addresses that the configuration does not allow, or cannot show a certificate that is
    /// vouched for.
    pub async fn connect(&self) -> io::Result<Connected> {
        let url = &self.settings.url;
        let tls = match &self.tls {
            None => None,
            Some(Ok(tls)) => Some(tls),
            Some(Err(error)) => return Err(io::Error::other(error.clone())),
        };
        let stream = dial(url.host(), url.port(), self.settings.reach).await?;
        let Some(tls) = tls else {
            return Ok(Connected::Plain(stream));
        };
        let name = ServerName::try_from(url.host().to_owned()).map_err(io::Error::other)?;
        Ok(Connected::Tls(Box::new(tls.connect(name, stream).await?)))
    }

    /// Whether it can be connected to within `limit`.
    pub(crate) async fn answers(&self, limit: Duration) -> io::Result<()> {
        let connected = tokio::time::timeout(limit, self.connect()).await;
        connected.map_err(|_elapsed| io::ErrorKind::TimedOut)?.map(drop)
    }
}

fn credential(settings: &PoolSettings) -> Option<HeaderValue> {
    let secret = settings.api_key.as_ref()?;
    let mut value = HeaderValue::from_str(&format!("Bearer {}", secret.expose())).ok()?;
    value.set_sensitive(true);
    Some(value)
}

#[cfg(test)]
mod tests;
