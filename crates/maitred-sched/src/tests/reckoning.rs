//! Dead reckoning, seen through the rows.

use std::time::Duration;

use maitred_types::{LeaseEnd, Time, TokenCount, Usage, UsageSource};
use proptest::prelude::*;

use super::{Stage, ask, ignoring_age};
use crate::{Ask, Delivery, Estimate, FinishReport, Picked, Profile, Signals};

fn page(queued: u32, running: u32) -> Signals {
    Signals {
        queued,
        running,
        ..Signals::default()
    }
}

fn with_kv(kv_used: f64) -> Signals {
    Signals {
        kv_used: Some(kv_used),
        block_size: Some(16),
        blocks: Some(1_000),
        ..Signals::default()
    }
}

impl Stage {
    fn estimate(&self) -> Estimate {
        self.row(self.ids[0]).unwrap().estimate
    }

    fn counts(&self) -> (u32, u32, u32) {
        let estimate = self.estimate();
        (estimate.active, estimate.queued, estimate.running)
    }

    fn kv(&self) -> f64 {
        self.estimate().kv_used.unwrap()
    }
}

fn alone() -> Stage {
    Stage::ready(1, Profile::default())
}

#[test]
fn what_is_sent_and_what_ends_after_a_sample_is_carried_forward() {
    let mut stage = alone();
    stage.page(stage.ids[0], &page(0, 3));
    assert_eq!(stage.counts(), (3, 0, 3), "work of others stays");
    let picks: Vec<_> = (0..4).map(|_| stage.pick()).collect();
    assert_eq!(stage.counts(), (7, 0, 7), "nobody waits, so a new one runs");
    stage.finish(&picks[0], LeaseEnd::Success);
    assert_eq!(stage.counts(), (6, 0, 6));
    stage.wait(50);
    // The sample includes the three that are left, and one of the others has ended.
    stage.page(stage.ids[0], &page(0, 5));
    assert_eq!(stage.counts(), (5, 0, 5), "counted once");
    for picked in &picks[1..] {
        stage.finish(picked, LeaseEnd::Success);
    }
    assert_eq!(stage.counts(), (2, 0, 2));
    stage.wait(50);
    stage.page(stage.ids[0], &page(0, 2));
    assert_eq!(stage.counts(), (2, 0, 2), "equal to the scrape");
}

#[test]
fn a_queue_grows_by_what_is_sent_and_shrinks_by_first_tokens() {
    let mut stage = alone();
    let early: Vec<_> = (0..3).map(|_| stage.pick()).collect();
    stage.wait(50);
    stage.page(stage.ids[0], &page(2, 4));
    assert_eq!(stage.counts(), (6, 2, 4));
    let late = stage.pick();
    assert_eq!(stage.counts(), (7, 3, 4), "behind a queue one waits");
    stage.pool.first_token(early[0].lease, stage.now);
    assert_eq!(stage.counts(), (7, 2, 5));
    stage.pool.first_token(late.lease, stage.now);
    assert_eq!(stage.counts(), (7, 1, 6));
    // One that is given up while it waits leaves the queue and the endpoint.
    stage.finish(&early[1], LeaseEnd::Cancelled);
    assert_eq!(stage.counts(), (6, 0, 6));
}

#[test]
fn ends_while_a_page_is_on_its_way_are_not_lost() {
    let mut stage = alone();
    let picked = stage.pick();
    stage.wait(50);
    let sent = stage.now;
    stage.wait(5);
    stage.finish(&picked, LeaseEnd::Success);
    stage.wait(5);
    // The page may have been written before the end: it still shows the request.
    stage.pool.observe(stage.ids[0], &page(0, 1), sent, stage.now);
    assert_eq!(stage.counts(), (0, 0, 0));
    assert!(stage.pool.counters().dropped_marks == 0);
}

#[test]
fn a_late_page_is_corrected_in_every_figure() {
    let mut stage = alone();
    let (ended, started, waiting) = (stage.pick(), stage.pick(), stage.pick());
    stage.wait(50);
    let sent = stage.now;
    stage.wait(5);
    let unseen = stage.pick();
    stage.pool.first_token(unseen.lease, stage.now);
    stage.pool.first_token(started.lease, stage.now);
    stage.finish(&ended, LeaseEnd::Cancelled);
    let late = Signals {
        queued: 3,
        running: 4,
        ..with_kv(0.5)
    };
    stage.pool.observe(stage.ids[0], &late, sent, stage.now);
    // One ended and one began to decode; the unseen one runs already.
    assert_eq!(stage.counts(), (7, 1, 6));
    // One prompt came and one went; two leases decode.
    let grown = 2.0 * 40.0 * 0.005 / 16_000.0;
    assert!((stage.kv() - 0.5 - grown).abs() < 1e-9, "{}", stage.kv());
    stage.finish(&waiting, LeaseEnd::Cancelled);
    assert_eq!(stage.counts(), (6, 0, 6));
}

#[test]
fn a_sample_may_or_may_not_include_a_lease_booked_just_before_it() {
    let check = |before_ms: u64, (shown, active): (u32, u32)| {
        let mut stage = alone();
        stage.pick();
        stage.wait(before_ms);
        stage.page(stage.ids[0], &page(0, shown));
        assert_eq!(stage.counts().0, active, "{before_ms} ms, {shown} shown");
    };
    for before_ms in [9, 10, 100] {
        // The request shown is the own one, or that one came too late for the page and it is somebody else's: no proof of others.
        check(before_ms, (1, 1));
        check(before_ms, (0, 1));
        check(before_ms, (3, 3));
    }
}

#[test]
fn own_leases_are_active_whatever_a_page_says() {
    let mut stage = alone();
    (0..3).for_each(|_| drop(stage.pick()));
    stage.wait(50);
    stage.page(stage.ids[0], &page(0, 0));
    assert_eq!(stage.counts(), (3, 0, 3));
}

#[test]
fn noise_on_pages_of_own_leases_is_no_load_of_others() {
    let mut stage = alone();
    let picks: Vec<_> = (0..20).map(|_| stage.pick()).collect();
    for picked in &picks {
        stage.pool.first_token(picked.lease, stage.now);
    }
    let mut rng = fastrand::Rng::with_seed(3);
    for turn in 0..600 {
        stage.wait(50);
        stage.page(stage.ids[0], &page(rng.u32(0..3), rng.u32(15..25)));
        let (active, queued, _) = stage.counts();
        assert!(
            turn < 100 || active <= 23 && queued <= active - 20,
            "{:?}",
            stage.counts()
        );
    }
}

#[test]
fn a_page_without_progress_is_no_news() {
    let mut stage = alone();
    let with_progress = |running, progress| Signals {
        progress: Some(progress),
        ..page(0, running)
    };
    stage.page(stage.ids[0], &with_progress(4, 1));
    assert_eq!(stage.counts(), (4, 0, 4));
    let picks: Vec<_> = (0..3).map(|_| stage.pick()).collect();
    stage.wait(50);
    stage.page(stage.ids[0], &with_progress(4, 1));
    assert_eq!(
        stage.counts().0,
        7,
        "it stands still, so it is of the time before the three"
    );
    for picked in &picks {
        stage.finish(picked, LeaseEnd::Success);
    }
    stage.wait(50);
    stage.page(stage.ids[0], &with_progress(9, 1));
    assert_eq!(stage.counts().0, 4, "though its gauges tremble");
    stage.wait(50);
    stage.page(stage.ids[0], &with_progress(9, 2));
    assert_eq!(stage.counts().0, 9, "until it moves");
}

#[test]
fn the_cache_grows_by_prompts_and_decode_and_shrinks_at_the_end() {
    let mut stage = alone();
    stage.page(stage.ids[0], &with_kv(0.5));
    // 100 tokens are seven blocks of sixteen, of 16,000 tokens in all.
    let picked = stage.pick();
    let prompt = 112.0 / 16_000.0;
    assert!((stage.kv() - 0.5 - prompt).abs() < 1e-9);
    stage.pool.first_token(picked.lease, stage.now);
    stage.wait(150);
    let grown = 40.0 * 0.150 / 16_000.0;
    assert!((stage.kv() - 0.5 - prompt - grown).abs() < 1e-9);
    stage.finish(&picked, LeaseEnd::Success);
    assert!((stage.kv() - 0.5).abs() < 1e-9);
}

#[test]
fn a_cache_that_grows_unseen_is_seen() {
    // A page that engines hold back for seconds: the estimate goes on growing.
    let mut options = ignoring_age();
    options.staleness.stale_after = Duration::from_secs(10);
    let mut stage = Stage::with(1, Profile::default(), options);
    let picks: Vec<_> = (0..100).map(|_| stage.pick()).collect();
    for picked in &picks {
        stage.pool.first_token(picked.lease, stage.now);
    }
    stage.wait(50);
    stage.page(stage.ids[0], &with_kv(0.5));
    stage.wait(1_500);
    // 100 leases at 40 tokens/s for 1.5 s are 6,000 of 16,000 tokens.
    assert!((stage.kv() - 0.875).abs() < 1e-9, "{}", stage.kv());
    stage.wait(5_000);
    assert!((stage.kv() - 1.0).abs() < 1e-9, "never above one");
}

#[test]
fn a_call_whose_output_nobody_sees_is_assumed_to_decode_after_its_prompt() {
    let mut stage = alone();
    stage.page(stage.ids[0], &with_kv(0.5));
    // At 8,192 prompt tokens a second: one second each, one after the other.
    let whole = Ask {
        delivery: Delivery::Whole,
        ..ask(8_192)
    };
    let picks = [(); 2].map(|()| stage.pick_as(&whole).unwrap());
    let decoding = |stage: &Stage| {
        let row = stage.row(stage.ids[0]).unwrap();
        (row.decoding, row.prefill_tokens)
    };
    assert_eq!(decoding(&stage), (0, 16_384));
    stage.wait(999);
    assert_eq!(decoding(&stage), (0, 16_384));
    stage.wait(1);
    assert_eq!(decoding(&stage), (1, 8_192));
    stage.wait(900);
    stage.page(stage.ids[0], &with_kv(0.5));
    stage.wait(100);
    assert_eq!(decoding(&stage), (2, 0));
    stage.wait(50);
    let grown = 40.0 * (0.150 + 0.050) / 16_000.0;
    assert!((stage.kv() - 0.5 - grown).abs() < 1e-9, "{}", stage.kv());
    // What is assumed is not reported, and what comes all at once teaches no rate.
    let first = |report| match report {
        FinishReport::Ended { first_token, .. } => first_token,
        other => panic!("{other:?}"),
    };
    let usage = Usage {
        input: TokenCount::new(8_192),
        cached_input: None,
        output: TokenCount::new(100),
        reasoning: None,
        source: UsageSource::Reported,
    };
    let mut end = |lease| stage.pool.finish(lease, LeaseEnd::Success, Some(&usage), stage.now);
    assert_eq!(first(end(picks[0].lease)), None);
    stage.pool.first_token(picks[1].lease, stage.now);
    stage.wait(1_000);
    let report = stage
        .pool
        .finish(picks[1].lease, LeaseEnd::Success, Some(&usage), stage.now);
    assert_eq!(first(report), Some(Duration::from_millis(2_050)));
    assert!((stage.row(stage.ids[0]).unwrap().decode_rate - 40.0).abs() < 1e-9);
    assert_eq!(decoding(&stage), (0, 0));
    stage.pool.check_invariants().unwrap();
}

#[test]
fn calls_that_end_before_their_assumed_beginning_leave_nothing_behind() {
    let mut stage = alone();
    let whole = Ask {
        delivery: Delivery::Whole,
        ..ask(1_000_000)
    };
    for _ in 0..1_000 {
        let picked = stage.pick_as(&whole).unwrap();
        stage.finish(&picked, LeaseEnd::Cancelled);
    }
    stage.wait(1_000_000);
    let row = stage.row(stage.ids[0]).unwrap();
    assert_eq!((row.decoding, row.prefill_tokens), (0, 0));
}

#[test]
fn a_cache_of_unknown_size_is_taken_as_sampled() {
    let mut stage = alone();
    let unsized_page = Signals {
        kv_used: Some(0.25),
        ..Signals::default()
    };
    stage.page(stage.ids[0], &unsized_page);
    stage.pick();
    assert!((stage.kv() - 0.25).abs() < 1e-9);
    stage.page(stage.ids[0], &page(0, 0));
    assert_eq!(stage.estimate().kv_used, None);
}

/// The formula, computed from the whole history of leases.
#[derive(Default)]
struct History {
    leases: Vec<Past>,
    sample: Option<(Time, u32, u32)>,
    /// What it counts beyond the own leases of its time.
    others: u32,
}

struct Past {
    picked: Picked,
    booked: Time,
    /// When it got a first token, or ended without one.
    started: Option<Time>,
    ended: Option<Time>,
    /// Whether a sample has been taken that includes it.
    was_seen: bool,
}

impl History {
    fn page(&mut self, sent: Time, queued: u32, running: u32) {
        if self.sample.is_some_and(|(newest, ..)| sent < newest) {
            return;
        }
        self.sample = Some((sent, queued, running));
        for past in &mut self.leases {
            past.was_seen |= past.booked <= sent.saturating_sub(Duration::from_millis(10));
        }
        // With those that it may or may not include.
        let own = self.count(|past| past.booked <= sent && past.ended.is_none_or(|ended| ended > sent));
        self.others = (queued + running).saturating_sub(own);
    }

    fn count(&self, holds: impl Fn(&Past) -> bool) -> u32 {
        u32::try_from(self.leases.iter().filter(|past| holds(past)).count()).unwrap()
    }

    /// Requests in the endpoint, and of these those that wait.
    fn expected(&self) -> (u32, u32) {
        let (sent, queued, _) = self.sample.unwrap_or_default();
        let unseen_waiting = self.count(|past| !past.was_seen && past.started.is_none());
        let started = self.count(|past| past.was_seen && past.started.is_some_and(|time| time > sent));
        let arrived = if queued > 0 { unseen_waiting } else { 0 };
        let waiting = self.count(|past| past.started.is_none()) + self.others;
        let requests = self.count(|past| past.ended.is_none()) + self.others;
        (requests, (queued + arrived).saturating_sub(started).min(waiting))
    }

    fn live(&mut self, at: usize) -> Option<&mut Past> {
        self.leases.iter_mut().filter(|past| past.ended.is_none()).nth(at)
    }
}

/// One thing that happens to a pool of one endpoint.
#[derive(Clone, Copy, Debug)]
enum Step {
    Pick(u32),
    FirstToken(usize),
    Finish(usize),
    Wait(u64),
    /// A page that was asked for so many milliseconds ago.
    Page {
        queued: u32,
        running: u32,
        kv_used: f64,
        ago: u64,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        (0_u32..5_000).prop_map(Step::Pick),
        (0_usize..8).prop_map(Step::FirstToken),
        (0_usize..8).prop_map(Step::Finish),
        (0_u64..80).prop_map(Step::Wait),
        (0_u32..9, 0_u32..9, -0.5_f64..1.5, 0_u64..60).prop_map(|(queued, running, kv_used, ago)| Step::Page {
            queued,
            running,
            kv_used,
            ago
        }),
    ];
    prop::collection::vec(step, 0..120)
}

fn play(stage: &mut Stage, history: &mut History, step: Step) {
    // No two things happen at one instant, where the formula would leave the order open.
    stage.now = stage.now + Duration::from_micros(1);
    let now = stage.now;
    match step {
        Step::Pick(tokens) => {
            let picked = stage.pool.pick(&ask(tokens), now).unwrap();
            history.leases.push(Past {
                picked,
                booked: now,
                started: None,
                ended: None,
                was_seen: false,
            });
        }
        Step::FirstToken(at) => {
            if let Some(past) = history.live(at) {
                past.started = past.started.or(Some(now));
                stage.pool.first_token(past.picked.lease, now);
            }
        }
        Step::Finish(at) => {
            if let Some(past) = history.live(at) {
                past.started = past.started.or(Some(now));
                past.ended = Some(now);
                stage.pool.finish(past.picked.lease, LeaseEnd::Success, None, now);
            }
        }
        Step::Wait(millis) => stage.wait(millis),
        Step::Page {
            queued,
            running,
            kv_used,
            ago,
        } => {
            let signals = Signals {
                queued,
                running,
                ..with_kv(kv_used)
            };
            let sent = now.saturating_sub(Duration::from_millis(ago));
            stage.pool.observe(stage.ids[0], &signals, sent, now);
            history.page(sent, queued, running);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whatever happens, the estimate is what the formula gives over the whole history, within its bounds; and when all
    /// leases have ended, it is the next page.
    #[test]
    fn the_estimate_is_the_formula_and_converges(steps in steps()) {
        let mut options = ignoring_age();
        options.staleness.stale_after = Duration::from_secs(3_600);
        options.staleness.frozen_after = Duration::from_secs(3_600);
        // A newest page that is believed whatever those before it said.
        options.reckoning.memory = Duration::ZERO;
        let mut stage = Stage::with(1, Profile::default(), options);
        let mut history = History { sample: Some((stage.now, 0, 0)), ..History::default() };
        for step in steps {
            play(&mut stage, &mut history, step);
            stage.pool.check_invariants().unwrap();
            let row = stage.row(stage.ids[0]).unwrap();
            let estimate = row.estimate;
            let (requests, queued) = history.expected();
            prop_assert_eq!((estimate.queued, estimate.running), (queued, requests - queued));
            prop_assert_eq!(estimate.active, requests);
            prop_assert!(requests >= row.in_flight);
            prop_assert!(estimate.kv_used.is_none_or(|used| (0.0..=1.0).contains(&used)));
        }
        while history.live(0).is_some() {
            play(&mut stage, &mut history, Step::Finish(0));
        }
        stage.wait(1);
        let last = Signals { queued: 2, running: 3, ..with_kv(0.625) };
        stage.page(stage.ids[0], &last);
        let expected = Estimate { active: 5, queued: 2, running: 3, kv_used: Some(0.625) };
        prop_assert_eq!(stage.estimate(), expected);
        let row = stage.row(stage.ids[0]).unwrap();
        prop_assert_eq!((row.in_flight, row.decoding, row.prefill_tokens, row.expected_blocks), (0, 0, 0, 0));
    }
}
