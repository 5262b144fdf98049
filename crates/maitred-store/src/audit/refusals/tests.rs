use proptest::prelude::*;

use super::*;

const FAULTS: [&str; 3] = ["quota_exceeded", "model_not_found", "invalid_key"];

fn caller(number: u16) -> Caller {
    Caller {
        key: (number > 0).then(|| format!("key-{number}").into()),
        ..Caller::default()
    }
}

/// What the audit does with one refused call: whether it has an entry, and the counts that are entered before it.
fn refuse(
    refusals: &mut Refusals,
    number: u16,
    fault: &'static str,
    (id, now): (&str, u64),
) -> (bool, Vec<RefusedCalls>) {
    let closed = refusals.close_before(UnixMillis::new(now));
    let refusal = Refusal {
        caller: caller(number),
        fault,
        request_id: id,
    };
    (refusals.note(refusal, number > 0), closed)
}

#[test]
fn the_first_has_an_entry_and_those_that_follow_are_counted() {
    let mut refusals = Refusals::default();
    let mut entered = 0;
    for call in 0..10_000_u64 {
        let (is_first, closed) = refuse(&mut refusals, 7, FAULTS[0], (&format!("req-{call}"), 5_000 + call / 20));
        assert!(closed.is_empty());
        entered += u64::from(is_first);
    }
    assert_eq!(entered, 1);
    let (is_first, closed) = refuse(&mut refusals, 7, FAULTS[0], ("next", 6_000));
    assert!(is_first);
    assert_eq!(
        serde_json::to_value(&closed).unwrap(),
        serde_json::json!([{
            "kind": "refused", "at": "1970-01-01T00:00:05.000Z", "key": "key-7", "fault": "quota_exceeded",
            "calls": 9_999, "first": "req-1", "last": "req-9999",
        }])
    );
    // Who comes alone leaves no count.
    assert_eq!(refusals.close(), []);
}

#[test]
fn of_strangers_there_are_only_counts() {
    let mut refusals = Refusals::default();
    assert!(!refuse(&mut refusals, 0, FAULTS[2], ("one", 0)).0);
    let closed = refusals.close();
    assert_eq!(
        serde_json::to_value(&closed[0]).unwrap(),
        serde_json::json!({
            "kind": "refused", "at": "1970-01-01T00:00:00.000Z", "fault": "invalid_key", "calls": 1, "first": "one", "last": "one",
        })
    );
}

#[test]
fn a_clock_that_goes_back_a_little_closes_nothing_and_one_that_is_set_does() {
    let mut refusals = Refusals::default();
    for (now, closes) in [
        (10_000, false),
        (9_999, false),
        (10_001, false),
        (8_000, false),
        (7_999, true),
        (7_000, false),
    ] {
        let before = refusals.open.values().map(|count| count.calls).sum::<u64>();
        let closed = refuse(&mut refusals, 0, FAULTS[0], ("x", now)).1;
        assert_eq!(
            closed.iter().map(|count| count.calls).sum::<u64>(),
            if closes { before } else { 0 },
            "at {now}"
        );
    }
}

proptest! {
    /// Every refused call is in an entry of its own or in one count, and there are never more counts than the bound allows.
    #[test]
    fn counts_and_entries_sum_up(calls in prop::collection::vec((0_u16..600, 0_usize..3, -300_i64..700), 0..2000)) {
        let (mut refusals, mut now) = (Refusals::default(), 1_000_000_i64);
        let (mut entered, mut counted, mut expected) = (0, 0, [0_u64; 3]);
        let mut by_fault = [0_u64; 3];
        let mut take = |closed: Vec<RefusedCalls>| {
            assert!(closed.len() <= OPEN_MAX + FAULTS.len());
            for count in closed {
                counted += count.calls;
                let fault = FAULTS.iter().position(|fault| *fault == count.fault).unwrap();
                by_fault[fault] += count.calls;
                assert!(count.others || count.caller.key.is_none() || count.calls > 0);
            }
        };
        let mut own = [0_u64; 3];
        for (number, fault, step) in &calls {
            now += step / 10;
            let at = u64::try_from(now).unwrap();
            let (is_first, closed) = refuse(&mut refusals, *number, FAULTS[*fault], ("id", at));
            take(closed);
            prop_assert!(refusals.open.len() <= OPEN_MAX + FAULTS.len());
            entered += u64::from(is_first);
            own[*fault] += u64::from(is_first);
            expected[*fault] += 1;
        }
        take(refusals.close());
        prop_assert_eq!(entered + counted, calls.len() as u64);
        for fault in 0..3 {
            prop_assert_eq!(own[fault] + by_fault[fault], expected[fault]);
        }
        prop_assert!(refusals.is_empty());
    }
}
