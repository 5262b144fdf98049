//! The gateway's own rate limit: its code, its time, and that no endpoint is asked.

use std::time::Duration;

use http::StatusCode;
use serde_json::json;

use super::calls::{Answered, Ask, Ending};
use super::findings::{Findings, Ran};
use super::fleet::Fleet;

/// Calls after which a limit of one a second must have refused.
const TRIES: usize = 10;
/// Refused calls by which endpoints are looked at.
const REFUSED: usize = 3;
/// How often what a refusal says may be overtaken.
const ROUNDS: u32 = 3;
/// Longest time that is waited because a refusal says so.
const LONGEST: u64 = 10;
const CALL: Ask = Ask {
    stream: false,
    tokens: 1,
};

pub(super) async fn run(fleet: &Fleet, found: &mut Findings) -> anyhow::Result<Ran> {
    let gateway = fleet.gateway();
    if !gateway.takes_changes() {
        return Ok(Ran::LeftOut(
            "limits cannot be made at run time; `admin.changes` lets them".into(),
        ));
    }
    let caller = &gateway.caller;
    gateway.limit().await?;
    found.did("made a limit of one call a second for the key of the drill");
    let mut answers = Vec::new();
    while answers.last().is_none_or(Answered::is_complete) && answers.len() < TRIES {
        answers.push(caller.ask(CALL).await);
    }
    let first = answers.pop();
    let Some(first) = first.filter(|first| !first.is_complete()) else {
        found.saw(
            "more calls than the limit allows are refused",
            false,
            json!({ "calls": TRIES, "refused": 0 }),
        );
        return Ok(Ran::Through);
    };
    let is_own = |answered: &Answered| {
        let is_own = matches!(&answered.ending, Ending::Refused(code) if code == "quota_exceeded");
        is_own && answered.status == Some(StatusCode::TOO_MANY_REQUESTS)
    };
    let own_code = json!({ "answered": answers.len(), "then": first.words() });
    found.saw(
        "the refusal is a 429 with a code that only the gateway's own limits have",
        is_own(&first),
        own_code,
    );

    truth(fleet, &first, found).await;
    let before = prompt_tokens(fleet).await?;
    let (mut refused, mut answered_tokens) = (Vec::new(), 0);
    for _ in 0..TRIES {
        let answered = caller.ask(CALL).await;
        match answered.usage() {
            Some((input, _)) => answered_tokens += input,
            None => refused.push(answered),
        }
        if refused.len() == REFUSED {
            break;
        }
    }
    // Two witnesses: what the endpoints counted, and what the gateway says of each call.
    let unexplained = prompt_tokens(fleet).await?.abs_diff(before + answered_tokens);
    let mut attempts = 0;
    for answered in &refused {
        let decision = gateway.decision(&answered.id).await?;
        attempts += decision.map_or(0, |decision| decision.attempts.len());
    }
    found.saw(
        "no endpoint was asked for a refused call",
        refused.len() == REFUSED && refused.iter().all(is_own) && attempts == 0 && unexplained == 0,
        json!({ "refused": refused.len(), "attempts": attempts, "prompt_tokens_at_endpoints": unexplained }),
    );
    Ok(Ran::Through)
}

/// Whether the time that a refusal names is the time to wait: before it the next call is refused, after it not. A limit that has just
/// been made learns a moment later of the calls before it, so what it said first may be overtaken once or twice.
async fn truth(fleet: &Fleet, first: &Answered, found: &mut Findings) {
    let caller = &fleet.gateway().caller;
    let mut refusal = first.clone();
    for round in 1..=ROUNDS {
        let Some(seconds) = refusal.retry_after().filter(|seconds| (1..=LONGEST).contains(seconds)) else {
            let told = refusal.header("retry-after");
            found.saw("it says when to come again", false, json!({ "retry_after": told }));
            return;
        };
        let early = caller.ask(CALL).await;
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        let late = caller.ask(CALL).await;
        if late.is_complete() || round == ROUNDS {
            found.saw(
                "the time it names is true: a call before it is refused, one after it is answered",
                !early.is_complete() && late.is_complete(),
                json!({ "retry_after": seconds, "before": early.words(), "after": late.words(), "rounds": round }),
            );
            return;
        }
        refusal = late;
    }
}

async fn prompt_tokens(fleet: &Fleet) -> anyhow::Result<u64> {
    let mut tokens = 0;
    for endpoint in &fleet.endpoints {
        tokens += endpoint.prompt_tokens().await?;
    }
    Ok(tokens)
}
