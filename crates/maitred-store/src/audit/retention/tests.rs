use proptest::prelude::*;

use super::*;

const NOW: UnixMillis = UnixMillis::new(1_800_000_000_000);
const DAY: Duration = Duration::from_secs(86_400);

fn closed(bytes: u64, days: u64) -> Closed {
    Closed {
        bytes,
        ended: Some(UnixMillis::new(NOW.get() - days * 86_400_000)),
    }
}

#[test]
fn the_old_go_and_then_what_is_too_much() {
    let all = [closed(100, 40), closed(100, 31), closed(100, 30), closed(100, 1)];
    let leaving = |keep: Option<u32>, max_bytes| {
        let keep = keep.map(|days| DAY * days);
        let leaving = Retention { keep, max_bytes }.leaving(&all, 50, NOW);
        (leaving.aged, leaving.surplus)
    };
    assert_eq!(leaving(None, None), (0, 0));
    assert_eq!(leaving(Some(30), None), (2, 0));
    assert_eq!(leaving(None, Some(450)), (0, 0));
    assert_eq!(leaving(None, Some(449)), (0, 1));
    assert_eq!(leaving(Some(31), Some(250)), (1, 1));
    assert_eq!(leaving(None, Some(0)), (0, 4), "the one that is written stays");
}

#[test]
fn a_segment_that_holds_much_time_is_closed() {
    let retention = Retention {
        keep: Some(DAY),
        max_bytes: None,
    };
    let began = |minutes: u64| UnixMillis::new(NOW.get() - minutes * 60_000);
    assert!(!retention.is_long(began(60), NOW) && retention.is_long(began(61), NOW));
    assert!(!Retention::default().is_long(UnixMillis::new(0), NOW));
}

proptest! {
    /// What stays is the newest, fits, and nothing goes without need.
    #[test]
    fn no_more_goes_than_must(
        all in prop::collection::vec((0_u64..1000, 0_u64..50), 0..12),
        open in 0_u64..1000,
        keep in prop::option::of(0_u32..50),
        max_bytes in prop::option::of(0_u64..5000),
    ) {
        let mut all: Vec<Closed> = all.into_iter().map(|(bytes, days)| closed(bytes, days)).collect();
        all.sort_by_key(|closed| closed.ended);
        let retention = Retention { keep: keep.map(|days| DAY * days), max_bytes };
        let leaving = retention.leaving(&all, open, NOW);
        let rest = &all[leaving.count()..];
        let held = |rest: &[Closed]| open + rest.iter().map(|closed| closed.bytes).sum::<u64>();
        prop_assert!(rest.is_empty() || max_bytes.is_none_or(|most| held(rest) <= most));
        let is_old = |closed: &Closed| keep.is_some_and(|days| closed.ended.unwrap().get() < NOW.get() - u64::from(days) * 86_400_000);
        prop_assert!(!rest.iter().any(is_old));
        if let Some(last) = leaving.count().checked_sub(1) {
            prop_assert!(is_old(&all[last]) || max_bytes.is_some_and(|most| held(&all[last..]) > most));
        }
    }
}
