use maitred_obs::Meters;
use maitred_store::audit::{Audit, AuditOptions, OnFailure, Retention};
use maitred_tenant::KeyHasher;
use maitred_test::{Folder, Redis, Signal, eventually};
use maitred_types::UnixMillis;

use super::*;
use crate::clock::Clock;
use crate::tasks::Tasks;

fn file_key(number: u8) -> NewKey {
    NewKey::make(&[number; NEW_KEY_RANDOM_BYTES])
}

fn gateway() -> Arc<Runtime> {
    let hash = |number| file_key(number).hash(&KeyHasher::new(None));
    let text = format!(
        "version: 1\nauth: {{ keys: [{{ hash: '{}', tenant: acme, shared: true }}, {{ hash: '{}', tenant: acme, shared: true }}] }}\npools:\n  - name: main\n    models: \
         [{{ name: m }}]\n    endpoints: [{{ address: 127.0.0.1:1 }}]\n",
        hash(1),
        hash(2)
    );
    let loaded = maitred_config::load("maitred.yaml", &text, &|_| Err("none".to_owned())).unwrap();
    Runtime::start(
        loaded.settings,
        Clock::start(),
        Tasks::new(),
        Arc::new(Meters::new("test")),
        1,
    )
}

fn options(folder: &Folder, name: &str, redis: Option<&Redis>) -> ChangeOptions {
    ChangeOptions {
        journal: folder.path().join(name),
        shared: redis.map(|redis| (maitred_config::Secret::new(redis.url()), "group:changes".to_owned())),
    }
}

fn admin() -> Actor {
    Actor {
        name: "ada".into(),
        role: Role::Admin,
    }
}

async fn started(folder: &Folder, name: &str, redis: Option<&Redis>) -> Arc<Runtime> {
    let gateway = gateway();
    gateway.keep_changes(options(folder, name, redis)).await.unwrap();
    gateway
}

async fn tenant(gateway: &Runtime, name: &'static str) -> Result<Changed, NotChanged> {
    let put = move |_: &Roster, _: &Settings| Change::put_tenant(json!({ "name": name }));
    gateway.change(&admin(), put).await
}

async fn revoke(gateway: &Runtime, number: u8) -> Changed {
    let id = file_key(number).id().clone();
    let admin = admin();
    let made = gateway.change(&admin, move |_, _| Change::revoke_key(id.as_str()));
    made.await.unwrap()
}

fn is_revoked(gateway: &Runtime, number: u8) -> bool {
    let keys = gateway.roster().list_keys(&gateway.base());
    let id = file_key(number).id().clone();
    keys.iter()
        .any(|key| key["id"] == id.as_str() && key["revoked"] == true)
}

async fn until_revoked(gateway: &Runtime, number: u8) {
    eventually("a revocation", async || is_revoked(gateway, number).then_some(())).await;
}

fn errors(gateway: &Runtime) -> u64 {
    let page = gateway.meters().page();
    let found = page
        .lines()
        .find_map(|line| line.strip_prefix("maitred_changes_errors_total "));
    found.unwrap().trim().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_with_changes_of_its_own_does_not_join() {
    let (folder, redis) = (Folder::new(), Redis::start().await);
    for (name, made) in [("one", "first"), ("two", "second")] {
        tenant(&*started(&folder, name, None).await, made).await.unwrap();
    }
    let one = started(&folder, "one", Some(&redis)).await;
    tenant(&one, "third").await.unwrap();
    let refused = gateway()
        .keep_changes(options(&folder, "two", Some(&redis)))
        .await
        .unwrap_err();
    assert!(matches!(refused, KeepError::Differs { version: 1, .. }), "{refused}");
    assert!(refused.to_string().contains("move the journal"), "{refused}");
    // One without changes joins, and knows all before it serves.
    revoke(&one, 1).await;
    let three = started(&folder, "three", Some(&redis)).await;
    assert!(is_revoked(&three, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn revocations_hold_also_where_journals_differ() {
    let (folder, mut redis) = (Folder::new(), Redis::start().await);
    for (name, made) in [("one", "first"), ("two", "second")] {
        tenant(&*started(&folder, name, None).await, made).await.unwrap();
    }
    redis.stop(Signal::Kill).await;
    let gateways = [
        started(&folder, "one", Some(&redis)).await,
        started(&folder, "two", Some(&redis)).await,
    ];
    redis.restart().await;
    let foreign = eventually("that it is noticed", async || {
        gateways.iter().position(|gateway| errors(gateway) > 0)
    })
    .await;
    let (stranger, member) = (&gateways[foreign], &gateways[1 - foreign]);
    assert!(!revoke(member, 1).await.is_pending);
    until_revoked(stranger, 1).await;
    // The stranger's own are refused there, and nobody is told that others know.
    assert!(revoke(stranger, 2).await.is_pending);
    assert!(is_revoked(stranger, 2));
    assert!(matches!(
        tenant(stranger, "other").await,
        Err(NotChanged::Unavailable(_))
    ));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revocation_does_not_wait_for_the_server() {
    let (folder, mut redis) = (Folder::new(), Redis::start().await);
    let one = started(&folder, "one", Some(&redis)).await;
    let two = started(&folder, "two", Some(&redis)).await;
    tenant(&one, "first").await.unwrap();
    redis.stop(Signal::Kill).await;
    assert!(matches!(tenant(&one, "second").await, Err(NotChanged::Unavailable(_))));
    let made = revoke(&one, 1).await;
    assert!(made.is_pending && is_revoked(&one, 1) && !is_revoked(&two, 1));
    let id = file_key(1).id().clone();
    let admin = admin();
    let rotated = one.change(&admin, move |roster, base| {
        let hash = file_key(3).hash(&KeyHasher::new(None));
        roster.rotation(base, id.as_str(), &hash, UnixMillis::new(0)..UnixMillis::new(1))
    });
    assert!(matches!(rotated.await, Err(NotChanged::Refused(_))));
    // Neither a restart nor the server's absence lets it in again.
    drop(one);
    let one = started(&folder, "one", Some(&redis)).await;
    assert!(is_revoked(&one, 1));
    redis.restart().await;
    until_revoked(&two, 1).await;
    eventually("an empty file", async || {
        std::fs::read(folder.path().join("one.pending"))
            .unwrap()
            .is_empty()
            .then_some(())
    })
    .await;
    assert!(is_revoked(&one, 1));
}

async fn restore(gateway: &Runtime, version: u64) -> Result<Changed, NotChanged> {
    gateway.change(&admin(), move |_, _| Ok(Change::restore(version))).await
}

/// A gateway revokes a key that nobody else hears of, and others take the key away by a restoration and bring it back by the next:
/// once the revocation is told, the key is refused whatever is restored.
#[tokio::test(flavor = "multi_thread")]
async fn a_revocation_that_waited_holds_after_restorations() {
    let (folder, mut redis) = (Folder::new(), Redis::start().await);
    let one = started(&folder, "one", Some(&redis)).await;
    let two = started(&folder, "two", Some(&redis)).await;
    let hash = file_key(5).hash(&KeyHasher::new(None));
    let fields = json!({ "tenant": "acme", "user": "ada" });
    let make = move |_: &Roster, _: &Settings| Change::create_key(fields.clone(), &hash);
    one.change(&admin(), make).await.unwrap();
    tenant(&one, "first").await.unwrap();
    let newest = |gateway: &Runtime| {
        let newest = gateway.changes_before(u64::MAX, 1).unwrap();
        newest.first().map(|made| (made.version, made.action))
    };
    eventually("the other to follow", async || (newest(&two)?.0 == 2).then_some(())).await;
    redis.stop(Signal::Kill).await;
    assert!(revoke(&one, 5).await.is_pending);
    drop(one);
    redis.restart().await;
    eventually("a restoration", async || restore(&two, 0).await.ok()).await;
    // The key is nowhere when its revocation is told.
    let _one = started(&folder, "one", Some(&redis)).await;
    eventually("the revocation", async || {
        (newest(&two)? == (4, "revoke key")).then_some(())
    })
    .await;
    let back = restore(&two, 2).await.unwrap();
    assert_eq!(back.diff["stays"]["revoked"], json!([file_key(5).id().as_str()]));
    assert!(is_revoked(&two, 5));
    eventually("an empty file", async || {
        let pending = std::fs::read(folder.path().join("one.pending")).unwrap();
        pending.is_empty().then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_journal_whose_end_was_cut_off_is_not_gone_on_from() {
    let folder = Folder::new();
    let audited = |name: &str| {
        let gateway = gateway();
        let options = AuditOptions {
            folder: folder.path().join(name),
            on_failure: OnFailure::Refuse,
            sync: false,
            segment: 1 << 20,
            retention: Retention::default(),
            now: || UnixMillis::new(0),
        };
        gateway.keep_audit(Audit::open(&options, gateway.meters().audit()).unwrap());
        gateway
    };
    let one = audited("audit");
    one.keep_changes(options(&folder, "one", None)).await.unwrap();
    tenant(&one, "first").await.unwrap();
    revoke(&one, 1).await;
    assert!(one.audit().unwrap().close(Duration::from_secs(5)));
    let journal = std::fs::read_to_string(folder.path().join("one")).unwrap();
    let cut = journal.lines().next().unwrap();
    let cases = [(Some(format!("{cut}\n")), 1), (Some(String::new()), 0), (None, 0)];
    for (case, (left, version)) in cases.into_iter().enumerate() {
        // What holds the first audit is this process.
        let copy = format!("audit-{case}");
        std::fs::create_dir(folder.path().join(&copy)).unwrap();
        for file in maitred_store::audit::segments(&folder.path().join("audit")).unwrap() {
            std::fs::copy(&file, folder.path().join(&copy).join(file.file_name().unwrap())).unwrap();
        }
        match left {
            Some(text) => std::fs::write(folder.path().join("one"), text).unwrap(),
            None => std::fs::remove_file(folder.path().join("one")).unwrap(),
        }
        let again = audited(&copy);
        let refused = again.keep_changes(options(&folder, "one", None)).await.unwrap_err();
        assert!(
            matches!(refused, KeepError::Cut { head, audited: 2, .. } if head == version),
            "{refused}"
        );
        std::fs::write(folder.path().join("one"), &journal).unwrap();
        again.keep_changes(options(&folder, "one", None)).await.unwrap();
        assert!(is_revoked(&again, 1));
    }
}
