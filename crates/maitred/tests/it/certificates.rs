//! Callers with client certificates, and services that call for others.

use std::net::SocketAddr;
use std::sync::Arc;

use maitred_test::{Answer, Connection, Folder, Play, Request, ScriptedEndpoint, TokenSigner, key_set, vllm};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair, SanType,
};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto};

use crate::table::{CHAT, Config, Gateway, MODEL, key};

pub(crate) type Issuer = CertifiedIssuer<'static, KeyPair>;

pub(crate) fn issuer() -> Issuer {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// A certificate of a client, with its key.
struct Shown(CertificateDer<'static>, KeyPair);

fn shown(issuer: &Issuer, uri: &str, common_name: &str) -> Shown {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.subject_alt_names = vec![SanType::URI(uri.try_into().unwrap())];
    params.distinguished_name.push(DnType::CommonName, common_name);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let key = KeyPair::generate().unwrap();
    Shown(params.signed_by(&key, issuer).unwrap().der().clone(), key)
}

/// A listener with TLS, and what its clients need to know of it.
struct Table {
    endpoint: ScriptedEndpoint,
    gateway: Gateway,
    server: CertificateDer<'static>,
}

async fn table(issuer: &Issuer, more_tls: &str, auth: &str, files: &[(&str, &str)]) -> Table {
    let folder = Folder::new();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    folder.write("cert.pem", &made.cert.pem());
    folder.write("key.pem", &made.signing_key.serialize_pem());
    folder.write("clients.pem", &issuer.pem());
    for (name, text) in files {
        folder.write(name, text);
    }
    let endpoint = ScriptedEndpoint::start(MODEL).await;
    endpoint.on(CHAT, Play::json(200, &vllm::chat(MODEL, "one")));
    let tls = format!("{{ cert: cert.pem, key: key.pem, client_ca: clients.pem{more_tls} }}");
    let config = Config::of([endpoint.address()])
        .listeners(&format!("[{{ address: \"127.0.0.1:0\", tls: {tls} }}]"))
        .auth(auth);
    let gateway = Gateway::start_in(folder, &config.to_yaml(), &[]).await;
    gateway.until_ready(1).await;
    Table {
        endpoint,
        gateway,
        server: made.cert.der().clone(),
    }
}

/// Calls over a connection of its own; `None` if the gateway does not let it in.
async fn call(table: &Table, shown: Option<&Shown>, request: &Request) -> Option<Answer> {
    let mut roots = RootCertStore::empty();
    roots.add(table.server.clone()).unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(crypto::aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let config = match shown {
        None => builder.with_no_client_auth(),
        Some(Shown(certificate, key)) => {
            let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
            builder.with_client_auth_cert(vec![certificate.clone()], key).unwrap()
        }
    };
    let address: SocketAddr = table.gateway.address;
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.ok()?;
    let mut connection = Connection::over(stream);
    connection.send(&request.to_bytes()).await;
    let head = connection.try_head().await?;
    Some(connection.rest(head).await)
}

fn chat() -> Request {
    Request::post(CHAT, format!(r#"{{"model":"{MODEL}","max_tokens":20,"messages":[]}}"#))
}

fn code(answer: &Answer) -> Value {
    answer.json()["error"]["code"].clone()
}

#[tokio::test]
async fn a_certificate_says_whose_the_calls_are() {
    let (ours, other) = (issuer(), issuer());
    let auth = format!(
        "{{ keys: [{{ hash: \"{}\", tenant: by-key, shared: true }}], certificates: [\
         {{ name: {{ uri: \"spiffe://acme/agent\" }}, tenant: acme, user: agent }}, \
         {{ name: {{ common_name: batch }}, tenant: night }}] }}",
        key(1).1
    );
    let table = table(&ours, "", &auth, &[]).await;
    let check = async |shown: Option<&Shown>, request: Request, status: u16| {
        assert_eq!(call(&table, shown, &request).await.unwrap().status(), status);
    };
    check(Some(&shown(&ours, "spiffe://acme/agent", "x")), chat(), 200).await;
    check(Some(&shown(&ours, "spiffe://acme/x", "batch")), chat(), 200).await;
    check(Some(&shown(&ours, "spiffe://acme/agent/", "Batch")), chat(), 401).await;
    check(None, chat(), 401).await;
    check(None, chat().bearer(&table.gateway.key), 200).await;
    let agent = shown(&ours, "spiffe://acme/agent", "x");
    check(Some(&agent), chat().bearer(&table.gateway.key), 200).await;
    check(Some(&agent), chat().bearer(&key(2).0), 401).await;
    check(Some(&agent), chat().header("x-maitred-user", "root"), 403).await;
    let stranger = shown(&other, "spiffe://acme/agent", "batch");
    assert!(
        call(&table, Some(&stranger), &chat()).await.is_none(),
        "nobody we know vouches for it"
    );
    let records = table.gateway.until_records(8).await;
    let whose: Vec<_> = records
        .iter()
        .map(|record| (record["tenant"].as_str(), record["user"].as_str()))
        .collect();
    assert_eq!(
        whose,
        [
            (Some("acme"), Some("agent")),
            (Some("night"), None),
            (None, None),
            (None, None),
            (Some("by-key"), None),
            (Some("by-key"), None),
            (None, None),
            (None, None),
        ]
    );
    assert_eq!(table.endpoint.received_on(CHAT).len(), 4);
}

#[tokio::test]
async fn a_listener_may_insist_on_certificates() {
    let ours = issuer();
    let auth = "{ certificates: [{ name: { common_name: batch }, tenant: night }] }";
    let table = table(&ours, ", client_required: true", auth, &[]).await;
    assert!(call(&table, None, &chat()).await.is_none());
    let batch = shown(&ours, "spiffe://acme/x", "batch");
    assert_eq!(call(&table, Some(&batch), &chat()).await.unwrap().status(), 200);
}

#[expect(
    clippy::disallowed_methods,
    reason = "tokens have dates, and the gateway is a real one"
)]
fn now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.unwrap().as_secs()
}

/// A gateway that must know the user of each call: key 1 names users, 2 shows their tokens, 3 is shared, 4 is one user's.
async fn with_services(signer: &TokenSigner) -> (ScriptedEndpoint, Gateway) {
    let endpoint = ScriptedEndpoint::start(MODEL).await;
    endpoint.on(CHAT, Play::json(200, &vllm::chat(MODEL, "one")));
    let folder = Folder::new();
    folder.write("jwks.json", &key_set([signer]));
    let keys = [
        (1, "on_behalf: named"),
        (2, "on_behalf: signed"),
        (3, "shared: true"),
        (4, "user: ada"),
    ];
    let keys = keys.map(|(number, more)| format!("{{ hash: \"{}\", tenant: acme, {more} }}", key(number).1));
    let auth = format!(
        "{{ require_user: true, keys: [{}], issuers: [{{ issuer: i, audiences: [maitred], jwks: {{ file: jwks.json }}, \
         claims: {{ tenant: {{ claim: tenant }} }} }}] }}",
        keys.join(", ")
    );
    let config = Config::of([endpoint.address()])
        .auth(&auth)
        .file("quotas: [{ name: each, per: [user], tokens_per_day: 30 }]");
    let gateway = Gateway::start_in(folder, &config.to_yaml(), &[]).await;
    gateway.until_ready(1).await;
    (endpoint, gateway)
}

#[tokio::test]
async fn services_act_for_users_as_far_as_they_are_trusted() {
    let signer = TokenSigner::ed25519("k");
    let (endpoint, gateway) = with_services(&signer).await;
    let token = |tenant: &str, user: &str| {
        signer.token(&json!({ "iss": "i", "aud": "maitred", "exp": now() + 600, "sub": user, "tenant": tenant }))
    };
    let send = async |number: u8, named: Option<&str>, token: Option<String>| {
        let mut request = chat().bearer(&key(number).0);
        if let Some(user) = named {
            request = request.header("x-maitred-user", user);
        }
        if let Some(token) = token {
            request = request.header("x-maitred-user-token", &token);
        }
        let answer = request.send(gateway.address).await;
        (answer.status(), code(&answer).as_str().unwrap_or_default().to_owned())
    };
    let refused = (403, "user_not_allowed".to_owned());
    let ok = (200, String::new());
    assert_eq!(send(1, Some("eve"), None).await, ok);
    assert_eq!(
        send(1, Some("eve"), None).await,
        (429, "quota_exceeded".to_owned()),
        "the quota sees the user"
    );
    assert_eq!(send(1, Some("bob"), None).await, ok);
    assert_eq!(send(1, None, None).await, refused);
    assert_eq!(send(1, Some(""), None).await, refused);
    assert_eq!(send(2, Some("eve"), None).await, refused);
    assert_eq!(send(2, None, Some(token("acme", "cid"))).await, ok);
    assert_eq!(send(2, None, Some(token("other", "cid"))).await, refused);
    assert_eq!(
        send(2, None, Some("a.b.c".to_owned())).await,
        (401, "invalid_key".to_owned())
    );
    assert_eq!(send(1, Some("eve"), Some(token("acme", "cid"))).await, refused);
    assert_eq!(send(3, None, Some(token("acme", "cid"))).await, refused);
    assert_eq!(send(3, Some("eve"), None).await, refused);
    assert_eq!(send(3, None, None).await, ok);
    assert_eq!(send(4, Some("ada"), None).await, ok);
    assert_eq!(send(4, Some("eve"), None).await, refused);
    let records = gateway.until_records(15).await;
    assert_eq!(
        (&records[6]["user"], &records[6]["issuer"]),
        (&"cid".into(), &"i".into())
    );
    assert_eq!(
        (&records[12]["shared_key"], &records[12]["user"]),
        (&true.into(), &Value::Null)
    );
    let sent = endpoint.next_on(CHAT).await.head;
    assert_eq!(
        (sent.header("x-maitred-user"), sent.header("x-maitred-user-token")),
        (None, None)
    );
}
