//! Listeners with TLS and with HTTP/2.

use std::net::SocketAddr;
use std::sync::Arc;

use maitred_test::{
    BodyEnd, Connection, End, Folder, Gate, Http2, Play, Request, ScriptedEndpoint, Signal, SseReader, eventually, vllm,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto};

use crate::table::{CHAT, Config, Gateway, MODEL};

fn chat() -> String {
    format!(r#"{{"model":"{MODEL}","messages":[]}}"#)
}

fn streamed() -> String {
    format!(r#"{{"model":"{MODEL}","stream":true,"messages":[]}}"#)
}

async fn one_with(more: impl FnOnce(Config) -> Config) -> (ScriptedEndpoint, Gateway) {
    let endpoint = ScriptedEndpoint::start(MODEL).await;
    let gateway = Gateway::ready(&more(Config::of([endpoint.address()]))).await;
    (endpoint, gateway)
}

#[tokio::test]
async fn http2_needs_no_upgrade_in_clear_text() {
    let (endpoint, gateway) = one_with(|config| config).await;
    endpoint.once(CHAT, Play::json(200, &vllm::chat(MODEL, "one")));
    endpoint.once(CHAT, Play::chat_stream(MODEL, &["one", "two"]));
    let client = Http2::open(gateway.address).await;
    let (status, body) = client.post(CHAT, &gateway.key, &chat()).await;
    assert_eq!(
        (status.as_u16(), body.as_ref()),
        (200, vllm::chat(MODEL, "one").as_bytes())
    );
    let (status, body) = client.post(CHAT, &gateway.key, &streamed()).await;
    assert_eq!(status.as_u16(), 200);
    assert!(SseReader::all(&body).last().is_some_and(maitred_test::Event::is_done));
    let (status, body) = client.post(CHAT, "wrong", &chat()).await;
    let error: serde_json::Value = serde_json::from_slice(&body).unwrap();
    assert_eq!((status.as_u16(), &error["error"]["code"]), (401, &"invalid_key".into()));
    // To the endpoint everything is HTTP/1.1, with the endpoint's own name.
    let head = endpoint.next_on(CHAT).await.head;
    assert_eq!(head.first_line, format!("POST {CHAT} HTTP/1.1"));
    assert_eq!(head.header("host"), Some(endpoint.address().to_string().as_str()));
    assert_eq!(gateway.until_records(3).await.len(), 3);
}

#[tokio::test]
async fn a_broken_stream_is_reset_after_its_error() {
    let (endpoint, gateway) = one_with(|config| config).await;
    endpoint.on(CHAT, Play::stream().chunk(vllm::chat_event(MODEL, "word")).cut());
    let client = Http2::open(gateway.address).await;
    let (head, body, end) = client.send(client.request(CHAT, &gateway.key, &streamed())).await;
    let events = SseReader::all(&body);
    assert_eq!((head.status.as_u16(), end), (200, BodyEnd::Cut));
    assert_eq!(
        events.last().unwrap().json()["error"]["code"],
        "upstream_broken",
        "{events:?}"
    );
    assert!(!events.iter().any(maitred_test::Event::is_done));
    // The connection is none the worse for it.
    endpoint.on(CHAT, Play::json(200, &vllm::chat(MODEL, "one")));
    assert_eq!(client.post(CHAT, &gateway.key, &chat()).await.0.as_u16(), 200);
}

#[tokio::test]
async fn a_stream_that_is_given_up_cancels_its_call_alone() {
    let (endpoint, gateway) = one_with(|config| config).await;
    let gate = Gate::closed();
    let play = || Play::stream().chunk(vllm::chat_event(MODEL, "word"));
    endpoint.once(CHAT, play().hang());
    endpoint.once(CHAT, play().wait(&gate).chunk(vllm::chat_end(MODEL, None)).end());
    let client = Arc::new(Http2::open(gateway.address).await);
    let call = || {
        let (client, key) = (Arc::clone(&client), gateway.key.clone());
        maitred_test::background(async move { client.send(client.request(CHAT, &key, &streamed())).await.2 })
    };
    let given_up = call();
    let first = endpoint.next_on(CHAT).await;
    let kept = call();
    endpoint.next_on(CHAT).await;
    drop(given_up);
    assert_eq!(first.ended().await, End::CallerClosed);
    gate.open();
    assert_eq!(kept.join().await, BodyEnd::Complete);
    let mut outcomes: Vec<_> = gateway
        .until_records(2)
        .await
        .iter()
        .map(|record| record["outcome"].to_string())
        .collect();
    outcomes.sort();
    assert_eq!(outcomes, ["\"answered\"", "\"client_closed\""]);
}

#[tokio::test]
async fn a_client_that_grants_no_room_is_given_up() {
    let times = "timeouts: { connect: 200ms, first_token: 500ms, idle: 500ms, total: 500ms }";
    let (endpoint, gateway) = one_with(|config| config.file(times)).await;
    let large = vllm::chat_event(MODEL, &"x".repeat(512 << 10));
    endpoint.once(
        CHAT,
        (0..64).fold(Play::stream(), |play, _| play.chunk(large.clone())).hang(),
    );
    let client = Http2::open(gateway.address).await;
    let request = client.request(CHAT, &gateway.key, &streamed());
    let answer = client.begin(request).await.unwrap();
    // The body is not read from here on, and the stream stays open at this end.
    assert_eq!(endpoint.next_on(CHAT).await.ended().await, End::CallerClosed);
    assert_eq!(gateway.until_records(1).await[0]["outcome"], "client_closed");
    gateway.until_idle().await;
    // Other streams of the connection go on.
    assert_eq!(client.post(CHAT, &gateway.key, &chat()).await.0.as_u16(), 200);
    drop(answer);
}

/// The most streams that the gateway says it takes on one connection.
async fn announced_streams(address: SocketAddr) -> Option<u32> {
    const MAX_CONCURRENT_STREAMS: u16 = 3;
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream
        .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0")
        .await
        .unwrap();
    let mut head = [0; 9];
    stream.read_exact(&mut head).await.unwrap();
    assert_eq!(head[3], 4, "the first frame is SETTINGS (RFC 9113 section 3.4)");
    let mut settings = vec![0; usize::from(head[2])];
    stream.read_exact(&mut settings).await.unwrap();
    let pairs = settings.chunks_exact(6).map(|pair| {
        let id = u16::from_be_bytes([pair[0], pair[1]]);
        (id, u32::from_be_bytes([pair[2], pair[3], pair[4], pair[5]]))
    });
    pairs
        .filter(|(id, _)| *id == MAX_CONCURRENT_STREAMS)
        .map(|(_, value)| value)
        .next()
}

#[tokio::test]
async fn one_connection_has_a_limit_of_streams() {
    let (endpoint, gateway) = one_with(|config| config).await;
    assert_eq!(announced_streams(gateway.address).await, Some(32));
    let gate = Gate::closed();
    endpoint.on(
        CHAT,
        Play::default()
            .wait(&gate)
            .raw(format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
                vllm::chat(MODEL, "one").len()
            ))
            .raw(vllm::chat(MODEL, "one")),
    );
    let client = Arc::new(Http2::open(gateway.address).await);
    // The client has to know the limit before it opens too many.
    let models = hyper::Request::get(format!("http://{}/v1/models", gateway.address));
    let models = models
        .header("x-api-key", &gateway.key)
        .body(http_body_util::Full::default())
        .unwrap();
    assert_eq!(client.send(models).await.0.status.as_u16(), 200);
    let calls: Vec<_> = (0..40)
        .map(|_| {
            let (client, key) = (Arc::clone(&client), gateway.key.clone());
            maitred_test::background(async move { client.post(CHAT, &key, &chat()).await.0.as_u16() })
        })
        .collect();
    eventually("32 calls at the endpoint", async || {
        (endpoint.received_on(CHAT).len() == 32).then_some(())
    })
    .await;
    // A connection of its own is not held up by the full one.
    let other = Connection::open(gateway.address)
        .await
        .call(&Request::get("/v1/models").bearer(&gateway.key))
        .await;
    assert_eq!((other.status(), endpoint.received_on(CHAT).len()), (200, 32));
    gate.open();
    for call in calls {
        assert_eq!(call.join().await, 200);
    }
    assert_eq!(endpoint.received_on(CHAT).len(), 40);

    let (_endpoint, gateway) =
        one_with(|config| config.listeners("[{ address: \"127.0.0.1:0\", http2: { max_concurrent_streams: 5 } }]"))
            .await;
    assert_eq!(announced_streams(gateway.address).await, Some(5));
}

/// A gateway with a listener in TLS and one in clear text, and the certificate of the first.
async fn with_tls() -> (ScriptedEndpoint, Gateway, CertificateDer<'static>) {
    let folder = Folder::new();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    folder.write("cert.pem", &made.cert.pem());
    folder.write("key.pem", &made.signing_key.serialize_pem());
    let endpoint = ScriptedEndpoint::start(MODEL).await;
    let tls = "{ address: \"127.0.0.1:0\", tls: { cert: cert.pem, key: key.pem } }";
    let config = Config::of([endpoint.address()]).listeners(&format!("[{tls}, {{ address: \"127.0.0.1:0\" }}]"));
    let gateway = Gateway::start_in(folder, &config.to_yaml(), &[]).await;
    gateway.until_ready(1).await;
    (endpoint, gateway, made.cert.der().clone())
}

/// Shakes hands, offering these protocols.
async fn handshake(
    address: SocketAddr,
    certificate: CertificateDer<'static>,
    offered: &[&str],
) -> TlsStream<TcpStream> {
    let mut roots = RootCertStore::empty();
    roots.add(certificate).unwrap();
    let mut config = ClientConfig::builder_with_provider(Arc::new(crypto::aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = offered.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await
        .unwrap()
}

#[tokio::test]
async fn tls_agrees_on_the_protocol() {
    let (endpoint, gateway, certificate) = with_tls().await;
    let check = async |offered: &[&str], agreed: Option<&str>| {
        let stream = handshake(gateway.address, certificate.clone(), offered).await;
        let found = stream
            .get_ref()
            .1
            .alpn_protocol()
            .map(|protocol| String::from_utf8_lossy(protocol).into_owned());
        assert_eq!(found.as_deref(), agreed, "{offered:?}");
        endpoint.once(CHAT, Play::chat_stream(MODEL, &["one"]));
        let body = if agreed == Some("h2") {
            let client = Http2::over(stream, gateway.address).await;
            client.post(CHAT, &gateway.key, &streamed()).await.1.to_vec()
        } else {
            Connection::over(stream).call(&gateway.chat(streamed())).await.body
        };
        assert!(
            SseReader::all(&body).last().is_some_and(maitred_test::Event::is_done),
            "{offered:?}"
        );
    };
    check(&["h2", "http/1.1"], Some("h2")).await;
    check(&["http/1.1"], Some("http/1.1")).await;
    check(&[], None).await;
    // The second listener speaks clear text.
    let models = Request::get("/v1/models").bearer(&gateway.key);
    assert_eq!(models.send(gateway.addresses[1]).await.status(), 200);
}

#[tokio::test]
async fn a_renewed_certificate_is_used_and_a_broken_one_is_not() {
    let (_endpoint, mut gateway, old) = with_tls().await;
    gateway.folder.write("cert.pem", "no certificate");
    gateway.child.signal(Signal::HangUp);
    gateway.child.line("the old certificate stays in use").await;
    handshake(gateway.address, old, &[]).await;
    let renewed = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    gateway.folder.write("key.pem", &renewed.signing_key.serialize_pem());
    gateway.folder.write("cert.pem", &renewed.cert.pem());
    gateway.child.signal(Signal::HangUp);
    gateway.child.line("the certificate is renewed").await;
    handshake(gateway.address, renewed.cert.der().clone(), &[]).await;
}

#[tokio::test]
async fn what_is_no_handshake_is_sent_away() {
    let (_endpoint, gateway, certificate) = with_tls().await;
    for bytes in [
        &b"GET /v1/models HTTP/1.1\r\nhost: h\r\n\r\n"[..],
        b"\x16\x03\x01\xff\xff",
        b"\0\0\0\0\0\0\0\0",
    ] {
        let mut connection = Connection::open(gateway.address).await;
        connection.send(bytes).await;
        connection.shut().await;
        connection.closed().await;
    }
    let refused = async || {
        gateway
            .metric("maitred_connections_refused_total", &[("reason", "tls_handshake")])
            .await
    };
    eventually("three refused handshakes", async || {
        (refused().await == 3.0).then_some(())
    })
    .await;
    let stream = handshake(gateway.address, certificate, &[]).await;
    assert_eq!(Connection::over(stream).call(&gateway.chat(chat())).await.status(), 200);
    gateway.until_connections(0).await;
}
