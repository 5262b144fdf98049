//! Hosted APIs over TLS, and that the gateway goes nowhere but where it is configured to go.

use std::net::SocketAddr;
use std::sync::Arc;

use maitred_test::{Background, Folder, Play, Request, ScriptedEndpoint, background, eventually, vllm};
use parking_lot::Mutex;
use rcgen::{CertificateParams, KeyPair, date_time_ymd};
use serde_json::json;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::{ServerConfig, crypto};

use crate::certificates::{Issuer, issuer};
use crate::table::{CHAT, Config, Gateway, MODEL, key};

/// Where the API begins, below the root so that joining is seen.
const BASE: &str = "/api/v1";
/// What the gateway pays with.
const OURS: &str = "sk-the-gateways-own-key";

/// What a provider's server shows.
#[derive(Clone, Copy)]
enum Shown {
    Good,
    OtherName,
    Expired,
}

fn acceptor(issuer: &Issuer, shown: Shown) -> TlsAcceptor {
    let name = match shown {
        Shown::Good | Shown::Expired => "localhost",
        Shown::OtherName => "api.example.com",
    };
    let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    if matches!(shown, Shown::Expired) {
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2021, 1, 1);
    }
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, issuer).unwrap().der().clone();
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(crypto::aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

/// TLS before a scripted endpoint.
struct Front {
    address: SocketAddr,
    acceptor: Arc<Mutex<TlsAcceptor>>,
    /// Connections on which a client was content with the certificate.
    accepted: Arc<Mutex<u32>>,
    _listening: Background<()>,
}

impl Front {
    async fn before(api: &ScriptedEndpoint, acceptor: TlsAcceptor) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, behind) = (listener.local_addr().unwrap(), api.address());
        let (acceptor, accepted) = (Arc::new(Mutex::new(acceptor)), Arc::new(Mutex::new(0)));
        let (current, count) = (Arc::clone(&acceptor), Arc::clone(&accepted));
        let listening = background(async move {
            let mut open = Vec::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (acceptor, count) = (current.lock().clone(), Arc::clone(&count));
                open.push(background(pass(stream, behind, acceptor, count)));
            }
        });
        Self {
            address,
            acceptor,
            accepted,
            _listening: listening,
        }
    }

    fn show(&self, acceptor: TlsAcceptor) {
        *self.acceptor.lock() = acceptor;
    }
}

/// Passes the bytes of one client on, if it is content with the certificate.
async fn pass(stream: TcpStream, behind: SocketAddr, acceptor: TlsAcceptor, accepted: Arc<Mutex<u32>>) {
    if let Ok(mut tls) = acceptor.accept(stream).await {
        *accepted.lock() += 1;
        let mut plain = TcpStream::connect(behind).await.unwrap();
        drop(copy_bidirectional(&mut tls, &mut plain).await);
    }
}

async fn api() -> ScriptedEndpoint {
    let api = ScriptedEndpoint::start(MODEL).await;
    api.on(&chat_path(), Play::json(200, &vllm::chat("theirs", "well done")));
    api
}

fn chat_path() -> String {
    format!("{BASE}/chat/completions")
}

fn yaml(provider: &str) -> String {
    format!(
        "version: 1\nlisteners: [{{ address: \"127.0.0.1:0\" }}]\nadmin: {{ address: \"127.0.0.1:0\" }}\n\
         auth: {{ keys: [{{ hash: \"{}\", tenant: tenant-1, shared: true }}] }}\n\
         providers:\n  - name: outside\n    models: [{{ name: {MODEL}, served_as: theirs }}]\n    \
         api_key: {{ file: key.txt }}\n    {provider}\n",
        key(1).1
    )
}

/// A gateway with a provider at `front`, whose certificate is to come from `issuer`.
async fn gateway(front: &Front, issuer: &Issuer) -> Gateway {
    let folder = Folder::new();
    folder.write("ca.pem", &issuer.pem());
    folder.write("key.txt", OURS);
    let url = format!("https://localhost:{}{BASE}", front.address.port());
    Gateway::start_in(folder, &yaml(&format!("url: \"{url}\"\n    ca: ca.pem")), &[]).await
}

fn call() -> serde_json::Value {
    json!({ "model": MODEL, "max_tokens": 20, "messages": [] })
}

#[tokio::test]
async fn calls_go_to_a_provider_over_tls_with_its_key_and_nothing_of_the_callers() {
    let (issuer, api) = (issuer(), api().await);
    let front = Front::before(&api, acceptor(&issuer, Shown::Good)).await;
    let gateway = gateway(&front, &issuer).await;
    gateway.until_ready(1).await;
    let probed = *front.accepted.lock();
    let request = gateway.chat(call());
    let request = ["x-internal-a", "x-any", "cookie", "api-key", "openai-organization"]
        .into_iter()
        .fold(request, |request, name| request.header(name, "CANARY"));
    let mut connection = maitred_test::Connection::open(gateway.address).await;
    let answer = connection.call(&request).await;
    assert_eq!(answer.status(), 200, "{}", answer.text());
    let received = api.next_on(&chat_path()).await;
    assert_eq!(
        received.head.header("authorization"),
        Some(format!("Bearer {OURS}").as_str())
    );
    let host = format!("localhost:{}", front.address.port());
    assert_eq!(received.head.header("host"), Some(host.as_str()));
    assert_eq!(received.json()["model"], "theirs");
    let head = format!("{:?}", received.head);
    assert!(!head.contains("CANARY") && !head.contains(&gateway.key), "{head}");
    // The next call goes over the same connection, and streams arrive event by event.
    let events = ["one ", "two"];
    api.once(&chat_path(), Play::chat_stream("theirs", &events));
    let mut streamed = call();
    streamed["stream"] = true.into();
    let answer = connection.call(&gateway.chat(streamed)).await;
    let events = answer.events();
    assert!(events.last().is_some_and(maitred_test::Event::is_done), "{events:?}");
    assert_eq!(*front.accepted.lock(), probed + 1, "connections with calls");
    let records = gateway.until_records(2).await;
    assert_eq!(records[0]["pool"], "outside");
    assert_eq!(records[1]["outcome"], "answered");
}

#[tokio::test]
async fn nobody_is_believed_to_be_the_provider_without_a_certificate_that_says_so() {
    let (ours, other, api) = (issuer(), issuer(), api().await);
    let front = Front::before(&api, acceptor(&other, Shown::Good)).await;
    let mut gateway = gateway(&front, &ours).await;
    gateway.child.line("the provider cannot be reached").await;
    assert_eq!(gateway.ask(call()).await.json()["error"]["code"], "no_endpoint");
    front.show(acceptor(&ours, Shown::Good));
    drop(gateway);
    let gateway = self::gateway(&front, &ours).await;
    gateway.until_ready(1).await;
    for bad in [
        acceptor(&other, Shown::Good),
        acceptor(&ours, Shown::OtherName),
        acceptor(&ours, Shown::Expired),
    ] {
        front.show(bad);
        let answer = gateway.ask(call()).await;
        assert_eq!(
            (answer.status(), &answer.json()["error"]["code"]),
            (502, &"connect_failed".into())
        );
    }
    let records = gateway.until_records(3).await;
    let details: Vec<_> = records
        .iter()
        .map(|record| record["detail"].as_str().unwrap_or_default())
        .collect();
    for (detail, words) in details
        .iter()
        .zip(["invalid peer certificate", "not valid for name", "expired"])
    {
        assert!(detail.contains(words), "{details:?}");
    }
    front.show(acceptor(&ours, Shown::Good));
    eventually("the provider to be called again", async || {
        (gateway.ask(call()).await.status() == 200).then_some(())
    })
    .await;
    assert_eq!(
        api.received_on(&chat_path()).len(),
        1,
        "only the last call came through"
    );
}

#[tokio::test]
async fn a_provider_sends_nobody_elsewhere_and_its_limits_are_said() {
    let (issuer, api, elsewhere) = (issuer(), api().await, ScriptedEndpoint::start(MODEL).await);
    let front = Front::before(&api, acceptor(&issuer, Shown::Good)).await;
    let gateway = gateway(&front, &issuer).await;
    gateway.until_ready(1).await;
    let limited = r#"{"error":{"message":"Rate limit reached","type":"requests","code":"rate_limit_exceeded"}}"#;
    let headers = [
        ("content-type", "application/json"),
        ("retry-after", "7"),
        ("x-ratelimit-limit-requests", "CANARY"),
        ("openai-organization", "CANARY"),
        ("set-cookie", "CANARY"),
    ];
    for status in [301, 302, 303, 307, 308] {
        let location = format!("http://{}{CHAT}", elsewhere.address());
        api.once(&chat_path(), Play::whole(status, &[("location", &location)], ""));
        let answer = gateway.ask(call()).await;
        assert_eq!((answer.status(), answer.header("location")), (404, None));
    }
    assert_eq!(elsewhere.received_on(CHAT).len(), 0);
    api.once(&chat_path(), Play::whole(200, &headers, &vllm::chat("theirs", "one")));
    let answer = gateway.ask(call()).await;
    assert_eq!(answer.status(), 200);
    assert!(!format!("{answer:?}").contains("CANARY"), "{answer:?}");
    // What is kept with the account is not for callers.
    let before = api.received_on(&chat_path()).len();
    for path in [
        "/v1/files",
        "/v1/batches",
        "/v1/responses/resp_1",
        "/v1/organization/usage",
    ] {
        let request = Request::get(path).bearer(&gateway.key).header("x-maitred-model", MODEL);
        assert_eq!(request.send(gateway.address).await.status(), 404, "{path}");
    }
    assert_eq!(api.received_on(&chat_path()).len(), before);
    assert_eq!(api.received_on(&format!("{BASE}/files")).len(), 0);
    // Last, for as long as it says nobody asks it again.
    api.once(&chat_path(), Play::whole(429, &headers, limited));
    let answer = gateway.ask(call()).await;
    assert_eq!((answer.status(), answer.header("retry-after")), (429, Some("7")));
    assert!(!format!("{answer:?}").contains("CANARY"), "{answer:?}");
    let answer = gateway.ask(call()).await;
    assert_eq!(answer.status(), 429);
    assert_eq!(api.received_on(&chat_path()).len(), before + 1);
}

#[tokio::test]
async fn nothing_in_a_call_says_where_the_gateway_connects_to() {
    let (endpoint, trap) = (
        ScriptedEndpoint::start(MODEL).await,
        ScriptedEndpoint::start(MODEL).await,
    );
    let gateway = Gateway::ready(&Config::of([endpoint.address()])).await;
    let address = trap.address().to_string();
    let url = format!("http://{address}/trap");
    // URLs in the body go along as they are.
    let body = json!({
        "model": MODEL,
        "base_url": url, "api_base": url, "callback": url, "webhook_url": url,
        "messages": [{ "role": "user", "content": [
            { "type": "image_url", "image_url": { "url": url } },
            { "type": "input_audio", "input_audio": { "url": url } },
            { "type": "file", "file": { "file_url": url } },
        ] }],
        "tools": [{ "type": "mcp", "server_url": url }],
    });
    assert_eq!(gateway.ask(&body).await.status(), 200);
    assert_eq!(endpoint.next_on(CHAT).await.json(), body);
    // Neither do headers say so, nor the form of the target.
    for header in [
        "forwarded",
        "location",
        "referer",
        "origin",
        "x-api-base",
        "x-base-url",
        "x-forwarded-for",
        "x-forwarded-host",
        "x-gateway-destination-endpoint",
        "x-maitred-endpoint",
        "x-original-url",
        "x-real-ip",
        "x-rewrite-url",
        "x-target-url",
        "x-upstream",
    ] {
        for value in [&url, &address] {
            let request = gateway.chat(call()).header(header, value);
            assert_eq!(request.send(gateway.address).await.status(), 200, "{header}: {value}");
        }
    }
    for target in [
        format!("http://{address}{CHAT}"),
        format!("//{address}{CHAT}"),
        format!("{CHAT}@{address}"),
    ] {
        let request = Request::post(&target, call().to_string()).bearer(&gateway.key);
        let answer = request.try_send(gateway.address).await;
        assert!(
            answer.is_none_or(|answer| matches!(answer.status(), 200 | 400 | 404)),
            "{target}"
        );
    }
    let connect = Request::new("CONNECT", &address).bearer(&gateway.key);
    assert!(
        connect
            .try_send(gateway.address)
            .await
            .is_none_or(|answer| answer.status() >= 400)
    );
    assert_eq!(trap.received_on("/trap").len() + trap.received_on(CHAT).len(), 0);
}
