//! What must be seen of an endpoint before it gets its first call, and how each answer is judged.
//!
//! An endpoint that merely listens is not ready. It is when its health probe agrees, the wanted model is listed, the KV
//! pool stands, and one token has been generated: in that order, since the later steps cost the engine more. The machine
//! here is fed with answers and says what to ask next; when to ask, and how often, is the caller's.

mod health;
mod probe;

pub use health::{HealthVerdict, judge_health};
pub use probe::{InferencePath, Listed, Method, Probe, judge_inference, judge_models};

use std::fmt;

use crate::Engine;
use crate::metrics::PageSignals;

/// One thing to be seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReadinessStep {
    /// The health probe says that the engine can serve.
    Health,
    /// The model list has the wanted model or adapter.
    ListModels,
    /// The metrics page has the KV cache's figures, so the pool has been laid out.
    KvPool,
    /// One token has been generated.
    Infer,
}

impl ReadinessStep {
    /// The word for logs, metrics and the admin page.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Health => "health",
            Self::ListModels => "list_models",
            Self::KvPool => "kv_pool",
            Self::Infer => "infer",
        }
    }
}

/// Why an endpoint is not ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WhyNot {
    /// No answer: the connection was refused or broke, or time ran out.
    Unreachable,
    /// The health probe says "not now".
    Unavailable,
    /// An answer with this status, where 200 was expected.
    Status(u16),
    /// The answer is not the JSON that the path owes.
    Malformed,
    /// The model list does not have the model.
    NotListed,
    /// The metrics page does not have the KV cache's figures.
    NoKvPool,
    /// The inference was answered without output.
    NoOutput,
    /// The engine's own words, scrubbed and bounded.
    Refused(String),
}

impl WhyNot {
    /// The word for logs, metrics and the admin page.
    #[must_use]
    pub const fn label(&self) -> &'static str {
        match self {
            Self::Unreachable => "unreachable",
            Self::Unavailable => "unavailable",
            Self::Status(_) => "status",
            Self::Malformed => "malformed",
            Self::NotListed => "not_listed",
            Self::NoKvPool => "no_kv_pool",
            Self::NoOutput => "no_output",
            Self::Refused(_) => "refused",
        }
    }
}

impl fmt::Display for WhyNot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable => f.write_str("no answer"),
            Self::Unavailable => f.write_str("its health probe says it cannot serve now"),
            Self::Status(status) => write!(f, "status {status}"),
            Self::Malformed => f.write_str("the answer is not the JSON that the path owes"),
            Self::NotListed => f.write_str("the model is not in its list"),
            Self::NoKvPool => f.write_str("its metrics page has no KV cache figures"),
            Self::NoOutput => f.write_str("the test inference gave no output"),
            Self::Refused(message) => write!(f, "the test inference was refused: {message}"),
        }
    }
}

/// What came of a probe.
#[derive(Clone, Copy, Debug)]
pub enum Answer<'a> {
    /// No answer: the connection was refused or broke, or time ran out.
    None,
    /// An HTTP answer, its body read up to the caller's cap.
    Response {
        /// The status.
        status: u16,
        /// The body.
        body: &'a [u8],
    },
    /// The metrics page, scanned. For [`ReadinessStep::KvPool`] only.
    Page(&'a PageSignals),
}

/// Where an endpoint stands after an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Advance {
    /// The step is done; this one is next.
    Next(ReadinessStep),
    /// All steps are done. While ready, only [`ReadinessStep::Health`] is asked again.
    Ready,
    /// The step must be asked again.
    NotYet(WhyNot),
    /// It was ready, and says that it is leaving: no new calls, and those that run may finish.
    Draining,
    /// It was ready, and a probe failed. What that means is for whoever counts failures.
    Failing(WhyNot),
}

/// The way of one endpoint to readiness.
#[derive(Clone, Debug)]
pub struct Readiness {
    engine: Engine,
    model: String,
    inference: InferencePath,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The step of this index is to be done.
    Step(usize),
    Ready,
    Draining,
}

impl Readiness {
    /// An endpoint of which nothing has been seen. `model` is the model or adapter that it must serve.
    #[must_use]
    pub fn new(engine: Engine, model: impl Into<String>, inference: InferencePath) -> Self {
        Self {
            engine,
            model: model.into(),
            inference,
            stage: Stage::Step(0),
        }
    }

    /// What to ask now.
    #[must_use]
    pub fn step(&self) -> ReadinessStep {
        match self.stage {
            Stage::Step(at) => self.engine.readiness().get(at).copied().unwrap_or(ReadinessStep::Infer),
            Stage::Ready | Stage::Draining => ReadinessStep::Health,
        }
    }

    /// The request to send for [`Readiness::step`].
    #[must_use]
    pub fn probe(&self) -> Probe {
        Probe::new(self.engine, self.step(), &self.model, self.inference)
    }

    /// Whether all steps are done and nothing has been said against it since.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.stage == Stage::Ready
    }

    /// Forgets everything: the endpoint has been restarted.
    pub const fn reset(&mut self) {
        self.stage = Stage::Step(0);
    }

    /// Takes note of the answer to [`Readiness::probe`].
    pub fn answered(&mut self, answer: Answer<'_>) -> Advance {
        let step = self.step();
        match (self.judge(step, answer), self.stage) {
            (Ok(()), Stage::Step(at)) => self.done(at),
            (Ok(()), Stage::Ready) => Advance::Ready,
            (Ok(()), Stage::Draining) => {
                // It changed its mind, or another process answers at its address: start over.
                self.reset();
                Advance::Next(self.step())
            }
            (Err(WhyNot::Unavailable), Stage::Ready | Stage::Draining) => {
                self.stage = Stage::Draining;
                Advance::Draining
            }
            (Err(why), Stage::Ready | Stage::Draining) => Advance::Failing(why),
            (Err(why), Stage::Step(_)) => {
                // A later step that finds nobody home means the process went away: begin again.
                if why == WhyNot::Unreachable {
                    self.reset();
                }
                Advance::NotYet(why)
            }
        }
    }

    fn done(&mut self, at: usize) -> Advance {
        if at + 1 < self.engine.readiness().len() {
            self.stage = Stage::Step(at + 1);
            Advance::Next(self.step())
        } else {
            self.stage = Stage::Ready;
            Advance::Ready
        }
    }

    fn judge(&self, step: ReadinessStep, answer: Answer<'_>) -> Result<(), WhyNot> {
        match (step, answer) {
            (_, Answer::None) => Err(WhyNot::Unreachable),
            (ReadinessStep::KvPool, Answer::Page(page)) => judge_kv_pool(page),
            (ReadinessStep::KvPool, Answer::Response { status, .. }) => Err(WhyNot::Status(status)),
            (_, Answer::Page(_)) => Err(WhyNot::Malformed),
            (ReadinessStep::Health, Answer::Response { status, .. }) => match judge_health(self.engine, status) {
                HealthVerdict::Healthy | HealthVerdict::NotOffered => Ok(()),
                HealthVerdict::Unavailable => Err(WhyNot::Unavailable),
                HealthVerdict::Broken => Err(WhyNot::Status(status)),
            },
            (ReadinessStep::ListModels, Answer::Response { status: 200, body }) => {
                judge_models(body, &self.model).map(|_| ())
            }
            (ReadinessStep::ListModels, Answer::Response { status, .. }) => Err(WhyNot::Status(status)),
            (ReadinessStep::Infer, Answer::Response { status, body }) => judge_inference(status, body),
        }
    }
}

/// Whether a metrics page shows that the KV pool has been laid out: the used share of it is there.
///
/// # Errors
/// [`WhyNot::NoKvPool`] otherwise.
pub fn judge_kv_pool(page: &PageSignals) -> Result<(), WhyNot> {
    page.kv_used.map(|_| ()).ok_or(WhyNot::NoKvPool)
}

#[cfg(test)]
mod tests;
