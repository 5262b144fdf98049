//! An endpoint that does just what the test says.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, Semaphore, watch};
use tokio::task::JoinSet;

use crate::wire::{Framing, Wire};
use crate::{Background, Head, background, vllm, within};

/// Requests remembered per path; more fail the test.
const REMEMBERED_MAX: usize = 100_000;

/// Holds a play until the test lets it go on.
#[derive(Clone, Debug)]
pub struct Gate {
    permits: Arc<Semaphore>,
}

impl Gate {
    /// A closed gate.
    #[must_use]
    pub fn closed() -> Self {
        Self {
            permits: Arc::new(Semaphore::new(0)),
        }
    }

    /// Opens it for good.
    pub fn open(&self) {
        self.permits.add_permits(Semaphore::MAX_PERMITS / 2);
    }

    /// Lets one play pass once.
    pub fn let_one_pass(&self) {
        self.permits.add_permits(1);
    }

    async fn pass(&self) {
        if let Ok(permit) = self.permits.acquire().await {
            permit.forget();
        }
    }
}

/// One step of a play.
#[derive(Clone, Debug)]
enum Step {
    /// Bytes as they are.
    Raw(Vec<u8>),
    /// One chunk of a chunked body.
    Chunk(Vec<u8>),
    /// Waits at a gate.
    Wait(Gate),
    /// Waits for ever.
    Hang,
    /// Closes the connection, whatever was announced.
    Cut,
    /// Resets the connection.
    Reset,
}

/// What an endpoint does with one request.
#[derive(Clone, Debug, Default)]
pub struct Play {
    steps: Vec<Step>,
}

impl Play {
    /// A whole JSON answer.
    #[must_use]
    pub fn json(status: u16, body: &str) -> Self {
        Self::whole(status, &[("content-type", "application/json")], body)
    }

    /// A whole answer.
    #[must_use]
    pub fn whole(status: u16, headers: &[(&str, &str)], body: &str) -> Self {
        let length = body.len().to_string();
        let mut all = headers.to_vec();
        all.push(("content-length", &length));
        Self::default().raw(head(status, &all)).raw(body)
    }

    /// The head of an answer; go on with [`Play::raw`].
    #[must_use]
    pub fn head(status: u16, headers: &[(&str, &str)]) -> Self {
        Self::default().raw(head(status, headers))
    }

    /// The head of a chunked answer; go on with [`Play::chunk`] and end with [`Play::end`].
    #[must_use]
    pub fn chunked(status: u16, headers: &[(&str, &str)]) -> Self {
        let mut all = headers.to_vec();
        all.push(("transfer-encoding", "chunked"));
        Self::default().raw(head(status, &all))
    }

    /// The head of a stream of events.
    #[must_use]
    pub fn stream() -> Self {
        Self::chunked(200, &[("content-type", "text/event-stream; charset=utf-8")])
    }

    /// A whole streamed chat answer of these texts, with usage.
    #[must_use]
    pub fn chat_stream(model: &str, texts: &[&str]) -> Self {
        let events = texts
            .iter()
            .fold(Self::stream(), |play, text| play.chunk(vllm::chat_event(model, text)));
        let output = u32::try_from(texts.len()).unwrap_or(u32::MAX);
        events.chunk(vllm::chat_end(model, Some((12, output)))).end()
    }

    /// No answer at all.
    #[must_use]
    pub fn silence() -> Self {
        Self::default().hang()
    }

    /// Sends bytes as they are.
    #[must_use]
    pub fn raw(self, bytes: impl Into<Vec<u8>>) -> Self {
        self.then(Step::Raw(bytes.into()))
    }

    /// Sends one chunk.
    #[must_use]
    pub fn chunk(self, bytes: impl Into<Vec<u8>>) -> Self {
        self.then(Step::Chunk(bytes.into()))
    }

    /// Ends a chunked body as it should end.
    #[must_use]
    pub fn end(self) -> Self {
        self.raw("0\r\n\r\n")
    }

    /// Waits at a gate.
    #[must_use]
    pub fn wait(self, gate: &Gate) -> Self {
        self.then(Step::Wait(gate.clone()))
    }

    /// Waits for ever, with the connection open.
    #[must_use]
    pub fn hang(self) -> Self {
        self.then(Step::Hang)
    }

    /// Closes the connection without a proper end.
    #[must_use]
    pub fn cut(self) -> Self {
        self.then(Step::Cut)
    }

    /// Resets the connection.
    #[must_use]
    pub fn reset(self) -> Self {
        self.then(Step::Reset)
    }

    fn then(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }
}

fn head(status: u16, headers: &[(&str, &str)]) -> String {
    let lines = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n"));
    format!(
        "HTTP/1.1 {status} Scripted\r\nserver: uvicorn\r\n{}\r\n",
        lines.collect::<String>()
    )
}

/// How a received request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The play is still on.
    Playing,
    /// The play came to its end.
    Played,
    /// The caller closed the connection before that.
    CallerClosed,
}

/// A request that the endpoint received.
#[derive(Clone, Debug)]
pub struct Received {
    /// Request line and headers.
    pub head: Head,
    /// The whole body.
    pub body: Vec<u8>,
    end: watch::Receiver<End>,
}

impl Received {
    /// The path with its query.
    #[must_use]
    pub fn target(&self) -> &str {
        self.head.first_line.split(' ').nth(1).unwrap_or_default()
    }

    /// The body as JSON.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).expect("a JSON body")
    }

    /// Waits until the play is over and says how that came.
    pub async fn ended(&self) -> End {
        let mut end = self.end.clone();
        let ended = within("the end of a play", end.wait_for(|end| *end != End::Playing)).await;
        ended.map_or(End::CallerClosed, |end| *end)
    }
}

/// A server on a free loopback port. Unless told otherwise it shows the face of a ready, idle vLLM.
///
/// It goes away with all its connections when dropped.
#[derive(Debug)]
pub struct ScriptedEndpoint {
    address: SocketAddr,
    stage: Arc<Stage>,
    _listening: Background<()>,
}

#[derive(Default)]
struct Stage {
    plays: Mutex<Plays>,
    received: Mutex<BTreeMap<String, Remembered>>,
    arrived: Notify,
}

#[derive(Default)]
struct Plays {
    /// Played once each, in order, before the standing one.
    once: BTreeMap<String, VecDeque<Play>>,
    standing: BTreeMap<String, Play>,
}

#[derive(Default)]
struct Remembered {
    all: Vec<Received>,
    /// How many of them the test has taken.
    taken: usize,
}

impl fmt::Debug for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stage").finish_non_exhaustive()
    }
}

impl ScriptedEndpoint {
    /// Starts one that serves `model`.
    pub async fn start(model: &str) -> Self {
        Self::start_at(model, SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await
    }

    /// Starts one at an address that an earlier one had.
    pub async fn start_at(model: &str, address: SocketAddr) -> Self {
        let listener = TcpListener::bind(address).await.expect("a free loopback port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let stage = Arc::new(Stage::default());
        let listening = background(listen(listener, Arc::clone(&stage)));
        let endpoint = Self {
            address,
            stage,
            _listening: listening,
        };
        endpoint.on("/v1/models", Play::json(200, &vllm::models(model)));
        endpoint.on("/health", Play::whole(200, &[], ""));
        endpoint.on("/version", Play::json(200, r#"{"version":"0.32.0"}"#));
        endpoint.on("/v1/completions", Play::json(200, &vllm::completion(model)));
        endpoint.on("/v1/chat/completions", Play::json(200, &vllm::chat(model, "well done")));
        endpoint.set_load(model, vllm::Load::default());
        endpoint
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What to do with every request to `path`, from now on.
    pub fn on(&self, path: &str, play: Play) {
        self.stage.plays.lock().standing.insert(path.to_owned(), play);
    }

    /// What to do with the next request to `path` for which nothing else was said with this.
    pub fn once(&self, path: &str, play: Play) {
        self.stage
            .plays
            .lock()
            .once
            .entry(path.to_owned())
            .or_default()
            .push_back(play);
    }

    /// What the page of metrics says, from now on.
    pub fn set_load(&self, model: &str, load: vllm::Load) {
        let page = vllm::metrics(model, load);
        self.on(
            "/metrics",
            Play::whole(
                200,
                &[("content-type", "text/plain; version=0.0.4; charset=utf-8")],
                &page,
            ),
        );
    }

    /// The next request to `path` (without query) that was not taken yet; waits for it.
    pub async fn next_on(&self, path: &str) -> Received {
        let arrival = async {
            loop {
                let arrived = self.stage.arrived.notified();
                if let Some(received) = self.stage.take(path) {
                    return received;
                }
                arrived.await;
            }
        };
        within(&format!("a request to {path}"), arrival).await
    }

    /// All requests to `path` (without query) so far, taken or not.
    #[must_use]
    pub fn received_on(&self, path: &str) -> Vec<Received> {
        self.stage
            .received
            .lock()
            .get(path)
            .map(|remembered| remembered.all.clone())
            .unwrap_or_default()
    }
}

impl Stage {
    fn take(&self, path: &str) -> Option<Received> {
        let mut received = self.received.lock();
        let remembered = received.get_mut(path)?;
        let next = remembered.all.get(remembered.taken)?.clone();
        remembered.taken += 1;
        Some(next)
    }

    fn remember(&self, path: &str, received: Received) {
        let mut all = self.received.lock();
        let remembered = all.entry(path.to_owned()).or_default();
        assert!(
            remembered.all.len() < REMEMBERED_MAX,
            "more than {REMEMBERED_MAX} requests to {path}"
        );
        remembered.all.push(received);
        drop(all);
        self.arrived.notify_waiters();
    }

    fn play_for(&self, path: &str) -> Play {
        let mut plays = self.plays.lock();
        let once = plays.once.get_mut(path).and_then(VecDeque::pop_front);
        let standing = || plays.standing.get(path).cloned();
        once.or_else(standing)
            .unwrap_or_else(|| Play::json(404, r#"{"detail":"Not Found"}"#))
    }
}

async fn listen(listener: TcpListener, stage: Arc<Stage>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => drop(connections.spawn(serve(stream, Arc::clone(&stage)))),
                Err(_) => return,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Requests of one connection, until a play or the caller closes it.
async fn serve(stream: TcpStream, stage: Arc<Stage>) {
    drop(stream.set_nodelay(true));
    let mut wire = Wire::new(stream);
    while let Some(head) = wire.head().await {
        let mut framing = head.request_framing();
        let mut body = Vec::new();
        while let Some(piece) = wire.piece(&mut framing).await {
            body.extend_from_slice(&piece);
        }
        if framing != Framing::Ended(crate::BodyEnd::Complete) {
            return;
        }
        let target = head.first_line.split(' ').nth(1).unwrap_or_default();
        let path = target.split('?').next().unwrap_or_default().to_owned();
        let (end, seen) = watch::channel(End::Playing);
        let play = stage.play_for(&path);
        stage.remember(&path, Received { head, body, end: seen });
        let next = perform(&mut wire, play).await;
        end.send_replace(if next == Next::CallerClosed {
            End::CallerClosed
        } else {
            End::Played
        });
        match next {
            Next::Request => {}
            Next::Reset => return drop(wire.stream().set_zero_linger()),
            Next::Close | Next::CallerClosed => return,
        }
    }
}

/// What comes after a play.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Request,
    Close,
    Reset,
    CallerClosed,
}

async fn perform(wire: &mut Wire<TcpStream>, play: Play) -> Next {
    for step in play.steps {
        let sent = match step {
            Step::Raw(bytes) => wire.write(&bytes).await,
            Step::Chunk(bytes) => {
                let mut framed = format!("{:x}\r\n", bytes.len()).into_bytes();
                framed.extend_from_slice(&bytes);
                framed.extend_from_slice(b"\r\n");
                wire.write(&framed).await
            }
            Step::Wait(gate) => tokio::select! {
                () = gate.pass() => Ok(()),
                () = wire.closed() => return Next::CallerClosed,
            },
            Step::Hang => {
                wire.closed().await;
                return Next::CallerClosed;
            }
            Step::Cut => return Next::Close,
            Step::Reset => return Next::Reset,
        };
        if sent.is_err() {
            return Next::CallerClosed;
        }
    }
    Next::Request
}

#[cfg(test)]
mod tests;
