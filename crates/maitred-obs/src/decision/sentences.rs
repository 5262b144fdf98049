//! A decision record as sentences for a person.

use std::fmt::{self, Display, Formatter};

use maitred_types::{DegradeKind, DegradeReason, HopSkip};

use super::{
    AttemptRecord, ComparedRecord, DecisionRecord, DegradedRecord, EndRecord, LeftRecord, LimitRecord, QuotaRecord,
    RemovedRecord, RuleMissed, ShadowRecord,
};

impl Display for DecisionRecord {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "Call {}", self.request_id)?;
        if !self.model.is_empty() {
            write!(f, " for model {}", self.model)?;
        }
        if let Some(target) = &self.target {
            write!(f, " (in the end {target})")?;
        }
        if let Some(served) = &self.served {
            write!(f, " (served as {served})")?;
        }
        if !self.pool.is_empty() {
            write!(f, ", pool {}", self.pool)?;
        }
        let owners = [
            (", of ", &self.tenant),
            (", for ", &self.user),
            (", with key ", &self.key),
            (", in task ", &self.task),
        ];
        for (words, owner) in owners {
            if let Some(owner) = owner {
                write!(f, "{words}{owner}")?;
            }
        }
        let time = &self.time;
        write!(f, ", came at {time} and {}", outcome(&self.outcome))?;
        write!(f, " after {}", seconds(self.duration_ms))?;
        if let Some(fault) = &self.fault {
            write!(f, ": {fault}")?;
        }
        if let Some(detail) = &self.detail {
            write!(f, " ({detail})")?;
        }
        writeln!(f, ".")?;
        if let Some(degraded) = &self.degraded {
            writeln!(f, "{degraded}")?;
        }
        if let Some(rule) = &self.rule {
            write!(f, "Rule {rule}")?;
            for RuleMissed { rule, condition } in &self.rules_missed {
                write!(f, "; not {rule}, for its {condition}")?;
            }
            writeln!(f, ".")?;
        }
        for left in &self.left {
            writeln!(f, "{left}")?;
        }
        if let Some(quota) = &self.quota {
            writeln!(f, "{quota}")?;
        }
        for (index, attempt) in self.attempts.iter().enumerate() {
            write!(
                f,
                "\nAttempt {}, {} after the call came, ",
                index + 1,
                seconds(attempt.after_ms)
            )?;
            if let Some(waited) = attempt.waited_ms {
                write!(f, "after a wait of {} for a place, ", seconds(waited))?;
            }
            writeln!(f, "with about {} prompt tokens:", grouped(attempt.input_tokens))?;
            write!(f, "{attempt}")?;
        }
        Ok(())
    }
}

impl Display for DegradedRecord {
    /// `Degraded (model): another model answered. Why (quota): the target's own operator refuses ...`.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { kind, reason } = self;
        let kind_means = DegradeKind::from_label(kind).map_or("", DegradeKind::meaning);
        let reason_means = DegradeReason::from_label(reason).map_or("", DegradeReason::meaning);
        write!(f, "Degraded ({kind}): {kind_means} Why ({reason}): {reason_means}")
    }
}

impl Display for LeftRecord {
    /// `Left big/llama-70b after 2 attempts: quota.` or `Passed over small/llama-8b: The caller may not use the model.`.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { pool, model, .. } = self;
        if let Some(skipped) = &self.skipped {
            return match HopSkip::from_label(skipped) {
                Some(skip) => write!(f, "Passed over {pool}/{model} ({skipped}): {}", skip.meaning()),
                None => write!(f, "Passed over {pool}/{model}: {skipped}."),
            };
        }
        let reason = self.reason.as_deref().unwrap_or_default();
        write!(
            f,
            "Left {pool}/{model} after {}: {reason}.",
            count(self.attempts, "attempt")
        )
    }
}

impl Display for QuotaRecord {
    /// `Quota: reserved 120 tokens and used 80; of 1,000 tokens 900 were left before it and 820 after; ...`.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (reserved, used) = (grouped(self.reserved_tokens), grouped(self.used_tokens));
        write!(f, "Quota: reserved {reserved} tokens and used {used}")?;
        for (limit, what) in [(&self.tokens, "tokens"), (&self.calls, "calls")] {
            if let Some(LimitRecord { limit, before, after }) = limit {
                let (limit, before, after) = (grouped(*limit), grouped(*before), grouped(*after));
                write!(f, "; of {limit} {what} {before} were left before it and {after} after")?;
            }
        }
        f.write_str(".")
    }
}

impl Display for AttemptRecord {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "  {}", count(self.endpoints, "endpoint"))?;
        for removed in &self.removed {
            write!(f, "; {removed}")?;
        }
        let all = self.endpoints > 1 && self.removed.is_empty();
        match &self.endpoint {
            Some(endpoint) if all => write!(f, "; none removed; chosen {endpoint} ({})", self.reason)?,
            Some(endpoint) => write!(f, "; chosen {endpoint} ({})", self.reason)?,
            None => write!(f, "; none chosen ({})", self.reason)?,
        }
        let mut compared = self.compared.iter();
        if let Some(chosen) = compared.next() {
            write!(f, "{}", Values(chosen, self.input_tokens))?;
        }
        writeln!(f)?;
        for other in compared {
            writeln!(f, "  before {}{}", other.endpoint, Values(other, self.input_tokens))?;
        }
        for shadow in &self.shadows {
            writeln!(f, "  {shadow}")?;
        }
        match &self.end {
            Some(end) => writeln!(f, "  then {end}"),
            None => Ok(()),
        }
    }
}

impl Display for RemovedRecord {
    /// `1 removed by ready: 10.0.0.1:8000 (draining)`.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} removed by {}", self.endpoints, self.filter)?;
        for (index, which) in self.which.iter().enumerate() {
            let open = if index == 0 { ": " } else { ", " };
            write!(f, "{open}{}", which.endpoint)?;
            // A ready endpoint was removed for what the filter's name says.
            if which.state != "ready" {
                write!(f, " ({})", which.state)?;
            }
        }
        let named = u32::try_from(self.which.len()).unwrap_or(u32::MAX);
        match self.endpoints.saturating_sub(named) {
            more if more > 0 && named > 0 => write!(f, " and {more} more"),
            _ => Ok(()),
        }
    }
}

/// The values of a candidate for a prompt of so many tokens.
struct Values<'a>(&'a ComparedRecord, u32);

impl Display for Values<'_> {
    /// ` at 0.041 s: queue 0.012 s + own 0.020 s (6,144 of 8,000 prompt tokens cached)`.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self(compared, prompt) = self;
        if let Some(cost) = compared.cost_seconds {
            write!(f, " at {cost:.3} s")?;
        } else if let Some(total) = compared.total {
            write!(f, " at {total:.3}")?;
        }
        for (index, term) in compared.terms.iter().enumerate() {
            let open = if index == 0 { ": " } else { " + " };
            write!(f, "{open}{} {:.3} s", term.term, term.seconds)?;
            if let Some(price) = term.price {
                write!(f, " × {price:.2}")?;
            }
        }
        // What adds nothing says nothing.
        let scores = compared.scores.iter().filter(|score| score.value > 0.0);
        for (index, score) in scores.enumerate() {
            let open = if index == 0 { ": " } else { " + " };
            write!(f, "{open}{} {:.3}", score.scorer, score.value)?;
            if (score.weight - 1.0).abs() > f64::EPSILON {
                write!(f, " × {}", score.weight)?;
            }
        }
        match compared.cached_tokens {
            Some(cached) => write!(f, " ({} of {} prompt tokens cached)", grouped(cached), grouped(*prompt)),
            None => Ok(()),
        }
    }
}

impl Display for ShadowRecord {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "the profile {} would have chosen ", self.profile)?;
        match (&self.endpoint, self.agrees) {
            (Some(_), true) => f.write_str("the same"),
            (Some(endpoint), false) => f.write_str(endpoint),
            (None, _) => f.write_str("none"),
        }?;
        match &self.reason {
            Some(reason) => write!(f, " ({reason})"),
            None => Ok(()),
        }
    }
}

impl Display for EndRecord {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(result(&self.result))?;
        match self.first_token_ms {
            Some(first) => write!(
                f,
                " after {}, all of it after {}",
                seconds(first),
                seconds(self.held_ms)
            )?,
            None => write!(f, " after {}", seconds(self.held_ms))?,
        }
        if let Some(fault) = &self.fault {
            write!(f, ": {fault}")?;
        }
        let is_estimate = self.usage_source.as_deref() == Some("estimated");
        let about = if is_estimate { "about " } else { "" };
        match (self.cached_tokens, self.input_tokens) {
            (Some(cached), Some(input)) => {
                write!(f, ", {} of {} prompt tokens cached", grouped(cached), grouped(input))?;
            }
            (_, Some(input)) => write!(f, ", {about}{} prompt tokens", grouped(input))?,
            (_, None) => {}
        }
        match self.output_tokens {
            Some(output) => write!(f, ", {about}{} output tokens", grouped(output)),
            None => Ok(()),
        }
    }
}

/// An outcome as a verb. A word that is not known is shown as it is.
fn outcome(word: &str) -> &str {
    match word {
        "answered" => "was answered",
        "client_closed" => "was given up by its client",
        "broken" => "broke off",
        other => other,
    }
}

/// The end of an attempt as a verb.
fn result(word: &str) -> &str {
    match word {
        "success" => "answered",
        "failure" => "failed",
        "overload" => "refused as too much to do",
        "draining" => "broke off because it drains",
        other => other,
    }
}

/// Milliseconds as seconds, to the millisecond.
fn seconds(millis: f64) -> String {
    format!("{:.3} s", millis / 1e3)
}

fn count(number: u32, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", grouped(number))
}

/// `6144` as `6,144`.
fn grouped(number: impl Into<u64>) -> String {
    let digits = number.into().to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
