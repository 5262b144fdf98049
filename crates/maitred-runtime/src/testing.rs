//! Endpoints without a network, and pools over them, for tests in paused time.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use maitred_config::{Discovery, PoolSettings, Settings};
use maitred_obs::{EndpointSample, EndpointState, Meters};
use maitred_types::{Address, Time};
use parking_lot::Mutex;

use crate::clock::Clock;
use crate::fetch::{Ask, FetchError, Fetched, Fetcher};
use crate::host::PoolHost;
use crate::keeper::Keeper;
use crate::tasks::Tasks;

/// What an endpoint shows.
#[derive(Clone, Debug)]
pub(crate) struct Face {
    /// Whether anybody is at home.
    pub(crate) is_there: bool,
    /// The status of its health page.
    pub(crate) health: u16,
    /// Whether it has a metrics page.
    pub(crate) has_page: bool,
    /// Whether it can infer.
    pub(crate) can_infer: bool,
    /// The weights that it says it runs.
    pub(crate) weights: &'static str,
    /// When its process began, in Unix time.
    pub(crate) started: u32,
    /// What it was asked for, as paths with the moment.
    pub(crate) asked: Vec<(Time, String)>,
}

impl Default for Face {
    fn default() -> Self {
        Self {
            is_there: true,
            health: 200,
            has_page: true,
            can_infer: true,
            weights: "model/m",
            started: 1_000,
            asked: Vec::new(),
        }
    }
}

/// All endpoints there are, by address; one that was never spoken of is ready to serve.
#[derive(Debug)]
pub(crate) struct Endpoints {
    faces: Mutex<BTreeMap<Address, Face>>,
    clock: Clock,
}

impl Endpoints {
    pub(crate) fn answer(&self, ask: &Ask<'_>) -> Result<Fetched, FetchError> {
        let mut faces = self.faces.lock();
        let face = faces.entry(ask.address.clone()).or_default();
        face.asked.push((self.clock.now(), ask.path.to_owned()));
        if !face.is_there {
            return Err(FetchError::Refused("nobody at home".into()));
        }
        let whole = |status, body: String| {
            Ok(Fetched {
                status,
                body: Bytes::from(body),
            })
        };
        match ask.path {
            "/health" => whole(StatusCode::from_u16(face.health).unwrap(), String::new()),
            "/v1/models" => {
                let weights = face.weights;
                let body = format!(r#"{{"object":"list","data":[{{"id":"m","object":"model","root":"{weights}"}}]}}"#);
                whole(StatusCode::OK, body)
            }
            "/version" => whole(StatusCode::OK, r#"{"version":"0.32.0"}"#.into()),
            "/metrics" if face.has_page => whole(StatusCode::OK, page(face.started)),
            "/v1/completions" if face.can_infer => {
                let body =
                    r#"{"choices":[{"index":0,"text":"a","finish_reason":"length"}],"usage":{"completion_tokens":1}}"#;
                whole(StatusCode::OK, body.into())
            }
            "/v1/completions" => whole(
                StatusCode::SERVICE_UNAVAILABLE,
                r#"{"error":{"message":"loading"}}"#.into(),
            ),
            _ => whole(StatusCode::NOT_FOUND, String::new()),
        }
    }

    /// Changes, or looks at, what an endpoint shows.
    pub(crate) fn face<T>(&self, address: &str, change: impl FnOnce(&mut Face) -> T) -> T {
        change(self.faces.lock().entry(Address::from(address)).or_default())
    }

    /// How often an endpoint was asked for `path`.
    pub(crate) fn asked(&self, address: &str, path: &str) -> usize {
        self.face(address, |face| {
            face.asked.iter().filter(|(_, asked)| asked == path).count()
        })
    }
}

fn page(started: u32) -> String {
    format!(
        "vllm:num_requests_waiting 0\nvllm:num_requests_running 0\nvllm:kv_cache_usage_perc 0.1\n\
         process_start_time_seconds {started}\nheat{{part=\"gpu\"}} 61.5\nheat{{part=\"fan\"}} 30\n"
    )
}

/// Settings with one pool of a model `m`; `lines` are further lines of the pool.
pub(crate) fn settings(lines: &str) -> Settings {
    let lines: String = lines.lines().map(|line| format!("    {}\n", line.trim())).collect();
    let text = format!(
        "version: 1\nauth: {{ anonymous: {{ tenant: t }} }}\npools:\n  - name: p\n    models: [{{ name: m }}]\n{lines}"
    );
    match maitred_config::load("test", &text, &|_| Err("no secrets".into())) {
        Ok(loaded) => loaded.settings,
        Err(wrong) => panic!("{wrong:?}\n{text}"),
    }
}

/// How long endpoints of a [`Scene`] have to leave.
pub(crate) const DRAIN: Duration = Duration::from_secs(300);

fn pool(lines: &str) -> Arc<PoolSettings> {
    Arc::clone(&settings(lines).pools[0])
}

/// A pool that is kept, without a network.
#[derive(Debug)]
pub(crate) struct Scene {
    pub(crate) keeper: Keeper,
    pub(crate) endpoints: Arc<Endpoints>,
    pub(crate) clock: Clock,
    pub(crate) meters: Meters,
}

impl Scene {
    /// Keeps a pool with these lines in its settings.
    pub(crate) fn new(lines: &str) -> Self {
        let clock = Clock::start();
        let endpoints = Arc::new(Endpoints {
            faces: Mutex::default(),
            clock,
        });
        let meters = Meters::new("test");
        let host = PoolHost::new(pool(lines), DRAIN, &meters, &Arc::default(), 1);
        let mut fetcher = Fetcher::new();
        fetcher.instead = Some(Arc::clone(&endpoints));
        let tasks = Tasks::new();
        let keeper = Keeper {
            host,
            clock,
            tasks,
            fetcher,
            found: Arc::default(),
        };
        keeper.tasks.spawn_until_stop(keeper.clone().keep());
        keeper.match_endpoints();
        Self {
            keeper,
            endpoints,
            clock,
            meters,
        }
    }

    /// Puts other settings in place.
    pub(crate) fn reload(&self, lines: &str) {
        self.keeper.host.reconfigure(pool(lines), DRAIN);
        self.keeper.match_endpoints();
    }

    /// What the settings look up now.
    pub(crate) fn asked(&self) -> Discovery {
        self.host().settings().discovery.clone().unwrap()
    }

    /// Takes the answer of a name server.
    pub(crate) fn found(&self, addresses: &[&str]) {
        self.found_for(&self.asked(), addresses);
    }

    /// Takes the answer of a name server to a question asked earlier.
    pub(crate) fn found_for(&self, asked: &Discovery, addresses: &[&str]) {
        let found: Vec<SocketAddr> = addresses.iter().map(|address| address.parse().unwrap()).collect();
        self.keeper.looked_up(asked, Ok(found));
    }

    /// The name server does not answer.
    pub(crate) fn found_nobody_to_ask(&self) {
        self.keeper
            .looked_up(&self.asked(), Err(io::ErrorKind::TimedOut.into()));
    }

    pub(crate) fn host(&self) -> &Arc<PoolHost> {
        &self.keeper.host
    }

    pub(crate) fn sample(&self, address: &str) -> Option<EndpointSample> {
        let all = self.host().samples(self.clock.now());
        all.into_iter().find(|sample| sample.endpoint == address)
    }

    pub(crate) fn state(&self, address: &str) -> Option<EndpointState> {
        self.sample(address).map(|sample| sample.state)
    }

    /// The addresses of the pool, those that drain included, with their states.
    pub(crate) fn states(&self) -> Vec<(String, &'static str)> {
        let all = self.host().samples(self.clock.now());
        let mut states: Vec<_> = all
            .into_iter()
            .map(|sample| (sample.endpoint, sample.state.label()))
            .collect();
        states.sort();
        states
    }

    pub(crate) fn book(&self) -> Result<crate::Booking, crate::NoPlace> {
        self.host().book(
            &crate::Ask {
                model: "m",
                ..crate::Ask::default()
            },
            self.clock.now(),
        )
    }
}

/// Lets time pass, and everybody do what has become due.
pub(crate) async fn pass(duration: Duration) {
    tokio::time::sleep(duration).await;
}
