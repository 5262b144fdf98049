//! Releases: what is said to run, as one version; and the comparison of that with what endpoints say they run.
//!
//! A release names weights, engine, quantisation, chat template and route together, so that none of them can be taken back without the
//! others unseen. This module asks nobody: the shell asks endpoints (`/v1/models`, `/version`, labels of metrics) and
//! brings their words in as [`Statement`].

use std::collections::BTreeMap;

use maitred_types::{Address, PoolName};
use serde::{Deserialize, Serialize};

/// Most differences that one [`Verification`] lists; the rest is counted only.
pub const DRIFT_LISTED_MAX: usize = 64;

/// What runs, or is to run, in a pool: one version of everything that shapes an answer.
///
/// What is `None` is not part of the release and is not compared. What is named must be told by every endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Release {
    /// Its name, in records and metrics.
    pub name: String,
    /// The pool that serves it.
    #[serde(with = "pool_name")]
    pub pool: PoolName,
    /// The weights and their revision, as the endpoints name them.
    pub weights: String,
    /// The engine's version.
    pub engine: Option<String>,
    /// How the weights are quantised.
    pub quantization: Option<String>,
    /// A hash of the chat template.
    pub chat_template: Option<String>,
    /// The version of the route that leads to the pool.
    pub route: Option<String>,
}

impl Release {
    /// Every part that the release names, with its value, in the order of [`Part`].
    pub fn parts(&self) -> impl Iterator<Item = (Part, &str)> {
        Part::ALL
            .iter()
            .filter_map(|part| self.part(*part).map(|value| (*part, value)))
    }

    fn part(&self, part: Part) -> Option<&str> {
        match part {
            Part::Weights => Some(&self.weights),
            Part::Engine => self.engine.as_deref(),
            Part::Quantization => self.quantization.as_deref(),
            Part::ChatTemplate => self.chat_template.as_deref(),
            Part::Route => self.route.as_deref(),
        }
    }

    /// Compares what endpoints say with what this release says. `endpoints` must be all that the pool may send calls to.
    #[must_use]
    pub fn verify(&self, endpoints: &[Statement]) -> Verification {
        let mut found = Verification {
            release: self.name.clone(),
            endpoints: 0,
            drifted: 0,
            drift: Vec::new(),
        };
        for statement in endpoints {
            found.endpoints = found.endpoints.saturating_add(1);
            let before = found.drift.len();
            let mut differs = false;
            for drift in self.differences(statement) {
                differs = true;
                if before < DRIFT_LISTED_MAX && found.drift.len() < DRIFT_LISTED_MAX {
                    found.drift.push(drift);
                }
            }
            found.drifted = found.drifted.saturating_add(u32::from(differs));
        }
        found
    }

    /// Where one endpoint is not what this release says. An endpoint with a difference is to get no call of the release.
    pub fn differences(&self, statement: &Statement) -> impl Iterator<Item = Drift> {
        self.parts().filter_map(|(part, says)| {
            let runs = statement.told.get(&part);
            (runs.map(|told| told.value.as_str()) != Some(says)).then(|| Drift {
                endpoint: statement.endpoint.as_str().to_owned(),
                part,
                says: says.to_owned(),
                runs: runs.cloned(),
            })
        })
    }
}

/// The parts of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// The weights and their revision.
    Weights,
    /// The engine's version.
    Engine,
    /// The quantisation.
    Quantization,
    /// The hash of the chat template.
    ChatTemplate,
    /// The version of the route. The gateway itself tells it, from its settings.
    Route,
}

impl Part {
    /// Every part.
    pub const ALL: &'static [Self] = &[
        Self::Weights,
        Self::Engine,
        Self::Quantization,
        Self::ChatTemplate,
        Self::Route,
    ];

    /// The word in records and messages.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Weights => "weights",
            Self::Engine => "engine",
            Self::Quantization => "quantization",
            Self::ChatTemplate => "chat-template",
            Self::Route => "route",
        }
    }
}

/// Who told a fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// The endpoint's list of models.
    Models,
    /// The endpoint's page of its version or of its settings.
    Version,
    /// A label on the endpoint's metrics page.
    Metrics,
    /// Whoever listed the endpoint: the configuration, or labels where endpoints are discovered. Weaker than the endpoint's own word.
    Listed,
    /// The gateway's own settings.
    Settings,
}

/// One fact, and who told it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    /// What was told.
    pub value: String,
    /// By whom.
    pub by: Source,
}

/// What is known of one endpoint. One that did not answer is here too, with nothing told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// Of which endpoint.
    pub endpoint: Address,
    told: BTreeMap<Part, Told>,
}

impl Statement {
    /// Nothing is known yet.
    #[must_use]
    pub fn new(endpoint: Address) -> Self {
        Self {
            endpoint,
            told: BTreeMap::new(),
        }
    }

    /// Takes a fact in. The endpoint's own word is never replaced by what others list of it.
    pub fn tell(&mut self, part: Part, value: &str, by: Source) {
        if by == Source::Listed && self.told.contains_key(&part) {
            return;
        }
        let value = value.trim().to_owned();
        self.told.insert(part, Told { value, by });
    }
}

/// One difference between what a release says and what an endpoint runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drift {
    /// The endpoint's address.
    pub endpoint: String,
    /// In which part.
    pub part: Part,
    /// What the release says.
    pub says: String,
    /// What the endpoint says; nothing if it does not tell, which is no proof either.
    pub runs: Option<Told>,
}

impl std::fmt::Display for Drift {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (part, says) = (self.part.label(), &self.says);
        match &self.runs {
            Some(told) => write!(
                f,
                "{}: {part} is {}, the release says {says}",
                self.endpoint, told.value
            ),
            None => write!(
                f,
                "{}: does not tell its {part}, the release says {says}",
                self.endpoint
            ),
        }
    }
}

/// What came of comparing all endpoints of a pool with a release.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verification {
    /// The release's name.
    pub release: String,
    /// How many endpoints were asked.
    pub endpoints: u32,
    /// How many of them differ.
    pub drifted: u32,
    /// The differences, as far as [`DRIFT_LISTED_MAX`] goes.
    pub drift: Vec<Drift>,
}

impl Verification {
    /// Whether what runs is what the release says, everywhere. Where nobody was asked nothing is proven.
    #[must_use]
    pub const fn holds(&self) -> bool {
        self.endpoints > 0 && self.drifted == 0
    }

    /// Whether there is no endpoint at all that runs the release.
    #[must_use]
    pub const fn is_nowhere(&self) -> bool {
        self.drifted >= self.endpoints
    }
}

/// A pool's name as text.
mod pool_name {
    use maitred_types::PoolName;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(name: &PoolName, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(name.as_str())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<PoolName, D::Error> {
        String::deserialize(from).map(PoolName::from)
    }
}

#[cfg(test)]
mod tests;
