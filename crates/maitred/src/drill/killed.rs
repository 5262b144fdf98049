//! An endpoint that is killed under its calls: those without output move, those with output end with an honest error.

use std::sync::Arc;

use maitred_runtime::Tasks;
use parking_lot::Mutex;
use serde_json::json;

use super::calls::{Answered, Ask, Caller, Ending};
use super::findings::{Findings, Ran};
use super::fleet::{Endpoint, Fleet, Gateway, until};
use super::load::figures;

/// Tokens of the answer that is in mid-stream: more than come before the kill.
const LONG: u32 = 4_000;
/// Tokens of the answers of calls that wait for their first output.
const SHORT: u32 = 20;
/// Calls without output that the endpoint has when it is killed. The retry budget of a pool lets at least three move at one time.
const WAITING: u64 = 2;
/// Most calls that are made to get there.
const TRIES: usize = 30;
/// How many times slower endpoints are made, so that calls wait for their first output.
const SLOW: f64 = 40.0;
/// Bytes that are added to the prompts of those calls: so much work before each that none of the endpoints is passed over.
const FILLER: usize = 10_000;

pub(super) async fn run(fleet: &Fleet, found: &mut Findings) -> anyhow::Result<Ran> {
    let gateway = fleet.gateway();
    let mates = fleet.mates();
    if mates.len() < 2 {
        return Ok(Ran::LeftOut(
            "the pool has one endpoint; the drill needs another to which calls can move".into(),
        ));
    }
    let stream = gateway.caller.begin(LONG).await?;
    // Wherever it went is what is killed.
    let is_it = |endpoint: &&&Endpoint| stream.endpoint() == Some(endpoint.address.as_str());
    let Some(victim) = mates.iter().find(is_it).copied() else {
        anyhow::bail!(
            "an answer does not say which endpoint gives it: {:?}",
            stream.endpoint()
        );
    };
    let before = gateway.life(&victim.address).await?;
    let streaming = before.in_flight;
    for endpoint in &mates {
        endpoint.fault(json!({ "slow": SLOW })).await?;
    }
    let calls = Calls::default();
    let waiting = calls.begin_until(gateway, victim, streaming + WAITING).await? - streaming;
    victim
        .restart(json!({ "load_time": "1s", "load_mode": "closed-port" }))
        .await?;
    for endpoint in mates.iter().filter(|endpoint| endpoint.address != victim.address) {
        endpoint.fault(json!({ "slow": 1.0 })).await?;
    }
    found.did(format!(
        "killed {} while it gave one answer and {waiting} calls waited there for their first output",
        victim.address
    ));

    let broken = stream.rest().await;
    let answers = calls.end().await;
    let moved = moved(gateway, victim, &answers).await?;
    // A call that got its first output in the very moment of the kill is like the one in mid-stream.
    let lost = answers
        .iter()
        .filter(|answered| !answered.is_complete() && !is_honest(answered))
        .count();
    let mut seen = figures(&answers);
    seen["waiting"] = waiting.into();
    seen["moved"] = moved.into();
    found.saw(
        "calls without output were answered by other endpoints",
        moved > 0 && lost == 0,
        seen,
    );
    found.saw(
        "the answer in mid-stream ended with an error event and no proper end",
        is_honest(&broken),
        json!({ "ended": broken.words() }),
    );
    let after = gateway.until_ready_anew(&before).await?;
    found.saw(
        "the endpoint came back as a newcomer",
        true,
        json!({ "lives_before": after.number.1 }),
    );
    Ok(Ran::Through)
}

/// Whether an answer that had begun says that it is not whole.
fn is_honest(answered: &Answered) -> bool {
    matches!(answered.ending, Ending::Broken(_)) && answered.has_output() && !answered.body.contains("[DONE]")
}

/// Calls that are made one by one and not waited for; given up when dropped.
struct Calls {
    tasks: Tasks,
    answers: Arc<Mutex<Vec<Answered>>>,
}

impl Default for Calls {
    fn default() -> Self {
        Self {
            tasks: Tasks::new(),
            answers: Arc::default(),
        }
    }
}

impl Drop for Calls {
    fn drop(&mut self) {
        self.tasks.stop();
    }
}

impl Calls {
    /// Makes calls until `victim` has at least so many. Says how many it has.
    async fn begin_until(&self, gateway: &Gateway, victim: &Endpoint, enough: u64) -> anyhow::Result<u64> {
        let caller = Caller {
            filler: FILLER,
            ..gateway.caller.clone()
        };
        let before = all(gateway).await?;
        for number in 0..TRIES {
            let on_it = gateway.life(&victim.address).await?.in_flight;
            if on_it >= enough {
                return Ok(on_it);
            }
            self.begin(&caller, number % 2 == 0);
            until("a call to be sent", async || {
                let known = all(gateway).await? + self.answers.lock().len() as u64;
                Ok((known > before + number as u64).then_some(()))
            })
            .await?;
        }
        anyhow::bail!("of {TRIES} calls too few went to {}", victim.address)
    }

    fn begin(&self, caller: &Caller, stream: bool) {
        let (caller, answers) = (caller.clone(), Arc::clone(&self.answers));
        self.tasks.spawn_until_stop(async move {
            let answered = caller.ask(Ask { stream, tokens: SHORT }).await;
            answers.lock().push(answered);
        });
    }

    async fn end(self) -> Vec<Answered> {
        self.tasks.wait().await;
        std::mem::take(&mut self.answers.lock())
    }
}

/// Calls that are on any endpoint.
async fn all(gateway: &Gateway) -> anyhow::Result<u64> {
    Ok(gateway.lives().await?.iter().map(|life| life.in_flight).sum())
}

/// How many calls were on `victim` first and were answered elsewhere.
async fn moved(gateway: &Gateway, victim: &Endpoint, answers: &[Answered]) -> anyhow::Result<u64> {
    let mut moved = 0;
    for answered in answers.iter().filter(|answered| answered.is_complete()) {
        let Some(decision) = gateway.decision(&answered.id).await? else {
            continue;
        };
        let mut endpoints = decision
            .attempts
            .iter()
            .filter_map(|attempt| attempt.endpoint.as_deref());
        let was_there = endpoints.any(|endpoint| endpoint == victim.address);
        moved += u64::from(was_there && answered.header("x-maitred-endpoint") != Some(&victim.address));
    }
    Ok(moved)
}
