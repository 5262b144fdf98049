use proptest::prelude::*;

use super::*;

#[test]
fn who_is_alone_has_all_and_others_have_their_part() {
    let mut time = SharedTime::default();
    let at = Time::from_millis;
    // Nobody was there for a second: nobody has it.
    time.advance(at(1000), 0, 0);
    let first = time.mark();
    time.advance(at(1300), 1, 0);
    let second = time.mark();
    time.advance(at(1500), 2, 0);
    assert_eq!(time.since(first, 2), Duration::from_millis(400));
    assert_eq!(time.since(second, 2), Duration::from_millis(100));
    time.left(2);
    // Another gateway has three there.
    time.advance(at(1900), 1, 3);
    assert_eq!(time.since(second, 1), Duration::from_millis(200));
    // A clock that goes back changes nothing.
    time.advance(at(1800), 1, 0);
    assert_eq!(time.since(second, 1), Duration::from_millis(200));
}

proptest! {
    /// Calls come (`true`) and go at any moments; all shares are all the time during which there were calls.
    #[test]
    fn shares_are_the_busy_time_to_the_nanosecond(steps in prop::collection::vec((0_u64..10_007, any::<bool>(), 0_usize..8), 0..200)) {
        let (mut time, mut now, mut marks) = (SharedTime::default(), 0_u64, Vec::new());
        let (mut busy, mut shares) = (0_u64, Duration::ZERO);
        let leave = |time: &mut SharedTime, marks: &mut Vec<u64>, which: usize| {
            let own = u32::try_from(marks.len()).unwrap();
            let mark = marks.swap_remove(which % marks.len());
            let share = time.since(mark, own);
            time.left(own);
            share
        };
        for (wait, comes, which) in steps {
            now += wait;
            busy += if marks.is_empty() { 0 } else { wait };
            time.advance(Time::from_nanos(now), u32::try_from(marks.len()).unwrap(), 0);
            if comes {
                marks.push(time.mark());
            } else if !marks.is_empty() {
                shares += leave(&mut time, &mut marks, which);
            }
        }
        while !marks.is_empty() {
            shares += leave(&mut time, &mut marks, 0);
        }
        prop_assert_eq!(shares, Duration::from_nanos(busy));
    }
}
