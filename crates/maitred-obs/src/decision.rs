//! The decision record of a call as pages and programs see it: why it went where it went, and what came of it.
//!
//! The same types write the JSON of the administrative page and read it in the command that explains. Names are words of
//! the configuration and of metrics. A field that says nothing is left out.

use serde::{Deserialize, Serialize};

mod sentences;

/// The decision record of one call. Neither its prompt nor its answer nor its key is in it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DecisionRecord {
    /// Kept from the client or made at the door.
    pub request_id: String,
    /// When the call arrived, RFC 3339 in UTC.
    pub time: String,
    /// Whose call it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// On whose behalf.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// With which key: its public id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// As part of which task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// The model asked for; nothing where no model was found.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub model: String,
    /// The model that the call went to in the end, by its name in the pool, where that is another than the one asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// The model that the endpoints were asked for, where its name is another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub served: Option<String>,
    /// The pool that was asked; nothing where none was.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub pool: String,
    /// What the answer is called, if it is not what was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub degraded: Option<DegradedRecord>,
    /// The rule of its route that it met.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// The rules before that one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rules_missed: Vec<RuleMissed>,
    /// The targets that were left or passed over, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<LeftRecord>,
    /// What the call took of its quotas, where it has any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quota: Option<QuotaRecord>,
    /// Every time that the pool was asked for an endpoint, in order.
    pub attempts: Vec<AttemptRecord>,
    /// How the call ended.
    pub outcome: String,
    /// What went wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
    /// What went wrong, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Milliseconds from arrival to the first output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_token_ms: Option<f64>,
    /// Milliseconds from arrival to the end.
    pub duration_ms: f64,
}

impl DecisionRecord {
    /// Appends the record as JSON, in one line.
    pub fn write(&self, out: &mut Vec<u8>) {
        if let Err(error) = serde_json::to_writer(out, self) {
            tracing::error!(%error, "a decision record cannot be written");
        }
    }

    /// Reads a record; `None` if it is none.
    #[must_use]
    pub fn read(json: &[u8]) -> Option<Self> {
        serde_json::from_slice(json).ok()
    }
}

/// What is said of a degraded answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DegradedRecord {
    /// In what it is less than what was asked for.
    pub kind: String,
    /// Why.
    pub reason: String,
}

/// A rule that a call did not meet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RuleMissed {
    /// Its name.
    pub rule: String,
    /// The first of its conditions that the call does not meet.
    pub condition: String,
}

/// A target that did not give the answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LeftRecord {
    /// Its pool.
    pub pool: String,
    /// Its model, by the name that it has in the pool.
    pub model: String,
    /// How many attempts were made there; they are the first of `attempts` that no target before had.
    pub attempts: u32,
    /// For what it was left.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why it was passed over without being asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skipped: Option<String>,
}

/// What a call took of its quotas. Of several limits the tightest is told.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct QuotaRecord {
    /// Tokens that it reserved: the most that it might use.
    pub reserved_tokens: u64,
    /// Tokens that it was charged in the end.
    pub used_tokens: u64,
    /// Tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<LimitRecord>,
    /// Calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls: Option<LimitRecord>,
}

/// How one limit stood.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LimitRecord {
    /// What it allows.
    pub limit: u64,
    /// What was left before the call.
    pub before: u64,
    /// What is left after it, as far as this call is concerned.
    pub after: u64,
}

/// One ask of the pool: its choice or refusal, on what evidence, and what came of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AttemptRecord {
    /// Milliseconds from the call's arrival to the choice.
    pub after_ms: f64,
    /// Milliseconds of these in which the call waited for a place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waited_ms: Option<f64>,
    /// Prompt tokens, as estimated for the choice.
    pub input_tokens: u32,
    /// Output tokens, as expected for the choice.
    pub output_tokens: u32,
    /// Endpoints that the call had tried before.
    pub tried: u32,
    /// Endpoints of the pool.
    pub endpoints: u32,
    /// What filters removed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub removed: Vec<RemovedRecord>,
    /// Endpoints left after all filters.
    pub candidates: u32,
    /// How the choice was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub picker: Option<String>,
    /// What decided the choice, or the refusal.
    pub reason: String,
    /// The endpoint chosen; none for a refusal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// Milliseconds after which a refused caller is told to try again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<f64>,
    /// The one chosen, then the others that were compared, best first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub compared: Vec<ComparedRecord>,
    /// What shadow profiles would have chosen.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub shadows: Vec<ShadowRecord>,
    /// What came of the attempt; none for a refusal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<EndRecord>,
}

/// What one filter removed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RemovedRecord {
    /// The filter.
    pub filter: String,
    /// Endpoints that it removed.
    pub endpoints: u32,
    /// The first few of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub which: Vec<RemovedEndpoint>,
}

/// An endpoint that a filter removed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RemovedEndpoint {
    /// Where it listens.
    pub endpoint: String,
    /// Where in its life it was.
    pub state: String,
}

/// One candidate with its values.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ComparedRecord {
    /// Where it listens.
    pub endpoint: String,
    /// Prompt tokens that it was taken to hold in its prefix cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cached_tokens: Option<u32>,
    /// The sum of its weighted scores, where scores were asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<f64>,
    /// The value that each scorer gave it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scores: Vec<ScoreRecord>,
    /// What the call was expected to cost there, in seconds, where costs were asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_seconds: Option<f64>,
    /// The parts of that cost.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub terms: Vec<TermRecord>,
}

/// What one scorer gave one candidate.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ScoreRecord {
    /// The scorer.
    pub scorer: String,
    /// From 0 to 1.
    pub value: f64,
    /// How much it counts in the profile.
    pub weight: f64,
}

/// One part of a cost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TermRecord {
    /// What costs.
    pub term: String,
    /// How much, in seconds, before the price.
    pub seconds: f64,
    /// What it is multiplied by in the cost, where that is not 1: the price of own work when others wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price: Option<f64>,
}

/// What a shadow profile would have chosen on the same facts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ShadowRecord {
    /// The profile.
    pub profile: String,
    /// Its choice; none when its filters left nobody.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// What decided it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Whether it is the live choice too.
    pub agrees: bool,
}

/// What came of an attempt.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct EndRecord {
    /// How it ended, as far as the endpoint is concerned.
    pub result: String,
    /// What went wrong with it, if the call went on to another endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
    /// Milliseconds from the choice to the first output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_token_ms: Option<f64>,
    /// Milliseconds from the choice to the end.
    pub held_ms: f64,
    /// Prompt tokens, cached ones included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<u32>,
    /// Prompt tokens that the endpoint says it read from its cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cached_tokens: Option<u32>,
    /// Generated tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u32>,
    /// `reported` or `estimated`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage_source: Option<String>,
}

/// Which decision records are kept.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DecisionList {
    /// Records kept now.
    pub kept: usize,
    /// Memory that they take, in bytes.
    pub bytes: usize,
    /// Most records that are kept.
    pub max_kept: usize,
    /// Most memory that they may take, in bytes.
    pub max_bytes: usize,
    /// Request ids of the newest, newest first.
    pub newest: Vec<String>,
}

#[cfg(test)]
mod tests;
