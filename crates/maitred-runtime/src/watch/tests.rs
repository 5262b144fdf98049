use super::*;
use crate::testing::{Scene, pass};
use maitred_obs::EndpointState;
use maitred_types::{FaultKind, LeaseEnd};

const ONE: &str = "10.0.0.1:8000";
const ENDPOINT: &str = "endpoints: [{ address: \"10.0.0.1:8000\" }]";

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn a_port_of_its_own_replaces_the_endpoints() {
    let check = |address: &str, port: Option<u16>, expected: &str| {
        assert_eq!(page_address(&Address::from(address), port).as_str(), expected);
    };
    check("10.0.0.1:8000", None, "10.0.0.1:8000");
    check("10.0.0.1:8000", Some(8002), "10.0.0.1:8002");
    check("[::1]:8000", Some(8002), "[::1]:8002");
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_cannot_infer_gets_no_calls() {
    let scene = Scene::new(ENDPOINT);
    scene.endpoints.face(ONE, |face| face.can_infer = false);
    pass(secs(209)).await;
    assert_eq!(scene.state(ONE), Some(EndpointState::Loading));
    let refused = scene.book().map(|booking| booking.address().clone()).unwrap_err();
    assert_eq!(refused.fault, FaultKind::NoEndpoint);
    // Every ten seconds it is asked for the step that is missing, and for none that was seen.
    assert_eq!(scene.endpoints.asked(ONE, "/v1/completions"), 21);
    assert_eq!(scene.endpoints.asked(ONE, "/v1/models"), 1);
    scene.endpoints.face(ONE, |face| face.can_infer = true);
    pass(secs(10)).await;
    assert_eq!(scene.state(ONE), Some(EndpointState::Ready));
    assert!(scene.book().is_ok());
}

#[tokio::test(start_paused = true)]
async fn by_port_or_health_it_would_get_them() {
    let scene = Scene::new(&format!("{ENDPOINT}\nstartup: {{ check: health }}"));
    scene.endpoints.face(ONE, |face| face.can_infer = false);
    pass(secs(1)).await;
    assert_eq!(scene.state(ONE), Some(EndpointState::Ready));
    assert_eq!(scene.endpoints.asked(ONE, "/v1/completions"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_restarted_endpoint_proves_everything_again() {
    let scene = Scene::new(ENDPOINT);
    pass(secs(1)).await;
    let old = scene.book().unwrap();
    assert_eq!(
        scene.sample(ONE).map(|sample| (sample.picks, sample.in_flight)),
        Some((1, 1))
    );
    // Its health page says 200 from the first moment on, as vLLM's does.
    scene
        .endpoints
        .face(ONE, |face| (face.started, face.can_infer) = (2_000, false));
    pass(secs(20)).await;
    assert_eq!(scene.state(ONE), Some(EndpointState::Loading));
    assert_eq!(
        scene.sample(ONE).map(|sample| (sample.picks, sample.in_flight)),
        Some((0, 0))
    );
    scene.endpoints.face(ONE, |face| face.can_infer = true);
    pass(secs(10)).await;
    assert_eq!(scene.state(ONE), Some(EndpointState::Ready));
    // The end of a call from the old life is nothing to the new one.
    old.finish(LeaseEnd::Failure, None, scene.clock.now());
    assert_eq!(
        scene.sample(ONE).map(|sample| (sample.picks, sample.errors)),
        Some((0, 0))
    );
}

#[tokio::test(start_paused = true)]
async fn custom_figures_are_shown_under_the_names_that_hold() {
    let with = |custom: &str| format!("{ENDPOINT}\nmetrics: {{ custom: [{custom}] }}");
    let (gpu, fan) = (
        "{ name: gpu, metric: 'heat{part=gpu}' }",
        "{ name: fan, metric: 'heat{part=fan}' }",
    );
    let scene = Scene::new(&with(&format!("{gpu}, {fan}, {{ name: none, metric: no_such }}")));
    let shown = || {
        let custom = scene.sample(ONE).map(|sample| sample.custom).unwrap_or_default();
        custom
            .into_iter()
            .map(|(name, value)| format!("{name} {value}"))
            .collect::<Vec<_>>()
    };
    pass(secs(1)).await;
    assert_eq!(shown(), ["fan 30", "gpu 61.5"]);
    scene.reload(&with(fan));
    assert!(
        shown().is_empty(),
        "nothing is shown under a name that it was not read for"
    );
    pass(secs(1)).await;
    assert_eq!(shown(), ["fan 30"]);
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_aborted_an_answer_proves_everything_again() {
    let scene = Scene::new(ENDPOINT);
    pass(secs(1)).await;
    let booking = scene.book().unwrap();
    scene.endpoints.face(ONE, |face| face.can_infer = false);
    booking.finish(LeaseEnd::Draining, None, scene.clock.now());
    pass(secs(60)).await;
    assert_eq!(scene.state(ONE), Some(EndpointState::Loading));
    scene.endpoints.face(ONE, |face| face.can_infer = true);
    pass(secs(10)).await;
    assert_eq!(scene.state(ONE), Some(EndpointState::Ready));
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_says_503_finishes_what_it_has() {
    let scene = Scene::new(ENDPOINT);
    pass(secs(1)).await;
    let booking = scene.book().unwrap();
    scene.endpoints.face(ONE, |face| face.health = 503);
    pass(secs(5)).await;
    assert_eq!(scene.state(ONE), Some(EndpointState::Draining));
    assert!(scene.book().is_err());
    booking.finish(LeaseEnd::Success, None, scene.clock.now());
    assert_eq!(scene.state(ONE), Some(EndpointState::Loading));
    let inferences = scene.endpoints.asked(ONE, "/v1/completions");
    scene.endpoints.face(ONE, |face| face.health = 200);
    pass(secs(10)).await;
    assert_eq!(scene.state(ONE), Some(EndpointState::Ready));
    assert_eq!(scene.endpoints.asked(ONE, "/v1/completions"), inferences + 1);
}

#[tokio::test(start_paused = true)]
async fn three_failed_probes_in_a_row_take_it_out() {
    let scene = Scene::new(&format!("{ENDPOINT}\nstaleness: {{ policy: ignore }}"));
    pass(secs(1)).await;
    scene.endpoints.face(ONE, |face| face.health = 500);
    pass(secs(10)).await;
    assert_eq!(scene.state(ONE), Some(EndpointState::Ready));
    pass(secs(5)).await;
    assert_eq!(scene.state(ONE), Some(EndpointState::Loading));
    scene.endpoints.face(ONE, |face| face.health = 200);
    pass(secs(10)).await;
    assert_eq!(scene.state(ONE), Some(EndpointState::Ready));
}

#[tokio::test(start_paused = true)]
async fn without_a_page_an_endpoint_counts_as_full_or_is_judged_by_own_calls() {
    let check = async |policy: &str, expected: Result<(), FaultKind>| {
        let scene = Scene::new(&format!("{ENDPOINT}\nstaleness: {{ policy: {policy} }}"));
        pass(secs(1)).await;
        assert!(scene.book().is_ok(), "{policy}");
        scene.endpoints.face(ONE, |face| face.has_page = false);
        pass(Duration::from_millis(120)).await;
        assert!(scene.book().is_ok(), "{policy}: the last page is young enough");
        pass(Duration::from_millis(150)).await;
        assert_eq!(
            scene.book().map(drop).map_err(|no_place| no_place.fault),
            expected,
            "{policy}"
        );
        assert_eq!(scene.state(ONE), Some(EndpointState::Ready), "{policy}");
        scene.endpoints.face(ONE, |face| face.has_page = true);
        pass(Duration::from_millis(100)).await;
        assert!(scene.book().is_ok(), "{policy}");
    };
    check("saturated", Err(FaultKind::Saturated)).await;
    check("ignore", Ok(())).await;
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_runs_something_else_gets_no_calls_until_it_does_not() {
    let scene = Scene::new(&format!(
        "{ENDPOINT}\nrelease: {{ name: blue, weights: model/m, engine: 0.32.0 }}"
    ));
    scene.endpoints.face(ONE, |face| face.weights = "model/other");
    pass(secs(60)).await;
    assert_eq!(scene.state(ONE), Some(EndpointState::Loading));
    // It is not even asked to infer.
    assert_eq!(scene.endpoints.asked(ONE, "/v1/completions"), 0);
    scene.endpoints.face(ONE, |face| face.weights = "model/m");
    pass(secs(10)).await;
    assert_eq!(scene.state(ONE), Some(EndpointState::Ready));

    // Its weights are exchanged under it: what runs may finish, and nothing new comes.
    let running = scene.book().unwrap();
    scene.endpoints.face(ONE, |face| face.weights = "model/other");
    pass(secs(30)).await;
    assert_eq!(scene.state(ONE), Some(EndpointState::Draining));
    assert!(scene.book().is_err());
    running.finish(LeaseEnd::Success, None, scene.clock.now());
    pass(secs(1)).await;
    assert_eq!(scene.state(ONE), Some(EndpointState::Loading));

    // The release is what was rolled back, and the weights were not: other settings are judged at once.
    scene.reload(&format!(
        "{ENDPOINT}\nrelease: {{ name: green, weights: model/other, engine: 0.32.0 }}"
    ));
    pass(secs(10)).await;
    assert_eq!(scene.state(ONE), Some(EndpointState::Ready));
}

#[tokio::test(start_paused = true)]
async fn what_runs_is_asked_for_seldom_and_not_held_against_whom_nobody_reaches() {
    let scene = Scene::new(&format!("{ENDPOINT}\nrelease: {{ name: blue, weights: model/m }}"));
    pass(secs(1)).await;
    assert_eq!(scene.state(ONE), Some(EndpointState::Ready));
    let pages = |scene: &Scene| scene.endpoints.asked(ONE, "/version");
    let before = pages(&scene);
    pass(secs(60)).await;
    // Seldom enough to be nobody's burden.
    assert!(
        (3..=5).contains(&(pages(&scene) - before)),
        "{}",
        pages(&scene) - before
    );
    assert_eq!(scene.state(ONE), Some(EndpointState::Ready));
    // For a moment nobody is there, just when it is asked again. That is no reason to send its calls away; three failed probes would be.
    pass(secs(9)).await;
    scene.endpoints.face(ONE, |face| face.is_there = false);
    let before = scene.endpoints.asked(ONE, "/v1/models");
    pass(secs(8)).await;
    assert!(scene.endpoints.asked(ONE, "/v1/models") > before);
    scene.endpoints.face(ONE, |face| face.is_there = true);
    assert_eq!(scene.state(ONE), Some(EndpointState::Ready));
    // One that was never reached has proven nothing.
    let scene = Scene::new(&format!("{ENDPOINT}\nrelease: {{ name: blue, weights: model/m }}"));
    scene.endpoints.face(ONE, |face| face.is_there = false);
    pass(secs(30)).await;
    assert_eq!(scene.state(ONE), Some(EndpointState::Loading));
}

#[tokio::test(start_paused = true)]
async fn what_is_named_must_be_told() {
    // The page of the version belongs to vLLM; nobody tells another version.
    let scene = Scene::new(&format!(
        "{ENDPOINT}\nrelease: {{ name: blue, weights: model/m, engine: 0.33.0 }}"
    ));
    pass(secs(30)).await;
    assert_eq!(scene.state(ONE), Some(EndpointState::Loading));
}
