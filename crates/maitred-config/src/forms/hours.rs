//! Parts of the day, `22:00-06:00`, and clocks, `+01:00`.

use std::fmt;

use maitred_route::{Hours, Offset};

use super::TextForm;

/// A part of every day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HoursText(Hours);

impl HoursText {
    /// The part.
    #[must_use]
    pub(crate) const fn get(self) -> Hours {
        self.0
    }
}

impl TextForm for HoursText {
    const FORMAT: &'static str = "maitred-hours";
    const TYPE: &'static str = "part of the day";
    const EXAMPLE: &'static str = "22:00-06:00";
    const PATTERN: Option<&'static str> = Some("^[0-9]{2}:[0-9]{2}-[0-9]{2}:[0-9]{2}$");

    fn read(text: &str) -> Result<Self, String> {
        let form = || {
            "a part of the day is two different times of 24 hours with `-` between them, such as `22:00-06:00`"
                .to_owned()
        };
        let (from, until) = text.split_once('-').ok_or_else(form)?;
        let (from, until) = clock(from).zip(clock(until)).ok_or_else(form)?;
        Hours::new(from, until).map(Self).ok_or_else(form)
    }
}

impl fmt::Display for HoursText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// How far a clock is from UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OffsetText(Offset);

impl OffsetText {
    /// The offset.
    #[must_use]
    pub(crate) const fn get(self) -> Offset {
        self.0
    }
}

impl TextForm for OffsetText {
    const FORMAT: &'static str = "maitred-offset";
    const TYPE: &'static str = "offset from UTC";
    const EXAMPLE: &'static str = "+01:00";
    const PATTERN: Option<&'static str> = Some("^[+-][0-9]{2}:[0-9]{2}$");

    fn read(text: &str) -> Result<Self, String> {
        let form = || "an offset from UTC is `+` or `-`, hours and minutes, such as `+01:00`".to_owned();
        let minutes = |text| clock(text).and_then(|minutes| i16::try_from(minutes).ok());
        let minutes = match text.split_at_checked(1) {
            Some(("+", rest)) => minutes(rest),
            Some(("-", rest)) => minutes(rest).map(|minutes| -minutes),
            _ => None,
        };
        minutes.and_then(Offset::minutes).map(Self).ok_or_else(form)
    }
}

impl fmt::Display for OffsetText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The minute of the day of `HH:MM`, up to `24:00`.
fn clock(text: &str) -> Option<u16> {
    let (hours, minutes) = text.split_once(':')?;
    let two = |digits: &str| {
        let is_form = digits.len() == 2 && digits.bytes().all(|byte| byte.is_ascii_digit());
        is_form.then(|| digits.parse::<u16>().ok()).flatten()
    };
    let (hours, minutes) = two(hours).zip(two(minutes))?;
    (minutes < 60 && hours * 60 + minutes <= 1_440).then_some(hours * 60 + minutes)
}
