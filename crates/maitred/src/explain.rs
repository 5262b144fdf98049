//! `maitred explain`: asks a running gateway why a call went where it went, and says it in sentences.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use bytes::Bytes;
use clap::Args;
use http::{Request, StatusCode, Uri};
use http_body_util::{BodyExt, Empty, Limited};
use hyper_util::rt::TokioIo;
use maitred_obs::DecisionRecord;
use tokio::net::TcpStream;

/// How long the gateway may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Largest answer that is read, in bytes. A record of several attempts takes some kilobytes.
const ANSWER_MAX: usize = 4 << 20;

/// Options of `maitred explain`.
#[derive(Args, Debug)]
pub(crate) struct ExplainArgs {
    /// The call's id: its header `x-request-id`, also in the answer and in the access record.
    #[arg(value_name = "REQUEST_ID")]
    request_id: String,
    /// The gateway's administrative listener.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:9091")]
    admin: Uri,
    /// Print the record as JSON.
    #[arg(long)]
    json: bool,
}

/// Asks and prints. A call that the gateway knows nothing of is a failure.
pub(crate) fn run(args: &ExplainArgs) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let fetched = runtime.block_on(async { tokio::time::timeout(PATIENCE, fetch(args)).await });
    let (status, body) = match fetched {
        Ok(fetched) => fetched?,
        Err(_elapsed) => bail!("the gateway at {} does not answer", args.admin),
    };
    if status != StatusCode::OK {
        bail!("call {}: {}", args.request_id, problem(status, &body));
    }
    let record: DecisionRecord = serde_json::from_slice(&body).context("the gateway's answer is no decision record")?;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&record)?);
    } else {
        print!("{record}");
    }
    Ok(ExitCode::SUCCESS)
}

async fn fetch(args: &ExplainArgs) -> anyhow::Result<(StatusCode, Bytes)> {
    let Some(authority) = args.admin.authority() else {
        bail!("`{}` names no host; write it as `http://127.0.0.1:9091`", args.admin);
    };
    if args.admin.scheme_str().is_some_and(|scheme| scheme != "http") {
        bail!("the administrative listener speaks http, not {}", args.admin);
    }
    let (host, port) = (authority.host(), authority.port_u16().unwrap_or(80));
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let socket = TcpStream::connect((bare, port)).await;
    let socket = socket.with_context(|| format!("cannot reach the gateway at {host}:{port}; see --admin"))?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(socket)).await?;
    let request = Request::get(format!("/admin/v1/decisions/{}", in_path(&args.request_id)))
        .header(http::header::HOST, authority.as_str())
        .body(Empty::<Bytes>::new())?;
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

/// What the gateway says is wrong.
fn problem(status: StatusCode, body: &[u8]) -> String {
    let body: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    match body["error"].as_str() {
        Some(error) => error.to_owned(),
        None => format!("the gateway answers {status}"),
    }
}

/// Text as one segment of a path (RFC 3986, section 2.3).
fn in_path(text: &str) -> String {
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
