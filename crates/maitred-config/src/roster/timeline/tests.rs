use maitred_tenant::{KeyHash, KeyHasher, NEW_KEY_RANDOM_BYTES, NewKey};
use maitred_types::UnixMillis;
use proptest::prelude::*;

use super::*;
use crate::load;

fn hash(number: u8) -> KeyHash {
    NewKey::make(&[number; NEW_KEY_RANDOM_BYTES]).hash(&KeyHasher::new(None))
}

fn base(more: &str) -> Settings {
    let text = format!(
        "version: 1\nauth: {{ keys: [{{ hash: '{}', tenant: filed, shared: true }}{more}] }}\npools:\n  - name: main\n    models: [{{ name: m }}]\n    \
         endpoints: [{{ address: 127.0.0.1:8000 }}]\n",
        hash(1)
    );
    load("maitred.yaml", &text, &|_| Err("none".to_owned()))
        .unwrap()
        .settings
}

fn make(timeline: &mut Timeline, change: Result<Change, ChangeRefusal>) -> Result<Value, ChangeRefusal> {
    let change = change?;
    timeline.check(&change, &base(""))?;
    let diff = timeline.preview(&change);
    // What is kept reads back to the same.
    timeline.apply(serde_json::from_str(&serde_json::to_string(&change).unwrap()).unwrap());
    Ok(diff)
}

fn create(number: u8) -> Result<Change, ChangeRefusal> {
    Change::create_key(json!({ "tenant": "filed", "shared": true }), &hash(number))
}

fn limit(amount: u64) -> Result<Change, ChangeRefusal> {
    Change::put_limit(json!({ "name": "calm", "tokens_per_day": amount }))
}

#[test]
fn an_earlier_state_comes_back_and_goes_again() {
    let mut timeline = Timeline::default();
    make(&mut timeline, limit(5)).unwrap();
    make(&mut timeline, create(2)).unwrap();
    let rotation = timeline.roster().rotation(
        &base(""),
        hash(1).id().as_str(),
        &hash(3),
        UnixMillis::new(1)..UnixMillis::new(5),
    );
    make(&mut timeline, rotation).unwrap();
    make(&mut timeline, limit(7)).unwrap();
    let four = timeline.roster().clone();
    let diff = make(&mut timeline, Ok(Change::restore(2))).unwrap();
    assert_eq!(diff["before"]["limits"]["calm"]["tokens_per_day"], 7);
    assert_eq!(diff["after"]["limits"]["calm"]["tokens_per_day"], 5);
    // Rotations go one way, for the old key and for the new one.
    assert!(
        diff["before"].get("keys").is_none() && diff["after"].get("until").is_none(),
        "{diff}"
    );
    let ids = |number: u8| json!([hash(number).id().as_str()]);
    assert_eq!(diff["stays"], json!({ "rotated": ids(1), "successors": ids(3) }));
    assert!(diff["before"].get("tenants").is_none());
    assert_eq!(timeline.roster().until, four.until);
    assert!(timeline.roster().keys.contains_key(hash(3).id()));
    assert_eq!(timeline.roster(), &timeline.at(5).unwrap());
    make(&mut timeline, limit(9)).unwrap();
    let six = timeline.roster().clone();
    // Forth again, and what followed a restoration is a state like others.
    make(&mut timeline, Ok(Change::restore(4))).unwrap();
    assert_eq!(timeline.roster(), &four);
    make(&mut timeline, Ok(Change::restore(6))).unwrap();
    assert_eq!(timeline.roster(), &six);
    make(&mut timeline, Ok(Change::restore(0))).unwrap();
    let left = timeline.roster();
    assert!(left.limits.is_empty() && !left.keys.contains_key(hash(2).id()) && left.keys.contains_key(hash(3).id()));
    for version in 0..=timeline.version() {
        let mut again = Timeline::default();
        let changes = timeline.changes.iter().take(usize::try_from(version).unwrap());
        changes.for_each(|change| again.apply(change.clone()));
        assert_eq!(Some(again.roster()), timeline.at(version).as_ref(), "{version}");
    }
}

#[test]
fn what_was_revoked_stays_revoked() {
    let mut timeline = Timeline::default();
    make(&mut timeline, create(2)).unwrap();
    make(&mut timeline, limit(7)).unwrap();
    make(&mut timeline, Change::revoke_key(hash(2).id().as_str())).unwrap();
    let refused = make(&mut timeline, Ok(Change::restore(2))).unwrap_err();
    assert!(
        matches!(refused, ChangeRefusal::Conflict(_)),
        "nothing else differs: {refused}"
    );
    let diff = make(&mut timeline, Ok(Change::restore(1))).unwrap();
    assert_eq!(
        diff["stays"],
        json!({ "revoked": [hash(2).id().as_str()] }),
        "it is said"
    );
    assert!(timeline.roster().revoked.contains(hash(2).id()));
    assert!(timeline.roster().limits.is_empty());
    assert!(timeline.at(4).unwrap().revoked.contains(hash(2).id()));
    assert!(timeline.at(2).unwrap().revoked.is_empty());
}

#[test]
fn only_earlier_versions_that_fit_the_file_are_restored() {
    let mut timeline = Timeline::default();
    make(&mut timeline, create(2)).unwrap();
    make(&mut timeline, limit(7)).unwrap();
    for version in [2, 3, u64::MAX] {
        let refused = make(&mut timeline, Ok(Change::restore(version))).unwrap_err();
        assert!(matches!(refused, ChangeRefusal::Unknown(_)), "{version}: {refused}");
    }
    make(&mut timeline, Ok(Change::restore(0))).unwrap();
    let in_file = base(&format!(", {{ hash: '{}', tenant: filed, shared: true }}", hash(2)));
    let refused = timeline.check(&Change::restore(1), &in_file).unwrap_err();
    assert!(refused.to_string().contains("stands in the file now"), "{refused}");
    // A line that no gateway wrote is passed over.
    let before = timeline.roster().clone();
    timeline.apply(Change::restore(99));
    assert_eq!((timeline.roster(), timeline.at(4).as_ref()), (&before, Some(&before)));
}

#[test]
fn a_difference_that_is_too_large_says_how_many_differ() {
    let mut timeline = Timeline::default();
    for number in 0..2_000 {
        let limit = json!({ "name": format!("limit-{number}"), "tokens_per_day": 5 });
        timeline.apply(Change::put_limit(limit).unwrap());
    }
    let diff = timeline.preview(&Change::restore(10));
    assert_eq!(diff, json!({ "before": { "limits": 1_990 }, "after": { "limits": 0 } }));
}

fn rotate(timeline: &mut Timeline, old: u8, new: u8, until: u64) {
    let id = hash(old).id().clone();
    let overlap = UnixMillis::new(1)..UnixMillis::new(until);
    let rotation = timeline.roster().rotation(&base(""), id.as_str(), &hash(new), overlap);
    make(timeline, rotation).unwrap();
}

fn is_let_in(timeline: &Timeline, number: u8, at: u64) -> bool {
    let key = NewKey::make(&[number; NEW_KEY_RANDOM_BYTES]);
    let keys = timeline.roster().over(&base("")).auth.keys;
    keys.check(key.expose(), UnixMillis::new(at)).is_ok()
}

#[test]
fn what_was_rotated_out_is_not_good_again() {
    let mut timeline = Timeline::default();
    make(&mut timeline, limit(5)).unwrap();
    make(&mut timeline, create(2)).unwrap();
    rotate(&mut timeline, 1, 3, 100);
    rotate(&mut timeline, 2, 4, 100);
    rotate(&mut timeline, 4, 5, 200);
    let good = |timeline: &Timeline, at| [1, 2, 3, 4, 5].map(|number| is_let_in(timeline, number, at));
    let late = [false, false, true, false, true];
    assert_eq!((good(&timeline, 50), good(&timeline, 250)), ([true; 5], late));
    // The second key is still there, and so is what took its place, twice.
    make(&mut timeline, limit(7)).unwrap();
    make(&mut timeline, Ok(Change::restore(2))).unwrap();
    assert_eq!((good(&timeline, 50), good(&timeline, 250)), ([true; 5], late));
    // Before it was made there was none, so nothing takes its place; the one of the file has its successor.
    make(&mut timeline, Ok(Change::restore(1))).unwrap();
    assert_eq!(good(&timeline, 50), [true, false, true, false, false]);
    assert_eq!(good(&timeline, 250), [false, false, true, false, false]);
    // Nor does the way back make anything good for longer.
    make(&mut timeline, Ok(Change::restore(6))).unwrap();
    assert_eq!((good(&timeline, 50), good(&timeline, 250)), ([true; 5], late));
    // A successor that was revoked stays so.
    make(&mut timeline, Change::revoke_key(hash(5).id().as_str())).unwrap();
    make(&mut timeline, limit(9)).unwrap();
    make(&mut timeline, Ok(Change::restore(2))).unwrap();
    assert_eq!(good(&timeline, 250), [false, false, true, false, false]);
}

#[test]
fn a_key_that_a_restoration_took_away_can_be_revoked() {
    let mut timeline = Timeline::default();
    make(&mut timeline, create(2)).unwrap();
    make(&mut timeline, Ok(Change::restore(0))).unwrap();
    make(&mut timeline, Change::revoke_key(hash(2).id().as_str())).unwrap();
    let unknown = make(&mut timeline, Change::revoke_key(hash(9).id().as_str())).unwrap_err();
    assert!(matches!(unknown, ChangeRefusal::Unknown(_)), "{unknown}");
    // Who takes the restoration back does not get it.
    make(&mut timeline, Ok(Change::restore(1))).unwrap();
    assert!(timeline.roster().keys.contains_key(hash(2).id()) && !is_let_in(&timeline, 2, 0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever is made, rotated, revoked and restored: a key that was refused by a revocation or after an overlap is never good again,
    /// and what is replayed is what was there.
    #[test]
    fn nothing_that_was_taken_back_comes_back(steps in prop::collection::vec((0_u8..4, 1_u8..8, 0_u64..30), 1..25)) {
        let mut timeline = Timeline::default();
        let (mut fresh, mut over) = (10_u8, BTreeSet::new());
        for (kind, number, version) in steps {
            let id = hash(number).id().clone();
            let made = match kind {
                0 => create(number),
                1 => {
                    fresh += 1;
                    let overlap = UnixMillis::new(1)..UnixMillis::new(100);
                    timeline.roster().rotation(&base(""), id.as_str(), &hash(fresh), overlap)
                }
                2 => Change::revoke_key(id.as_str()),
                _ => Ok(Change::restore(version)),
            };
            if make(&mut timeline, made).is_ok() && (kind == 1 || kind == 2) {
                over.insert(number);
            }
            for number in &over {
                prop_assert!(!is_let_in(&timeline, *number, 150), "{number} is good again");
            }
        }
        let mut again = Timeline::default();
        for (version, change) in timeline.changes.iter().enumerate() {
            let then = timeline.at(version as u64);
            prop_assert_eq!(Some(again.roster()), then.as_ref());
            again.apply(change.clone());
        }
        prop_assert_eq!(again.roster(), timeline.roster());
    }
}
