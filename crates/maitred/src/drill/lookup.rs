//! Every call can be looked up: where it went, which version answered, what it used. Breaks nothing.

use serde_json::json;

use super::calls::{Answered, Ask};
use super::findings::{Findings, Ran};
use super::fleet::{Fleet, Gateway, Row, until};

/// Calls that are made.
const CALLS: usize = 6;
/// By what the ledger is asked, besides the task.
const BY: &str = "model,served_model,pool,endpoint,source";

pub(super) async fn run(fleet: &Fleet, found: &mut Findings) -> anyhow::Result<Ran> {
    let gateway = fleet.gateway();
    let mut answers = Vec::new();
    for number in 0..CALLS {
        let stream = number % 2 == 1;
        answers.push(gateway.caller.ask(Ask { stream, tokens: 5 }).await);
    }
    found.did(format!(
        "made {CALLS} calls of `{}`, every other one a stream, and looked each up by its id",
        gateway.caller.model
    ));
    let complete = answers.iter().filter(|answered| answered.is_complete()).count();
    found.saw(
        "the calls are answered",
        complete == CALLS,
        super::load::figures(&answers),
    );
    let tokens: u64 = answers
        .iter()
        .filter_map(Answered::usage)
        .map(|(input, output)| input + output)
        .sum();
    found.saw(
        "the answers say what they used",
        tokens > 0,
        json!({ "tokens": tokens }),
    );
    decisions(gateway, &answers, found).await?;
    match gateway.ledger() {
        Some(_) => ledger(gateway, &answers, found).await?,
        None => found.saw(
            "a ledger keeps what calls used",
            false,
            json!({ "remedy": "add `ledger` to the configuration" }),
        ),
    }
    Ok(Ran::Through)
}

/// What `maitred explain` says of each.
async fn decisions(gateway: &Gateway, answers: &[Answered], found: &mut Findings) -> anyhow::Result<()> {
    let (mut known, mut right) = (0, 0);
    let mut example = None;
    for answered in answers {
        let Some(decision) = gateway.decision(&answered.id).await? else {
            continue;
        };
        known += 1;
        let Some(last) = decision.attempts.last() else { continue };
        let told = last
            .end
            .as_ref()
            .and_then(|end| Some((end.input_tokens?, end.output_tokens?)));
        let told = told.map(|(input, output)| (u64::from(input), u64::from(output)));
        let version = decision.served.as_ref().unwrap_or(&decision.model);
        let place = last.endpoint.as_deref();
        if told.is_some() && told == answered.usage() && place == answered.header("x-maitred-endpoint") {
            right += 1;
        }
        example = Some(format!("{} by {version} in pool {}", answered.id, decision.pool));
    }
    found.saw(
        "the decision record of each names the endpoint, the model and the tokens that the client saw",
        known == answers.len() && right == known,
        json!({ "records": known, "right": right, "such_as": example }),
    );
    Ok(())
}

/// What the ledger says of each.
async fn ledger(gateway: &Gateway, answers: &[Answered], found: &mut Findings) -> anyhow::Result<()> {
    let of = |rows: &[Row], answered: &Answered| {
        let mut of_it = rows.iter().filter(|row| row.word("task") == answered.id);
        let row = of_it.next()?;
        let tokens = (row.count("input_tokens"), row.count("output_tokens"));
        let has_version = ["served_model", "pool", "endpoint"]
            .iter()
            .all(|name| !row.word(name).is_empty());
        let is_exact = row.count("calls") == 1 && row.count("estimated") == 0 && Some(tokens) == answered.usage();
        Some(is_exact && has_version && of_it.next().is_none())
    };
    // A row is there a moment after its call.
    let waited = until("rows of all calls", async || {
        let rows = gateway.rows(BY).await?;
        let known = answers.iter().filter(|answered| of(&rows, answered).is_some()).count();
        Ok((known == answers.len()).then_some(()))
    });
    let came = waited.await.is_ok();
    let rows = gateway.rows(BY).await?;
    let right = answers
        .iter()
        .filter(|answered| of(&rows, answered) == Some(true))
        .count();
    found.saw(
        "the ledger has each once, with its tokens as the endpoint counted them and the version that answered",
        came && right == answers.len(),
        json!({ "calls": answers.len(), "right": right }),
    );
    Ok(())
}
