//! What can be made to go wrong, at start and while running.

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};

/// What is wrong with the metrics page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum MetricsFault {
    /// Nothing.
    #[default]
    None,
    /// It shows for ever what it showed when the fault began.
    Frozen,
    /// There is no such path.
    Missing,
    /// It is there, without the families that a scheduler needs.
    Partial,
}

/// The faults in force. Rates are between 0 and 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Faults {
    /// Rate of inference calls that are answered 429.
    pub(super) reject: f64,
    /// Rate of inference calls that are answered 500.
    pub(super) fail: f64,
    /// Rate of inference calls that never get their first token.
    pub(super) hang: f64,
    /// Answers fall silent after this many tokens.
    pub(super) hang_after: Option<u32>,
    /// The connection is cut after this many tokens.
    pub(super) cut_after: Option<u32>,
    /// An error object and a clean end come after this many tokens.
    pub(super) error_after: Option<u32>,
    /// The metrics page.
    pub(super) metrics: MetricsFault,
    /// How many times longer each step takes.
    pub(super) slow: f64,
    /// New connections are refused, idle ones closed.
    pub(super) refuse: bool,
}

impl Default for Faults {
    fn default() -> Self {
        Self {
            reject: 0.0,
            fail: 0.0,
            hang: 0.0,
            hang_after: None,
            cut_after: None,
            error_after: None,
            metrics: MetricsFault::None,
            slow: 1.0,
            refuse: false,
        }
    }
}

/// A change of some faults: what is absent stays as it is, and `null` switches an `…_after` off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct FaultPatch {
    reject: Option<f64>,
    fail: Option<f64>,
    hang: Option<f64>,
    #[serde(deserialize_with = "present")]
    hang_after: Option<Option<u32>>,
    #[serde(deserialize_with = "present")]
    cut_after: Option<Option<u32>>,
    #[serde(deserialize_with = "present")]
    error_after: Option<Option<u32>>,
    metrics: Option<MetricsFault>,
    slow: Option<f64>,
    refuse: Option<bool>,
}

/// Tells `null` from absence.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Option<u32>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

impl FaultPatch {
    /// Reads `name=value` pairs, separated by commas; a bare name means "always".
    ///
    /// # Errors
    /// Says which pair is not one.
    pub(crate) fn parse(text: &str) -> anyhow::Result<Self> {
        let mut patch = Self::default();
        for pair in text.split(',').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, "1"));
            let number = || value.parse::<f64>().with_context(|| format!("{pair:?} has no number"));
            let count = || {
                value
                    .parse::<u32>()
                    .map(Some)
                    .with_context(|| format!("{pair:?} has no number of tokens"))
            };
            match name {
                "reject" => patch.reject = Some(number()?),
                "fail" => patch.fail = Some(number()?),
                "hang" => patch.hang = Some(number()?),
                "hang-after" => patch.hang_after = Some(count()?),
                "cut-after" => patch.cut_after = Some(count()?),
                "error-after" => patch.error_after = Some(count()?),
                "slow" => patch.slow = Some(number()?),
                "refuse" => patch.refuse = Some(true),
                "metrics" => {
                    let fault = serde_json::from_value(serde_json::Value::from(value));
                    patch.metrics = Some(fault.with_context(|| format!("{pair:?}: frozen, missing or partial"))?);
                }
                _ => bail!(
                    "{name:?} is no fault; there are reject, fail, hang, hang-after, cut-after, error-after, metrics, \
                     slow and refuse"
                ),
            }
        }
        patch.check()?;
        Ok(patch)
    }

    /// Reads a JSON object.
    ///
    /// # Errors
    /// Says what is wrong with it.
    pub(super) fn from_json(body: &[u8]) -> anyhow::Result<Self> {
        // By way of a map, since a list would do for a struct otherwise.
        let object: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(body)?;
        let patch: Self = serde_json::from_value(object.into())?;
        patch.check()?;
        Ok(patch)
    }

    fn check(&self) -> anyhow::Result<()> {
        for (name, rate) in [("reject", self.reject), ("fail", self.fail), ("hang", self.hang)] {
            if rate.is_some_and(|rate| !(0.0..=1.0).contains(&rate)) {
                bail!("{name} is a rate between 0 and 1");
            }
        }
        if self.slow.is_some_and(|slow| !(0.01..=1000.0).contains(&slow)) {
            bail!("slow is a factor between 0.01 and 1000");
        }
        Ok(())
    }

    /// `faults` with this change.
    pub(super) fn apply(&self, faults: Faults) -> Faults {
        Faults {
            reject: self.reject.unwrap_or(faults.reject),
            fail: self.fail.unwrap_or(faults.fail),
            hang: self.hang.unwrap_or(faults.hang),
            hang_after: self.hang_after.unwrap_or(faults.hang_after),
            cut_after: self.cut_after.unwrap_or(faults.cut_after),
            error_after: self.error_after.unwrap_or(faults.error_after),
            metrics: self.metrics.unwrap_or(faults.metrics),
            slow: self.slow.unwrap_or(faults.slow),
            refuse: self.refuse.unwrap_or(faults.refuse),
        }
    }
}

/// What goes wrong with one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallFault {
    /// It is refused with 429.
    Reject,
    /// It fails with 500.
    Fail,
    /// Its answer breaks off after so many tokens.
    Break(u32, Break),
}

/// How an answer breaks off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Break {
    /// It falls silent.
    Hang,
    /// The connection is cut.
    Cut,
    /// An error object comes, then a clean end.
    Error,
}

impl Faults {
    /// What goes wrong with the next call.
    pub(super) fn draw(&self, rng: &mut fastrand::Rng) -> Option<CallFault> {
        // All three are drawn, so that switching one rate does not change what the others do.
        let [reject, fail, hang] = [self.reject, self.fail, self.hang].map(|rate| rng.f64() < rate);
        let breaks = [
            (self.hang_after, Break::Hang),
            (self.cut_after, Break::Cut),
            (self.error_after, Break::Error),
        ];
        let broken = || {
            breaks
                .into_iter()
                .filter_map(|(after, how)| after.map(|after| (after, how)))
        };
        if reject {
            Some(CallFault::Reject)
        } else if fail {
            Some(CallFault::Fail)
        } else if hang {
            Some(CallFault::Break(0, Break::Hang))
        } else {
            broken()
                .min_by_key(|(after, _)| *after)
                .map(|(after, how)| CallFault::Break(after, how))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_spellings_say_the_same() {
        let line = FaultPatch::parse("reject=0.1,cut-after=3,metrics=frozen,slow=3,refuse").unwrap();
        let json = br#"{"reject":0.1,"cut_after":3,"metrics":"frozen","slow":3,"refuse":true}"#;
        assert_eq!(line, FaultPatch::from_json(json).unwrap());
        let faults = line.apply(Faults::default());
        assert_eq!((faults.reject, faults.cut_after, faults.slow), (0.1, Some(3), 3.0));
        let healed = FaultPatch::from_json(br#"{"cut_after":null,"metrics":"none"}"#)
            .unwrap()
            .apply(faults);
        assert_eq!(
            (healed.cut_after, healed.metrics, healed.slow),
            (None, MetricsFault::None, 3.0)
        );
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["reject=2", "slow=0", "cut-after=x", "metrics=odd", "explode"] {
            assert!(FaultPatch::parse(text).is_err(), "{text}");
        }
        for json in ["", "[]", r#"{"explode":1}"#, r#"{"reject":"a"}"#] {
            assert!(FaultPatch::from_json(json.as_bytes()).is_err(), "{json}");
        }
    }

    #[test]
    fn rates_hold_and_the_first_break_wins() {
        let mut rng = fastrand::Rng::with_seed(1);
        let faults = Faults {
            reject: 0.2,
            cut_after: Some(9),
            error_after: Some(4),
            ..Faults::default()
        };
        let drawn: Vec<_> = (0..10_000).map(|_| faults.draw(&mut rng)).collect();
        let rejected = drawn.iter().filter(|fault| **fault == Some(CallFault::Reject)).count();
        assert!((1_900..2_100).contains(&rejected), "{rejected}");
        assert!(drawn.contains(&Some(CallFault::Break(4, Break::Error))));
        assert!(!drawn.contains(&Some(CallFault::Break(9, Break::Cut))));
        assert_eq!(Faults::default().draw(&mut rng), None);
    }
}
