use maitred_types::UnixMillis;

use super::*;
use crate::ledger::schema::month_after;

#[test]
fn months_are_civil_and_count_back_over_years() {
    assert_eq!(month_of(UnixMillis::new(0)), 197_001);
    // 2026-12-31T23:59:59.999Z, and a millisecond later.
    assert_eq!(month_of(UnixMillis::new(1_798_761_599_999)), 202_612);
    assert_eq!(month_of(UnixMillis::new(1_798_761_600_000)), 202_701);
    assert_eq!(month_of(UnixMillis::new(u64::MAX)), 999_912);
    assert_eq!(months_before(202_612, 0), 202_612);
    assert_eq!(months_before(202_612, 12), 202_512);
    assert_eq!(months_before(202_601, 1), 202_512);
    assert_eq!(months_before(202_601, 13), 202_412);
}

#[test]
fn partitions_of_months_meet() {
    assert_eq!(month_after(202_612), 202_701);
    assert_eq!(month_after(202_611), 202_612);
    let [made, _] = month_tables(202_612, true);
    assert!(made.ends_with("FROM (1796083200000) TO (1798761600000)"), "{made}");
    let [last, _] = month_tables(999_912, true);
    assert!(last.ends_with("TO (MAXVALUE)"), "{last}");
}
