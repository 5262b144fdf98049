use std::time::Duration;

use maitred_types::{Address, LeaseEnd, PromptChain, TokenCount};

use super::*;
use crate::testing::{Scene, pass};

const ADDRESSES: [&str; 2] = ["a:1", "b:1"];
const SECOND: Duration = Duration::from_secs(1);

fn lines(path: &Path) -> String {
    format!(
        "profile: default\nendpoints: [{{ address: \"a:1\" }}, {{ address: \"b:1\" }}]\n\
         prefix: {{ snapshot: {{ path: \"{}\", every: 30s }} }}",
        path.display()
    )
}

/// A gateway's pool that has begun, with its endpoints ready.
async fn begin(path: &Path, started: [u32; 2]) -> Scene {
    let scene = Scene::new(&lines(path));
    for (address, started) in ADDRESSES.into_iter().zip(started) {
        scene.endpoints.face(address, |face| face.started = started);
    }
    let host = Arc::clone(scene.host());
    scene.keeper.tasks.spawn_until_stop(keep(host, scene.clock));
    until(|| {
        ADDRESSES
            .iter()
            .all(|address| scene.state(address) == Some(maitred_obs::EndpointState::Ready))
    })
    .await;
    scene
}

/// Lets time pass in small steps, since threads that work on a disk keep another time.
async fn until(is_so: impl Fn() -> bool) {
    for _ in 0..10_000 {
        if is_so() {
            return;
        }
        pass(Duration::from_millis(10)).await;
        tokio::task::spawn_blocking(|| ()).await.unwrap();
    }
    panic!("it does not come to that");
}

fn chain() -> PromptChain {
    PromptChain::new((1..=40).collect::<Vec<_>>(), 64.0)
}

/// Sends a call with the chain and says where it went.
fn serve(scene: &Scene) -> Address {
    let now = scene.clock.now();
    let ask = crate::Ask {
        model: "m",
        input_tokens: TokenCount::new(40 * 64),
        chain: Some(&chain()),
        ..crate::Ask::default()
    };
    let booking = scene.host().book(&ask, now).unwrap();
    let address = scene.host().address(booking.endpoint()).unwrap();
    booking.first_token(now);
    booking.finish(LeaseEnd::Success, None, now);
    address
}

fn held(scene: &Scene, address: &Address) -> u64 {
    scene.sample(address.as_str()).unwrap().cache.held_tokens
}

fn count(scene: &Scene, result: &str) -> u64 {
    let line = format!("maitred_prefix_snapshots_total{{pool=\"p\",result=\"{result}\"}} ");
    let page = scene.meters.page();
    let found = page.lines().find_map(|found| found.strip_prefix(&line));
    found.map_or(0, |count| count.parse().unwrap())
}

#[tokio::test(start_paused = true)]
async fn what_was_held_is_known_after_a_restart_and_not_after_the_endpoints() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p.prefixes");
    let first = begin(&path, [1_000; 2]).await;
    let home = serve(&first);
    let before = held(&first, &home);
    assert!(before >= 40 * 60, "{before}");
    write(first.host()).await;
    assert_eq!(count(&first, "written"), 1);

    let second = begin(&path, [1_000; 2]).await;
    until(|| count(&second, "taken") == 2).await;
    assert_eq!(held(&second, &home), before);
    assert_eq!(serve(&second), home);

    let third = begin(&path, [2_000; 2]).await;
    until(|| count(&third, "refused") == 2).await;
    assert_eq!(held(&third, &home), 0, "its process is another one");
}

#[tokio::test(start_paused = true)]
async fn what_waits_for_its_endpoint_is_written_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p.prefixes");
    let first = begin(&path, [1_000; 2]).await;
    let home = serve(&first);
    write(first.host()).await;

    // A gateway that ends before its endpoints have said anything.
    let brief = Scene::new(&lines(&path));
    for address in ADDRESSES {
        brief.endpoints.face(address, |face| face.is_there = false);
    }
    brief.host().remember_file();
    write(brief.host()).await;

    let next = begin(&path, [1_000; 2]).await;
    until(|| count(&next, "taken") == 2).await;
    assert_eq!(held(&next, &home), held(&first, &home));
}

#[tokio::test(start_paused = true)]
async fn the_file_is_written_by_the_clock() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p.prefixes");
    let scene = begin(&path, [1_000; 2]).await;
    assert!(fs::metadata(&path).is_err());
    pass(30 * SECOND).await;
    until(|| count(&scene, "written") == 1).await;
    let rest = fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(
        (fs::metadata(&path).is_ok(), rest),
        (true, 1),
        "nothing is left beside it"
    );
}

#[tokio::test(start_paused = true)]
async fn a_file_that_is_none_and_a_disk_that_fails_cost_no_more_than_the_memory() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p.prefixes");
    let first = begin(&path, [1_000; 2]).await;
    serve(&first);
    write(first.host()).await;
    let whole = fs::read(&path).unwrap();
    let mut damaged = whole.clone();
    let middle = whole.len() / 2;
    damaged[middle] ^= 1;
    for bytes in [&b"something else"[..], &[], &whole[..whole.len() - 9], &damaged] {
        fs::write(&path, bytes).unwrap();
        let scene = begin(&path, [1_000; 2]).await;
        until(|| count(&scene, "unreadable") == 1).await;
        assert_eq!(scene.host().prefix_sample().blocks, 0);
    }
    let nowhere = folder.path().join("no such folder").join("p.prefixes");
    let scene = begin(&nowhere, [1_000; 2]).await;
    write(scene.host()).await;
    assert_eq!(count(&scene, "failed"), 1);
    serve(&scene);
}
