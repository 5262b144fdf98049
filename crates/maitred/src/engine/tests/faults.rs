//! What goes wrong goes wrong as it does for real, and the gateway's judges recognise it.

use maitred_engines::{BodyEnd as Ended, EndVerdict, Engine, StreamJudge};
use maitred_test::{BodyEnd, Connection};

use super::*;

const PATH: &str = "/v1/chat/completions";

fn streamed(tokens: u32) -> String {
    chat(&json!({"stream": true, "max_tokens": tokens, "ignore_eos": true})).to_string()
}

/// The texts of a stream's deltas.
fn texts(answer: &Answer) -> Vec<String> {
    let events = answer.events();
    let deltas = events.iter().filter(|event| !event.is_done()).map(|event| event.json());
    deltas
        .filter_map(|event| event["choices"][0]["delta"]["content"].as_str().map(str::to_owned))
        .filter(|text| !text.is_empty())
        .collect()
}

#[tokio::test]
async fn calls_are_rejected_and_fail_at_the_rate_asked_for() {
    let stage = Stage::serving("--fault reject=0.5").await;
    let mut seen = [0, 0];
    for _ in 0..40 {
        match stage.post(PATH, &chat(&json!({"max_tokens": 1}))).await.status() {
            200 => seen[0] += 1,
            429 => seen[1] += 1,
            other => panic!("{other}"),
        }
    }
    assert!(seen.iter().all(|count| *count >= 10), "{seen:?}");
    stage.faults(&json!({"reject": 0, "fail": 1})).await;
    let answer = stage.post(PATH, &chat(&json!({}))).await;
    assert_eq!(
        (answer.status(), &answer.json()["error"]["type"]),
        (500, &json!("InternalServerError"))
    );
    let healed = Request::new("DELETE", "/sim/faults").send(stage.admin).await;
    assert_eq!(healed.status(), 200);
    assert_eq!(stage.post(PATH, &chat(&json!({"max_tokens": 1}))).await.status(), 200);
}

#[tokio::test]
async fn a_stream_is_cut_after_the_tokens_asked_for() {
    let stage = Stage::serving("--fault cut-after=3").await;
    let answer = Request::post(PATH, streamed(10)).send(stage.address).await;
    assert_eq!(
        (texts(&answer).len(), answer.end),
        (3, BodyEnd::Cut),
        "{}",
        answer.text()
    );
    let mut connection = Connection::open(stage.address).await;
    connection
        .send(&Request::post(PATH, chat(&json!({"max_tokens": 9, "ignore_eos": true})).to_string()).to_bytes())
        .await;
    assert!(connection.try_head().await.is_none(), "a whole answer never begins");
}

#[tokio::test]
async fn a_stream_falls_silent_and_the_connection_stays() {
    let stage = Stage::serving("").await;
    for after in [0, 2] {
        stage.faults(&json!({ "hang_after": after })).await;
        let mut connection = Connection::open(stage.address).await;
        let head = connection.start(&Request::post(PATH, streamed(10))).await;
        assert_eq!(head.status(), 200);
        for _ in 0..after {
            connection.event().await.unwrap();
        }
        // The engine has computed all of it, and nothing more comes.
        stage.state("requests", |requests| requests == 0).await;
        let more = tokio::time::timeout(std::time::Duration::from_millis(50), async {
            let mut texts = 0;
            while connection.event().await.is_some() {
                texts += 1;
            }
            texts
        });
        assert!(more.await.is_err(), "neither an end nor a cut");
    }
}

#[tokio::test]
async fn a_dying_stream_says_so_and_ends_cleanly() {
    let stage = Stage::serving("--fault error-after=2").await;
    let answer = Request::post(PATH, streamed(10)).send(stage.address).await;
    assert_eq!((texts(&answer).len(), answer.end), (2, BodyEnd::Complete));
    let ends = answer.text();
    let captured = "data: {\"error\": {\"message\": \"EngineCore encountered an issue. See stack trace (above) for the root \
                    cause.\", \"type\": \"InternalServerError\", \"param\": null, \"code\": 500}}\n\ndata: [DONE]\n\n";
    assert!(ends.ends_with(captured), "{ends}");
}

#[tokio::test]
async fn the_gateways_judge_finds_every_broken_end() {
    let cases = [
        ("--fault error-after=2", Engine::Vllm, EndVerdict::Errored),
        ("--fault cut-after=2", Engine::Vllm, EndVerdict::Truncated),
        (
            "--fault cut-after=2 --flavor sglang",
            Engine::Sglang,
            EndVerdict::Truncated,
        ),
        ("", Engine::Vllm, EndVerdict::Complete),
        ("--flavor sglang", Engine::Sglang, EndVerdict::Complete),
    ];
    for (line, engine, expected) in cases {
        let stage = Stage::serving(line).await;
        let answer = Request::post(PATH, streamed(5)).send(stage.address).await;
        let mut judge = StreamJudge::new(engine);
        for event in answer.events() {
            judge.judge_event(event.data.as_bytes());
        }
        let end = if answer.end == BodyEnd::Complete {
            Ended::Clean
        } else {
            Ended::Cut
        };
        assert_eq!(judge.end(end), expected, "{line}");
    }
}

#[tokio::test]
async fn a_slow_endpoint_takes_its_time() {
    let stage = Stage::serving("--time-scale 10").await;
    let first_token = async || {
        stage
            .post(PATH, &chat(&json!({"max_tokens": 2, "ignore_eos": true})))
            .await;
        let page = stage.get("/metrics").await.text();
        let line = page
            .lines()
            .find(|line| line.starts_with("vllm:inter_token_latency_seconds_sum"))
            .unwrap()
            .to_owned();
        line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap()
    };
    let before = first_token().await;
    stage.faults(&json!({"slow": 20})).await;
    let after = first_token().await - before;
    assert!(after > 10.0 * before, "{before} s, then {after} s");
}

#[tokio::test]
async fn connections_are_refused_and_taken_again() {
    let stage = Stage::serving("").await;
    let mut idle = Connection::open(stage.address).await;
    idle.call(&Request::get("/health")).await;
    stage.faults(&json!({"refuse": true})).await;
    idle.closed().await;
    eventually("a refusal", async || {
        let refused = tokio::net::TcpStream::connect(stage.address).await;
        refused
            .is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionRefused)
            .then_some(())
    })
    .await;
    stage.faults(&json!({"refuse": false})).await;
    eventually("a connection", async || {
        tokio::net::TcpStream::connect(stage.address).await.ok()
    })
    .await;
    assert_eq!(stage.get("/health").await.status(), 200);
}

#[tokio::test]
async fn the_admin_path_refuses_nonsense() {
    let stage = Stage::serving("").await;
    let bad = Request::post("/sim/faults", r#"{"explode":1}"#).send(stage.admin).await;
    assert_eq!(bad.status(), 400);
    assert!(bad.text().contains("explode"), "{}", bad.text());
    assert_eq!(Request::get("/sim/nothing").send(stage.admin).await.status(), 404);
    let args = Line::try_parse_from(["engine", "--admin", "0.0.0.0:0"]).unwrap().args;
    assert!(
        Endpoint::start(args, Clock::start()).is_err(),
        "beyond loopback it would need a key"
    );
}
