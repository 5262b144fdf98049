//! The commands of the README, and those that `maitred demo` prints, run as they stand there.

use std::path::Path;

use maitred_test::{Child, Folder, Program, Request, Signal, Start, eventually, sdk};
use serde_json::Value;

use crate::table::{Engine, Gateway, MAITRED};

fn read(name: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name)).unwrap()
}

/// The fenced blocks of a page that are written in `language`.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let fence = format!("```{language}\n");
    let begun = page.split(&fence).skip(1);
    begun
        .map(|rest| rest.split("```").next().unwrap_or_default().to_owned())
        .collect()
}

/// The commands of a block, those over several lines in one piece.
fn commands(block: &str) -> Vec<String> {
    let joined = block.replace("\\\n", " ");
    joined
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .map(str::to_owned)
        .collect()
}

#[tokio::test]
async fn the_way_to_own_endpoints_works() {
    let page = read("README.md");
    let engines = Engine::start_several(2, &["--served-name", "Qwen/Qwen3-8B", "--time-scale", "10"]).await;
    let [yaml] = &blocks(&page, "yaml")[..] else {
        panic!("one configuration in the README")
    };
    let mut config = yaml.clone();
    for (written, engine) in ["127.0.0.1:8000", "127.0.0.1:8001"].iter().zip(&engines) {
        assert_eq!(config.matches(written).count(), 1, "{written}");
        config = config.replace(written, &engine.address.to_string());
    }
    // The one thing that a test may not have: ports of everybody.
    config.push_str("listeners: [{ address: \"127.0.0.1:0\" }]\nadmin: { address: \"127.0.0.1:0\" }\n");
    let folder = Folder::new();
    folder.write("maitred.yaml", &config);

    let mut gateway: Option<Gateway> = None;
    let mut ran = Vec::new();
    let place = folder.path().to_owned();
    let mut folder = Some(folder);
    for command in blocks(&page, "sh").iter().flat_map(|block| commands(block)) {
        let own = command.replace("target/release/maitred", MAITRED);
        let program = command.split(' ').next().unwrap_or_default();
        match (program, &gateway) {
            // The test of the demo runs what the Makefile runs; and this very binary has been built.
            ("make", _) => assert!(read("Makefile").contains("run --quiet -p maitred -- demo"), "{command}"),
            ("cargo", _) => assert_eq!(command, "cargo build --release"),
            ("target/release/maitred", None) if command.contains(" serve ") => {
                assert!(command.ends_with("serve -c maitred.yaml"), "{command}");
                let started = Gateway::start_in(folder.take().expect("served once"), &config, &[]).await;
                started.until_ready(2).await;
                gateway = Some(started);
            }
            ("target/release/maitred", _) => {
                let printed = Program::shell(&own).folder(&place).run().await.success();
                assert!(!printed.is_empty(), "{command}");
            }
            ("curl", Some(gateway)) => ask(&command, gateway).await,
            _ => panic!("the test does not know how to run `{command}`"),
        }
        ran.push(program.to_owned());
    }
    ran.dedup();
    assert_eq!(
        ran,
        [
            "make",
            "cargo",
            "target/release/maitred",
            "curl",
            "target/release/maitred"
        ]
    );
}

/// Runs a curl line of the README against a gateway that listens elsewhere.
async fn ask(command: &str, gateway: &Gateway) {
    let line = command
        .replace("curl ", "curl --fail-with-body --silent --show-error ")
        .replace("127.0.0.1:8080", &gateway.address.to_string())
        .replace("127.0.0.1:9091", &gateway.admin.to_string());
    let printed = Program::shell(&line).run().await.success();
    let wanted = match command {
        _ if command.contains("/v1/models") => "\"Qwen/Qwen3-8B\"",
        _ if command.contains("/v1/chat/completions") => "x-maitred-endpoint: 127.0.0.1:",
        _ if command.contains("/endpoints") => "\"state\":\"ready\"",
        _ => "maitred_endpoint_share{",
    };
    assert!(printed.contains(wanted), "{command}: {printed}");
}

/// A running demo, and what it has printed.
async fn demo() -> (Child, String) {
    let mut demo = Start::new("demo", MAITRED)
        .args(["demo", "--port", "0", "--admin-port", "0"])
        .spawn();
    demo.line("Access records follow").await;
    let printed = demo.output();
    (demo, printed)
}

/// The words after `label` in what a demo printed.
fn addresses<'a>(printed: &'a str, label: &str) -> Vec<&'a str> {
    let lines = printed.lines().filter_map(|line| line.trim().strip_prefix(label));
    lines
        .filter_map(|rest| rest.trim().strip_prefix("http://")?.split(['/', ' ']).next())
        .collect()
}

/// The administrative token that a demo printed.
fn admin_token(printed: &str) -> String {
    let line = printed
        .lines()
        .find_map(|line| line.strip_prefix("export MAITRED_ADMIN_TOKEN="));
    line.and_then(|line| line.split(' ').next())
        .expect("a token")
        .to_owned()
}

/// The README's way to a tenant with a key of its own, line by line as it stands there, but for the ports.
#[tokio::test]
async fn the_way_to_an_own_tenant_works() {
    let page = read("README.md");
    let [way] = &blocks(&page, "bash")[..] else {
        panic!("one such way in the README")
    };
    let (_demo, printed) = demo().await;
    let admin = format!("--admin http://{}", addresses(&printed, "admin")[0]);
    let mut script = way.replace("127.0.0.1:8080", addresses(&printed, "gateway")[0]);
    for command in ["create acme", "keys create", "keys list", "explain my-first"] {
        script = script.replace(command, &format!("{command} {admin}"));
    }
    let export = printed
        .lines()
        .find(|line| line.starts_with("export MAITRED_ADMIN_TOKEN="))
        .expect("a line to copy");
    let folder = Path::new(MAITRED).parent().unwrap().display();
    let shell = |script: &str| Program::shell(&format!("export PATH={folder}:$PATH\n{export}\n{script}"));
    // A row of usage is there a moment after its call.
    let (before, usage) = script.split_once("maitred usage").expect("usage");
    let printed = shell(before).run().await.success();
    for wanted in ["chat.completion", "my-first", "intact", "ada"] {
        assert!(printed.contains(wanted), "{wanted}: {printed}");
    }
    eventually("the use of the tenant", async || {
        let printed = shell(&format!("maitred usage{usage}")).run().await.success();
        printed.contains("acme").then_some(())
    })
    .await;
}

#[tokio::test]
async fn the_demo_answers_the_lines_that_it_prints() {
    let (mut demo, printed) = demo().await;
    let lines = commands(&printed);
    let curl = lines
        .iter()
        .find(|line| line.starts_with("curl "))
        .expect("a curl line");
    let answer = Program::shell(&curl.replace("curl ", "curl --fail-with-body --silent --show-error "))
        .run()
        .await
        .success();
    assert!(
        answer.contains("chat.completion.chunk") && answer.ends_with("data: [DONE]\n\n"),
        "{answer}"
    );
    if sdk::python().is_some() {
        let python = lines
            .iter()
            .find(|line| line.starts_with("python3 "))
            .expect("a Python line");
        let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools/python/bin");
        let line = format!("export PATH={}:$PATH; {python}", tools.display());
        let words = Program::shell(&line).run().await.success();
        assert!(words.split_whitespace().count() > 3, "{words}");
    }
    // And it can be drilled by the line that it prints.
    let export = lines
        .iter()
        .find(|line| line.starts_with("export MAITRED_"))
        .expect("a line to copy");
    let drill = lines
        .iter()
        .find(|line| line.starts_with("maitred drill "))
        .expect("a drill");
    let folder = Path::new(MAITRED).parent().unwrap().display();
    let line = format!("export PATH={folder}:$PATH\n{export}\n{drill} --only lookup,rate-limit");
    let drilled = Program::shell(&line).run().await.success();
    assert!(drilled.contains("2 passed, 0 failed"), "{drilled}");
    // The calls' records are shown, and the administrative pages are where it says.
    demo.line("\"outcome\":\"answered\"").await;
    let admin = addresses(&printed, "admin")[0].parse().unwrap();
    let page = Request::get("/endpoints")
        .bearer(&admin_token(&printed))
        .send(admin)
        .await
        .json();
    let picks = page["endpoints"]
        .as_array()
        .unwrap()
        .iter()
        .map(|endpoint| endpoint["picks"].as_u64().unwrap());
    assert!(picks.sum::<u64>() >= 1, "{page}");
}

#[tokio::test]
async fn the_demo_tidies_up_behind_itself() {
    for signal in [Signal::Interrupt, Signal::Terminate] {
        let (mut demo, printed) = demo().await;
        let endpoints = addresses(&printed, "endpoint");
        assert_eq!(endpoints.len(), 3, "{printed}");
        let config = printed
            .lines()
            .find_map(|line| line.trim().strip_prefix("config"))
            .unwrap()
            .trim();
        assert!(Path::new(config).is_file(), "{config}");
        demo.signal(signal);
        assert_eq!(demo.exit().await.code(), Some(0));
        for address in endpoints.into_iter().chain(addresses(&printed, "gateway")) {
            eventually("a closed port", async || {
                tokio::net::TcpStream::connect(address).await.err()
            })
            .await;
        }
        assert!(!Path::new(config).parent().unwrap().is_dir(), "{config}");
    }
}

#[tokio::test]
async fn the_demo_follows_its_file() {
    let (_demo, printed) = demo().await;
    let config = printed
        .lines()
        .find_map(|line| line.trim().strip_prefix("config"))
        .unwrap()
        .trim();
    let admin = addresses(&printed, "admin")[0].parse().unwrap();
    let text = std::fs::read_to_string(config).unwrap();
    let gone = addresses(&printed, "endpoint")[2];
    std::fs::write(config, text.replace(&format!("      - address: {gone}\n"), "")).unwrap();
    eventually("two endpoints", async || {
        let page: Value = Request::get("/endpoints")
            .bearer(&admin_token(&printed))
            .send(admin)
            .await
            .json();
        (page["endpoints"].as_array()?.len() == 2).then_some(())
    })
    .await;
}
