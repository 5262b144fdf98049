//! Who may do what on the administrative listener: every page with every role, with none, and with a wrong token.

use std::net::SocketAddr;

use http::Method;
use maitred_console::{Need, ROUTES, Route};
use maitred_tenant::{KeyHasher, NEW_KEY_RANDOM_BYTES, NewKey, Role};
use maitred_test::{Answer, Folder, Program, Request, eventually};

use crate::certificates::issuer;
use crate::table::{Config, Engine, Gateway, maitred};

/// The token of a role, and its line in the configuration.
fn token(number: u8) -> NewKey {
    NewKey::make(&[100 + number; NEW_KEY_RANDOM_BYTES])
}

/// `admin` with a token for each role, made by [`token`] in the order of [`Role::ALL`].
pub(crate) fn access() -> String {
    let lines = Role::ALL.iter().zip(0..).map(|(role, number)| {
        let hash = token(number).hash(&KeyHasher::new(None));
        format!("{{ name: the-{role}, role: {role}, hash: \"{hash}\" }}")
    });
    format!("access: [{}]", lines.collect::<Vec<_>>().join(", "))
}

/// The token of `role` where [`access`] is configured.
pub(crate) fn token_of(role: Role) -> String {
    let number = Role::ALL.iter().zip(0..).find(|(known, _)| **known == role);
    token(number.unwrap().1).expose().to_owned()
}

/// A configuration with those tokens and an administrative listener at `address`.
pub(crate) fn with_access(config: &Config, address: &str) -> String {
    let open = "admin: { address: \"127.0.0.1:0\" }";
    let yaml = config.to_yaml();
    assert_eq!(yaml.matches(open).count(), 1);
    yaml.replace(open, &format!("admin: {{ address: \"{address}\", {} }}", access()))
}

/// The line of the table as a request, its variables filled with names of nothing.
fn request(route: &Route) -> Request {
    let path = route
        .path
        .split('/')
        .map(|segment| if segment.starts_with('{') { "nothing" } else { segment });
    let path = path.collect::<Vec<_>>().join("/");
    if route.method == Method::GET {
        Request::get(&path)
    } else {
        Request::new(route.method.as_str(), &path)
    }
}

async fn ask(request: Request, admin: SocketAddr, token: Option<&str>) -> Answer {
    let request = request.header("host", "gateway.example");
    match token {
        Some(token) => request.bearer(token).send(admin).await,
        None => request.send(admin).await,
    }
}

#[tokio::test]
async fn every_page_asks_for_its_role_and_nothing_less() {
    let engines = Engine::start_several(1, &[]).await;
    let config = with_access(&Config::engines(&engines), "127.0.0.1:0");
    let gateway = Gateway::start_in(Folder::new(), &config, &[]).await;
    let unknown = NewKey::make(&[7; NEW_KEY_RANDOM_BYTES]);
    let strangers = [
        None,
        Some("nonsense"),
        Some(unknown.expose()),
        // Whoever may call does not administer.
        Some(gateway.key.as_str()),
    ];
    for route in ROUTES {
        for token in strangers {
            let status = ask(request(route), gateway.admin, token).await.status();
            match route.need {
                Need::Nothing => assert!(status == 200 || status == 503, "{route:?}: {status}"),
                Need::Role(_) => assert_eq!(status, 401, "{route:?} with {token:?}"),
            }
        }
        for role in Role::ALL {
            let status = ask(request(route), gateway.admin, Some(&token_of(*role)))
                .await
                .status();
            let allowed = match route.need {
                Need::Nothing => true,
                Need::Role(needed) => role.covers(needed),
            };
            assert_eq!(allowed, ![401, 403].contains(&status), "{route:?} as {role}: {status}");
        }
    }
    // What is not in the table is for nobody, and strangers do not even learn that.
    for (method, path) in [
        ("GET", "/nothing"),
        ("DELETE", "/metrics"),
        ("POST", "/healthz"),
        ("GET", "/admin/v1"),
    ] {
        let request = || Request::new(method, path);
        assert_eq!(
            ask(request(), gateway.admin, None).await.status(),
            401,
            "{method} {path}"
        );
        let status = ask(request(), gateway.admin, Some(&token_of(Role::Admin)))
            .await
            .status();
        assert!(status == 404 || status == 405, "{method} {path}: {status}");
    }
    // A page in a browser gets nothing, whatever it sends.
    let request = Request::get("/metrics").header("origin", "http://evil.example");
    assert_eq!(
        ask(request, gateway.admin, Some(&token_of(Role::Admin))).await.status(),
        403
    );
}

#[tokio::test]
async fn a_token_that_is_removed_is_refused_without_a_restart() {
    let engines = Engine::start_several(1, &[]).await;
    let config = with_access(&Config::engines(&engines), "127.0.0.1:0");
    let gateway = Gateway::start_in(Folder::new(), &config, &[]).await;
    let token = token_of(Role::Viewer);
    let whoami = async || ask(Request::get("/admin/v1/whoami"), gateway.admin, Some(&token)).await;
    assert_eq!(whoami().await.json()["name"], "the-viewer");
    gateway.folder.write(
        "maitred.yaml",
        &config.replace("{ name: the-viewer", "{ expires: 2020-01-01, name: the-viewer"),
    );
    eventually("the token to be refused", async || {
        (whoami().await.status() == 401).then_some(())
    })
    .await;
}

#[tokio::test]
async fn the_command_shows_its_token() {
    let engines = Engine::start_several(1, &[]).await;
    let config = with_access(&Config::engines(&engines), "127.0.0.1:0");
    let gateway = Gateway::start_in(Folder::new(), &config, &[]).await;
    let file = gateway.folder.write("token", &format!("{}\n", token_of(Role::Viewer)));
    let url = format!("http://{}", gateway.admin);
    let explain = async |more: &[&str]| {
        let run = maitred(["explain", "nothing", "--admin", &url]).args(more).run().await;
        assert_eq!(run.code, Some(1));
        run.stderr
    };
    let known = explain(&["--token-file", file.to_str().unwrap()]).await;
    assert!(known.contains("no decision record"), "{known}");
    let unknown = explain(&[]).await;
    assert!(unknown.contains("no token"), "{unknown}");
}

#[tokio::test]
async fn a_certificate_has_a_role_and_tokens_go_encrypted() {
    let folder = Folder::new();
    let issuer = issuer();
    let server = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    folder.write("cert.pem", &server.cert.pem());
    folder.write("key.pem", &server.signing_key.serialize_pem());
    folder.write("clients.pem", &issuer.pem());
    for name in ["ops", "nobody"] {
        let mut params = rcgen::CertificateParams::new(vec![format!("{name}.example.com")]).unwrap();
        params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
        let key = rcgen::KeyPair::generate().unwrap();
        folder.write(&format!("{name}.pem"), &params.signed_by(&key, &issuer).unwrap().pem());
        folder.write(&format!("{name}.key"), &key.serialize_pem());
    }
    let engines = Engine::start_several(1, &[]).await;
    let tls = "{ cert: cert.pem, key: key.pem, client_ca: clients.pem }";
    let ops = "{ name: ops, role: operator, certificate: { dns: ops.example.com } }";
    let config = with_access(&Config::engines(&engines), "127.0.0.1:0")
        .replace("access: [", &format!("tls: {tls}, access: [{ops}, "));
    let gateway = Gateway::start_in(folder, &config, &[]).await;
    let port = gateway.admin.port();
    let curl = async |path: &str, more: &str| {
        let line = format!(
            "curl -s --cacert cert.pem {more} https://localhost:{port}{path} -w '%{{http_code}}' -o answer || true"
        );
        Program::shell(&line)
            .folder(gateway.folder.path())
            .run()
            .await
            .success()
    };
    let shown = |name: &str| format!("--cert {name}.pem --key {name}.key");
    assert_eq!(curl("/admin/v1/whoami", &shown("ops")).await, "200");
    assert_eq!(gateway.folder.read("answer"), r#"{"name":"ops","role":"operator"}"#);
    assert_eq!(
        curl("/admin/v1/keys", &format!("{} -X POST", shown("ops"))).await,
        "403"
    );
    assert_eq!(curl("/admin/v1/whoami", &shown("nobody")).await, "401");
    assert_eq!(curl("/admin/v1/whoami", "").await, "401");
    let token = token_of(Role::Viewer);
    assert_eq!(
        curl("/metrics", &format!("-H 'Authorization: Bearer {token}'")).await,
        "200"
    );
    // The command checks whom it talks to.
    let url = format!("https://localhost:{port}");
    let list = |more: &[&str]| {
        let run = maitred(["keys", "list", "--admin", &url]).args(more);
        run.env("MAITRED_ADMIN_TOKEN", &token).folder(gateway.folder.path())
    };
    assert!(list(&["--ca", "cert.pem"]).run().await.success().contains("tenant-1"));
    let refused = list(&["--ca", "clients.pem"]).run().await;
    assert!(
        refused.code == Some(1) && refused.stderr.contains("--ca"),
        "{refused:?}"
    );
}
