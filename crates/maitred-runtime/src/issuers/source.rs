//! Reading an issuer's keys from where the configuration says they are.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, HOST, USER_AGENT};
use http::{HeaderValue, Request, StatusCode};
use http_body_util::Empty;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use maitred_config::{IssuerSettings, JwksLocation, Reach, WebUrl};
use maitred_tenant::KEY_SET_LEN_MAX;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;

use crate::dial::dial;
use crate::fetch::read_capped;
use crate::tls::{connector, read_at_most};

/// How long a server may take for its keys, all in all.
const TIMEOUT: Duration = Duration::from_secs(10);

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
                let fetched = tokio::time::timeout(TIMEOUT, fetch((url, self.settings.reach), self.tls.as_ref())).await;
                fetched.unwrap_or_else(|_elapsed| Err("no answer in time".to_owned()))
            }
        }
    }
}

/// The bytes of a file, up to what a key set may have and one more.
pub(super) fn read_file(path: &str) -> Result<Vec<u8>, String> {
    read_at_most(path, KEY_SET_LEN_MAX as u64 + 1)
}

async fn fetch((url, reach): (&WebUrl, Reach), tls: Option<&TlsConnector>) -> Result<Vec<u8>, String> {
    let broken = |error: std::io::Error| error.to_string();
    let stream = dial(url.host(), url.port(), reach).await.map_err(broken)?;
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
