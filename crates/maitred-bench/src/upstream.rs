//! Eight endpoints in the load's own thread that answer at once, and stream at a fixed rate.

use std::cell::RefCell;
use std::net::{Ipv4Addr, SocketAddr, TcpListener as StdListener};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use maitred_test::vllm;
use memchr::memmem;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::spawn_local;
use tokio::time::MissedTickBehavior;

use crate::cases::MODEL;
use crate::clock::now_ns;
use crate::wire::Framed;

/// How many endpoints there are.
pub(crate) const ENDPOINTS: usize = 8;
/// Events of one stream per second.
pub(crate) const EVENTS_PER_SECOND: u32 = 50;

/// Streams take turns: each is written to in one of so many ticks of a millisecond.
const TURNS: usize = 20;
/// Bytes read ahead of one connection.
const READ_BYTES: usize = 64 << 10;
/// Before the timestamp of an event; hexadecimal nanoseconds follow.
pub(crate) const STAMP: &str = "\"content\":\"t";

/// The running upstream. It ends with the process.
#[derive(Debug)]
pub(crate) struct Upstream {
    /// Where the endpoints listen.
    pub(crate) addresses: Vec<SocketAddr>,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    /// Whether streams go on; when not, they come to their proper end.
    streaming: AtomicBool,
    /// Events that did not fit into a socket, because the reader was too slow.
    dropped: AtomicU64,
}

impl Upstream {
    /// Starts the endpoints as tasks of the present [`LocalSet`](tokio::task::LocalSet).
    pub(crate) fn start() -> anyhow::Result<Self> {
        let mut listeners = Vec::new();
        for _ in 0..ENDPOINTS {
            let listener = StdListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no port for an endpoint")?;
            listener.set_nonblocking(true)?;
            listeners.push(listener);
        }
        let addresses = listeners
            .iter()
            .map(StdListener::local_addr)
            .collect::<Result<_, _>>()?;
        let shared = Arc::new(Shared::default());
        let for_tasks = Arc::clone(&shared);
        spawn(async move { run(listeners, &for_tasks).await });
        Ok(Self { addresses, shared })
    }

    /// Lets streams go on, or come to their end.
    pub(crate) fn set_streaming(&self, streaming: bool) {
        self.shared.streaming.store(streaming, Ordering::Relaxed);
    }

    /// Events dropped since the last time this was asked.
    pub(crate) fn take_dropped(&self) -> u64 {
        self.shared.dropped.swap(0, Ordering::Relaxed)
    }
}

/// Streams by the turn in which they are written to.
type Turns = Rc<RefCell<Vec<Vec<TcpStream>>>>;

async fn run(listeners: Vec<StdListener>, shared: &Shared) -> anyhow::Result<()> {
    let turns: Turns = Rc::new(RefCell::new((0..TURNS).map(|_| Vec::new()).collect()));
    for listener in listeners {
        let listener = TcpListener::from_std(listener)?;
        spawn(accept(listener, Rc::clone(&turns)));
    }
    tick(turns, shared).await
}

/// Keeps the core of the load from falling asleep between two answers. To wake it would be the work of the proxy, and the slower
/// the proxy the more often.
pub(crate) fn keep_awake() {
    spawn(async {
        loop {
            tokio::task::yield_now().await;
        }
    });
}

#[expect(clippy::disallowed_methods, reason = "the upstream ends with the process")]
fn spawn(future: impl Future<Output = anyhow::Result<()>> + 'static) {
    spawn_local(future);
}

async fn accept(listener: TcpListener, turns: Turns) -> anyhow::Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        spawn(serve(stream, Rc::clone(&turns)));
    }
}

/// Answers the requests of one connection. A streamed call hands the connection over to the ticker for good: it is closed after
/// the stream, as the answer's head says.
async fn serve(mut stream: TcpStream, turns: Turns) -> anyhow::Result<()> {
    let answers = Answers::new();
    let mut buffer = Vec::with_capacity(READ_BYTES);
    loop {
        let framed = loop {
            let framed = Framed::of(&buffer);
            if let Some(end) = framed.and_then(|framed| framed.end(&buffer)) {
                break framed.map(|framed| (framed, end));
            }
            if stream.read_buf(&mut buffer).await? == 0 {
                return Ok(());
            }
        };
        let Some((framed, end)) = framed else { return Ok(()) };
        let head = buffer.get(..framed.head).unwrap_or_default();
        let body = buffer.get(framed.head..end).unwrap_or_default();
        if is_streamed(head, body) {
            stream.write_all(&answers.stream).await?;
            let turn = usize::from(stream.peer_addr()?.port()) % TURNS;
            turns.borrow_mut().get_mut(turn).context("a turn")?.push(stream);
            return Ok(());
        }
        stream.write_all(answers.to(head)).await?;
        buffer.drain(..end);
    }
}

fn is_streamed(head: &[u8], body: &[u8]) -> bool {
    const SMALL: usize = 4 << 10;
    head.starts_with(b"POST /v1/chat") && body.len() < SMALL && memmem::find(body, b"\"stream\":true").is_some()
}

/// Answers ready to be sent.
struct Answers {
    chat: Vec<u8>,
    completion: Vec<u8>,
    models: Vec<u8>,
    metrics: Vec<u8>,
    health: Vec<u8>,
    missing: Vec<u8>,
    stream: Vec<u8>,
}

impl Answers {
    fn new() -> Self {
        let whole = |status: &str, kind: &str, body: &str| {
            let head = format!("HTTP/1.1 {status}\r\nserver: uvicorn\r\ncontent-type: {kind}\r\n");
            format!("{head}content-length: {}\r\n\r\n{body}", body.len()).into_bytes()
        };
        let json = "application/json";
        let text = "text/plain; version=0.0.4; charset=utf-8";
        let stream = "HTTP/1.1 200 OK\r\nserver: uvicorn\r\ncontent-type: text/event-stream; charset=utf-8\r\n\
                      connection: close\r\ntransfer-encoding: chunked\r\n\r\n";
        Self {
            chat: whole("200 OK", json, &vllm::chat(MODEL, &"word ".repeat(60))),
            completion: whole("200 OK", json, &vllm::completion(MODEL)),
            models: whole("200 OK", json, &vllm::models(MODEL)),
            metrics: whole("200 OK", text, &vllm::metrics(MODEL, vllm::Load::default())),
            health: whole("200 OK", json, ""),
            missing: whole("404 Not Found", json, r#"{"detail":"Not Found"}"#),
            stream: stream.as_bytes().to_vec(),
        }
    }

    fn to(&self, head: &[u8]) -> &[u8] {
        let path = head.split(|byte| *byte == b' ').nth(1).unwrap_or_default();
        match path {
            b"/v1/chat/completions" => &self.chat,
            b"/v1/completions" => &self.completion,
            b"/v1/models" => &self.models,
            b"/metrics" => &self.metrics,
            b"/health" => &self.health,
            _ => &self.missing,
        }
    }
}

/// Writes the due events, a twentieth of the streams each millisecond.
async fn tick(turns: Turns, shared: &Shared) -> anyhow::Result<()> {
    let mut interval = tokio::time::interval(Duration::from_millis(1));
    interval.set_missed_tick_behavior(MissedTickBehavior::Burst);
    for turn in (0..TURNS).cycle() {
        interval.tick().await;
        let streaming = shared.streaming.load(Ordering::Relaxed);
        let mut turns = turns.borrow_mut();
        let streams = turns.get_mut(turn).context("a turn")?;
        if streaming {
            streams.retain(|stream| send_event(stream, shared));
        } else {
            for stream in streams.drain(..) {
                let end = vllm::chat_end(MODEL, Some((200, 100)));
                stream
                    .try_write(format!("{:x}\r\n{end}\r\n0\r\n\r\n", end.len()).as_bytes())
                    .ok();
            }
        }
    }
    Ok(())
}

/// Sends one stamped event; false when the reader has gone.
fn send_event(stream: &TcpStream, shared: &Shared) -> bool {
    let event = vllm::chat_event(MODEL, &format!("t{:016x}", now_ns()));
    let chunk = format!("{:x}\r\n{event}\r\n", event.len());
    match stream.try_write(chunk.as_bytes()) {
        Ok(written) => written == chunk.len(),
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
            shared.dropped.fetch_add(1, Ordering::Relaxed);
            true
        }
        Err(_) => false,
    }
}
