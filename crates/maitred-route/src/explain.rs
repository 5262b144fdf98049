//! What would happen to a call, and why, without anything being sent.

use std::fmt;

use maitred_types::DegradeReason;
use serde::Serialize;

use crate::choice::{Choice, Choose, Sticky};
use crate::facts::Facts;
use crate::plan::{Hop, TargetId};
use crate::routing::{NoRoute, Routing};
use crate::rule::{Route, Rule};

/// What would happen to a call.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Explanation {
    /// The name of the route, or of the pool's model that is a route by itself.
    pub asked: String,
    /// The version that it asks for.
    pub version: Option<String>,
    /// The type of its task, if that is known.
    pub task: Option<String>,
    /// The rules, up to the one that is for it.
    pub rules: Vec<SeenRule>,
    /// How the first target is chosen; nothing where there is one only.
    pub choice: Option<String>,
    /// The targets on which it is tried.
    pub hops: Vec<SeenHop>,
    /// The targets of the route that are left out.
    pub left_out: Vec<LeftOut>,
}

/// A rule that was looked at.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SeenRule {
    /// Its name.
    pub name: String,
    /// What it asks and the call does not meet; nothing if the rule is for the call.
    pub misses: Option<Missed>,
}

/// A condition that a call does not meet.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Missed {
    /// What is asked.
    pub wants: String,
    /// What the call has.
    pub has: String,
}

/// A target on which the call is tried.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SeenHop {
    /// Its pool.
    pub pool: String,
    /// Its model.
    pub model: String,
    /// What must have happened before; nothing at the first.
    pub after: Vec<&'static str>,
    /// Most time that the call spends there, in milliseconds.
    pub within_ms: Option<u64>,
    /// What an answer from there is called, if it is less than what was asked for.
    pub degrades: Option<&'static str>,
}

/// A target that is left out.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LeftOut {
    /// Its pool.
    pub pool: String,
    /// Its model.
    pub model: String,
    /// Why, in a sentence that begins with the target.
    pub because: &'static str,
}

impl Routing {
    /// What would happen to a call for `model`.
    ///
    /// # Errors
    /// As [`Routing::plan`].
    pub fn explain(&self, model: &str, facts: &Facts<'_>) -> Result<Explanation, NoRoute> {
        let planned = self.plan(model, facts)?;
        let route = self.route(model);
        let task = self.task(facts);
        let facts = &Facts { task, ..*facts };
        let evidence = &planned.evidence;
        let choice = route.and_then(|(route, _)| {
            let mut all = route.choices();
            all.find(|(name, _)| *name == evidence.rule.as_ref())
                .map(|(_, choice)| choice)
        });
        let hops = planned.plan.hops.iter().enumerate();
        Ok(Explanation {
            asked: planned.asked.to_string(),
            version: route.and_then(|(_, version)| version).map(str::to_owned),
            task: task.map(str::to_owned),
            rules: route.map_or_else(Vec::new, |(route, version)| seen(route, version, facts)),
            choice: choice.and_then(|choice| self.how(choice, facts)),
            hops: hops.map(|(place, hop)| self.hop(place, hop, evidence.entry)).collect(),
            left_out: evidence
                .skipped
                .iter()
                .map(|(target, why)| {
                    let (pool, model) = self.names_of(*target);
                    LeftOut {
                        pool,
                        model,
                        because: why.words(),
                    }
                })
                .collect(),
        })
    }

    fn hop(&self, place: usize, hop: &Hop, entry: Option<DegradeReason>) -> SeenHop {
        let (pool, model) = self.names_of(hop.target);
        let after = match (place, entry) {
            (0, entry) => entry.iter().map(|entry| entry.label()).collect(),
            _ => hop.on.iter().map(DegradeReason::label).collect(),
        };
        SeenHop {
            pool,
            model,
            after,
            within_ms: hop
                .within
                .map(|within| u64::try_from(within.as_millis()).unwrap_or(u64::MAX)),
            degrades: hop.degrades.map(maitred_types::DegradeKind::label),
        }
    }

    fn names_of(&self, target: TargetId) -> (String, String) {
        self.offer(target).map_or_else(Default::default, |offer| {
            (offer.pool.to_string(), offer.model.to_string())
        })
    }

    /// How the first of several targets is chosen.
    fn how(&self, choice: &Choice, facts: &Facts<'_>) -> Option<String> {
        if choice.targets.len() < 2 {
            return None;
        }
        let named = |target| {
            let (pool, model) = self.names_of(target);
            format!("{pool}/{model}")
        };
        Some(match choice.choose {
            Choose::Order => "in the order of the file".to_owned(),
            Choose::Weight => {
                let shares = choice.targets.iter();
                let shares = shares.map(|share| format!("{} {}", named(share.target), share.weight));
                let stick = match choice.sticky {
                    Sticky::Nothing => "each call is drawn for itself",
                    Sticky::Session => "calls of one session, or else of one user, are drawn together",
                    Sticky::User => "calls of one user are drawn together",
                };
                format!("by weight ({}); {stick}", shares.collect::<Vec<_>>().join(", "))
            }
            Choose::Cost => {
                let costs = choice.targets.iter().map(|share| match (facts.cost)(share.target) {
                    Some(cost) => format!("{} {}", named(share.target), money(cost)),
                    None => format!("{} without a price", named(share.target)),
                });
                format!(
                    "by what the call is expected to cost ({})",
                    costs.collect::<Vec<_>>().join(", ")
                )
            }
        })
    }
}

/// The rules of a route up to the one that is for the call.
fn seen(route: &Route, version: Option<&str>, facts: &Facts<'_>) -> Vec<SeenRule> {
    let mut seen = Vec::new();
    for rule in &route.rules {
        let misses = missed(rule, version, facts);
        let is_for_it = misses.is_none();
        seen.push(SeenRule {
            name: rule.name.to_string(),
            misses,
        });
        if is_for_it {
            break;
        }
    }
    seen
}

fn missed(rule: &Rule, version: Option<&str>, facts: &Facts<'_>) -> Option<Missed> {
    if !rule.is_for(version) {
        return Some(Missed {
            wants: match rule.versions.as_slice() {
                [] => "no version".to_owned(),
                versions => format!("version: `{}`", versions.join("` or `")),
            },
            has: version.map_or_else(|| "none".to_owned(), |version| format!("`{version}`")),
        });
    }
    let condition = rule.when.iter().find(|condition| !condition.holds(facts))?;
    Some(Missed {
        wants: condition.to_string(),
        has: condition.found(facts),
    })
}

/// Billionths as a decimal.
fn money(billionths: u64) -> String {
    let text = format!("{}.{:09}", billionths / 1_000_000_000, billionths % 1_000_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "A call for `{}`", self.asked)?;
        if let Some(version) = &self.version {
            write!(f, " in version `{version}`")?;
        }
        if let Some(task) = &self.task {
            write!(f, " whose task is of type `{task}`")?;
        }
        writeln!(f, ":")?;
        for SeenRule { name, misses } in &self.rules {
            match misses {
                Some(Missed { wants, has }) => {
                    writeln!(
                        f,
                        "  The rule `{name}` is not for it: it wants {wants}; the call has {has}."
                    )?;
                }
                None => writeln!(f, "  The rule `{name}` is for it.")?,
            }
        }
        if self.rules.last().is_some_and(|rule| rule.misses.is_some()) {
            writeln!(f, "  No rule is for it, so it goes to the targets of the route.")?;
        }
        if let Some(choice) = &self.choice {
            writeln!(f, "  The first target is chosen {choice}.")?;
        }
        for (place, hop) in self.hops.iter().enumerate() {
            writeln!(f, "  {}. {}/{}{}", place + 1, hop.pool, hop.model, hop.terms(place))?;
        }
        for LeftOut { pool, model, because } in &self.left_out {
            writeln!(f, "  Left out: {pool}/{model} {because}.")?;
        }
        Ok(())
    }
}

impl SeenHop {
    /// Under which terms the call is tried there.
    fn terms(&self, place: usize) -> String {
        let mut terms = Vec::new();
        match (place, self.after.as_slice()) {
            (_, []) => {}
            (0, [entry, ..]) => terms.push(format!(
                "at once, for {entry}, since nothing that was asked for can carry the call"
            )),
            (_, reasons) => terms.push(format!("after {}", reasons.join(", "))),
        }
        if let Some(millis) = self.within_ms {
            terms.push(format!("for at most {millis} ms"));
        }
        if let Some(kind) = self.degrades {
            terms.push(format!("marked `x-degraded: {kind}`"));
        }
        match terms.as_slice() {
            [] => String::new(),
            terms => format!(": {}", terms.join("; ")),
        }
    }
}

#[cfg(test)]
mod tests;
