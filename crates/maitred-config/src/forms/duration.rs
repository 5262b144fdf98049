//! Durations: `200ms`, `5s`, `1m30s`.

use std::fmt;
use std::time::Duration;

use super::TextForm;

/// A duration, written as whole numbers with units from the largest to the smallest: `1h`, `1m30s`, `200ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TimeSpan(Duration);

/// Units with their milliseconds, the largest first.
const UNITS: [(&str, u64); 4] = [("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// A year: longer than anything an option could mean.
const MILLIS_MAX: u64 = 366 * 24 * 3_600_000;

impl TimeSpan {
    /// The duration as an option.
    pub(crate) const fn new(duration: Duration) -> Self {
        Self(duration)
    }

    pub(crate) const fn millis(millis: u64) -> Self {
        Self(Duration::from_millis(millis))
    }

    pub(crate) const fn secs(secs: u64) -> Self {
        Self(Duration::from_secs(secs))
    }

    /// The duration.
    #[must_use]
    pub(crate) const fn get(self) -> Duration {
        self.0
    }
}

impl TextForm for TimeSpan {
    const FORMAT: &'static str = "maitred-duration";
    const TYPE: &'static str = "duration";
    const EXAMPLE: &'static str = "1m30s";
    const PATTERN: Option<&'static str> = Some("^([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?$");

    fn read(text: &str) -> Result<Self, String> {
        let mut rest = text;
        let mut millis = 0_u64;
        let mut units = UNITS.iter();
        while !rest.is_empty() {
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            let (number, tail) = rest.split_at_checked(digits).unwrap_or((rest, ""));
            let unit_len = tail.bytes().take_while(u8::is_ascii_alphabetic).count();
            let (unit, tail) = tail.split_at_checked(unit_len).unwrap_or((tail, ""));
            let Ok(number) = number.parse::<u64>() else {
                return Err(form_message());
            };
            if unit.is_empty() {
                return Err(format!("`{number}` has no unit; write `{number}s` or `{number}ms`"));
            }
            let Some((_, factor)) = units.find(|(name, _)| *name == unit) else {
                return Err(form_message());
            };
            millis = number
                .checked_mul(*factor)
                .and_then(|part| millis.checked_add(part))
                .unwrap_or(u64::MAX);
            rest = tail;
        }
        match (text.is_empty(), millis > MILLIS_MAX) {
            (true, _) => Err(form_message()),
            (_, true) => Err("a duration is at most a year".to_owned()),
            _ => Ok(Self::millis(millis)),
        }
    }
}

fn form_message() -> String {
    "a duration is whole numbers with the units `h`, `m`, `s` and `ms`, largest first, such as `200ms`, `5s` or `1m30s`"
        .to_owned()
}

impl fmt::Display for TimeSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut millis = u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX);
        if millis == 0 {
            return f.write_str("0s");
        }
        for (unit, factor) in UNITS {
            if millis >= factor {
                write!(f, "{}{unit}", millis / factor)?;
                millis %= factor;
            }
        }
        Ok(())
    }
}
