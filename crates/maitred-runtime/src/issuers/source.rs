//! Reading an issuer's keys from where the configuration says they are.

use std::fs::File;
use std::future::{Future, poll_fn};
use std::io::Read as _;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, HOST, USER_AGENT};
use http::{HeaderValue, Request, StatusCode};
use http_body_util::Empty;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use maitred_config::{IssuerSettings, JwksLocation, WebUrl};
use maitred_tenant::KEY_SET_LEN_MAX;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::fetch::read_capped;

/// How long a server may take for its keys, all in all.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Most bytes of certificates that are read of a file.
const CA_LEN_MAX: u64 = 4 << 20;

/// Where keys come from.
pub(super) struct Source<'a> {
    settings: &'a IssuerSettings,
    tls: Option<TlsConnector>,
}

impl<'a> Source<'a> {
    pub(super) const fn new(settings: &'a IssuerSettings) -> Self {
        Self { settings, tls: None }
    }

    /// The bytes that are there now.
    pub(super) async fn read(&mut self) -> Result<Vec<u8>, String> {
        match &self.settings.jwks {
            JwksLocation::File(path) => read_file(path),
            JwksLocation::Url(url) => {
                if url.is_tls() && self.tls.is_none() {
                    self.tls = Some(connector(self.settings.ca.as_deref())?);
                }
                let fetched = tokio::time::timeout(TIMEOUT, fetch(url, self.tls.as_ref())).await;
                fetched.unwrap_or_else(|_elapsed| Err("no answer in time".to_owned()))
            }
        }
    }
}

/// The bytes of a file, up to what a key set may have and one more.
pub(super) fn read_file(path: &str) -> Result<Vec<u8>, String> {
    read_at_most(path, KEY_SET_LEN_MAX as u64 + 1)
}

fn read_at_most(path: &str, most: u64) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(most).read_to_end(&mut bytes));
    read.map_err(|error| format!("{path}: {error}"))?;
    Ok(bytes)
}

fn connector(ca: Option<&str>) -> Result<TlsConnector, String> {
    let mut roots = RootCertStore::empty();
    match ca {
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
        Some(path) => {
            let pem = read_at_most(path, CA_LEN_MAX)?;
            for certificate in CertificateDer::pem_slice_iter(&pem) {
                let certificate = certificate.map_err(|error| format!("{path}: {error}"))?;
                roots.add(certificate).map_err(|error| format!("{path}: {error}"))?;
            }
        }
    }
    if roots.is_empty() {
        return Err("there are no certificates of those who may vouch for the server".to_owned());
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

async fn fetch(url: &WebUrl, tls: Option<&TlsConnector>) -> Result<Vec<u8>, String> {
    let broken = |error: std::io::Error| error.to_string();
    let stream = TcpStream::connect((url.host(), url.port())).await.map_err(broken)?;
    match tls.filter(|_| url.is_tls()) {
        None => exchange(url, stream).await,
        Some(tls) => {
            let name = ServerName::try_from(url.host().to_owned()).map_err(|error| error.to_string())?;
            exchange(url, tls.connect(name, stream).await.map_err(broken)?).await
        }
    }
}

/// Asks and reads the answer, over a connection of its own. An answer that sends elsewhere is an error like any other.
async fn exchange<S>(url: &WebUrl, stream: S) -> Result<Vec<u8>, String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let broken = |error: hyper::Error| error.to_string();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
    let request = Request::get(url.path())
        .header(HOST, url.authority())
        .header(ACCEPT, HeaderValue::from_static("application/json"))
        .header(USER_AGENT, HeaderValue::from_static("maitred"))
        .body(Empty::<Bytes>::new())
        .map_err(|error| error.to_string())?;
    let answer = async move {
        let response = sender.send_request(request).await.map_err(broken)?;
        if response.status() != StatusCode::OK {
            return Err(format!("the answer is {}", response.status()));
        }
        let body = read_capped(response.into_body(), KEY_SET_LEN_MAX).await;
        body.map(|body| body.to_vec()).map_err(|error| error.to_string())
    };
    driven(connection, answer).await
}

/// Runs `answer` while `connection` moves its bytes.
async fn driven<T>(connection: impl Future, answer: impl Future<Output = T>) -> T {
    let (mut connection, mut answer) = (pin!(connection), pin!(answer));
    let mut is_over = false;
    poll_fn(|cx| {
        if !is_over {
            is_over = connection.as_mut().poll(cx).is_ready();
        }
        match answer.as_mut().poll(cx) {
            // What was asked for last may be what the connection waits for.
            Poll::Pending if !is_over => {
                is_over = connection.as_mut().poll(cx).is_ready();
                if is_over {
                    answer.as_mut().poll(cx)
                } else {
                    Poll::Pending
                }
            }
            polled => polled,
        }
    })
    .await
}
