//! An open-loop load of streamed calls: each begins when the clock says so, however long earlier ones take, as the calls of
//! many people do who know nothing of one another.
//!
//! Each client is one HTTP/2 connection. Times count from the moment at which a call was due, so that a late beginning is not
//! forgiven.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use fastrand::Rng;
use http_body_util::{BodyExt as _, Full};
use hyper::Response;
use hyper::body::Incoming;
use tokio::time::Instant;

use crate::{Background, Event, Http2, SseReader, background};

/// More calls than this fail the test.
const CALLS_MAX: usize = 100_000;

/// Who calls, how often, and where.
#[derive(Clone, Debug)]
pub struct Load {
    /// Where to connect.
    pub address: SocketAddr,
    /// The key.
    pub key: String,
    /// The path.
    pub path: &'static str,
    /// Calls begun per second, in the mean.
    pub rate: f64,
    /// How much of the traffic each client makes, in any unit.
    pub weights: Vec<f64>,
    /// Seed of the moments and of who calls.
    pub seed: u64,
}

/// How a streamed call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ending {
    /// A reason for the end, the mark at the end, and the end of the body.
    Clean,
    /// An error event, and then no proper end.
    ErrorEvent,
    /// Broken off without a word.
    Cut,
    /// Something else than 200.
    Refused,
    /// No answer at all.
    NoAnswer,
    /// An error that looks like a proper end, or an end without what must come before it.
    Dishonest,
}

/// What came of one call.
#[derive(Clone, Debug)]
pub struct Streamed {
    /// Which client made it.
    pub client: usize,
    /// The status, if there was an answer.
    pub status: u16,
    /// The endpoint that answered, as the gateway says.
    pub endpoint: String,
    /// Events with output.
    pub outputs: u32,
    /// From its due time to the first output.
    pub first_output: Option<Duration>,
    /// How it ended.
    pub ending: Ending,
    /// The body of a refusal, or the error event.
    pub problem: String,
}

impl Load {
    /// Begins calls until `act` is over, then waits for the end of all. `body` makes the body of call number n.
    ///
    /// Before that, the clients connect and begin a first call each, one after another in the order of their weights: each waits
    /// until the one before has begun to be answered. These are the first calls of the list.
    pub async fn during<T>(self, body: impl Fn(usize) -> String, act: impl Future<Output = T>) -> (Vec<Streamed>, T) {
        let mut calls = Calls::new(&self, &body).await;
        tokio::pin!(act);
        let began = now();
        let mut moments = self.moments();
        let result = loop {
            let (offset, client) = moments.next().unwrap_or((Duration::MAX, 0));
            let due = began + offset;
            tokio::select! {
                biased;
                result = &mut act => break result,
                () = tokio::time::sleep_until(due) => {}
            }
            calls.begin(&self, &body, (client, due));
        };
        (calls.end().await, result)
    }

    /// When calls are due, counted from the beginning, and who makes them; without end. The same seed gives the same moments.
    pub fn moments(&self) -> impl Iterator<Item = (Duration, usize)> {
        let mut rng = Rng::with_seed(self.seed);
        let mut due = Duration::ZERO;
        std::iter::repeat_with(move || {
            // The pause between independent events is exponentially distributed.
            due += Duration::from_secs_f64(-(1.0 - rng.f64()).ln() / self.rate);
            (due, draw(&self.weights, &mut rng))
        })
    }

    /// Begins calls for `length`.
    pub async fn run(self, length: Duration, body: impl Fn(usize) -> String) -> Vec<Streamed> {
        // The time begins when the clients are there.
        let over = async { tokio::time::sleep(length).await };
        self.during(body, over).await.0
    }

    fn request(&self, body: String) -> hyper::Request<Full<Bytes>> {
        hyper::Request::post(format!("http://{}{}", self.address, self.path))
            .header("content-type", "application/json")
            .header("authorization", format!("Bearer {}", self.key))
            .header("x-maitred-endpoint", "1")
            .body(Full::from(body))
            .expect("a valid request")
    }
}

/// The calls of a load, and the clients that make them.
#[derive(Default)]
struct Calls {
    clients: Vec<Http2>,
    begun: Vec<Background<Streamed>>,
}

impl Calls {
    async fn new(load: &Load, body: &impl Fn(usize) -> String) -> Self {
        let mut calls = Self::default();
        for client in 0..load.weights.len() {
            let connection = Http2::open(load.address).await;
            let due = now();
            let answer = connection.begin(load.request(body(client))).await;
            calls.begun.push(background(read(answer, (client, due))));
            calls.clients.push(connection);
        }
        calls
    }

    fn begin(&mut self, load: &Load, body: &impl Fn(usize) -> String, (client, due): (usize, Instant)) {
        let number = self.begun.len();
        assert!(number < CALLS_MAX, "more than {CALLS_MAX} calls");
        let request = load.request(body(number));
        let Some(connection) = self.clients.get(client).cloned() else {
            return;
        };
        self.begun.push(background(async move {
            let answer = connection.begin(request).await;
            read(answer, (client, due)).await
        }));
    }

    async fn end(self) -> Vec<Streamed> {
        let mut ended = Vec::new();
        for call in self.begun {
            ended.push(call.join().await);
        }
        ended
    }
}

/// Takes one of the weights by chance, each as often as it weighs.
fn draw(weights: &[f64], rng: &mut Rng) -> usize {
    let mut left = rng.f64() * weights.iter().sum::<f64>();
    let found = weights.iter().position(|weight| {
        left -= weight;
        left < 0.0
    });
    found.unwrap_or(0)
}

/// Reads an answer to its end. The call was due then, and made by that client.
async fn read(answer: hyper::Result<Response<Incoming>>, (client, due): (usize, Instant)) -> Streamed {
    let mut streamed = Streamed {
        client,
        status: 0,
        endpoint: String::new(),
        outputs: 0,
        first_output: None,
        ending: Ending::NoAnswer,
        problem: String::new(),
    };
    match answer {
        Ok(answer) => streamed.take(answer, due).await,
        Err(error) => streamed.problem = error.to_string(),
    }
    streamed
}

impl Streamed {
    async fn take(&mut self, answer: Response<Incoming>, due: Instant) {
        self.status = answer.status().as_u16();
        let endpoint = answer
            .headers()
            .get("x-maitred-endpoint")
            .and_then(|value| value.to_str().ok());
        self.endpoint = endpoint.unwrap_or_default().to_owned();
        let mut body = answer.into_body();
        let (mut reader, mut seen) = (SseReader::default(), Seen::default());
        let is_whole = loop {
            match body.frame().await {
                None => break true,
                Some(Err(_)) => break false,
                Some(Ok(frame)) => {
                    let Ok(bytes) = frame.into_data() else { continue };
                    reader.push(&bytes);
                    if self.status != 200 {
                        continue;
                    }
                    while let Some(event) = reader.next_event() {
                        seen.take(&event, self, due);
                    }
                }
            }
        };
        if self.status != 200 {
            self.problem = String::from_utf8_lossy(reader.rest()).into_owned();
        }
        self.ending = match (self.status, seen.problem, is_whole) {
            (200, false, true) if seen.finish && seen.mark => Ending::Clean,
            (200, false, false) if !seen.mark => Ending::Cut,
            (200, true, false) if !seen.mark && !seen.finish => Ending::ErrorEvent,
            (200, _, _) => Ending::Dishonest,
            _ => Ending::Refused,
        };
    }
}

/// What a stream has shown so far.
#[derive(Default)]
struct Seen {
    finish: bool,
    mark: bool,
    problem: bool,
}

impl Seen {
    fn take(&mut self, event: &Event, streamed: &mut Streamed, due: Instant) {
        let data = event.data.as_str();
        self.mark |= event.is_done();
        self.finish |= data.contains(r#""finish_reason":""#);
        if data.starts_with(r#"{"error""#) {
            self.problem = true;
            streamed.problem = data.to_owned();
        }
        if data.contains(r#""content":""#) && !data.contains(r#""content":"""#) {
            streamed.outputs += 1;
            streamed.first_output.get_or_insert_with(|| now() - due);
        }
    }
}

/// The value below which a share of the times lies; zero of nothing.
#[must_use]
pub fn percentile(times: impl IntoIterator<Item = Duration>, share: f64) -> Duration {
    let mut times: Vec<Duration> = times.into_iter().collect();
    times.sort_unstable();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of a length is a place in the list"
    )]
    let at = (share * times.len() as f64) as usize;
    let last = times.len().saturating_sub(1);
    times.get(at.min(last)).copied().unwrap_or_default()
}

#[expect(clippy::disallowed_methods, reason = "a load is paced by the clock on the wall")]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_a_time_of_the_list() {
        let times = || (1..=100).rev().map(Duration::from_millis);
        assert_eq!(percentile(times(), 0.5), Duration::from_millis(51));
        assert_eq!(percentile(times(), 0.99), Duration::from_millis(100));
        assert_eq!(percentile(times(), 1.0), Duration::from_millis(100));
        assert_eq!(percentile([], 0.5), Duration::ZERO);
    }

    #[test]
    fn clients_call_as_often_as_they_weigh() {
        let mut rng = Rng::with_seed(7);
        let mut drawn = [0_u32; 3];
        for _ in 0..10_000 {
            drawn[draw(&[1.0, 0.0, 3.0], &mut rng)] += 1;
        }
        assert_eq!(drawn[1], 0);
        assert!((2_300..2_700).contains(&drawn[0]), "{drawn:?}");
    }

    fn ending(body: &str) -> (Seen, Streamed) {
        let mut streamed = Streamed {
            client: 0,
            status: 200,
            endpoint: String::new(),
            outputs: 0,
            first_output: None,
            ending: Ending::NoAnswer,
            problem: String::new(),
        };
        let mut seen = Seen::default();
        for event in SseReader::all(body.as_bytes()) {
            seen.take(&event, &mut streamed, now());
        }
        (seen, streamed)
    }

    #[test]
    fn outputs_ends_and_errors_are_told_apart() {
        let opening =
            "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"finish_reason\":null}]}\n\n";
        let output = crate::vllm::chat_event("m", "word");
        let (seen, streamed) = ending(&format!(
            "{opening}{output}{output}{}",
            crate::vllm::chat_end("m", None)
        ));
        assert_eq!(
            (streamed.outputs, seen.finish, seen.mark, seen.problem),
            (2, true, true, false)
        );
        let (seen, streamed) = ending("data: {\"error\":{\"message\":\"gone\"}}\n\n");
        assert_eq!(
            (streamed.outputs, seen.finish, seen.mark, seen.problem),
            (0, false, false, true)
        );
        assert!(streamed.problem.contains("gone"));
    }
}
