use maitred_tenant::{KeyHasher, KeyRefusal, NEW_KEY_RANDOM_BYTES, NewKey};

use super::*;
use crate::load;

fn key(number: u8) -> (NewKey, KeyHash) {
    let key = NewKey::make(&[number; NEW_KEY_RANDOM_BYTES]);
    let hash = key.hash(&KeyHasher::new(None));
    (key, hash)
}

fn base() -> Settings {
    let text = format!(
        "version: 1\nauth: {{ keys: [{{ hash: '{}', tenant: filed, shared: true }}] }}\nquotas: [{{ name: calm, tokens_per_minute: 100 }}]\n\
         pools:\n  - name: main\n    models: [{{ name: qwen3-8b }}]\n    endpoints: [{{ address: 127.0.0.1:8000 }}]\n",
        key(1).1
    );
    load("maitred.yaml", &text, &|_| Err("none".to_owned()))
        .unwrap()
        .settings
}

fn make(roster: &mut Roster, change: Result<Change, ChangeRefusal>) -> Result<Value, ChangeRefusal> {
    let change = change?;
    roster.check(&change, &base())?;
    // What is kept reads back to the same.
    let kept: Change = serde_json::from_str(&serde_json::to_string(&change).unwrap()).unwrap();
    assert_eq!(kept, change);
    Ok(roster.apply(&kept))
}

fn span(from: u64, until: u64) -> Range<UnixMillis> {
    UnixMillis::new(from)..UnixMillis::new(until)
}

fn let_in(roster: &Roster, number: u8, at: u64) -> Result<String, KeyRefusal> {
    let settings = roster.over(&base());
    let found = settings.auth.keys.check(key(number).0.expose(), UnixMillis::new(at));
    found.map(|grant| grant.tenant.as_str().to_owned())
}

#[test]
fn a_key_lives_from_its_making_to_its_revocation() {
    let mut roster = Roster::default();
    let create = |tenant: &str| Change::create_key(json!({ "tenant": tenant, "user": "ada" }), &key(2).1);
    let refused = make(&mut roster, create("acme")).unwrap_err();
    assert_eq!(refused.to_string(), "there is no tenant `acme`; create it first");
    make(&mut roster, Change::put_tenant(json!({ "name": "acme" }))).unwrap();
    let diff = make(&mut roster, create("acme")).unwrap();
    assert_eq!((&diff["before"], &diff["after"]["user"]), (&Value::Null, &"ada".into()));
    assert_eq!(let_in(&roster, 2, 5), Ok("acme".to_owned()));
    assert_eq!(let_in(&roster, 1, 5), Ok("filed".to_owned()), "the file's keys stay");
    assert!(matches!(
        make(&mut roster, create("acme")),
        Err(ChangeRefusal::Conflict(_))
    ));
    let id = key(2).0.id();
    make(&mut roster, Change::revoke_key(id.as_str())).unwrap();
    assert_eq!(let_in(&roster, 2, 5), Err(KeyRefusal::Unknown));
    // A key of the file is refused too, although it stands there.
    make(&mut roster, Change::revoke_key(key(1).0.id().as_str())).unwrap();
    assert_eq!(let_in(&roster, 1, 5), Err(KeyRefusal::Unknown));
    let listed: Vec<_> = roster
        .list_keys(&base())
        .iter()
        .map(|key| key["revoked"] == true)
        .collect();
    assert_eq!(listed, [true, true]);
}

#[test]
fn a_rotation_lets_both_in_for_a_while() {
    for old in [1, 2] {
        let mut roster = Roster::default();
        make(
            &mut roster,
            Change::create_key(
                json!({ "tenant": "filed", "shared": true, "expires": "2027-01-31" }),
                &key(2).1,
            ),
        )
        .unwrap();
        let id = key(old).0.id();
        let rotation = roster.rotation(&base(), id.as_str(), &key(3).1, span(0, 1_000));
        make(&mut roster, rotation).unwrap();
        assert_eq!(let_in(&roster, old, 999), Ok("filed".to_owned()));
        assert_eq!(let_in(&roster, old, 1_000), Err(KeyRefusal::Expired));
        assert_eq!(let_in(&roster, 3, 1_000), Ok("filed".to_owned()));
        make(&mut roster, Change::revoke_key(id.as_str())).unwrap();
        let again = roster.rotation(&base(), id.as_str(), &key(4).1, span(0, 1_000));
        assert!(
            matches!(again, Err(ChangeRefusal::Unknown(_))),
            "who is revoked does not come back so"
        );
    }
}

#[test]
fn a_second_rotation_never_lets_the_old_key_in_for_longer() {
    for old in [1, 2] {
        let mut roster = Roster::default();
        make(
            &mut roster,
            Change::create_key(json!({ "tenant": "filed", "shared": true }), &key(2).1),
        )
        .unwrap();
        let id = key(old).0.id();
        let rotated = |roster: &Roster, new: u8, from: u64, until: u64| {
            roster.rotation(&base(), id.as_str(), &key(new).1, span(from, until))
        };
        let first = rotated(&roster, 3, 500, 1_000);
        make(&mut roster, first).unwrap();
        let second = rotated(&roster, 4, 600, 9_000);
        let diff = make(&mut roster, second).unwrap();
        assert_eq!(diff["after"]["until"], diff["before"]["until"]);
        assert_eq!(let_in(&roster, old, 999), Ok("filed".to_owned()));
        assert_eq!(let_in(&roster, old, 1_000), Err(KeyRefusal::Expired));
        assert_eq!(let_in(&roster, 4, 1_000), Ok("filed".to_owned()));
        let dead = rotated(&roster, 5, 1_000, 9_000).unwrap_err();
        assert!(matches!(dead, ChangeRefusal::Conflict(_)), "{dead}");
        assert!(dead.to_string().contains("create a key"), "{dead}");
    }
}

#[test]
fn limits_take_the_place_of_the_files() {
    let mut roster = Roster::default();
    let limits = |roster: &Roster| {
        let limits = roster.over(&base()).quotas.limits;
        limits
            .iter()
            .map(|limit| (limit.name.clone(), limit.amount))
            .collect::<Vec<_>>()
    };
    let named = |name: &str, amount: u64| (name.to_owned(), amount);
    assert_eq!(limits(&roster), [named("calm", 100), named("tasks", 60_000)]);
    make(
        &mut roster,
        Change::put_limit(json!({ "name": "calm", "tokens_per_minute": 7 })),
    )
    .unwrap();
    make(
        &mut roster,
        Change::put_limit(json!({ "name": "acme", "tenant": "acme", "concurrent_calls": 2 })),
    )
    .unwrap();
    assert_eq!(
        limits(&roster),
        [named("acme", 2), named("calm", 7), named("tasks", 60_000)]
    );
    let diff = make(&mut roster, Change::remove_limit("calm")).unwrap();
    assert_eq!(diff["before"]["tokens_per_minute"], 7);
    assert_eq!(
        limits(&roster),
        [named("acme", 2), named("calm", 100), named("tasks", 60_000)]
    );
    assert!(matches!(
        make(&mut roster, Change::remove_limit("calm")),
        Err(ChangeRefusal::Unknown(_))
    ));
}

#[test]
fn what_makes_no_sense_is_refused() {
    let hash = key(2).1;
    let refused = |change: Result<Change, ChangeRefusal>| make(&mut Roster::default(), change).unwrap_err().to_string();
    let new = |fields: Value| refused(Change::create_key(fields, &hash));
    assert!(new(json!({})).contains("missing field `tenant`"));
    assert!(new(json!({ "tenant": "filed" })).contains("nobody could say who"));
    assert!(new(json!({ "tenant": "filed", "user": "ada", "shared": true })).contains("is not shared"));
    assert!(new(json!({ "tenant": "filed", "colour": "red" })).contains("unknown field `colour`"));
    assert!(new(json!({ "tenant": "filed", "hash": "x" })).contains("without `hash`"));
    assert!(new(json!({ "tenant": "filed", "user": "u", "models": ["gpt"] })).contains("no pool serves"));
    assert!(new(json!({ "tenant": "filed", "models": [] })).contains("no model"));
    assert!(new(json!({ "tenant": "filed", "user": "u", "class": "first" })).contains("no class"));
    assert!(new(json!({ "tenant": "filed", "shared": true, "expires": "soon" })).contains("a point of time"));
    assert!(new(json!({ "tenant": "a\nb" })).len() > 3);
    assert!(new(json!([])).contains("fields"));
    assert!(refused(Change::put_tenant(json!({ "name": "a", "weight": 0 }))).contains("1 to 1000"));
    assert!(refused(Change::put_limit(json!({ "name": "a" }))).contains("amount"));
    assert!(refused(Change::put_limit(json!({ "name": "a", "tokens_per_day": 0 }))).contains("amount"));
    assert!(refused(Change::revoke_key("abcdefghijkl")).contains("no key"));
}

#[test]
fn a_key_from_before_it_had_to_be_said_stays_good_and_is_marked() {
    let mut roster = Roster::default();
    let old: Change =
        serde_json::from_value(json!({ "create_key": { "hash": key(2).1.to_string(), "tenant": "filed" } })).unwrap();
    roster.apply(&old);
    assert_eq!(let_in(&roster, 2, 0), Ok("filed".to_owned()));
    let id = key(2).1.id().clone();
    assert_eq!(roster.unmarked().collect::<Vec<_>>(), [&id]);
    let listed = roster.list_keys(&base());
    assert_eq!(
        listed.iter().find(|key| key["id"] == id.as_str()).unwrap()["shared"],
        true
    );
    // What takes its place says so itself.
    let rotation = roster.rotation(&base(), id.as_str(), &key(3).1, span(0, 10));
    make(&mut roster, rotation).unwrap();
    make(&mut roster, Change::revoke_key(id.as_str())).unwrap();
    assert_eq!(let_in(&roster, 3, 0), Ok("filed".to_owned()));
    assert_eq!(roster.unmarked().count(), 0);
}
