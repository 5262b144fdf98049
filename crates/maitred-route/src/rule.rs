//! Rules: conditions, and where a call goes that meets them all.

use std::sync::Arc;

use maitred_types::ModelName;

use crate::choice::Choice;
use crate::condition::Condition;
use crate::facts::Facts;
use crate::routing::Fallback;

/// Where the calls of a name go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The name that clients ask for.
    pub model: ModelName,
    /// The rules; the first that a call meets is for it.
    pub rules: Vec<Rule>,
    /// Where calls go that no rule is for.
    pub otherwise: Choice,
    /// Where they go on, in order, when what they asked for does not answer.
    pub fallback: Vec<Fallback>,
}

/// Where some of the calls of a name go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Its name in records.
    pub name: Arc<str>,
    /// The versions that it is for: what calls write after `@`. Without any it is for calls that name no version.
    pub versions: Vec<Arc<str>>,
    /// What a call has to meet, all of it.
    pub when: Vec<Condition>,
    /// Where it goes.
    pub then: Choice,
}

impl Rule {
    /// The first condition that a call does not meet.
    pub(crate) fn misses(&self, version: Option<&str>, facts: &Facts<'_>) -> Option<&'static str> {
        if !self.is_for(version) {
            return Some("version");
        }
        let missed = self.when.iter().find(|condition| !condition.holds(facts));
        missed.map(Condition::key)
    }

    /// Whether it is for calls that name this version, or none.
    #[must_use]
    pub fn is_for(&self, version: Option<&str>) -> bool {
        match version {
            None => self.versions.is_empty(),
            Some(version) => self.versions.iter().any(|known| **known == *version),
        }
    }
}

impl Route {
    /// Every choice of the route with the name of its rule, the one without a rule last.
    pub fn choices(&self) -> impl Iterator<Item = (Option<&Arc<str>>, &Choice)> {
        let rules = self.rules.iter().map(|rule| (Some(&rule.name), &rule.then));
        rules.chain([(None, &self.otherwise)])
    }
}
