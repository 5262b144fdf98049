//! Calls in closed loop: each connection sends the next one as soon as it has the answer to the last.

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::clock::now_ns;
use crate::wire::{Framed, status};

/// What one phase of load gave.
#[derive(Clone, Debug, Default)]
pub(crate) struct Calls {
    /// Time of each call in nanoseconds, sorted.
    pub(crate) times_ns: Vec<u64>,
    /// Answers other than 200.
    pub(crate) refused: u64,
    /// One of them, for whoever wonders.
    pub(crate) example: Option<String>,
}

/// What the connections of one phase have in common.
struct Phase {
    address: SocketAddr,
    request: Vec<u8>,
    /// The clock's reading at which the last call begins.
    until_ns: Cell<u64>,
}

/// Sends `request` over `connections` connections for `duration`.
pub(crate) async fn run(
    address: SocketAddr,
    request: &[u8],
    connections: usize,
    duration: Duration,
) -> anyhow::Result<Calls> {
    let length = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    let phase = Rc::new(Phase {
        address,
        request: request.to_vec(),
        until_ns: Cell::new(now_ns().saturating_add(length)),
    });
    let local = tokio::task::LocalSet::new();
    let mut tasks = JoinSet::new();
    for _ in 0..connections {
        tasks.spawn_local_on(connection(Rc::clone(&phase)), &local);
    }
    let mut total = Calls::default();
    local
        .run_until(async {
            while let Some(calls) = tasks.join_next().await {
                let calls = calls??;
                total.times_ns.extend_from_slice(&calls.times_ns);
                total.refused += calls.refused;
                total.example = total.example.take().or(calls.example);
            }
            anyhow::Ok(())
        })
        .await?;
    total.times_ns.sort_unstable();
    Ok(total)
}

async fn connection(phase: Rc<Phase>) -> anyhow::Result<Calls> {
    let mut stream = TcpStream::connect(phase.address).await.context("no connection")?;
    stream.set_nodelay(true)?;
    let mut calls = Calls::default();
    let mut buffer = Vec::with_capacity(64 << 10);
    loop {
        let began = now_ns();
        if began >= phase.until_ns.get() {
            return Ok(calls);
        }
        stream.write_all(&phase.request).await?;
        let end = answer(&mut stream, &mut buffer).await?;
        calls.times_ns.push(now_ns() - began);
        if status(&buffer) != 200 {
            calls.refused += 1;
            calls.example = Some(String::from_utf8_lossy(buffer.get(..end).unwrap_or_default()).into_owned());
        }
        buffer.drain(..end);
    }
}

/// Reads until a whole answer is in the buffer and says where it ends.
async fn answer(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> anyhow::Result<usize> {
    loop {
        if let Some(end) = Framed::of(buffer).and_then(|framed| framed.end(buffer)) {
            return Ok(end);
        }
        if stream.read_buf(buffer).await? == 0 {
            bail!(
                "the connection closed before an answer: {}",
                String::from_utf8_lossy(buffer)
            );
        }
    }
}

/// The value at `share` (0 to 1) of a sorted list, in microseconds.
pub(crate) fn percentile_us(sorted_ns: &[u64], share: f64) -> f64 {
    let last = sorted_ns.len().saturating_sub(1);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of an index is an index"
    )]
    let at = (share * last as f64).round() as usize;
    sorted_ns.get(at).map_or(0.0, |time| *time as f64 / 1_000.0)
}
