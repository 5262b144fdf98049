use super::*;
use crate::testing::{DRAIN, Scene, pass};
use maitred_types::{FaultKind, LeaseEnd};

const ONE: &str = "10.0.0.1:8000";
const TWO: &str = "10.0.0.2:8000";
const BOTH: &str = "endpoints: [{ address: \"10.0.0.1:8000\" }, { address: \"10.0.0.2:8000\" }]";
const FIRST: &str = "endpoints: [{ address: \"10.0.0.1:8000\" }]";
const NAME: &str = "dns: { name: name, port: 8000 }";

const SECOND: Duration = Duration::from_secs(1);

fn states(scene: &Scene, expected: &[(&str, &str)]) {
    let states = scene.states();
    let states: Vec<_> = states
        .iter()
        .map(|(address, state)| (address.as_str(), *state))
        .collect();
    assert_eq!(states, expected);
}

/// Books on one endpoint in particular.
fn book_on(scene: &Scene, address: &str) -> crate::Booking {
    let mut others = Vec::new();
    loop {
        let booking = scene.book().unwrap();
        if booking.address().as_str() == address {
            return booking;
        }
        others.push(booking);
        assert!(others.len() < 100, "{address} is never picked");
    }
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_leaves_the_file_finishes_what_it_has() {
    let scene = Scene::new(BOTH);
    pass(SECOND).await;
    states(&scene, &[(ONE, "ready"), (TWO, "ready")]);
    let booking = book_on(&scene, TWO);
    scene.reload(FIRST);
    states(&scene, &[(ONE, "ready"), (TWO, "draining")]);
    pass(SECOND * 60).await;
    states(&scene, &[(ONE, "ready"), (TWO, "draining")]);
    booking.finish(LeaseEnd::Success, None, scene.clock.now());
    states(&scene, &[(ONE, "ready")]);
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_whose_calls_do_not_end_leaves_all_the_same() {
    let scene = Scene::new(BOTH);
    pass(SECOND).await;
    let booking = book_on(&scene, TWO);
    let id = booking.endpoint();
    scene.reload(FIRST);
    assert_eq!(scene.keeper.name(id), TWO, "who leaves has a name too");
    pass(DRAIN - SECOND).await;
    states(&scene, &[(ONE, "ready"), (TWO, "draining")]);
    pass(SECOND * 2).await;
    states(&scene, &[(ONE, "ready")]);
    assert_eq!(scene.keeper.name(id), TWO, "and who has just left");
    booking.finish(LeaseEnd::Failure, None, scene.clock.now());
    scene.reload(BOTH);
    pass(SECOND).await;
    assert_eq!(scene.sample(TWO).map(|sample| sample.errors), Some(0));
    let page = scene.meters.page();
    assert!(
        page.contains("maitred_pool_events_total{pool=\"p\",event=\"drain_cut_short\"} 1\n"),
        "{page}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_shorter_time_to_drain_holds_at_once() {
    let scene = Scene::new(BOTH);
    pass(SECOND).await;
    let _booking = book_on(&scene, TWO);
    scene.reload(FIRST);
    pass(SECOND * 10).await;
    scene.host().reconfigure(scene.host().settings(), SECOND * 5);
    pass(SECOND).await;
    states(&scene, &[(ONE, "ready")]);
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_comes_back_at_once_is_watched_by_one() {
    let scene = Scene::new(BOTH);
    pass(SECOND).await;
    let booking = book_on(&scene, TWO);
    for _ in 0..10 {
        scene.reload(FIRST);
        scene.reload(BOTH);
    }
    // The life that ends and the one that begins stand side by side.
    pass(SECOND).await;
    states(&scene, &[(ONE, "ready"), (TWO, "draining"), (TWO, "ready")]);
    let mut lives: Vec<_> = scene
        .host()
        .samples(scene.clock.now())
        .iter()
        .map(|life| (life.slot, life.incarnation))
        .collect();
    lives.dedup();
    assert_eq!(lives.len(), 3, "every life has a name of its own");
    let before = (
        scene.endpoints.asked(ONE, "/metrics"),
        scene.endpoints.asked(TWO, "/metrics"),
    );
    pass(SECOND * 10).await;
    let after = (
        scene.endpoints.asked(ONE, "/metrics"),
        scene.endpoints.asked(TWO, "/metrics"),
    );
    assert_eq!((after.0 - before.0, after.1 - before.1), (200, 200));
    assert_eq!(
        scene.sample(ONE).map(|sample| sample.picks > 0),
        Some(true),
        "who stayed keeps its figures"
    );
    booking.finish(LeaseEnd::Success, None, scene.clock.now());
    states(&scene, &[(ONE, "ready"), (TWO, "ready")]);
    assert_eq!(
        scene.sample(TWO).map(|sample| sample.picks),
        Some(0),
        "who came anew has none"
    );
}

#[tokio::test(start_paused = true)]
async fn who_leaves_the_dns_answer_drains_and_a_failed_look_up_moves_nobody() {
    let scene = Scene::new(NAME);
    states(&scene, &[]);
    scene.found(&[ONE, TWO]);
    pass(SECOND).await;
    states(&scene, &[(ONE, "ready"), (TWO, "ready")]);
    scene.found_nobody_to_ask();
    states(&scene, &[(ONE, "ready"), (TWO, "ready")]);
    let booking = book_on(&scene, ONE);
    scene.found(&[TWO]);
    states(&scene, &[(ONE, "draining"), (TWO, "ready")]);
    booking.finish(LeaseEnd::Success, None, scene.clock.now());
    states(&scene, &[(TWO, "ready")]);
    // Other settings do not make it forget what was found.
    scene.reload(&format!("{NAME}\nmax_in_flight: 5"));
    states(&scene, &[(TWO, "ready")]);
    scene.reload(FIRST);
    states(&scene, &[(ONE, "loading")]);
}

#[tokio::test(start_paused = true)]
async fn what_was_found_under_another_name_does_not_count() {
    let check = |other: &str| {
        let scene = Scene::new(NAME);
        scene.found(&[ONE]);
        let asked = scene.asked();
        scene.reload(other);
        states(&scene, &[]);
        // The answer to the old question comes late, and again when the old name is back in the file.
        scene.found_for(&asked, &[ONE]);
        states(&scene, &[]);
        scene.reload(NAME);
        states(&scene, &[]);
        scene.found_for(&asked, &[TWO]);
        states(&scene, &[(TWO, "loading")]);
    };
    check("dns: { name: other, port: 8000 }");
    check("dns: { name: name, port: 8001 }");
    let scene = Scene::new(&format!("{FIRST}\n{NAME}"));
    let asked = scene.asked();
    scene.reload(FIRST);
    scene.found_for(&asked, &[TWO]);
    states(&scene, &[(ONE, "loading")]);
}

#[tokio::test(start_paused = true)]
async fn endpoints_of_the_file_need_no_name_server() {
    let scene = Scene::new(&format!("{FIRST}\n{NAME}"));
    scene.found_nobody_to_ask();
    pass(SECOND).await;
    states(&scene, &[(ONE, "ready")]);
    scene.found(&[TWO]);
    scene.found(&[]);
    states(&scene, &[(ONE, "ready")]);
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_sent_away_stays_away_until_the_settings_are_loaded() {
    let scene = Scene::new(&format!("{FIRST}\n{NAME}"));
    scene.found(&[TWO]);
    pass(SECOND).await;
    for address in [ONE, TWO] {
        assert!(
            scene
                .host()
                .drain(&Address::from(address), DrainCause::Operator, scene.clock.now())
        );
        assert!(
            !scene
                .host()
                .drain(&Address::from(address), DrainCause::Operator, scene.clock.now())
        );
    }
    scene.found(&[TWO]);
    states(&scene, &[]);
    scene.reload(&format!("{FIRST}\n{NAME}"));
    pass(SECOND).await;
    states(&scene, &[(ONE, "ready"), (TWO, "ready")]);
}

#[tokio::test(start_paused = true)]
async fn a_pool_that_leaves_the_settings_ends_with_its_last_call() {
    let scene = Scene::new(BOTH);
    pass(SECOND).await;
    let booking = scene.book().unwrap();
    scene.host().close(scene.clock.now());
    pass(SECOND * 60).await;
    assert_eq!(
        scene.keeper.tasks.running(),
        1,
        "its watchers have ended, its keeper has not"
    );
    booking.finish(LeaseEnd::Success, None, scene.clock.now());
    pass(SECOND).await;
    assert_eq!(scene.keeper.tasks.running(), 0);
}

#[tokio::test(start_paused = true)]
async fn other_settings_of_one_endpoint_hold_at_once() {
    let with = |options: &str| format!("endpoints: [{{ address: \"{ONE}\"{options} }}]\nmax_in_flight: 9");
    let scene = Scene::new(&with(""));
    pass(SECOND).await;
    let bookings = [scene.book().unwrap(), scene.book().unwrap()];
    let cap = |options: &str| {
        scene.reload(&with(options));
        states(&scene, &[(ONE, "ready")]);
        scene.book().map(drop).map_err(|no_place| no_place.fault)
    };
    assert_eq!(cap(", max_in_flight: 2"), Err(FaultKind::Saturated));
    assert_eq!(cap(", max_in_flight: 3"), Ok(()));
    assert_eq!(cap(", max_in_flight: 2"), Err(FaultKind::Saturated));
    assert_eq!(cap(""), Ok(()), "the pool's own limit holds again");
    let picks = scene.sample(ONE).map(|sample| (sample.picks, sample.in_flight));
    assert_eq!(picks, Some((4, 2)), "it lives on");
    drop(bookings);
}

#[tokio::test(start_paused = true)]
async fn nobody_comes_into_a_closed_pool() {
    let scene = Scene::new(BOTH);
    scene.host().close(scene.clock.now());
    scene.keeper.match_endpoints();
    states(&scene, &[]);
}

#[tokio::test(start_paused = true)]
async fn an_ejected_endpoint_returns_when_its_time_is_over() {
    let scene = Scene::new(FIRST);
    pass(SECOND).await;
    for _ in 0..3 {
        scene.book().unwrap().finish(LeaseEnd::Failure, None, scene.clock.now());
    }
    states(&scene, &[(ONE, "ejected")]);
    pass(SECOND * 4).await;
    states(&scene, &[(ONE, "ejected")]);
    pass(SECOND).await;
    states(&scene, &[(ONE, "ready")]);
}

#[tokio::test(start_paused = true)]
async fn a_booking_that_is_dropped_gives_its_place_back() {
    let scene = Scene::new(&format!("{FIRST}\nmax_in_flight: 1"));
    pass(SECOND).await;
    let booking = scene.book().unwrap();
    assert!(scene.book().is_err());
    drop(booking);
    assert!(scene.book().is_ok());
}
