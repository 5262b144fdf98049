//! Secrets stay where they are: distinctive ones are planted everywhere, and looked for in everything that comes out.

use std::path::Path;

use maitred_config::{SecretRef, load};
use maitred_console::ROUTES;
use maitred_tenant::{KeyHasher, NEW_KEY_RANDOM_BYTES, NewKey};
use maitred_test::{
    Answer, Connection, Finished, Folder, Play, Request, ScriptedEndpoint, Signal, Start, eventually, vllm,
};

use crate::table::{CHAT, Config, Gateway, MAITRED, MODEL, maitred};

/// What is planted in the environment: where, and what of it is secret.
const PLANTED: [(&str, &str, &str); 4] = [
    ("POOL_KEY", "sk-canary-provider-0001", "canary-provider-0001"),
    ("PEPPER", "canary-pepper-0002-0002", "canary-pepper-0002"),
    // Nobody listens there, so that failures are told too.
    ("REDIS", "redis://:canary-redis-0003@127.0.0.1:1/", "canary-redis-0003"),
    (
        "PG",
        "postgres://u:canary-postgres-0004@127.0.0.1:1/db",
        "canary-postgres-0004",
    ),
];

/// What callers plant: in headers, in the URL, in prompts, and what the model answers.
const CALLERS: [&str; 9] = [
    "canary-cookie-0005",
    "canary-proxy-0006",
    "canary-header-0007",
    "canary-query-0008",
    "canary-prompt-0009",
    "canary-answer-0010",
    "canary-wrong-key-0011",
    "canarySignature0012",
    "canary-user-token-0013",
];

/// Everything that must not come out, with a name for each.
struct Canaries(Vec<(String, String)>);

impl Canaries {
    fn new(more: &[(&str, String)]) -> Self {
        let of_environment = PLANTED.iter().map(|(name, _, secret)| (*name, (*secret).to_owned()));
        let of_callers = CALLERS.iter().map(|secret| (*secret, (*secret).to_owned()));
        let all = of_environment.chain(of_callers).chain(more.iter().cloned());
        Self(all.map(|(name, secret)| (name.to_owned(), secret)).collect())
    }

    /// The names of those in `bytes`.
    fn within(&self, bytes: &[u8]) -> Vec<String> {
        let text = String::from_utf8_lossy(bytes);
        let found = self.0.iter().filter(|(_, secret)| text.contains(secret));
        found.map(|(name, _)| name.clone()).collect()
    }

    fn none_in(&self, place: &str, bytes: &[u8]) {
        let found = self.within(bytes);
        assert!(
            found.is_empty(),
            "{found:?} in {place}:\n{}",
            String::from_utf8_lossy(bytes)
        );
    }

    /// None in any file of a folder, but for those that the test itself has put there.
    fn none_in_files(&self, folder: &Path) {
        for item in std::fs::read_dir(folder).unwrap() {
            let path = item.unwrap().path();
            let is_own = ["maitred.yaml", "key.pem", "cert.pem"]
                .iter()
                .any(|own| path.ends_with(own));
            if path.is_dir() {
                self.none_in_files(&path);
            } else if !is_own {
                self.none_in(&path.display().to_string(), &std::fs::read(&path).unwrap());
            }
        }
    }
}

fn body(stream: bool) -> String {
    format!(
        r#"{{"model":"{MODEL}","stream":{stream},"messages":[{{"role":"user","content":"say canary-prompt-0009"}}]}}"#
    )
}

/// A call with secrets wherever a client can put one.
fn call(key: &str, body: &str) -> Request {
    Request::post(&format!("{CHAT}?api_key=canary-query-0008"), body)
        .bearer(key)
        .header("cookie", "session=canary-cookie-0005")
        .header("proxy-authorization", "Basic canary-proxy-0006")
        .header("x-secret", "canary-header-0007")
}

/// What an endpoint answers that shows the key it was given.
fn echoes() -> [Play; 4] {
    let told = r#"{"error":{"message":"Incorrect API key provided: sk-canary-provider-0001","type":"x","code":"y"}}"#;
    let headers = [
        ("content-type", "application/json"),
        ("x-echo", "sk-canary-provider-0001"),
    ];
    [400, 401, 422, 500].map(|status| Play::whole(status, &headers, told))
}

/// Drives calls that succeed, fail, are left and are refused. Gives what clients got.
async fn drive(gateway: &Gateway, endpoint: &ScriptedEndpoint, key: &str) -> Vec<Answer> {
    let mut answers = Vec::new();
    let whole = Play::json(200, &vllm::chat(MODEL, "it is canary-answer-0010"));
    for play in [whole, Play::chat_stream(MODEL, &["canary-answer-0010", "!"])] {
        endpoint.once(CHAT, play);
        let answer = call(key, &body(false)).send(gateway.address).await;
        assert_eq!(answer.status(), 200);
    }
    for play in echoes() {
        endpoint.on(CHAT, play);
        answers.push(call(key, &body(false)).send(gateway.address).await);
        answers.push(call(key, &body(true)).send(gateway.address).await);
    }
    // Errors that repeat the prompt, wherever there can be one.
    let told = r#"{"error":{"message":"cannot: say canary-prompt-0009","type":"say canary-prompt-0009","code":500}}"#;
    for status in [429, 500, 503] {
        endpoint.on(CHAT, Play::json(status, told));
        answers.push(call(key, &body(false)).send(gateway.address).await);
    }
    endpoint.on(CHAT, Play::json(200, told));
    answers.push(call(key, &body(false)).send(gateway.address).await);
    endpoint.on(CHAT, Play::stream().chunk(format!("data: {told}\n\n")).end());
    answers.push(call(key, &body(true)).send(gateway.address).await);
    let begun = Play::stream().chunk(vllm::chat_event(MODEL, "well"));
    endpoint.on(CHAT, begun.chunk(format!("data: {told}\n\n")).end());
    answers.push(call(key, &body(true)).send(gateway.address).await);
    // An answer that is none, and a stream that breaks.
    endpoint.on(CHAT, Play::json(200, "canary-answer-0010 is no JSON"));
    call(key, &body(false)).send(gateway.address).await;
    endpoint.on(
        CHAT,
        Play::stream()
            .chunk(vllm::chat_event(MODEL, "canary-answer-0010"))
            .cut(),
    );
    call(key, &body(true)).send(gateway.address).await;
    // Somebody leaves.
    endpoint.on(CHAT, Play::silence().hang());
    let mut connection = Connection::open(gateway.address).await;
    connection.send(&call(key, &body(true)).to_bytes()).await;
    eventually("the call to be there", async || {
        (gateway.metric("maitred_active_calls", &[]).await > 0.0).then_some(())
    })
    .await;
    drop(connection);
    // What is refused at the door.
    let wrong = format!("mtr-aaaaaaaaaaaa-canary-wrong-key-0011{}", "x".repeat(22));
    let token = "eyJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJ4In0.canarySignature0012";
    for credential in [wrong.as_str(), "canary-wrong-key-0011", token] {
        answers.push(call(credential, &body(false)).send(gateway.address).await);
    }
    answers.push(
        call(key, &body(false))
            .header("x-maitred-user-token", "canary-user-token-0013")
            .send(gateway.address)
            .await,
    );
    let broken = [
        r#"{"model": canary-prompt-0009"#.to_owned(),
        format!(r#"{{"model":"{MODEL}","messages":"canary-prompt-0009","max_tokens":"canary-prompt-0009"}}"#),
        format!(r#"{{"model":"{MODEL}","stream":"canary-prompt-0009"}}"#),
    ];
    for body in &broken {
        endpoint.on(CHAT, Play::json(400, r#"{"error":{"message":"no"}}"#));
        answers.push(call(key, body).send(gateway.address).await);
    }
    for target in [
        "/canary-header?key=canary-query-0008",
        "/v1/models?key=canary-query-0008",
    ] {
        answers.push(Request::get(target).bearer(key).send(gateway.address).await);
    }
    answers
}

fn config(endpoint: &ScriptedEndpoint, hash: &str, ledger: &str) -> String {
    let auth = format!("{{ pepper: {{ env: PEPPER }}, keys: [{{ hash: \"{hash}\", tenant: t, shared: true }}] }}");
    Config::of([endpoint.address()])
        .auth(&auth)
        .listeners(
            "[{ address: \"127.0.0.1:0\" }, { address: \"127.0.0.1:0\", tls: { cert: cert.pem, key: key.pem } }]",
        )
        .pool("api_key: { env: POOL_KEY }")
        .file("log: { level: trace }")
        .file("sharing: { redis: { env: REDIS }, period: 20ms }")
        .file("decisions: { archive: { folder: decisions } }")
        .file("audit: { folder: audit }")
        .file("recording: { path: recording.jsonl }")
        .file(ledger)
        .to_yaml()
}

/// The last of these lines of a PEM file, which is a part of its secret.
fn heart_of(pem: &str) -> String {
    pem.lines().nth(1).unwrap().to_owned()
}

async fn run(arguments: &[&str], folder: &Folder) -> Finished {
    let program = maitred(arguments).folder(folder.path());
    let with_secrets = PLANTED
        .iter()
        .fold(program, |program, (name, value, _)| program.env(name, value));
    with_secrets.run().await
}

/// What the administrative listener and the system show of it.
async fn pages(gateway: &Gateway, canaries: &Canaries) {
    for route in ROUTES.iter().filter(|route| route.method == "GET") {
        let page = gateway.page(&route.path.replace("{id}", "none")).await;
        canaries.none_in(route.path, page.text().as_bytes());
    }
    for record in gateway.records() {
        let id = record["request_id"].as_str().unwrap();
        let page = gateway.page(&format!("/admin/v1/decisions/{id}")).await;
        canaries.none_in("a decision record", page.text().as_bytes());
    }
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", gateway.child.id())).unwrap();
    let cores = limits
        .lines()
        .find(|line| line.starts_with("Max core file size"))
        .unwrap();
    assert_eq!(
        cores.split_whitespace().nth(4),
        Some("0"),
        "no memory image of it is written: {cores}"
    );
}

#[tokio::test]
async fn no_secret_comes_out_anywhere() {
    let endpoint = ScriptedEndpoint::start(MODEL).await;
    let new = NewKey::make(&[9; NEW_KEY_RANDOM_BYTES]);
    let hasher = KeyHasher::new(Some(PLANTED[1].1.as_bytes()));
    let (key, hash) = (new.expose().to_owned(), new.hash(&hasher).to_string());
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let pem = made.signing_key.serialize_pem();
    let canaries = Canaries::new(&[
        ("client key", key.rsplit_once('-').unwrap().1.to_owned()),
        ("TLS key", heart_of(&pem)),
    ]);
    for ledger in [
        "ledger: { sqlite: ledger.db }",
        "ledger: { postgres: { env: PG }, spool: spool }",
    ] {
        let folder = Folder::new();
        folder.write("cert.pem", &made.cert.pem());
        folder.write("key.pem", &pem);
        let yaml = config(&endpoint, &hash, ledger);
        folder.write("maitred.yaml", &yaml);
        for arguments in [
            &["check"] as &[&str],
            &["config", "--effective"],
            &["store", "migrate"],
            &["usage"],
        ] {
            let finished = run(arguments, &folder).await;
            canaries.none_in(&format!("{arguments:?}"), format!("{finished:?}").as_bytes());
        }
        let start = Start::new("gateway", MAITRED);
        let start = PLANTED
            .iter()
            .fold(start, |start, (name, value, _)| start.env(name, value));
        let gateway = Gateway::start_as(start, folder, &yaml, &[]).await;
        gateway.until_ready(1).await;
        for answer in drive(&gateway, &endpoint, &key).await {
            let whole = format!("{} {answer:?} {}", answer.status(), answer.text());
            canaries.none_in("an answer", whole.as_bytes());
        }
        gateway.until_idle().await;
        pages(&gateway, &canaries).await;
        let Gateway { mut child, folder, .. } = gateway;
        if ledger.contains("sqlite") {
            child.signal(Signal::Terminate);
            child.exit().await;
        } else {
            // It would wait for its database.
            child.kill().await;
        }
        canaries.none_in("its log", child.output().as_bytes());
        canaries.none_in_files(folder.path());
        assert!(
            std::fs::metadata(folder.path().join("decisions")).is_ok(),
            "there was something to look at"
        );
    }
}

#[tokio::test]
async fn what_is_wrong_with_a_secret_is_said_without_it() {
    let endpoint = ScriptedEndpoint::start(MODEL).await;
    let canaries = Canaries::new(&[]);
    let bad = [
        ("POOL_KEY", "canary-provider-0001\nnext"),
        ("PEPPER", "canary-pepper-0002"),
        ("PEPPER", ""),
        ("REDIS", "redis://:canary-redis-0003@bad host:port/"),
        ("REDIS", "canary-redis-0003"),
        ("PG", "postgres://u:canary-postgres-0004@host:noport/db"),
        ("PG", "canary-postgres-0004"),
        ("PG", "postgres://u:canary-postgres-0004@[::1/db?sslmode=nothing"),
    ];
    let hash = NewKey::make(&[9; NEW_KEY_RANDOM_BYTES])
        .hash(&KeyHasher::new(None))
        .to_string();
    for (name, value) in bad {
        let folder = Folder::new();
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        folder.write("cert.pem", &made.cert.pem());
        folder.write(
            "key.pem",
            "-----BEGIN PRIVATE KEY-----\ncanary-header-0007\n-----END PRIVATE KEY-----\n",
        );
        folder.write(
            "maitred.yaml",
            &config(&endpoint, &hash, "ledger: { postgres: { env: PG }, spool: spool }"),
        );
        for arguments in [&["check"] as &[&str], &["store", "migrate"], &["usage"], &["serve"]] {
            let program = maitred(arguments).folder(folder.path());
            let program = PLANTED
                .iter()
                .fold(program, |program, (name, value, _)| program.env(name, value));
            let finished = program.env(name, value).run().await;
            canaries.none_in(
                &format!("{arguments:?} with a bad {name}"),
                format!("{finished:?}").as_bytes(),
            );
        }
    }
}

#[tokio::test]
async fn settings_are_printed_without_their_secrets() {
    let endpoint = ScriptedEndpoint::start(MODEL).await;
    let hash = NewKey::make(&[9; NEW_KEY_RANDOM_BYTES])
        .hash(&KeyHasher::new(None))
        .to_string();
    let yaml = config(&endpoint, &hash, "ledger: { postgres: { env: PG }, spool: spool }");
    let read = |source: &SecretRef| {
        let SecretRef::Env(name) = source else {
            panic!("{source:?}")
        };
        let found = PLANTED
            .iter()
            .find(|(planted, ..)| *planted == name.to_string())
            .unwrap();
        Ok(found.1.to_owned())
    };
    let loaded = load("maitred.yaml", &yaml, &read).unwrap();
    Canaries::new(&[]).none_in("Debug", format!("{loaded:?}").as_bytes());
}
