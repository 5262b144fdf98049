//! The commands that look at configurations and make keys; secrets stay secret.

use std::path::{Path, PathBuf};

use maitred_test::{Finished, Folder, Play, Request, ScriptedEndpoint, eventually};
use serde_json::Value;
use tokio::net::TcpListener;

use crate::table::{CHAT, Config, Gateway, MODEL, key, maitred};

/// A pepper, long enough to be one.
const PEPPER: &str = "canary-pepper-5d41402abc4b2a76";

fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The examples, copied into a folder where the secrets that some of them name exist.
fn examples() -> (Folder, Vec<String>) {
    let folder = Folder::new();
    let secret = folder.write("endpoint.key", "secret\n");
    let mut names = Vec::new();
    for entry in std::fs::read_dir(project().join("examples")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "yaml") {
            continue;
        }
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let text = std::fs::read_to_string(&path).unwrap();
        let secret = secret.to_str().unwrap();
        let text = text.replace("/run/secrets/vllm-api-key", secret);
        folder.write(&name, &text.replace("/run/secrets/provider-api-key", secret));
        names.push(name);
    }
    names.sort();
    (folder, names)
}

async fn run_in(folder: &Folder, arguments: &[&str]) -> Finished {
    maitred(arguments)
        .env("MAITRED_PEPPER", PEPPER)
        .folder(folder.path())
        .run()
        .await
}

#[tokio::test]
async fn every_example_is_valid_and_so_is_what_it_means() {
    let (folder, names) = examples();
    assert!(names.len() >= 5, "{names:?}");
    for name in names {
        let checked = run_in(&folder, &["check", "-c", &name]).await.success();
        assert_eq!(checked, format!("{name} is valid\n"));
        let effective = run_in(&folder, &["config", "--effective", "-c", &name]).await.success();
        for section in ["listeners:", "admin:", "timeouts:", "limits:", "log:"] {
            assert!(effective.contains(&format!("\n{section}")), "{name}: {effective}");
        }
        // With all defaults written out it is a file that means the same.
        folder.write("effective.yaml", &effective);
        let again = run_in(&folder, &["config", "--effective", "-c", "effective.yaml"])
            .await
            .success();
        assert_eq!(again, effective, "{name}");
    }
}

#[tokio::test]
async fn all_that_is_wrong_is_shown_at_once_with_its_place() {
    let folder = Folder::new();
    let yaml = "version: 1\nauth: { anonymous: { tenant: t } }\npools:\n  - name: a\n    modles: [{ name: m }]\n    models: [{ name: m }]\n    \
                profile: defualt\n    endpoints:\n      - address: 127.0.0.1\ntimeouts: { idle: 5 }\n";
    folder.write("broken.yaml", yaml);
    let finished = run_in(&folder, &["check", "-c", "broken.yaml"]).await;
    assert_eq!(finished.code, Some(1));
    for part in [
        "broken.yaml:5:",
        "`models`",
        "broken.yaml:7:",
        "`default`",
        "broken.yaml:9:",
        "broken.yaml:10:",
        "modles: *",
        "^",
    ] {
        assert!(finished.stderr.contains(part), "{part}:\n{}", finished.stderr);
    }
    assert_eq!(finished.stdout, "");
    let serving = run_in(&folder, &["serve", "-c", "broken.yaml"]).await;
    assert_eq!((serving.code, &serving.stderr), (Some(1), &finished.stderr));
    folder.write("broken.yaml", "version: 1\npools: [\n");
    assert_eq!(run_in(&folder, &["check", "-c", "broken.yaml"]).await.code, Some(1));
    let missing = run_in(&folder, &["check", "-c", "missing.yaml"]).await;
    assert_eq!(missing.code, Some(1));
    assert!(
        missing.stderr.contains("cannot read missing.yaml"),
        "{}",
        missing.stderr
    );
}

#[tokio::test]
async fn schema_and_reference_are_those_of_the_documents() {
    let folder = Folder::new();
    let check = async |flag: &str, page: &str| {
        let printed = run_in(&folder, &["config", flag]).await.success();
        let written = std::fs::read_to_string(project().join("docs/reference").join(page)).unwrap();
        assert!(printed.trim_end() == written.trim_end(), "{page} is stale");
    };
    check("--schema", "config.schema.json").await;
    check("--reference", "config.md").await;
    let schema = run_in(&folder, &["config", "--schema"]).await.success();
    assert!(serde_json::from_str::<Value>(&schema).is_ok());
}

/// What follows `label` on its line.
fn printed<'a>(text: &'a str, label: &str) -> &'a str {
    text.lines()
        .find_map(|line| line.strip_prefix(label))
        .expect(label)
        .trim()
}

#[tokio::test]
async fn a_new_key_is_let_in_once_its_hash_is_in_the_file() {
    let endpoint = ScriptedEndpoint::start(MODEL).await;
    let config = Config::of([endpoint.address()]);
    let gateway = Gateway::ready(&config).await;
    let made = maitred(["keys", "new", "--tenant", "new-tenant"]).run().await.success();
    let (new, hash) = (printed(&made, "key:"), printed(&made, "hash:"));
    assert!(!hash.contains(new), "{made}");
    let other = maitred(["keys", "new"]).run().await.success();
    assert_ne!(printed(&other, "key:"), new);
    let ask = async || {
        Request::get("/v1/models")
            .bearer(new)
            .send(gateway.address)
            .await
            .status()
    };
    assert_eq!(ask().await, 401);
    // The lines that the command prints are the lines to add.
    let (_, lines) = made.split_once("auth:\n  keys:\n").unwrap();
    gateway.rewrite(&config.clone().auth(&format!("\n  keys:\n{lines}")));
    eventually("the new key to be let in", async || (ask().await == 200).then_some(())).await;
    // The old ones are gone with the same reload.
    assert_eq!(gateway.ask("{}").await.status(), 401);
    eventually("a record with the tenant", async || {
        gateway
            .records()
            .iter()
            .any(|record| record["tenant"] == "new-tenant")
            .then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_pepper_makes_other_hashes() {
    let folder = Folder::new();
    folder.write("pepper", &format!("{PEPPER}\n"));
    let by_variable = run_in(&folder, &["keys", "new", "--pepper-env", "MAITRED_PEPPER"])
        .await
        .success();
    let by_file = run_in(&folder, &["keys", "new", "--pepper-file", "pepper"])
        .await
        .success();
    let endpoint = ScriptedEndpoint::start(MODEL).await;
    let entry = |made: &str| format!("{{ hash: \"{}\", tenant: t, shared: true }}", printed(made, "hash:"));
    let without = maitred(["keys", "new"]).run().await.success();
    let auth = [&by_variable, &by_file, &without].map(|made| entry(made)).join(", ");
    let config = Config::of([endpoint.address()]).auth(&format!("{{ pepper: {{ file: pepper }}, keys: [{auth}] }}"));
    let gateway = Gateway::start_in(folder, &config.to_yaml(), &[]).await;
    for (made, status) in [(&by_variable, 200), (&by_file, 200), (&without, 401)] {
        let answer = Request::get("/v1/models")
            .bearer(printed(made, "key:"))
            .send(gateway.address)
            .await;
        assert_eq!(answer.status(), status, "{made}");
    }
    let missing = maitred(["keys", "new", "--pepper-env", "NO_SUCH_VARIABLE"]).run().await;
    assert_eq!(missing.code, Some(1));
}

/// Tries to serve, which must fail, and gives the reason.
async fn refused(config: &Config) -> String {
    let folder = Folder::new();
    folder.write("maitred.yaml", &config.to_yaml());
    let finished = run_in(&folder, &["serve"]).await;
    assert_eq!(finished.code, Some(1), "{}", finished.stderr);
    finished.stderr
}

#[tokio::test]
async fn what_is_not_safe_or_not_possible_is_refused_with_the_reason() {
    let config = || Config::of(["127.0.0.1:8000".parse().unwrap()]);
    let anonymous = || config().auth("{ anonymous: { tenant: t } }");
    let check = async |config: Config, parts: &[&str]| {
        let reason = refused(&config).await;
        for part in parts {
            assert!(reason.contains(part), "{part}: {reason}");
        }
    };
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"] {
        let listeners = format!("[{{ address: \"{address}\" }}]");
        check(
            anonymous().listeners(&listeners),
            &["auth.anonymous", "maitred.yaml:2:"],
        )
        .await;
    }
    check(config().auth("{}"), &["auth", "keys"]).await;
    let open = config().to_yaml().replace(
        "admin: { address: \"127.0.0.1:0\" }",
        "admin: { address: \"0.0.0.0:0\" }",
    );
    let folder = Folder::new();
    folder.write("maitred.yaml", &open);
    let finished = run_in(&folder, &["serve"]).await;
    assert!(
        finished.code == Some(1) && finished.stderr.contains("loopback"),
        "{}",
        finished.stderr
    );
    // A key itself in place of its hash is refused, and not shown.
    let secret = key(1).0;
    let reason = refused(&config().auth(&format!(
        "{{ keys: [{{ hash: \"{secret}\", tenant: t, shared: true }}] }}"
    )))
    .await;
    assert!(reason.contains("hash") && !reason.contains(&secret), "{reason}");
    let secretless = config().pool("api_key: { file: no-such.key }");
    check(secretless, &["the file `no-such.key` cannot be read: No such file"]).await;
    let secretless = config().pool("api_key: { env: NO_SUCH_VARIABLE }");
    check(
        secretless,
        &["`NO_SUCH_VARIABLE` cannot be read: environment variable not found"],
    )
    .await;
    let tls = "[{ address: \"127.0.0.1:0\", tls: { cert: no-cert.pem, key: no-key.pem } }]";
    check(config().listeners(tls), &["no-cert.pem"]).await;
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = taken.local_addr().unwrap().to_string();
    check(
        config().listeners(&format!("[{{ address: \"{address}\" }}]")),
        &["cannot listen", &address],
    )
    .await;
}

#[tokio::test]
async fn secrets_prompts_and_answers_are_written_nowhere() {
    let folder = Folder::new();
    folder.write("pepper", PEPPER);
    folder.write("endpoint.key", "canary-upstream-key");
    let made = run_in(&folder, &["keys", "new", "--pepper-file", "pepper"])
        .await
        .success();
    let (own, hash) = (printed(&made, "key:").to_owned(), printed(&made, "hash:"));
    let endpoint = ScriptedEndpoint::start(MODEL).await;
    endpoint.once(CHAT, Play::json(200, &maitred_test::vllm::chat(MODEL, "canary-answer")));
    endpoint.once(CHAT, Play::chat_stream(MODEL, &["canary-answer"]));
    endpoint.once(
        CHAT,
        Play::stream()
            .chunk(maitred_test::vllm::chat_event(MODEL, "canary-answer"))
            .cut(),
    );
    endpoint.once(CHAT, Play::json(500, r#"{"detail":"it broke"}"#));
    let auth = format!("{{ pepper: {{ file: pepper }}, keys: [{{ hash: \"{hash}\", tenant: t, shared: true }}] }}");
    let config = Config::of([endpoint.address()])
        .auth(&auth)
        .pool("api_key: { file: endpoint.key }");
    let gateway = Gateway::start_in(folder, &config.file("log: { level: trace }").to_yaml(), &[]).await;
    gateway.until_ready(1).await;
    let mut seen = String::new();
    let mut ask = async |key: &str, body: &str| {
        let request = Request::post(&format!("{CHAT}?q=canary-query"), body)
            .bearer(key)
            .header("cookie", "canary-cookie");
        seen.push_str(&request.send(gateway.address).await.text());
    };
    let body =
        |more: &str| format!(r#"{{"model":"{MODEL}","messages":[{{"role":"user","content":"canary-prompt"}}]{more}}}"#);
    ask(&own, &body("")).await;
    ask(&own, &body(r#","stream":true"#)).await;
    ask(&own, &body(r#","stream":true"#)).await;
    ask(&own, &body("")).await;
    ask("canary-wrong-key", &body("")).await;
    ask(&own, &body(r#","stream":"canary-prompt""#)).await;
    ask(&own, &body("canary-prompt")).await;
    gateway.until_records(7).await;
    // The client gets its own answer, of course.
    assert_eq!(seen.matches("canary-answer").count(), 3, "{seen}");
    let mut written = seen.replace("canary-answer", "");
    for page in ["/metrics", "/endpoints", "/readyz", "/healthz", "/nothing"] {
        written.push_str(&gateway.page(page).await.text());
    }
    let effective = ["config", "--effective", "--config", "maitred.yaml"];
    written.push_str(&run_in(&gateway.folder, &effective).await.success());
    written.push_str(&gateway.folder.read("records.log"));
    written.push_str(&gateway.child.output());
    assert!(written.contains("TRACE"), "the log was to tell everything");
    let secret = own.rsplit('-').next().unwrap();
    for canary in ["canary", PEPPER, own.as_str(), secret] {
        let shown = written.lines().find(|line| line.contains(canary));
        assert_eq!(shown, None, "{canary}");
    }
}

#[tokio::test]
async fn every_command_explains_itself() {
    for arguments in [
        &["--help"][..],
        &["serve", "--help"],
        &["check", "--help"],
        &["config", "--help"],
        &["keys", "new", "--help"],
        &["demo", "--help"],
        &["engine", "--help"],
    ] {
        let help = maitred(arguments).run().await.success();
        assert!(help.contains("Usage: maitred"), "{help}");
    }
    let version = maitred(["--version"]).run().await.success();
    assert_eq!(version, format!("maitred {}\n", env!("CARGO_PKG_VERSION")));
    let mistyped = maitred(["serv"]).run().await;
    assert!(
        mistyped.code == Some(2) && mistyped.stderr.contains("'serve'"),
        "{}",
        mistyped.stderr
    );
}
