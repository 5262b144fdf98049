use maitred_route::release::{Part, Release, Source, Statement};
use maitred_route::rollout::{ErrorClass, Portion, SessionHash, Step, Tolerances};
use maitred_types::{Address, PoolName};

use super::*;

fn release(name: &str) -> Release {
    Release {
        name: name.to_owned(),
        pool: PoolName::from(name),
        weights: format!("weights of {name}"),
        engine: None,
        quantization: None,
        chat_template: None,
        route: None,
    }
}

fn found(name: &str) -> Verification {
    let release = release(name);
    let mut statement = Statement::new(Address::from("10.0.0.1:8000"));
    statement.tell(Part::Weights, &release.weights, Source::Models);
    release.verify(&[statement])
}

fn terms() -> Terms {
    let step = |percent| Step {
        portion: Portion::from_percent(percent),
        tenants: Vec::new(),
    };
    Terms {
        name: "spring".to_owned(),
        baseline: release("blue"),
        candidate: release("green"),
        shadow: None,
        steps: vec![step(20), step(50)],
        sample: 140,
        sample_min: 20,
        step_min: Duration::ZERO,
        settle: Duration::ZERO,
        linger: Duration::ZERO,
        risk: 10_000,
        tolerances: Tolerances {
            latency: 20_000,
            cost: 50_000,
            rate: 1_000,
        },
    }
}

fn at(seconds: u64) -> UnixMillis {
    UnixMillis::new(1_800_000_000_000 + seconds * 1_000)
}

fn begin(path: &Path) -> Arc<RolloutHost> {
    let started = Rollout::start(terms(), found("blue"), found("green"), at(0)).unwrap();
    RolloutHost::begin(path, started).unwrap()
}

fn assign(host: &RolloutHost, number: u64) -> Assignment {
    let caller = Caller {
        tenant: "acme",
        session: SessionHash::of("acme", &number.to_string()),
        session_since: None,
    };
    host.assign(&caller, at(number))
}

/// A call that ends; the candidate's with the error.
fn call(host: &RolloutHost, number: u64, error: Option<ErrorClass>) -> Side {
    let call = assign(host, number);
    let observed = Observation {
        error: error.filter(|_| call.side == Side::Candidate),
        ..Observation::default()
    };
    host.observe(&call, &observed, at(number));
    call.side
}

fn resume(path: &Path, now: u64) -> Arc<RolloutHost> {
    RolloutHost::resume(path, Some(&terms()), at(now)).unwrap().unwrap()
}

#[test]
fn a_gateway_that_is_killed_after_any_call_goes_on_where_its_calls_last_saw_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rollout.json");
    let mut host = begin(&path);
    let mut stages = vec![host.look(Rollout::stage)];
    for number in 0..1_000 {
        call(&host, number, None);
        if number % 11 == 0 {
            host.write().unwrap();
        }
        let seen = host.kept.load().stage();
        if number % 37 == 0 {
            // Killed: what was not written is gone.
            host = resume(&path, number);
            assert_eq!(host.look(Rollout::stage), seen, "{number}");
        }
        if stages.last() != Some(&seen) {
            stages.push(seen);
        }
    }
    assert_eq!(stages, [Stage::Step(0), Stage::Step(1), Stage::Promoting]);
    host.verified(Side::Candidate, found("green"), at(1_001), at(1_001));
    host.write().unwrap();
    assert_eq!(resume(&path, 1_002).look(Rollout::stage), Stage::Promoted);
}

#[test]
fn nobody_acts_on_what_is_not_on_disk() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rollout.json");
    let host = begin(&path);
    assert!(host.promote("ann", at(1)));
    let candidates = |host: &RolloutHost| {
        let sides = (0..200).map(|number| assign(host, number).side);
        sides.filter(|side| *side == Side::Candidate).count()
    };
    assert!(candidates(&host) < 80);
    host.write().unwrap();
    assert_eq!(candidates(&host), 200);
}

#[test]
fn a_disk_that_refuses_stops_what_widens_and_not_what_takes_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rollout.json");
    let host = begin(&path);
    folder.close().unwrap();
    host.promote("ann", at(1));
    assert!(host.write().is_err());
    assert_eq!(host.kept.load().stage(), Stage::Step(0));
    assert_eq!(host.live.lock().news.len(), 2, "to be told when it holds");

    let folder = tempfile::tempdir().unwrap();
    let host = begin(&folder.path().join("rollout.json"));
    folder.close().unwrap();
    for number in 0..400 {
        call(&host, number, Some(ErrorClass::Failure));
    }
    assert!(host.write().is_err());
    assert_eq!(host.kept.load().stage(), Stage::RollingBack);
    assert!((0..200).all(|number| assign(&host, number).side == Side::Baseline));
}

#[test]
fn a_file_that_cannot_be_read_is_told_and_never_passed_over() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rollout.json");
    assert!(RolloutHost::resume(&path, None, at(0)).unwrap().is_none());
    begin(&path);
    let whole = fs::read(&path).unwrap();
    for cut in [0, 1, whole.len() / 2, whole.len() - 1] {
        fs::write(&path, &whole[..cut]).unwrap();
        let error = RolloutHost::resume(&path, Some(&terms()), at(1)).unwrap_err();
        assert!(error.to_string().contains("rollout.json cannot be read"), "{error}");
    }
    let newer = String::from_utf8(whole.clone())
        .unwrap()
        .replace("\"form\":1", "\"form\":2");
    fs::write(&path, newer).unwrap();
    let error = RolloutHost::resume(&path, Some(&terms()), at(1)).unwrap_err();
    assert!(error.to_string().contains("it has form 2"), "{error}");
    // A file that was begun beside it when the gateway was killed is nothing to it.
    fs::write(&path, &whole).unwrap();
    fs::write(beside(&path), b"{").unwrap();
    assert_eq!(resume(&path, 1).look(Rollout::stage), Stage::Step(0));
}

#[test]
fn without_its_terms_a_rollout_is_taken_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rollout.json");
    begin(&path);
    let host = RolloutHost::resume(&path, None, at(1)).unwrap().unwrap();
    assert_eq!(host.kept.load().stage(), Stage::RollingBack);
    // And that is on disk already.
    assert_eq!(read(&path).unwrap().stage(), Stage::RollingBack);
}

#[tokio::test(start_paused = true)]
async fn what_is_decided_is_written_at_once_and_evidence_from_time_to_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rollout.json");
    let host = begin(&path);
    let tasks = crate::Tasks::new();
    tasks.spawn_until_stop(Arc::clone(&host).keep(Clock::start()));
    host.abort("ann", at(1));
    while host.kept.load().stage() != Stage::RollingBack {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(read(&path).unwrap().stage(), Stage::RollingBack);
    tasks.stop();
    tasks.wait().await;
}
