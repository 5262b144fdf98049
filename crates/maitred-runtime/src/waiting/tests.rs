//! Waits in paused time.

use std::pin::pin;
use std::time::Duration;

use maitred_types::{LeaseEnd, TokenCount};

use crate::testing::{Scene, pass};
use crate::{Ask, Booking, NoPlace};

/// One endpoint with room for one call.
const NARROW: &str = "endpoints: [{ address: \"10.0.0.1:80\" }]\nwaiting: { prefill_tokens: 1, max_wait: 10s }";
const MILLI: Duration = Duration::from_millis(1);

async fn narrow() -> Scene {
    let scene = Scene::new(NARROW);
    pass(Duration::from_secs(2)).await;
    scene
}

impl Scene {
    async fn ask(&self, class: Option<&str>) -> Result<Booking, NoPlace> {
        let ask = Ask {
            model: "m",
            input_tokens: TokenCount::new(1_000),
            class,
            ..Ask::default()
        };
        self.host().ask(&ask, self.clock.now()).await
    }

    fn waiting(&self) -> usize {
        self.host().room(self.clock.now()).calls
    }

    fn finish(&self, booking: Booking) {
        booking.finish(LeaseEnd::Success, None, self.clock.now());
    }
}

/// Lets a future run until it waits for something.
macro_rules! begin {
    ($future:expr) => {{
        let waits = tokio::time::timeout(MILLI, $future.as_mut()).await.is_err();
        assert!(waits, "it should have to wait");
    }};
}

#[tokio::test(start_paused = true)]
async fn a_call_waits_until_another_ends() {
    let scene = narrow().await;
    let first = scene.ask(None).await.unwrap();
    assert_eq!(first.waited(), Duration::ZERO);
    let mut second = pin!(scene.ask(None));
    begin!(second);
    assert_eq!(scene.waiting(), 1);
    assert!(
        scene
            .meters
            .page()
            .contains("maitred_waiting_calls{pool=\"p\",class=\"normal\"} 1")
    );
    pass(Duration::from_secs(2)).await;
    scene.finish(first);
    let second = second.await.unwrap();
    assert_eq!(second.waited(), Duration::from_secs(2) + MILLI);
    assert_eq!(scene.waiting(), 0);
    let page = scene.meters.page();
    assert!(
        page.contains("maitred_waiting_calls{pool=\"p\",class=\"normal\"} 0"),
        "{page}"
    );
    assert!(
        page.contains("maitred_queue_seconds_count{pool=\"p\",class=\"normal\"} 1"),
        "{page}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_first_token_wakes_the_next() {
    let scene = narrow().await;
    let first = scene.ask(None).await.unwrap();
    let mut second = pin!(scene.ask(None));
    begin!(second);
    first.first_token(scene.clock.now());
    assert!(second.await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn higher_classes_go_first() {
    let scene = narrow().await;
    let first = scene.ask(None).await.unwrap();
    let (mut low, mut high) = (pin!(scene.ask(Some("low"))), pin!(scene.ask(Some("high"))));
    begin!(low);
    begin!(high);
    scene.finish(first);
    let high = high.await.unwrap();
    begin!(low);
    scene.finish(high);
    assert!(low.await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_client_that_goes_leaves_the_queue() {
    let scene = narrow().await;
    let first = scene.ask(None).await.unwrap();
    let mut stays = pin!(scene.ask(None));
    {
        let mut leaves = pin!(scene.ask(Some("high")));
        begin!(leaves);
        begin!(stays);
        assert_eq!(scene.waiting(), 2);
    }
    assert_eq!(scene.waiting(), 1);
    scene.finish(first);
    assert!(stays.await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_place_booked_for_somebody_who_just_left_is_given_back() {
    let scene = narrow().await;
    let first = scene.ask(None).await.unwrap();
    {
        let mut leaves = pin!(scene.ask(None));
        begin!(leaves);
        // The place is booked now, and nobody looks any more.
        scene.finish(first);
        assert_eq!(scene.waiting(), 0);
    }
    let sample = scene.sample("10.0.0.1:80").unwrap();
    assert_eq!(sample.in_flight, 0);
    assert!(
        !scene
            .meters
            .page()
            .contains("maitred_leases_abandoned_total{pool=\"p\"} 1")
    );
    assert!(scene.ask(None).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_wait_has_an_end() {
    let scene = narrow().await;
    let _first = scene.ask(None).await.unwrap();
    let began = scene.clock.now();
    let refused = scene.ask(None).await.unwrap_err();
    assert_eq!(refused.waited, Duration::from_secs(10));
    let late = scene.clock.now() - began;
    assert!(late < Duration::from_secs(10) + 2 * MILLI, "{late:?}");
    assert_eq!(refused.fault, maitred_types::FaultKind::Saturated);
    assert!(refused.retry_after.is_some_and(|after| after > Duration::ZERO));
    let page = scene.meters.page();
    assert!(
        page.contains("maitred_pick_refusals_total{pool=\"p\",reason=\"waited_out\"} 1"),
        "{page}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_reload_keeps_who_waits_and_may_let_them_go() {
    let scene = narrow().await;
    let _first = scene.ask(None).await.unwrap();
    let mut second = pin!(scene.ask(None));
    begin!(second);
    scene.reload(&format!("{NARROW}\nretry: {{ attempts: 2 }}"));
    begin!(second);
    scene.reload("endpoints: [{ address: \"10.0.0.1:80\" }]\nwaiting: { prefill_tokens: 5000 }");
    assert!(second.await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn who_waits_in_a_pool_that_closes_is_told() {
    let scene = narrow().await;
    let _first = scene.ask(None).await.unwrap();
    let mut second = pin!(scene.ask(None));
    begin!(second);
    scene.host().close(scene.clock.now());
    let refused = second.await.unwrap_err();
    assert_eq!(refused.fault, maitred_types::FaultKind::NoEndpoint);
}
