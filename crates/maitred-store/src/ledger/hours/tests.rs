use super::*;

#[test]
fn minutes_of_the_first_and_last_hour_are_those_within() {
    let check = |edge, since, until, minutes: u32| {
        assert_eq!(
            within(edge, (since, until)).count_ones(),
            minutes,
            "{edge} {since} {until}"
        );
    };
    check(0, 600, 1200, 60);
    check(10, 600, 1200, 60);
    check(10, 601, 1200, 59);
    check(20, 601, 1200, 0);
    check(20, 601, 1259, 59);
    check(10, 610, 620, 10);
    check(10, 610, 610, 0);
}

#[test]
fn what_minutes_cost_is_rounded_once() {
    assert_eq!(cost(60, 7), 7);
    assert_eq!(cost(1, 29), 0);
    assert_eq!(cost(1, 30), 1);
    assert_eq!(cost(i64::MAX, i64::MAX), i64::MAX);
}

#[test]
fn a_moment_lies_in_its_minute() {
    let at = |millis| Ready::at(UnixMillis::new(millis), ("chat", "e"), ("p", 9));
    assert_eq!((at(0).hour, at(0).minutes), (0, 1));
    assert_eq!((at(7_199_999).hour, at(7_199_999).minutes), (1, 1 << 59));
    let mut hours = Hours::default();
    for millis in [0, 59_999, 60_000] {
        let Ready { hour, minutes, .. } = at(millis);
        let text = str::to_owned;
        hours.add(Ready {
            hour,
            minutes,
            per_hour: 9,
            pool: text("chat"),
            endpoint: text("e"),
            price: text("p"),
        });
    }
    assert_eq!(hours.0.into_values().collect::<Vec<_>>(), [(9, 0b11)]);
}
