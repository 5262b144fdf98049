//! Asking the administrative listener of a running gateway.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use bytes::Bytes;
use clap::Args;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use http::{Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// How long the gateway may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Largest answer that is read, in bytes.
const ANSWER_MAX: usize = 16 << 20;
/// What is wrong with a token that no header can carry.
pub(crate) const UNSENDABLE: &str = "the token is not one that can be sent";
/// Where the token is looked for if nobody says where it is.
const TOKEN: &str = "MAITRED_ADMIN_TOKEN";

/// Where the gateway is, and what is shown to it.
#[derive(Args, Clone, Debug)]
pub(crate) struct AdminArgs {
    /// The gateway's administrative listener.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:9091")]
    admin: Uri,
    #[command(flatten)]
    credentials: Credentials,
}

/// What is shown to the administrative listener, and who vouches for it.
#[derive(Args, Clone, Debug)]
pub(crate) struct Credentials {
    /// The environment variable with the administrative token.
    #[arg(long, value_name = "VARIABLE", default_value = TOKEN, conflicts_with = "token_file")]
    token_env: String,
    /// The file with the administrative token.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// With `https`: a file with the certificates in PEM of those who vouch for the gateway.
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
}

impl AdminArgs {
    /// Asks for `path`, with a body if there is one, and gives what came. What is not a success is an error in the gateway's words.
    pub(crate) fn ask(&self, method: Method, path: &str, body: Option<&Value>) -> anyhow::Result<Value> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let peer = self.credentials.peer(self.admin.clone())?;
        runtime.block_on(peer.ask(method, path, body))
    }
}

impl Credentials {
    /// The administrative listener at `uri`, with these credentials.
    pub(crate) fn peer(&self, uri: Uri) -> anyhow::Result<Peer> {
        Ok(Peer {
            uri,
            ca: self.ca.clone(),
            token: self.token()?,
        })
    }

    /// The token in this file.
    pub(crate) fn in_file(path: &Path) -> Self {
        Self {
            token_env: TOKEN.to_owned(),
            token_file: Some(path.to_owned()),
            ca: None,
        }
    }

    fn token(&self) -> anyhow::Result<Option<String>> {
        if let Some(path) = &self.token_file {
            let token = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
            return Ok(Some(token.trim().to_owned()));
        }
        #[expect(
            clippy::disallowed_methods,
            reason = "the caller names the variable; this is the edge"
        )]
        match std::env::var(&self.token_env) {
            Ok(token) => Ok(Some(token)),
            Err(_) if self.token_env == TOKEN => Ok(None),
            Err(error) => bail!("the environment variable `{}`: {error}", self.token_env),
        }
    }
}

/// Somebody who answers over HTTP, and what is shown there.
#[derive(Clone)]
pub(crate) struct Peer {
    /// Where.
    pub(crate) uri: Uri,
    /// With `https`: who vouches; those of the system if nobody is named.
    pub(crate) ca: Option<PathBuf>,
    /// The bearer token.
    pub(crate) token: Option<String>,
}

impl Peer {
    /// Asks for `path` and gives what came. What is not a success is an error in the other's words.
    pub(crate) async fn ask(&self, method: Method, path: &str, body: Option<&Value>) -> anyhow::Result<Value> {
        let (status, body) = self.send(method, path, body).await?;
        if !status.is_success() {
            bail!(problem(status, &body));
        }
        serde_json::from_slice(&body)
            .context("the gateway's answer is not what this command knows; are their versions the same?")
    }

    /// Asks for `path` and gives what came, whatever it is.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<(StatusCode, Bytes)> {
        let exchange = async {
            let mut request = self.request(method, path)?;
            if body.is_some() {
                request = request.header(CONTENT_TYPE, "application/json");
            }
            let body = body.map_or_else(Bytes::new, |body| Bytes::from(body.to_string()));
            let request = request.body(Full::new(body)).context(UNSENDABLE)?;
            send(self.connect().await?, request).await
        };
        match tokio::time::timeout(PATIENCE, exchange).await {
            Ok(answer) => answer,
            Err(_elapsed) => bail!("the gateway at {} does not answer", self.uri),
        }
    }

    /// The beginning of a request for `path`, with the token.
    pub(crate) fn request(&self, method: Method, path: &str) -> anyhow::Result<http::request::Builder> {
        let Some(authority) = self.uri.authority() else {
            bail!("`{}` names no host; write it as `http://127.0.0.1:9091`", self.uri);
        };
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, authority.as_str());
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        Ok(request)
    }

    /// A new connection.
    pub(crate) async fn connect(&self) -> anyhow::Result<Box<dyn Stream>> {
        let tls = match self.uri.scheme_str() {
            None | Some("http") => None,
            Some("https") => Some(trusting(self.ca.as_deref())?),
            Some(other) => bail!("the gateway speaks http or https, not {other}"),
        };
        let host = self.uri.host().unwrap_or_default();
        let port = self.uri.port_u16().unwrap_or(if tls.is_some() { 443 } else { 80 });
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let socket = TcpStream::connect((bare, port)).await;
        let socket = socket.with_context(|| format!("cannot reach the gateway at {host}:{port}; see --admin"))?;
        let Some(tls) = tls else { return Ok(Box::new(socket)) };
        let name = ServerName::try_from(bare.to_owned()).context("the host is no name that a certificate can have")?;
        let connected = TlsConnector::from(Arc::new(tls)).connect(name, socket).await;
        Ok(Box::new(
            connected.context("the gateway could not show who it is; see --ca")?,
        ))
    }
}

/// Something that bytes go over.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

async fn send(stream: Box<dyn Stream>, request: Request<Full<Bytes>>) -> anyhow::Result<(StatusCode, Bytes)> {
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let exchange = async {
        let response = sender.send_request(request).await?;
        let status = response.status();
        #[expect(clippy::disallowed_methods, reason = "the body is capped")]
        let body = Limited::new(response.into_body(), ANSWER_MAX).collect().await;
        let body = body.map_err(|error| anyhow::anyhow!("the gateway's answer broke off: {error}"))?;
        anyhow::Ok((status, body.to_bytes()))
    };
    // The connection is driven as long as the exchange needs it.
    let mut exchange = std::pin::pin!(exchange);
    tokio::select! {
        biased;
        fetched = &mut exchange => fetched,
        ended = connection => {
            ended?;
            exchange.await
        }
    }
}

fn trusting(ca: Option<&Path>) -> anyhow::Result<ClientConfig> {
    crate::tls::install_provider();
    let mut roots = RootCertStore::empty();
    match ca {
        Some(file) => {
            let unreadable = || format!("cannot read the certificates in {}", file.display());
            for certificate in CertificateDer::pem_file_iter(file).with_context(unreadable)? {
                roots
                    .add(certificate.with_context(unreadable)?)
                    .with_context(unreadable)?;
            }
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    Ok(ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth())
}

/// What the gateway says is wrong.
fn problem(status: StatusCode, body: &[u8]) -> String {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    match body["error"].as_str() {
        Some(error) => error.to_owned(),
        None => format!("the gateway answers {status}"),
    }
}

/// Text as one segment of a path (RFC 3986, section 2.3).
pub(crate) fn in_path(text: &str) -> String {
    let mut path = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => path.push(char::from(byte)),
            other => path.push_str(&format!("%{other:02X}")),
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_cannot_leave_its_segment() {
        assert_eq!(in_path("abc-1.2_~"), "abc-1.2_~");
        assert_eq!(in_path("../metrics?a#b%"), "..%2Fmetrics%3Fa%23b%25");
    }
}
