//! Days and months of civil time, UTC, as running numbers.

use std::time::Duration;

use maitred_types::UnixMillis;

const DAY_MILLIS: u64 = 86_400_000;

/// The day's number since 1970-01-01.
pub(super) const fn day(at: UnixMillis) -> u64 {
    at.get() / DAY_MILLIS
}

/// How long until the next day begins.
pub(super) const fn until_next_day(at: UnixMillis) -> Duration {
    Duration::from_millis(DAY_MILLIS - at.get() % DAY_MILLIS)
}

/// The month's number: twelve times the year, and the month from zero.
///
/// The way from days to a date of the Gregorian calendar counts years from March, so that the leap day is the last of its year.
pub(super) const fn month(at: UnixMillis) -> u64 {
    // Days since 0000-03-01.
    let days = day(at) + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let day_of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // Months from March, of 153 days in every five.
    let from_march = (5 * day_of_year + 2) / 153;
    (era * 400 + year_of_era) * 12 + from_march + 2
}

/// When the day began.
pub(super) const fn begin_of_day(at: UnixMillis) -> UnixMillis {
    UnixMillis::new(day(at) * DAY_MILLIS)
}

/// When the month began.
pub(super) const fn begin_of_month(at: UnixMillis) -> UnixMillis {
    let (today, this) = (day(at), month(at));
    let mut first = today;
    // A month has at most 31 days.
    while first > 0 && today - first < 31 && month(UnixMillis::new((first - 1) * DAY_MILLIS)) == this {
        first -= 1;
    }
    UnixMillis::new(first * DAY_MILLIS)
}

/// How long until the next month begins.
pub(super) const fn until_next_month(at: UnixMillis) -> Duration {
    let this = month(at);
    let midnight = (day(at) + 1) * DAY_MILLIS;
    // A month has at most 31 days.
    let mut days = 0;
    while days < 31 && month(UnixMillis::new(midnight + days * DAY_MILLIS)) == this {
        days += 1;
    }
    Duration::from_millis(midnight + days * DAY_MILLIS - at.get())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn months_begin_where_the_calendar_says() {
        // Seconds at which a month begins, from `date -u -d 2024-02-01 +%s` and so on.
        let check = |seconds: u64, year: u64, month_of_year: u64| {
            let number = year * 12 + month_of_year - 1;
            assert_eq!(month(UnixMillis::new(seconds * 1000)), number, "{seconds}");
            assert_eq!(month(UnixMillis::new(seconds * 1000 - 1)), number - 1, "{seconds}");
        };
        check(1_706_745_600, 2024, 2);
        check(1_709_251_200, 2024, 3);
        check(1_735_689_600, 2025, 1);
        check(1_772_323_200, 2026, 3);
        check(951_868_800, 2000, 3);
        check(4_107_542_400, 2100, 3);
        assert_eq!(month(UnixMillis::new(0)), 1970 * 12);
    }

    #[test]
    fn months_and_days_begin_at_midnight() {
        let check = |seconds: u64, begin: u64| {
            assert_eq!(
                begin_of_month(UnixMillis::new(seconds * 1000)).get(),
                begin * 1000,
                "{seconds}"
            );
        };
        check(1_706_745_600, 1_706_745_600);
        check(1_709_251_199, 1_706_745_600);
        check(1_735_689_600 + 30 * 86_400 + 5, 1_735_689_600);
        check(86_401, 0);
        assert_eq!(
            begin_of_day(UnixMillis::new(1_706_745_600_000 + 5)).get(),
            1_706_745_600_000
        );
    }

    #[test]
    fn the_next_month_is_as_far_as_it_is() {
        let february = UnixMillis::new(1_706_745_600_000);
        assert_eq!(until_next_month(february), Duration::from_secs(29 * 86_400));
        let last_second = UnixMillis::new(1_709_251_199_000);
        assert_eq!(until_next_month(last_second), Duration::from_secs(1));
        assert_eq!(until_next_day(last_second), Duration::from_secs(1));
    }
}
