use maitred_tenant::{KeyHash, KeyHasher, NEW_KEY_RANDOM_BYTES, NewKey};
use maitred_types::UnixMillis;

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
    assert!(diff["before"]["keys"][hash(3).id().as_str()].is_object());
    assert_eq!(diff["after"]["until"], json!({}), "the rotated key is good again");
    assert!(diff["before"].get("tenants").is_none());
    assert_eq!(timeline.roster(), &timeline.at(2).unwrap());
    make(&mut timeline, limit(9)).unwrap();
    let six = timeline.roster().clone();
    // Forth again, and what followed a restoration is a state like others.
    make(&mut timeline, Ok(Change::restore(4))).unwrap();
    assert_eq!(timeline.roster(), &four);
    make(&mut timeline, Ok(Change::restore(6))).unwrap();
    assert_eq!(timeline.roster(), &six);
    make(&mut timeline, Ok(Change::restore(0))).unwrap();
    assert_eq!(timeline.roster(), &Roster::default());
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
    make(&mut timeline, Ok(Change::restore(1))).unwrap();
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
    assert_eq!((timeline.roster(), timeline.at(4)), (&before, None));
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
