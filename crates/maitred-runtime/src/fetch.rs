//! The gateway's own small requests to endpoints: metrics pages, health, models, one-token inferences.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::Pin;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT_ENCODING, AUTHORIZATION, CONTENT_TYPE, HOST};
use http::{HeaderValue, Method, Request, StatusCode};
use http_body::Body;
use http_body_util::Full;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use maitred_types::Address;

use crate::dial::resolved;

/// How long a connection is kept for the next request. uvicorn closes idle ones after five seconds.
const IDLE: Duration = Duration::from_secs(4);

/// Makes requests with a limit on time and size.
#[derive(Clone, Debug)]
pub(crate) struct Fetcher {
    client: Client<HttpConnector, Full<Bytes>>,
    /// What answers instead of the network, so that a test can let hours pass.
    #[cfg(test)]
    pub(crate) instead: Option<std::sync::Arc<crate::testing::Endpoints>>,
}

/// What is asked of an endpoint.
#[derive(Clone, Debug)]
pub(crate) struct Ask<'a> {
    pub(crate) address: &'a Address,
    pub(crate) path: &'a str,
    /// A JSON body; its presence makes the request a POST.
    pub(crate) body: Option<Bytes>,
    pub(crate) credential: Option<&'a HeaderValue>,
    pub(crate) timeout: Duration,
    /// Largest answer that is read, in bytes.
    pub(crate) cap: usize,
}

/// An endpoint's answer.
#[derive(Clone, Debug)]
pub(crate) struct Fetched {
    pub(crate) status: StatusCode,
    pub(crate) body: Bytes,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FetchError {
    /// Nobody listens at the address.
    Refused(String),
    /// It took longer than the limit.
    Timeout,
    /// The answer is larger than the cap.
    TooLarge,
    /// The connection or the answer is broken.
    Broken(String),
}

impl FetchError {
    /// The word for metrics.
    pub(crate) const fn label(&self) -> &'static str {
        match self {
            Self::Refused(_) => "refused",
            Self::Timeout => "timeout",
            Self::TooLarge => "too_large",
            Self::Broken(_) => "broken",
        }
    }
}

impl std::fmt::Display for FetchError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Refused(why) => write!(f, "connection refused: {why}"),
            Self::Timeout => f.write_str("no answer in time"),
            Self::TooLarge => f.write_str("the answer is too large"),
            Self::Broken(why) => write!(f, "broken answer: {why}"),
        }
    }
}

impl Fetcher {
    pub(crate) fn new() -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(2)
            .build(connector);
        Self {
            client,
            #[cfg(test)]
            instead: None,
        }
    }

    /// Asks, and reads the whole answer.
    pub(crate) async fn fetch(&self, ask: Ask<'_>) -> Result<Fetched, FetchError> {
        #[cfg(test)]
        if let Some(instead) = &self.instead {
            return instead.answer(&ask);
        }
        let exchange = async {
            // The look-up is here, and not in the client, so that what is connected to is what was judged.
            let at = resolved(ask.address.as_str()).await;
            let at = at.map_err(|error| FetchError::Refused(error.to_string()))?;
            let request = ask.request(at);
            let request = request.map_err(|error| FetchError::Broken(error.to_string()))?;
            let response = self.client.request(request).await.map_err(|error| {
                if error.is_connect() {
                    FetchError::Refused(chain(&error))
                } else {
                    FetchError::Broken(chain(&error))
                }
            })?;
            let (head, body) = response.into_parts();
            let body = read_capped(body, ask.cap).await?;
            Ok(Fetched {
                status: head.status,
                body,
            })
        };
        tokio::time::timeout(ask.timeout, exchange)
            .await
            .unwrap_or(Err(FetchError::Timeout))
    }
}

impl Ask<'_> {
    fn request(&self, at: SocketAddr) -> http::Result<Request<Full<Bytes>>> {
        let mut request = Request::builder()
            .uri(format!("http://{at}{}", self.path))
            .header(HOST, self.address.as_str())
            .header(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        if let Some(credential) = self.credential {
            request = request.header(AUTHORIZATION, credential.clone());
        }
        match &self.body {
            None => request.method(Method::GET).body(Full::default()),
            Some(body) => request
                .method(Method::POST)
                .header(CONTENT_TYPE, HeaderValue::from_static("application/json"))
                .body(Full::new(body.clone())),
        }
    }
}

pub(crate) async fn read_capped(mut body: hyper::body::Incoming, cap: usize) -> Result<Bytes, FetchError> {
    let mut whole = BytesMut::new();
    while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        let frame = frame.map_err(|error| FetchError::Broken(chain(&error)))?;
        if let Ok(data) = frame.into_data() {
            if whole.len() + data.len() > cap {
                return Err(FetchError::TooLarge);
            }
            whole.extend_from_slice(&data);
        }
    }
    Ok(whole.freeze())
}

/// An error with its causes, which hyper's own text leaves out.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
