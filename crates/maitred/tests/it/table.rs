//! A laid table: endpoints, a gateway in front of them, and a key that it lets in.

use std::ffi::OsStr;
use std::fmt::{Display, Write as _};
use std::net::SocketAddr;
use std::path::PathBuf;

use maitred_tenant::{KeyHasher, NEW_KEY_RANDOM_BYTES, NewKey};
use maitred_test::{Answer, Child, Folder, Program, Request, Start, eventually};
use serde_json::Value;

/// The model that every endpoint serves unless told otherwise.
pub(crate) const MODEL: &str = "sim-8b";
/// The pool that every configuration has unless told otherwise.
pub(crate) const POOL: &str = "main";
/// Where chat calls go.
pub(crate) const CHAT: &str = "/v1/chat/completions";

/// The binary under test.
pub(crate) const MAITRED: &str = env!("CARGO_BIN_EXE_maitred");

/// A run of the binary to its end.
pub(crate) fn maitred<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Program {
    Program::new(MAITRED).args(arguments)
}

/// A key, and its hash as the configuration has it. The same number gives the same key.
pub(crate) fn key(number: u8) -> (String, String) {
    let key = NewKey::make(&[number; NEW_KEY_RANDOM_BYTES]);
    (key.expose().to_owned(), key.hash(&KeyHasher::new(None)).to_string())
}

/// A simulated endpoint, as a process of its own.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) child: Child,
    pub(crate) address: SocketAddr,
    /// Where it takes faults and commands.
    pub(crate) admin: SocketAddr,
}

impl Engine {
    /// Starts one that serves [`MODEL`], with further flags of `maitred engine`.
    pub(crate) async fn start(flags: &[&str]) -> Self {
        Self::start_at("127.0.0.1:0", flags).await
    }

    /// Starts one at an address that an earlier one had.
    pub(crate) async fn start_at(listen: impl Display, flags: &[&str]) -> Self {
        let listen = listen.to_string();
        let own = [
            "engine",
            "--model",
            MODEL,
            "--listen",
            &listen,
            "--admin",
            "127.0.0.1:0",
        ];
        let mut child = Start::new("endpoint", MAITRED).args(own).args(flags).spawn();
        let address = child.word_after("listening on ").await.parse().unwrap();
        let admin = child.word_after("admin on ").await.parse().unwrap();
        Self { child, address, admin }
    }

    /// Several of them, with seeds that differ.
    pub(crate) async fn start_several(count: u64, flags: &[&str]) -> Vec<Self> {
        let mut engines = Vec::new();
        for number in 0..count {
            let seed = (number + 1).to_string();
            engines.push(Self::start(&[&["--seed", &seed], flags].concat()).await);
        }
        engines
    }

    /// Switches faults, as in `{"hang":1}`.
    pub(crate) async fn fault(&self, json: &str) {
        let answer = Request::post("/sim/faults", json).send(self.admin).await;
        assert_eq!(answer.status(), 200, "{}", answer.text());
    }

    /// Gives a command: `crash`, `die` or `terminate`.
    pub(crate) async fn command(&self, name: &str) {
        let answer = Request::post(&format!("/sim/{name}"), "").send(self.admin).await;
        assert_eq!(answer.status(), 202, "{}", answer.text());
    }

    /// What is going on in it.
    pub(crate) async fn state(&self) -> Value {
        Request::get("/sim/state").send(self.admin).await.json()
    }
}

/// A configuration in the making: keys 1 to 3, a pool of endpoints on loopback, ports that the kernel chooses.
#[derive(Clone, Debug, Default)]
pub(crate) struct Config {
    endpoints: Vec<SocketAddr>,
    /// Lines of the pool, such as `profile: round-robin`.
    pool: Vec<String>,
    /// Lines of the file, such as `timeouts: { idle: 1s }`.
    file: Vec<String>,
    /// What stands in place of `models:`.
    models: Option<String>,
    /// What stands in place of `auth:`.
    auth: Option<String>,
    /// What stands in place of `listeners:`.
    listeners: Option<String>,
}

impl Config {
    /// One with these endpoints.
    pub(crate) fn of(endpoints: impl IntoIterator<Item = SocketAddr>) -> Self {
        Self {
            endpoints: endpoints.into_iter().collect(),
            ..Self::default()
        }
    }

    /// One with these simulated endpoints.
    pub(crate) fn engines(engines: &[Engine]) -> Self {
        Self::of(engines.iter().map(|engine| engine.address))
    }

    /// Adds a line to the pool.
    pub(crate) fn pool(mut self, line: &str) -> Self {
        self.pool.push(line.to_owned());
        self
    }

    /// Adds a line to the file's top level.
    pub(crate) fn file(mut self, line: &str) -> Self {
        self.file.push(line.to_owned());
        self
    }

    /// Says what the pool serves, as a YAML list in one line.
    pub(crate) fn models(mut self, list: &str) -> Self {
        self.models = Some(list.to_owned());
        self
    }

    /// Says who may call, as a YAML group in one line.
    pub(crate) fn auth(mut self, group: &str) -> Self {
        self.auth = Some(group.to_owned());
        self
    }

    /// Says where to listen, as a YAML list in one line.
    pub(crate) fn listeners(mut self, list: &str) -> Self {
        self.listeners = Some(list.to_owned());
        self
    }

    /// The file.
    pub(crate) fn to_yaml(&self) -> String {
        let keys = |number| {
            format!(
                "{{ hash: \"{}\", tenant: tenant-{number}, shared: true }}",
                key(number).1
            )
        };
        let auth = || format!("{{ keys: [{}, {}, {}] }}", keys(1), keys(2), keys(3));
        let auth = self.auth.clone().unwrap_or_else(auth);
        let listeners = self.listeners.as_deref().unwrap_or("[{ address: \"127.0.0.1:0\" }]");
        let models = self.models.clone().unwrap_or_else(|| format!("[{{ name: {MODEL} }}]"));
        let mut yaml =
            format!("version: 1\nlisteners: {listeners}\nadmin: {{ address: \"127.0.0.1:0\" }}\nauth: {auth}\n");
        for line in &self.file {
            writeln!(yaml, "{line}").unwrap();
        }
        writeln!(yaml, "pools:\n  - name: {POOL}\n    models: {models}").unwrap();
        if !self.pool.iter().any(|line| line.starts_with("staleness:")) {
            // A machine that runs many tests at once may be late with any page; only tests about that should notice.
            writeln!(yaml, "    staleness: {{ after: 10s, frozen_after: 1m }}").unwrap();
        }
        for line in &self.pool {
            writeln!(yaml, "    {line}").unwrap();
        }
        writeln!(yaml, "    endpoints:").unwrap();
        for address in &self.endpoints {
            writeln!(yaml, "      - address: {address}").unwrap();
        }
        yaml
    }
}

/// A gateway, as a process of its own.
#[derive(Debug)]
pub(crate) struct Gateway {
    pub(crate) child: Child,
    /// Where clients connect: the first listener.
    pub(crate) address: SocketAddr,
    /// All listeners, in the order of the configuration.
    pub(crate) addresses: Vec<SocketAddr>,
    /// Where operators connect.
    pub(crate) admin: SocketAddr,
    /// A key that it lets in: the first of the configuration's.
    pub(crate) key: String,
    pub(crate) folder: Folder,
}

impl Gateway {
    /// Starts one and waits until it listens; its endpoints may not be ready.
    pub(crate) async fn start(config: &Config) -> Self {
        Self::start_in(Folder::new(), &config.to_yaml(), &[]).await
    }

    /// Starts one and waits until all its endpoints are ready.
    pub(crate) async fn ready(config: &Config) -> Self {
        let gateway = Self::start(config).await;
        gateway.until_ready(config.endpoints.len()).await;
        gateway
    }

    /// Starts one with a whole configuration and further flags of `maitred serve`.
    pub(crate) async fn start_in(folder: Folder, yaml: &str, flags: &[&str]) -> Self {
        Self::start_as(Start::new("gateway", MAITRED), folder, yaml, flags).await
    }

    /// Starts one by way of another program, which is given the gateway's arguments.
    pub(crate) async fn start_as(start: Start, folder: Folder, yaml: &str, flags: &[&str]) -> Self {
        let config = folder.write("maitred.yaml", yaml);
        let records = folder.path().join("records.log");
        let start = start.args(["serve", "--log-format", "json", "--threads", "2"]);
        let start = start
            .args([
                "--config".as_ref(),
                config.as_os_str(),
                "--access-log".as_ref(),
                records.as_os_str(),
            ])
            .args(flags);
        let mut child = start.folder(folder.path()).spawn();
        let mut addresses: Vec<SocketAddr> = Vec::new();
        let admin = loop {
            let line = child.line("\"address\":").await;
            let line: Value = serde_json::from_str(&line).unwrap();
            let address = line["address"].as_str().unwrap().parse().unwrap();
            match line["message"].as_str() {
                Some("listening") => addresses.push(address),
                Some("administration") => break address,
                _ => {}
            }
        };
        Self {
            child,
            address: *addresses.first().expect("at least one listener"),
            addresses,
            admin,
            key: key(1).0,
            folder,
        }
    }

    /// Replaces the configuration; the gateway sees it by itself, at latest when told with a signal.
    pub(crate) fn rewrite(&self, config: &Config) {
        self.folder.write("maitred.yaml", &config.to_yaml());
    }

    /// A chat call with the key.
    pub(crate) fn chat(&self, json: impl Display) -> Request {
        Request::post(CHAT, json.to_string()).bearer(&self.key)
    }

    /// Sends a chat call with the key over a connection of its own.
    pub(crate) async fn ask(&self, json: impl Display) -> Answer {
        self.chat(json).send(self.address).await
    }

    /// A page of the administrative listener, which serves this machine only.
    pub(crate) async fn page(&self, path: &str) -> Answer {
        Request::get(path).header("host", "localhost").send(self.admin).await
    }

    /// What the gateway knows of each endpoint.
    pub(crate) async fn endpoints(&self) -> Vec<Value> {
        let page = self.page("/endpoints").await.json();
        page["endpoints"].as_array().cloned().unwrap_or_default()
    }

    /// What the gateway knows of one endpoint.
    pub(crate) async fn endpoint(&self, address: SocketAddr) -> Option<Value> {
        let address = address.to_string();
        let all = self.endpoints().await;
        all.into_iter().find(|endpoint| endpoint["endpoint"] == address)
    }

    /// Waits until just `count` endpoints are ready.
    pub(crate) async fn until_ready(&self, count: usize) {
        eventually(&format!("{count} ready endpoints"), async || {
            let all = self.endpoints().await;
            let ready = all.iter().filter(|endpoint| endpoint["state"] == "ready");
            (ready.count() == count).then_some(())
        })
        .await;
    }

    /// Waits until an endpoint is in this state: `loading`, `ready`, `ejected` or `draining`.
    pub(crate) async fn until_state(&self, address: SocketAddr, state: &str) {
        eventually(&format!("{address} to be {state}"), async || {
            let endpoint = self.endpoint(address).await?;
            (endpoint["state"] == state).then_some(())
        })
        .await;
    }

    /// Waits until no call is under way, neither at the gateway nor by its leases on endpoints.
    pub(crate) async fn until_idle(&self) {
        eventually("all calls to end", async || {
            let in_flight: u64 = self
                .endpoints()
                .await
                .iter()
                .filter_map(|endpoint| endpoint["in_flight"].as_u64())
                .sum();
            let active = self.metric("maitred_active_calls", &[]).await;
            (in_flight == 0 && active == 0.0).then_some(())
        })
        .await;
    }

    /// Waits until just `count` client connections are open.
    pub(crate) async fn until_connections(&self, count: u32) {
        eventually(&format!("{count} open connections"), async || {
            (self.metric("maitred_open_connections", &[]).await == f64::from(count)).then_some(())
        })
        .await;
    }

    /// Its resident memory.
    pub(crate) fn resident_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
    }

    /// The sum of the series of a metric that have these labels; zero if there is none.
    pub(crate) async fn metric(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        sum(&self.page("/metrics").await.text(), name, labels)
    }

    /// The access records so far.
    pub(crate) fn records(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.records_path()).unwrap_or_default();
        // The last line may not be whole yet.
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        whole
            .lines()
            .map(|line| serde_json::from_str(line).expect("a record in JSON"))
            .collect()
    }

    /// Waits until there are `count` records, and gives them. More than that is a failure.
    pub(crate) async fn until_records(&self, count: usize) -> Vec<Value> {
        let records = eventually(&format!("{count} access records"), async || {
            Some(self.records()).filter(|records| records.len() >= count)
        })
        .await;
        assert_eq!(records.len(), count, "{records:#?}");
        records
    }

    /// Waits until there are records of which this is true, and gives them.
    pub(crate) async fn records_with(&self, wanted: impl Fn(&Value) -> bool) -> Vec<Value> {
        eventually("such an access record", async || {
            let records: Vec<Value> = self.records().into_iter().filter(&wanted).collect();
            (!records.is_empty()).then_some(records)
        })
        .await
    }

    /// Where the access records are.
    pub(crate) fn records_path(&self) -> PathBuf {
        self.folder.path().join("records.log")
    }
}

/// The sum of the series of a metric that have these labels, on a page of metrics; zero if there is none.
pub(crate) fn sum(page: &str, name: &str, labels: &[(&str, &str)]) -> f64 {
    let wanted: Vec<String> = labels
        .iter()
        .map(|(label, value)| format!("{label}=\"{value}\""))
        .collect();
    let series = page
        .lines()
        .filter_map(|line| line.strip_prefix(name)?.rsplit_once(' '));
    let of_name = series.filter(|(labels, _)| labels.is_empty() || labels.starts_with('{'));
    let with_labels = of_name.filter(|(labels, _)| wanted.iter().all(|wanted| labels.contains(wanted)));
    with_labels.filter_map(|(_, value)| value.parse::<f64>().ok()).sum()
}

#[test]
fn series_are_added_by_name_and_labels() {
    let page = "# TYPE a counter\na{x=\"1\",y=\"2\"} 3\na{x=\"2\",y=\"2\"} 4\na_total 9\nb 5\n";
    assert_eq!(sum(page, "a", &[]), 7.0);
    assert_eq!(sum(page, "a", &[("x", "1")]), 3.0);
    assert_eq!(sum(page, "b", &[]), 5.0);
    assert_eq!(sum(page, "c", &[]), 0.0);
}

#[tokio::test]
async fn a_table_is_laid() {
    let engines = Engine::start_several(2, &["--time-scale", "10"]).await;
    let gateway = Gateway::ready(&Config::engines(&engines)).await;
    let answer = gateway
        .ask(format!(r#"{{"model":"{MODEL}","max_tokens":3,"messages":[]}}"#))
        .await;
    assert_eq!(answer.status(), 200, "{}", answer.text());
    let records = gateway.until_records(1).await;
    assert_eq!(records[0]["outcome"], "answered");
}
