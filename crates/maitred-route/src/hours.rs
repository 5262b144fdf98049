//! The hours and days on which a rule holds, on the clock of a fixed offset from UTC.

use std::fmt;
use std::time::Duration;

use maitred_types::UnixMillis;
use smallvec::SmallVec;

const MINUTE: u64 = 60_000;
const MINUTES_OF_DAY: u32 = 1_440;
/// Minutes of a week.
const WEEK: u32 = 7 * MINUTES_OF_DAY;

/// How far a clock on the wall is from UTC, in minutes east.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offset(i16);

impl Offset {
    /// So many minutes east of UTC; None if no clock on Earth is that far away.
    #[must_use]
    pub const fn minutes(minutes: i16) -> Option<Self> {
        if minutes < -14 * 60 || minutes > 14 * 60 {
            return None;
        }
        Some(Self(minutes))
    }

    /// Minutes since the beginning of the week, which is Monday's midnight.
    fn minute_of_week(self, at: UnixMillis) -> u32 {
        let minutes = (at.get() / MINUTE).saturating_add_signed(i64::from(self.0));
        // The first of January 1970 was a Thursday.
        let minute = (minutes + 3 * u64::from(MINUTES_OF_DAY)) % (7 * u64::from(MINUTES_OF_DAY));
        u32::try_from(minute).unwrap_or(0)
    }
}

impl fmt::Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { '-' } else { '+' };
        let minutes = self.0.unsigned_abs();
        write!(f, "{sign}{:02}:{:02}", minutes / 60, minutes % 60)
    }
}

/// A part of every day, from a minute on and before another; over midnight if the second comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hours {
    from: u16,
    until: u16,
}

impl Hours {
    /// From one minute of the day on and before another; 1,440 ends a day. None if one is beyond a day or they are the same, which
    /// would be always or never.
    #[must_use]
    pub const fn new(from: u16, until: u16) -> Option<Self> {
        if from >= 1_440 || until > 1_440 || from == until {
            return None;
        }
        Some(Self { from, until })
    }

    fn hold(self, minute: u32) -> bool {
        let (from, until) = (u32::from(self.from), u32::from(self.until));
        if from < until {
            (from..until).contains(&minute)
        } else {
            minute >= from || minute < until
        }
    }
}

impl fmt::Display for Hours {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let clock = |minute: u16| format!("{:02}:{:02}", minute / 60, minute % 60);
        write!(f, "{}-{}", clock(self.from), clock(self.until))
    }
}

/// Days of the week: one bit each, Monday lowest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Days(u8);

impl Days {
    /// The names of the days, in order.
    pub const NAMES: [&'static str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
    /// Every day.
    pub const ALL: Self = Self(0b111_1111);

    /// The days at these places of [`Days::NAMES`].
    #[must_use]
    pub fn of(places: impl IntoIterator<Item = u8>) -> Self {
        Self(places.into_iter().fold(0, |days, place| days | 1 << (place % 7)))
    }

    fn hold(self, day: u32) -> bool {
        self.0 & (1 << (day % 7)) != 0
    }
}

impl fmt::Display for Days {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let days = Self::NAMES.iter().zip(0..).filter(|(_, place)| self.hold(*place));
        let names: Vec<&str> = days.map(|(name, _)| *name).collect();
        f.write_str(&names.join(", "))
    }
}

/// When in the week something holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// The part of the day.
    pub hours: Option<Hours>,
    /// The days. A night over midnight counts to both of its days, each with its own part.
    pub days: Days,
    /// Whose clock is meant.
    pub offset: Offset,
}

impl Schedule {
    /// Whether it holds at this moment.
    #[must_use]
    pub fn holds(&self, at: UnixMillis) -> bool {
        self.holds_in(self.offset.minute_of_week(at))
    }

    fn holds_in(&self, minute: u32) -> bool {
        let (day, minute) = (minute / MINUTES_OF_DAY, minute % MINUTES_OF_DAY);
        self.days.hold(day) && self.hours.is_none_or(|hours| hours.hold(minute))
    }

    /// What the clock of its offset shows, such as `sat 22:15`.
    #[must_use]
    pub fn clock(&self, at: UnixMillis) -> String {
        let minute = self.offset.minute_of_week(at);
        let (day, minute) = (minute / MINUTES_OF_DAY, minute % MINUTES_OF_DAY);
        let name = Days::NAMES.get(day as usize).copied().unwrap_or_default();
        format!("{name} {:02}:{:02}", minute / 60, minute % 60)
    }

    /// The minutes of a week of UTC, counted from Monday's midnight, at which it can begin or cease to hold.
    pub(crate) fn turns(&self) -> impl Iterator<Item = u32> {
        let edges = self.hours.map(|hours| [u32::from(hours.from), u32::from(hours.until)]);
        let edges: SmallVec<[u32; 3]> = edges.into_iter().flatten().chain([0]).collect();
        let offset = i32::from(self.offset.0);
        (0..7)
            .flat_map(move |day| {
                let days = edges.clone().into_iter();
                days.map(move |edge| (day * MINUTES_OF_DAY + edge).wrapping_add_signed(-offset))
            })
            .map(|minute| i64::from(minute.cast_signed()).rem_euclid(i64::from(WEEK)))
            .map(|minute| u32::try_from(minute).unwrap_or(0))
    }

    /// Whether it holds at this minute of a week of UTC, counted from Monday's midnight.
    pub(crate) fn holds_at(&self, minute: u32) -> bool {
        let minute = (i64::from(minute) + i64::from(self.offset.0)).rem_euclid(i64::from(WEEK));
        self.holds_in(u32::try_from(minute).unwrap_or(0))
    }

    /// How much of a week it holds.
    #[must_use]
    pub fn length(&self) -> Duration {
        let minutes = (0..WEEK).filter(|minute| self.holds_in(*minute)).count();
        Duration::from_secs(u64::try_from(minutes).unwrap_or(0) * 60)
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(hours) = self.hours {
            write!(f, "{hours} ")?;
        }
        if self.days != Days::ALL {
            write!(f, "on {} ", self.days)?;
        }
        write!(f, "at {}", self.offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Saturday, 2026-01-03T00:00:00Z.
    const SATURDAY: u64 = 1_767_398_400_000;

    fn schedule(from: u16, until: u16, days: Days, offset: i16) -> Schedule {
        Schedule {
            hours: Hours::new(from, until),
            days,
            offset: Offset::minutes(offset).unwrap(),
        }
    }

    #[test]
    fn hours_may_go_over_midnight_and_days_are_those_of_the_clock() {
        let check = |schedule: Schedule, minutes: i64, expected: bool| {
            let at = UnixMillis::new(SATURDAY.saturating_add_signed(minutes * 60_000));
            assert_eq!(schedule.holds(at), expected, "{schedule} at {minutes}");
        };
        let night = schedule(22 * 60, 6 * 60, Days::ALL, 0);
        for (minutes, expected) in [(-121, false), (-120, true), (0, true), (359, true), (360, false)] {
            check(night, minutes, expected);
        }
        let weekend = schedule(0, 1_440, Days::of([5, 6]), 0);
        for (minutes, expected) in [(-1, false), (0, true), (2_879, true), (2_880, false)] {
            check(weekend, minutes, expected);
        }
        // An hour east it is Saturday an hour earlier.
        check(schedule(0, 1_440, Days::of([5]), 60), -60, true);
        check(schedule(0, 1_440, Days::of([5]), 60), -61, false);
        check(schedule(0, 1_440, Days::of([5]), -60), 0, false);
        assert_eq!(night.length(), Duration::from_secs(7 * 8 * 3_600));
        assert_eq!(night.to_string(), "22:00-06:00 at +00:00");
        assert_eq!(
            schedule(0, 60, Days::of([5, 6]), -90).to_string(),
            "00:00-01:00 on sat, sun at -01:30"
        );
    }

    #[test]
    fn it_turns_where_it_says() {
        let all = [
            schedule(22 * 60, 6 * 60, Days::ALL, 0),
            schedule(0, 1_440, Days::of([5, 6]), 90),
            schedule(30, 1_440, Days::of([0, 6]), -14 * 60),
            schedule(60, 120, Days::of([2]), 14 * 60),
        ];
        for schedule in all {
            let turns: Vec<u32> = schedule.turns().collect();
            for minute in 0..WEEK {
                let monday = SATURDAY + 2 * 24 * 60 * MINUTE;
                let at = UnixMillis::new(monday + u64::from(minute) * MINUTE);
                assert_eq!(schedule.holds(at), schedule.holds_at(minute), "{schedule} at {minute}");
                let before = (minute + WEEK - 1) % WEEK;
                let turns_now = schedule.holds_at(before) != schedule.holds_at(minute);
                assert!(!turns_now || turns.contains(&minute), "{schedule} at {minute}");
            }
        }
        assert!(Hours::new(60, 60).is_none() && Hours::new(0, 1_441).is_none() && Hours::new(1_440, 0).is_none());
    }
}
