//! What comes of a call, by what its first target does: the table in `docs/fallback.md`, seen and not thought up.

use maitred_test::{Answer, Play, vllm};
use serde_json::json;

use super::{BIG, SMALL, SPENT, Table, marks};
use crate::table::CHAT;

const BEGIN: &str = "<!-- outcomes -->\n";
const END: &str = "<!-- /outcomes -->\n";

/// One thing that a target can do: in words, and as a play for a call with a whole answer and for one with a stream.
struct Script {
    does: &'static str,
    whole: Play,
    stream: Play,
}

fn both(does: &'static str, play: Play) -> Script {
    Script {
        does,
        whole: play.clone(),
        stream: play,
    }
}

fn scripts() -> Vec<Script> {
    let too_long = r#"{"error":{"message":"This model's maximum context length is 2048 tokens. However, your prompt is longer.","type":"BadRequestError","code":400}}"#;
    let bad = r#"{"error":{"message":"temperature must be 2 at most","type":"BadRequestError","code":400}}"#;
    let busy = r#"{"error":{"message":"the queue is full","type":"ServiceUnavailableError","code":503}}"#;
    let failed = "data: {\"error\":{\"message\":\"no\",\"type\":\"InternalServerError\",\"code\":500}}\n\n";
    let html = Play::whole(
        200,
        &[("content-type", "text/html")],
        "<html><title>Welcome</title></html>",
    );
    let event = || vllm::chat_event(BIG, "well");
    vec![
        both("429, its quota is spent", Play::json(429, SPENT)),
        both("429 without a word", Play::whole(429, &[], "")),
        both("503, its queue is full", Play::json(503, busy)),
        both("500", Play::json(500, "{}")),
        both("401 to the gateway's key", Play::json(401, "{}")),
        both("400, the call is too long", Play::json(400, too_long)),
        both("400, the call is wrong", Play::json(400, bad)),
        both("200 with a page of HTML", html),
        both("200 with nothing", Play::whole(200, &[], "")),
        both("bytes that are no HTTP", Play::default().raw("garbage\r\n\r\n").cut()),
        both("a reset connection", Play::default().reset()),
        both("nothing, until the route's time for it is up", Play::silence()),
        Script {
            does: "a beginning, then an error",
            whole: Play::json(200, r#"{"object":"error","message":"no","code":500}"#),
            stream: Play::stream().chunk(failed).end(),
        },
        Script {
            does: "a beginning, then a cut, before any output",
            whole: Play::head(200, &[("content-type", "application/json"), ("content-length", "100")])
                .raw("{\"id\"")
                .cut(),
            stream: Play::stream().cut(),
        },
        Script {
            does: "some output, then a cut",
            whole: Play::head(200, &[("content-type", "application/json"), ("content-length", "5000")])
                .raw(vllm::chat(BIG, "well").into_bytes())
                .cut(),
            stream: Play::stream().chunk(event()).chunk(event()).cut(),
        },
    ]
}

/// What the client has of it, in words.
fn told(answer: &Answer, stream: bool) -> String {
    match marks(answer) {
        [Some(_), Some(served_by), Some(reason)] => {
            assert_eq!((answer.status(), served_by), (200, "small/small-8b"));
            return format!("the fallback's answer, `{reason}`");
        }
        marks => assert_eq!(marks, [None; 3]),
    }
    if stream && answer.status() == 200 {
        let errors: Vec<_> = answer
            .events()
            .iter()
            .filter_map(|event| {
                (!event.is_done()).then(|| event.json()["error"]["code"].as_str().map(str::to_owned))?
            })
            .collect();
        return format!("the output, then an error event: `{}`", errors.join(", "));
    }
    let code = answer.json()["error"]["code"].clone();
    match code.as_str() {
        Some(code) => format!("{}, `{code}`", answer.status()),
        None => format!("{} in the target's own words", answer.status()),
    }
}

#[tokio::test]
async fn the_table_of_outcomes_is_what_happens() {
    let fallback = format!("{{ pool: small, model: {SMALL} }}");
    let table = Table::with_target(
        &["degradation: { objective: { ratio: 100% } }"],
        &format!("{{ pool: main, model: {BIG}, within: 400ms }}"),
        &fallback,
    )
    .await;
    let mut rows = String::from(
        "| What the first target does | A call with a whole answer gets | A stream gets |\n|---|---|---|\n",
    );
    for script in scripts() {
        let mut outcomes = Vec::new();
        for (stream, play) in [(false, script.whole), (true, script.stream)] {
            table.big.once(CHAT, play);
            if stream {
                table.small.on(CHAT, Play::chat_stream(SMALL, &["well", " done"]));
            } else {
                table.small.on(CHAT, Play::json(200, &vllm::chat(SMALL, "well done")));
            }
            outcomes.push(told(&table.ask(table.call(stream)).await, stream));
        }
        // With more failures in a row the first target would be left alone.
        assert_eq!(table.ask(table.call(false)).await.header("x-degraded"), None);
        rows.push_str(&format!("| {} | {} | {} |\n", script.does, outcomes[0], outcomes[1]));
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/fallback.md");
    let page = std::fs::read_to_string(path).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (found, after) = rest.split_once(END).unwrap();
    #[expect(clippy::disallowed_methods, reason = "the switch that rewrites a generated page")]
    if std::env::var("UPDATE_REFERENCE").is_ok() {
        std::fs::write(path, format!("{before}{BEGIN}{rows}{END}{after}")).unwrap();
        return;
    }
    assert_eq!(
        found, rows,
        "run: UPDATE_REFERENCE=1 cargo nextest run -p maitred the_table_of_outcomes"
    );
}

#[tokio::test]
async fn where_none_answers_the_first_error_is_told() {
    let table = Table::usual(&[]).await;
    for stream in [false, true] {
        for (first, second, wanted) in [
            (
                Play::json(429, SPENT),
                Play::json(500, "{}"),
                (429, json!("upstream_quota_spent")),
            ),
            (
                Play::json(500, "{}"),
                Play::json(429, SPENT),
                (502, json!("upstream_error")),
            ),
            // What another model says of the call is not what the caller asked.
            (
                Play::json(500, "{}"),
                Play::json(400, "{}"),
                (502, json!("upstream_error")),
            ),
        ] {
            table.big.once(CHAT, first);
            table.small.once(CHAT, second);
            let answer = table.ask(table.call(stream)).await;
            assert_eq!((answer.status(), answer.json()["error"]["code"].clone()), wanted);
            assert_eq!(marks(&answer), [None; 3]);
            let id = answer.header("x-request-id").unwrap();
            let decision = table.decision(id).await;
            let left = decision["left"].as_array().unwrap();
            let models: Vec<_> = left.iter().map(|left| &left["model"]).collect();
            assert_eq!(models, [BIG, SMALL], "{decision}");
            assert!(left.iter().all(|left| left["attempts"] == 1), "{decision}");
        }
    }
}

#[tokio::test]
async fn a_target_that_fails_or_asks_for_it_is_left_alone_while_another_answers() {
    let table = Table::usual(&[]).await;
    let asked = || table.big.received_on(CHAT).len();
    let before = asked();
    table.big.on(CHAT, Play::json(500, "{}"));
    for calls in 1..=7 {
        let answer = table.ask(table.call(false)).await;
        let reason = if calls <= 5 { "error" } else { "unavailable" };
        assert_eq!(marks(&answer)[2], Some(reason), "call {calls}");
    }
    assert_eq!(asked() - before, 5);
    // Who is alone in a plan is asked all the same: another endpoint of it may be well.
    let direct = table
        .call(false)
        .body(json!({ "model": BIG, "messages": [] }).to_string());
    assert_eq!(table.ask(direct).await.status(), 502);
    assert_eq!(asked() - before, 6);
    let other = Table::usual(&[]).await;
    let wait = [("content-type", "application/json"), ("retry-after", "60")];
    other.big.once(CHAT, Play::whole(429, &wait, SPENT));
    for _ in 0..3 {
        assert_eq!(marks(&other.ask(other.call(true)).await)[2], Some("quota"));
    }
}
