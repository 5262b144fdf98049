//! A main model that does not answer in time: another one answers, and every surface says so.

use std::time::Duration;

use maitred_config::Settings;
use maitred_types::DegradeReason;
use serde_json::{Value, json};

use super::calls::{Answered, Ask, Caller};
use super::findings::{Findings, Ran};
use super::fleet::{Fleet, Gateway, until};

/// Longest time that a target may have for the drill to wait for it.
const LONGEST: Duration = Duration::from_secs(20);
/// The marks of a degraded answer.
const MARKS: [&str; 3] = ["x-degraded", "x-degrade-reason", "x-served-by"];
/// The reason that is expected.
const REASON: &str = DegradeReason::Timeout.label();

/// A way from one model to another.
struct Way {
    /// What is asked for.
    model: String,
    /// The pool of the main model.
    pool: String,
    /// How long it has.
    within: Duration,
    /// Pool and model of what stands in.
    stands_in: String,
    /// The model that its endpoints name.
    served: String,
}

pub(super) async fn run(fleet: &Fleet, found: &mut Findings) -> anyhow::Result<Ran> {
    let gateway = fleet.gateway();
    let Some(way) = way(gateway.settings()) else {
        return Ok(Ran::LeftOut(
            "no route has a fallback to another model that is there for timeouts".into(),
        ));
    };
    if way.within > LONGEST {
        let why = format!(
            "the first target of `{}` has {} s; give it less (`within`) to be drilled",
            way.model,
            way.within.as_secs()
        );
        return Ok(Ran::LeftOut(why));
    }
    let caller = Caller {
        model: way.model.clone(),
        ..gateway.caller.clone()
    };
    let before = both(&caller).await;
    let counted = gateway.metric("maitred_degraded_answers_total").await?;
    let silent = json!({ "hang": 1.0 });
    for endpoint in fleet.of_pool(&way.pool) {
        endpoint.fault(silent.clone()).await?;
    }
    let answers = both(&caller).await;
    let refused = refusing(&caller).ask(CALLS[0]).await;
    found.did(format!(
        "let the endpoints of pool {} fall silent and asked for `{}`, whole, as a stream, and with `x-maitred-degrade: refuse`",
        way.pool, way.model
    ));
    let complete = answers.iter().filter(|answered| answered.is_complete()).count();
    found.saw(
        "another model answers, whole and in streams",
        complete == answers.len(),
        super::load::figures(&answers),
    );
    marks(&way, &answers, found);
    books(gateway, &answers, found).await?;
    let more = gateway.metric("maitred_degraded_answers_total").await? - counted;
    found.saw(
        "the metrics count the degraded answers",
        more >= answers.len() as f64,
        json!({ "answers": answers.len(), "counted": more }),
    );
    found.saw(
        "who refuses a degraded answer gets the error",
        refused.is_5xx() && MARKS.iter().all(|mark| refused.header(mark).is_none()),
        json!({ "answered": refused.words() }),
    );
    fleet.put_right().await;
    until("the main model to answer again", async || {
        let after = both(&caller).await;
        Ok(after
            .iter()
            .all(|answered| answered.is_complete() && is_unmarked(answered))
            .then_some(()))
    })
    .await?;
    let unmarked = before.iter().filter(|answered| is_unmarked(answered)).count();
    found.saw(
        "before and after it the main model answers, without marks",
        unmarked == before.len(),
        json!({ "calls_before": before.len(), "unmarked": unmarked }),
    );
    Ok(Ran::Through)
}

/// A whole answer and a stream.
const CALLS: [Ask; 2] = [
    Ask {
        stream: false,
        tokens: 5,
    },
    Ask {
        stream: true,
        tokens: 5,
    },
];

async fn both(caller: &Caller) -> Vec<Answered> {
    let (whole, stream) = tokio::join!(caller.ask(CALLS[0]), caller.ask(CALLS[1]));
    vec![whole, stream]
}

/// The same caller, who wants what is asked for or nothing.
fn refusing(caller: &Caller) -> Caller {
    Caller {
        header: Some(("x-maitred-degrade", "refuse")),
        ..caller.clone()
    }
}

fn is_unmarked(answered: &Answered) -> bool {
    MARKS.iter().all(|mark| answered.header(mark).is_none())
}

/// What clients see of it: headers, and the model in the body.
fn marks(way: &Way, answers: &[Answered], found: &mut Findings) {
    let is_marked = |answered: &Answered| {
        let told = MARKS.map(|mark| answered.header(mark).unwrap_or_default());
        !told[0].is_empty() && told[1] == REASON && told[2] == way.stands_in
    };
    let marked = answers.iter().filter(|answered| is_marked(answered)).count();
    let told = MARKS.map(|mark| answers[0].header(mark));
    found.saw(
        "the headers say what kind of degradation it is, why, and who answered",
        marked == answers.len(),
        json!({ "answers": answers.len(), "marked": marked, "such_as": told }),
    );
    let named: Vec<_> = answers.iter().map(Answered::models).collect();
    found.saw(
        "the model in the body is the one that answered",
        named.iter().all(|models| models[..] == [way.served.as_str()]),
        json!({ "named": named }),
    );
}

/// What the decision records and the ledger say of it.
async fn books(gateway: &Gateway, answers: &[Answered], found: &mut Findings) -> anyhow::Result<()> {
    let is_said = |degraded: &Value| degraded["reason"] == REASON && degraded["kind"].is_string();
    let mut recorded = 0;
    for answered in answers {
        let (_, record) = gateway.page(&format!("/admin/v1/decisions/{}", answered.id)).await?;
        let record: Value = serde_json::from_str(&record).unwrap_or_default();
        recorded += usize::from(is_said(&record["degraded"]));
    }
    found.saw(
        "the decision records say the same",
        recorded == answers.len(),
        json!({ "records": recorded }),
    );
    if gateway.ledger().is_none() {
        return Ok(());
    }
    let count = async || {
        let rows = gateway.rows("degrade_kind,degrade_reason").await?;
        let is_said = |answered: &Answered| {
            let mut rows = rows.iter().filter(|row| row.word("task") == answered.id);
            rows.any(|row| row.word("degrade_reason") == REASON && !row.word("degrade_kind").is_empty())
        };
        anyhow::Ok(answers.iter().filter(|answered| is_said(answered)).count())
    };
    let came = until("the rows of the calls", async || {
        Ok((count().await? == answers.len()).then_some(()))
    });
    let is_right = came.await.is_ok();
    found.saw("so does the ledger", is_right, json!({ "rows": count().await? }));
    Ok(())
}

/// The first route that goes on to another model when time is up.
fn way(settings: &Settings) -> Option<Way> {
    let routing = &settings.routing;
    let mut routes = routing.names().filter_map(|name| routing.route(name.as_str()));
    routes.find_map(|(route, _)| {
        let first = route.otherwise.targets.first()?;
        let asked = routing.offer(first.target)?;
        let mut further = route
            .fallback
            .iter()
            .filter(|fallback| fallback.on.contains(DegradeReason::Timeout));
        let offer = further.find_map(|fallback| {
            let offer = routing.offer(fallback.target)?;
            offer.degrades(asked).is_some().then_some(offer)
        })?;
        let pool = settings.pools.iter().find(|pool| pool.name == offer.pool)?;
        let model = pool.models.iter().find(|model| model.name == offer.model)?;
        Some(Way {
            model: route.model.as_str().to_owned(),
            pool: asked.pool.as_str().to_owned(),
            within: first.within.unwrap_or(settings.timeouts.first_token),
            stands_in: format!("{}/{}", offer.pool, offer.model),
            served: model.served_as.as_str().to_owned(),
        })
    })
}
