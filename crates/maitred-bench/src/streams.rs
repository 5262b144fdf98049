//! Many streams at once, each with a steady trickle of events.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use memchr::memmem;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::{JoinSet, LocalSet};

use crate::clock::now_ns;
use crate::process::{Cost, cost_of};
use crate::systems::System;
use crate::upstream::{STAMP, Upstream};

/// Streams opened at a time, so that the opening is no stampede.
const OPENED_AT_A_TIME: u32 = 50;
/// How long opening may take for one batch.
const OPENING_MAX: Duration = Duration::from_secs(10);
/// How long the streams run before they are measured.
const SETTLING: Duration = Duration::from_millis(500);

/// What one phase of streams gave.
#[derive(Clone, Debug, Default)]
pub(crate) struct Streams {
    /// From the write at the endpoint to the read at the client, in nanoseconds, sorted.
    pub(crate) delays_ns: Vec<u64>,
    /// Events that reached the clients.
    pub(crate) events: u64,
    /// Events that the endpoints could not send, since the proxy read too slowly.
    pub(crate) dropped: u64,
    /// Streams that did not end with the mark.
    pub(crate) broken: u64,
    /// The proxy's cost while it was measured.
    pub(crate) cpu_ns: u64,
    /// The proxy's memory before the streams and while they run.
    pub(crate) rss_kib: (u64, u64),
}

#[derive(Default)]
struct Seen {
    opened: Cell<u32>,
    events: Cell<u64>,
    delays_ns: RefCell<Vec<u64>>,
}

/// Opens `count` streams, lets them run for `duration`, and ends them.
pub(crate) async fn run(
    system: &System,
    upstream: &Upstream,
    count: u32,
    duration: Duration,
) -> anyhow::Result<Streams> {
    let cost = || system.process_id().map_or_else(Cost::default, cost_of);
    let before = cost();
    upstream.set_streaming(true);
    let seen = Rc::new(Seen::default());
    let local = LocalSet::new();
    let mut tasks = JoinSet::new();
    let opening = open_all(system, &seen, &mut tasks, count);
    local.run_until(opening).await?;
    local.run_until(pause(SETTLING)).await;
    let (start_events, start) = (seen.events.get(), cost());
    seen.delays_ns.borrow_mut().clear();
    upstream.take_dropped();
    local.run_until(pause(duration)).await;
    let mut measured = Streams {
        events: seen.events.get() - start_events,
        dropped: upstream.take_dropped(),
        rss_kib: (before.rss_kib, cost().rss_kib),
        ..Streams::default()
    };
    measured.cpu_ns = cost().cpu_ns - start.cpu_ns;
    measured.delays_ns = seen.delays_ns.take();
    measured.delays_ns.sort_unstable();
    upstream.set_streaming(false);
    let ending = async {
        while let Some(ended) = tasks.join_next().await {
            measured.broken += u64::from(!ended.is_ok_and(|ended| ended.is_ok()));
        }
    };
    local
        .run_until(tokio::time::timeout(OPENING_MAX, ending))
        .await
        .context("streams that do not end")?;
    Ok(measured)
}

/// Waiting is what this phase is about: the streams run meanwhile.
async fn pause(duration: Duration) {
    tokio::time::sleep(duration).await;
}

async fn open_all(
    system: &System,
    seen: &Rc<Seen>,
    tasks: &mut JoinSet<anyhow::Result<()>>,
    count: u32,
) -> anyhow::Result<()> {
    let request = system.stream_request();
    for opened in 0..count {
        tasks.spawn_local(stream(system.address, request.clone(), Rc::clone(seen)));
        if (opened + 1) % OPENED_AT_A_TIME == 0 {
            let all = async {
                while seen.opened.get() <= opened {
                    pause(Duration::from_millis(1)).await;
                }
            };
            let opened_in_time = tokio::time::timeout(OPENING_MAX, all).await;
            opened_in_time.with_context(|| format!("{}: stream {opened} gives no event", system.name))?;
        }
    }
    Ok(())
}

/// Reads one stream to its end.
async fn stream(address: SocketAddr, request: Vec<u8>, seen: Rc<Seen>) -> anyhow::Result<()> {
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    stream.write_all(&request).await?;
    let mut buffer = Vec::with_capacity(4 << 10);
    let mut is_open = false;
    loop {
        if stream.read_buf(&mut buffer).await? == 0 {
            bail!("a stream without its end");
        }
        let read = events(&buffer, now_ns(), &seen);
        if read.events > 0 && !is_open {
            is_open = true;
            seen.opened.set(seen.opened.get() + 1);
        }
        if memmem::find(&buffer, b"[DONE]").is_some() {
            return Ok(());
        }
        buffer.drain(..read.consumed);
    }
}

struct Read {
    events: u64,
    consumed: usize,
}

/// Counts the stamped events in the buffer and how old each is.
fn events(buffer: &[u8], now: u64, seen: &Seen) -> Read {
    const DIGITS: usize = 16;
    let mut read = Read { events: 0, consumed: 0 };
    let mut delays = seen.delays_ns.borrow_mut();
    for at in memmem::find_iter(buffer, STAMP) {
        let start = at + STAMP.len();
        let Some(digits) = buffer.get(start..start + DIGITS) else {
            break;
        };
        let sent = std::str::from_utf8(digits)
            .ok()
            .and_then(|digits| u64::from_str_radix(digits, 16).ok());
        if let Some(sent) = sent {
            delays.push(now.saturating_sub(sent));
            read.events += 1;
        }
        read.consumed = start + DIGITS;
    }
    seen.events.set(seen.events.get() + read.events);
    read
}
