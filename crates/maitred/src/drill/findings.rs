//! What a drill has done and seen, for people and for programs.

use std::fmt;
use std::time::Duration;

use clap::ValueEnum;
use serde::Serialize;
use serde_json::Value;

use super::Drill;

/// Whether a drill was run.
pub(super) enum Ran {
    /// It was, and what it found decides.
    Through,
    /// What it needs is not there.
    LeftOut(String),
}

/// What a drill has done and seen.
#[derive(Debug, Default, Serialize)]
pub(super) struct Findings {
    did: Vec<String>,
    seen: Vec<Seen>,
}

/// Something that was looked at.
#[derive(Debug, Serialize)]
struct Seen {
    /// What should be so.
    claim: String,
    /// Whether it is.
    holds: bool,
    /// By which figures.
    figures: Value,
}

impl Findings {
    /// Something was done.
    pub(super) fn did(&mut self, what: impl Into<String>) {
        self.did.push(what.into());
    }

    /// What somebody else has done and seen.
    pub(super) fn add(&mut self, other: Self) {
        self.did.extend(other.did);
        self.seen.extend(other.seen);
    }

    /// Something was looked at. `figures` is an object.
    pub(super) fn saw(&mut self, claim: impl Into<String>, holds: bool, figures: Value) {
        self.seen.push(Seen {
            claim: claim.into(),
            holds,
            figures,
        });
    }
}

/// How a drill ended.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    name: String,
    claim: &'static str,
    result: Outcome,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    seconds: f64,
    #[serde(flatten)]
    found: Findings,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Outcome {
    Passed,
    Failed,
    LeftOut,
}

impl Report {
    /// The report of a drill that was run.
    pub(super) fn of(drill: Drill, found: Findings, ran: anyhow::Result<Ran>, took: Duration) -> Self {
        let holds = !found.seen.is_empty() && found.seen.iter().all(|seen| seen.holds);
        let (result, why) = match ran {
            Ok(Ran::Through) if holds => (Outcome::Passed, None),
            Ok(Ran::Through) => (Outcome::Failed, None),
            Ok(Ran::LeftOut(why)) => (Outcome::LeftOut, Some(why)),
            // What a drill waits for in vain is a promise that was not kept.
            Err(error) => (Outcome::Failed, Some(format!("{error:#}"))),
        };
        Self {
            name: name(drill),
            claim: drill.claim(),
            result,
            why,
            seconds: (took.as_secs_f64() * 1e3).round() / 1e3,
            found,
        }
    }

    /// The report of a drill that was not run.
    pub(super) fn left_out(drill: Drill, why: String) -> Self {
        Self::of(drill, Findings::default(), Ok(Ran::LeftOut(why)), Duration::ZERO)
    }

    /// Whether all was as it should be.
    pub(super) fn has_passed(&self) -> bool {
        self.result == Outcome::Passed
    }

    /// Whether something was not.
    pub(super) fn has_failed(&self) -> bool {
        self.result == Outcome::Failed
    }
}

/// The name by which a drill is asked for.
fn name(drill: Drill) -> String {
    let named = drill.to_possible_value();
    named.map_or_else(String::new, |value| value.get_name().to_owned())
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let result = match self.result {
            Outcome::Passed => "passed",
            Outcome::Failed => "FAILED",
            Outcome::LeftOut => "left out",
        };
        writeln!(f, "{result:8}  {}: {} ({:.1} s)", self.name, self.claim, self.seconds)?;
        if let Some(why) = &self.why {
            writeln!(f, "          {why}")?;
        }
        for did in &self.found.did {
            writeln!(f, "    did   {did}")?;
        }
        for seen in &self.found.seen {
            let holds = if seen.holds { "ok " } else { "NOT" };
            writeln!(f, "    {holds}   {}{}", seen.claim, Figures(&seen.figures))?;
        }
        Ok(())
    }
}

/// Figures in brackets.
struct Figures<'a>(&'a Value);

impl fmt::Display for Figures<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(figures) = self.0.as_object().filter(|figures| !figures.is_empty()) else {
            return Ok(());
        };
        for (place, (name, value)) in figures.iter().enumerate() {
            let before = if place == 0 { ": " } else { ", " };
            let name = name.replace('_', " ");
            match value {
                Value::String(text) => write!(f, "{before}{name} {text}")?,
                other => write!(f, "{before}{name} {other}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn report(found: Findings, ran: anyhow::Result<Ran>) -> Report {
        Report::of(Drill::NotLoaded, found, ran, Duration::from_millis(1_500))
    }

    fn seen(holds: [bool; 2]) -> Findings {
        let mut found = Findings::default();
        found.did("restarted it");
        for holds in holds {
            found.saw("no call came too early", holds, json!({ "calls": 12, "too_early": 0 }));
        }
        found
    }

    #[test]
    fn one_claim_that_does_not_hold_fails_the_drill() {
        assert!(report(seen([true, true]), Ok(Ran::Through)).has_passed());
        assert!(report(seen([true, false]), Ok(Ran::Through)).has_failed());
        assert!(report(seen([true, true]), Err(anyhow::anyhow!("it never came back"))).has_failed());
        assert!(
            report(Findings::default(), Ok(Ran::Through)).has_failed(),
            "nothing was looked at"
        );
        let left_out = report(Findings::default(), Ok(Ran::LeftOut("no ledger".into())));
        assert!(!left_out.has_passed() && !left_out.has_failed());
    }

    #[test]
    fn people_and_programs_get_the_same() {
        let report = report(seen([true, false]), Ok(Ran::Through));
        let text = report.to_string();
        assert!(text.starts_with("FAILED    not-loaded: an endpoint"), "{text}");
        assert!(
            text.contains("    NOT   no call came too early: calls 12, too early 0\n"),
            "{text}"
        );
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(
            (&json["result"], &json["seconds"], &json["name"]),
            (&json!("failed"), &json!(1.5), &json!("not-loaded"))
        );
        assert_eq!(json["seen"][1]["figures"]["too_early"], 0);
    }
}
