//! Points of civil time: `2027-01-31`, `2027-01-31T12:00:00Z`.

use std::fmt;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use maitred_types::UnixMillis;

use super::TextForm;

/// A point of civil time, written as a date (its first instant in UTC) or as a date and time with an offset (RFC 3339).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(UnixMillis);

impl Moment {
    pub(crate) const fn new(at: UnixMillis) -> Self {
        Self(at)
    }

    /// The point.
    #[must_use]
    pub(crate) const fn get(self) -> UnixMillis {
        self.0
    }
}

/// Reads a point of civil time as the configuration writes it: a date (its first instant in UTC), or a time with an offset.
///
/// # Errors
/// Says what the form is.
pub fn moment(text: &str) -> Result<UnixMillis, String> {
    Moment::read(text).map(Moment::get)
}

impl TextForm for Moment {
    const FORMAT: &'static str = "maitred-moment";
    const TYPE: &'static str = "date or time";
    const EXAMPLE: &'static str = "2027-01-31";

    fn read(text: &str) -> Result<Self, String> {
        let form = || {
            "a point of time is a date such as `2027-01-31` or a time with an offset such as `2027-01-31T12:00:00Z`"
                .to_owned()
        };
        let timestamp = match text.len() {
            10 => {
                let date: Date = text.parse().map_err(|_| form())?;
                date.to_zoned(TimeZone::UTC).map_err(|_| form())?.timestamp()
            }
            _ => text.parse::<Timestamp>().map_err(|_| form())?,
        };
        let millis =
            u64::try_from(timestamp.as_millisecond()).map_err(|_| "a point of time is not before 1970".to_owned())?;
        Ok(Self(UnixMillis::new(millis)))
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let timestamp = i64::try_from(self.0.get())
            .ok()
            .and_then(|millis| Timestamp::from_millisecond(millis).ok());
        match timestamp {
            Some(timestamp) => timestamp.fmt(f),
            None => self.0.fmt(f),
        }
    }
}
