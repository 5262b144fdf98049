//! Loading, leaving, dying.

use maitred_engines::{Engine, Scanner};
use maitred_test::{BodyEnd, Connection};

use super::*;
use crate::engine::restart::Restart;

const PATH: &str = "/v1/chat/completions";

fn long_stream(tokens: u32) -> Request {
    Request::post(
        PATH,
        chat(&json!({"stream": true, "max_tokens": tokens, "ignore_eos": true})).to_string(),
    )
}

#[tokio::test]
async fn an_open_port_is_not_a_loaded_model() {
    for (flavor, health) in [("vllm", 200), ("sglang", 503), ("trtllm-serve", 503), ("triton", 400)] {
        let stage = Stage::begin(&format!("--flavor {flavor} --load-time 1000m"));
        let engine = Engine::parse(flavor).unwrap();
        assert_eq!(stage.get(engine.health_path()).await.status(), health, "{flavor}");
        assert_eq!(
            stage.get("/v1/models").await.status(),
            200,
            "{flavor}: the model is listed"
        );
        let answer = stage.post(PATH, &chat(&json!({}))).await;
        assert_eq!(answer.status(), 503, "{flavor}: and yet it cannot infer");
        let page = stage.get(engine.metrics_path()).await.text();
        if flavor == "vllm" {
            let signals = Scanner::new(&engine.mapping()).scan(page.as_bytes()).unwrap();
            assert_eq!((signals.kv_used, signals.blocks), (None, None), "no KV pool yet");
        }
    }
}

#[tokio::test]
async fn a_closed_port_opens_when_the_model_is_loaded() {
    let stage = Stage::begin("--load-mode closed-port --load-time 30s");
    let refused = tokio::net::TcpStream::connect(stage.address).await;
    assert!(refused.is_err(), "loading takes 300 ms on the wall");
    stage.state("life", |life| life == "serving").await;
    eventually("a connection", async || {
        tokio::net::TcpStream::connect(stage.address).await.ok()
    })
    .await;
    assert_eq!(stage.get("/health").await.status(), 200);
}

#[tokio::test]
async fn a_vllm_that_is_told_to_go_aborts_its_answers() {
    let stage = Stage::serving("--time-scale 1").await;
    let mut running = Connection::open(stage.address).await;
    let head = running.start(&long_stream(1500)).await;
    running.event().await.unwrap();
    running.event().await.unwrap();
    stage.command(Command::Terminate).await;
    let answer = running.rest(head).await;
    assert_eq!(answer.end, BodyEnd::Complete);
    let events = answer.events();
    assert!(events.last().unwrap().is_done());
    let last = events[events.len() - 2].json();
    assert_eq!(last["choices"][0]["finish_reason"], "abort");
    assert!(
        last["choices"][0]["delta"]["content"]
            .as_str()
            .is_some_and(|text| !text.is_empty()),
        "with a last word"
    );
    assert_eq!(stage.life.join().await, Ending::Left);
    assert!(tokio::net::TcpStream::connect(stage.address).await.is_err());
}

#[tokio::test]
async fn an_sglang_that_is_told_to_go_says_so_and_finishes() {
    for flavor in ["--flavor sglang", "--drain-on-sigterm"] {
        let stage = Stage::serving(&format!("{flavor} --time-scale 10 --drain-grace 100ms")).await;
        let mut running = Connection::open(stage.address).await;
        let head = running.start(&long_stream(200)).await;
        running.event().await.unwrap();
        stage.command(Command::Terminate).await;
        stage.state("life", |life| life == "draining").await;
        assert_eq!(stage.get("/health").await.status(), 503);
        assert_eq!(
            stage.post(PATH, &chat(&json!({"max_tokens": 1}))).await.status(),
            200,
            "new calls are still served"
        );
        let answer = running.rest(head).await;
        assert_eq!(answer.end, BodyEnd::Complete, "{flavor}");
        let reasons = answer
            .events()
            .iter()
            .filter(|event| event.data.contains(r#""finish_reason":"length""#))
            .count();
        assert_eq!(reasons, 1, "{flavor}: the running answer is not cut short");
        assert_eq!(stage.life.join().await, Ending::Left);
    }
}

#[tokio::test]
async fn a_crash_cuts_everything_at_once() {
    let stage = Stage::serving("--time-scale 1").await;
    let mut running = Connection::open(stage.address).await;
    let head = running.start(&long_stream(1500)).await;
    running.event().await.unwrap();
    stage.command(Command::Crash).await;
    assert_eq!(running.rest(head).await.end, BodyEnd::Cut);
    assert_eq!(stage.life.join().await, Ending::Crashed);
    assert!(tokio::net::TcpStream::connect(stage.address).await.is_err());
}

#[tokio::test]
async fn a_dead_scheduler_breaks_streams_as_each_engine_does() {
    let stage = Stage::serving("--time-scale 1").await;
    let mut running = Connection::open(stage.address).await;
    let head = running.start(&long_stream(1500)).await;
    running.event().await.unwrap();
    stage.command(Command::Die).await;
    let answer = running.rest(head).await;
    assert_eq!(answer.end, BodyEnd::Complete);
    let events = answer.events();
    assert!(events.last().unwrap().is_done());
    assert_eq!(events[events.len() - 2].json()["error"]["code"], 500);
    let refused = stage.post(PATH, &chat(&json!({}))).await;
    assert_eq!(
        (refused.status(), stage.get("/health").await.status()),
        (500, 200),
        "for a moment"
    );
    assert_eq!(stage.life.join().await, Ending::Died);

    let stage = Stage::serving("--flavor sglang --time-scale 1").await;
    let mut running = Connection::open(stage.address).await;
    let head = running.start(&long_stream(1500)).await;
    running.event().await.unwrap();
    stage.command(Command::Die).await;
    assert_eq!(running.rest(head).await.end, BodyEnd::Cut);
}

#[tokio::test]
async fn one_that_is_restarted_is_cut_off_or_finishes_and_says_what_comes_next() {
    let admin = Stage::serving("--time-scale 1").await;
    let told = Request::get("/sim").send(admin.address).await.json();
    assert_eq!(
        (&told["simulated"], &told["admin"]),
        (&json!(true), &json!(admin.admin.to_string()))
    );
    for (body, end) in [
        (json!({"load_time": "3s"}), BodyEnd::Cut),
        (json!({"drain": true, "grace": "10ms"}), BodyEnd::Complete),
    ] {
        let stage = Stage::serving("--time-scale 2").await;
        let mut running = Connection::open(stage.address).await;
        let head = running.start(&long_stream(100)).await;
        running.event().await.unwrap();
        let answer = Request::post("/sim/restart", body.to_string()).send(stage.admin).await;
        assert_eq!(answer.status(), 202, "{}", answer.text());
        assert_eq!(running.rest(head).await.end, end);
        let restart = Restart::from_json(body.to_string().as_bytes()).unwrap();
        assert_eq!(stage.life.join().await, Ending::Restarts(restart));
    }
    let wrong = Request::post("/sim/restart", r#"{"load_time":3}"#)
        .send(admin.admin)
        .await;
    assert_eq!(wrong.status(), 400, "{}", wrong.text());
}
