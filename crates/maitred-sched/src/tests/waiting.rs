//! The waiting room, seen from outside: who waits, who goes first, who is shed.

use std::time::Duration;

use maitred_types::{LeaseEnd, TokenCount, Usage, UsageSource};

use super::{SECOND, Stage, ask};
use crate::{
    Answer, Ask, ClassOptions, Picked, PoolOptions, Profile, Refusal, Released, ShedCause, Signals, TicketId,
    WaitingOptions,
};

const GREEDY: u64 = 1;
const MODEST: u64 = 2;

/// Room for one call per endpoint, so that everything else waits.
fn narrow() -> WaitingOptions {
    WaitingOptions {
        prefill_tokens: 1,
        max_wait: Duration::from_secs(5),
        token_time: None,
        classes: ["high", "normal", "low"].map(ClassOptions::new).to_vec(),
        default_class: 1,
        ..WaitingOptions::default()
    }
}

fn stage(waiting: WaitingOptions) -> Stage {
    let mut options = PoolOptions {
        waiting,
        ..PoolOptions::default()
    };
    options.staleness.stale_after = Duration::from_secs(3_600);
    options.staleness.policy = crate::StalenessPolicy::Saturated;
    Stage::with(1, Profile::default(), options)
}

fn of(tenant: u64, tokens: u32) -> Ask<'static> {
    Ask { tenant, ..ask(tokens) }
}

fn in_class(class: &'static str, tenant: u64) -> Ask<'static> {
    Ask {
        class: Some(class),
        ..of(tenant, 1_000)
    }
}

impl Stage {
    fn go(&mut self, ask: &Ask<'_>) -> Picked {
        match self.pool.ask(ask, self.now) {
            Answer::Go(picked) => picked,
            other => panic!("{other:?}"),
        }
    }

    fn wait_in_line(&mut self, ask: &Ask<'_>) -> TicketId {
        match self.pool.ask(ask, self.now) {
            Answer::Wait(ticket) => ticket,
            other => panic!("{other:?}"),
        }
    }

    fn shed(&mut self, ask: &Ask<'_>) -> (ShedCause, Duration) {
        match self.pool.ask(ask, self.now) {
            Answer::Shed(Refusal::Shed { cause, retry_after }) => (cause, retry_after),
            other => panic!("{other:?}"),
        }
    }

    fn released(&mut self) -> Vec<Released> {
        let released = std::iter::from_fn(|| self.pool.released(self.now)).collect();
        self.pool.check_invariants().unwrap();
        released
    }

    /// Ends a call and says who goes in its place.
    fn next_after(&mut self, picked: &Picked) -> Option<(TicketId, Picked)> {
        self.finish(picked, LeaseEnd::Success);
        let mut released = self.released();
        assert!(released.len() <= 1, "{released:?}");
        let Released { ticket, outcome, .. } = released.pop()?;
        Some((ticket, outcome.unwrap()))
    }

    /// Lets all go that wait, one after the other, `millis` apart, and says in which order.
    fn order(&mut self, first: Picked, millis: u64) -> Vec<TicketId> {
        let mut order = Vec::new();
        let mut running = first;
        loop {
            self.wait(millis);
            let Some((ticket, picked)) = self.next_after(&running) else {
                return order;
            };
            order.push(ticket);
            running = picked;
        }
    }

    fn causes(&mut self) -> Vec<(TicketId, &'static str)> {
        let released = self.released().into_iter();
        released
            .map(|released| (released.ticket, released.outcome.unwrap_err().label()))
            .collect()
    }
}

#[test]
fn nobody_waits_while_an_endpoint_has_room() {
    let mut stage = stage(WaitingOptions::default());
    // A chunk of 8,192: the second call finds a part of it, the third all of it.
    stage.go(&ask(4_096));
    stage.go(&ask(4_096));
    stage.wait_in_line(&ask(10));
    assert!(stage.released().is_empty());
    // What does not wait does not mind.
    stage.pick();
}

#[test]
fn each_limit_closes_the_door_and_opens_it() {
    let full = |signals: Signals| {
        let mut stage = stage(WaitingOptions::default());
        let id = stage.ids[0];
        stage.page(id, &signals);
        let ticket = stage.wait_in_line(&ask(10));
        assert!(stage.released().is_empty(), "{signals:?}");
        stage.wait(20);
        stage.page(id, &Signals::default());
        let released = stage.released();
        assert_eq!(released.len(), 1, "{signals:?}");
        assert_eq!(
            (released[0].ticket, released[0].waited),
            (ticket, Duration::from_millis(20))
        );
        assert!(released[0].outcome.is_ok());
    };
    full(Signals {
        queued: 5,
        ..Signals::default()
    });
    full(Signals {
        kv_used: Some(0.8),
        ..Signals::default()
    });
}

#[test]
fn tokens_that_would_come_too_slowly_close_the_door() {
    let open_with = |running: u32, prompt: u32| {
        let mut stage = stage(WaitingOptions {
            token_time: Some(Duration::from_millis(16)),
            ..WaitingOptions::default()
        });
        let first = stage.go(&ask(10));
        stage.pool.first_token(first.lease, stage.now);
        // It takes what a prompt takes there, or its endpoint would be taken for a faster one.
        let takes = 18 + u64::from(prompt) * 32 / 1_000;
        let prompt = stage.pool.pick(&ask(prompt), stage.now).unwrap();
        stage.wait(takes);
        stage.pool.first_token(prompt.lease, stage.now);
        stage.finish(&prompt, LeaseEnd::Success);
        let id = stage.ids[0];
        stage.wait(20);
        stage.page(
            id,
            &Signals {
                running,
                ..Signals::default()
            },
        );
        matches!(stage.pool.ask(&ask(10), stage.now), Answer::Go(_))
    };
    // The prior gives 7.29 ms for a step, and 0.013 ms for each sequence in it.
    assert!(open_with(560, 10));
    assert!(!open_with(700, 10));
    // With a fifth of its time gone to a prompt, tokens come a fifth later.
    assert!(!open_with(560, 30_000));
}

#[test]
fn an_engine_slower_than_the_limit_need_not_serve_one_call_after_the_other() {
    let mut stage = stage(WaitingOptions {
        token_time: Some(Duration::from_millis(1)),
        ..WaitingOptions::default()
    });
    for _ in 0..20 {
        let picked = stage.go(&ask(10));
        stage.pool.first_token(picked.lease, stage.now);
    }
}

#[test]
fn a_first_token_makes_room() {
    let mut stage = stage(narrow());
    let running = stage.go(&ask(100));
    let ticket = stage.wait_in_line(&ask(100));
    stage.pool.first_token(running.lease, stage.now);
    let released = stage.released();
    assert_eq!(released.iter().map(|one| one.ticket).collect::<Vec<_>>(), [ticket]);
}

#[test]
fn what_is_not_streamed_makes_room_at_its_assumed_beginning() {
    let mut stage = stage(narrow());
    stage.go(&Ask {
        delivery: crate::Delivery::Whole,
        ..ask(8_192)
    });
    stage.wait_in_line(&ask(100));
    let due = stage.pool.next_wakeup().unwrap();
    assert_eq!(due - stage.now, SECOND);
    stage.wait(1_000);
    assert_eq!(stage.released().len(), 1);
}

#[test]
fn tenants_share_by_tokens_whatever_their_appetite() {
    // Ten times as many calls of one tenant wait as of the other.
    let check = |weights: [u32; 2], sizes: [u32; 2], expected: f64| {
        let mut stage = stage(narrow());
        let running = stage.go(&ask(1));
        let mut tokens = std::collections::BTreeMap::new();
        for _ in 0..40 {
            for at in 0..10 {
                let tenant = if at == 0 { MODEST } else { GREEDY };
                let (weight, size) = if at == 0 {
                    (weights[1], sizes[1])
                } else {
                    (weights[0], sizes[0])
                };
                let ticket = stage.wait_in_line(&Ask {
                    weight,
                    ..of(tenant, size)
                });
                tokens.insert(ticket, (tenant, size));
            }
        }
        let order = stage.order(running, 1);
        // While both have calls that wait.
        let (mut spent, mut modest) = ([0_u64; 2], 0);
        for ticket in order {
            let (tenant, size) = tokens[&ticket];
            spent[usize::from(tenant == MODEST)] += u64::from(size);
            modest += u32::from(tenant == MODEST);
            if modest == 40 {
                break;
            }
        }
        let ratio = spent[0] as f64 / spent[1] as f64;
        assert!((ratio / expected - 1.0).abs() < 0.1, "{weights:?} {sizes:?}: {spent:?}");
    };
    check([1, 1], [1_000, 1_000], 1.0);
    check([1, 1], [500, 2_000], 1.0);
    check([3, 1], [1_000, 1_000], 3.0);
}

#[test]
fn what_a_cache_saved_is_not_charged() {
    let mut stage = stage(narrow());
    let mut running = stage.go(&ask(1));
    let tickets: Vec<_> = (0..200)
        .map(|at| (stage.wait_in_line(&of(at % 2, 1_000)), at % 2))
        .collect();
    let tenants: std::collections::BTreeMap<_, _> = tickets.into_iter().collect();
    let (mut served, mut cached) = ([0_u32; 2], 0);
    for _ in 0..150 {
        stage.wait(1);
        let usage = Usage {
            input: TokenCount::new(1_000),
            cached_input: Some(TokenCount::new(cached)),
            output: TokenCount::new(1),
            reasoning: None,
            source: UsageSource::Reported,
        };
        stage
            .pool
            .finish(running.lease, LeaseEnd::Success, Some(&usage), stage.now);
        let released = stage.released().pop().unwrap();
        let tenant = usize::try_from(tenants[&released.ticket]).unwrap();
        served[tenant] += 1;
        // Half of what the second tenant sends is in the cache.
        cached = if tenant == 1 { 500 } else { 0 };
        running = released.outcome.unwrap();
    }
    assert!(served[1] > served[0] * 3 / 2, "{served:?}");
}

#[test]
fn small_calls_go_first_but_not_for_ever() {
    let mut stage = stage(WaitingOptions {
        max_wait: Duration::from_secs(3_600),
        ..narrow()
    });
    let running = stage.go(&ask(1));
    let large = stage.wait_in_line(&of(0, 16_384));
    stage.wait(1);
    let small = stage.wait_in_line(&of(0, 512));
    // Five doublings at two seconds each.
    stage.wait(9_990);
    let before = stage.wait_in_line(&of(0, 512));
    stage.wait(20);
    let after = stage.wait_in_line(&of(0, 512));
    assert_eq!(stage.order(running, 0), [small, before, large, after]);
}

#[test]
fn size_aware_order_shortens_the_mean_wait() {
    let mean_wait = |size_age: Duration| {
        let mut stage = stage(WaitingOptions {
            size_age,
            max_wait: Duration::from_secs(3_600),
            ..narrow()
        });
        let mut rng = fastrand::Rng::with_seed(3);
        let mut running = stage.go(&ask(1));
        let mut sizes = std::collections::BTreeMap::new();
        for _ in 0..200 {
            // As if lognormal: many small ones, a few large ones.
            let size = 1 << rng.u32(8..15);
            sizes.insert(stage.wait_in_line(&of(0, size)), size);
        }
        let (mut sum, mut took) = (Duration::ZERO, 1);
        loop {
            stage.wait(took);
            stage.finish(&running, LeaseEnd::Success);
            let Some(released) = stage.released().pop() else { break };
            sum += released.waited;
            took = u64::from(sizes[&released.ticket] / 256);
            running = released.outcome.unwrap();
        }
        sum.as_secs_f64() / 200.0
    };
    let (by_size, by_age) = (mean_wait(SECOND), mean_wait(Duration::ZERO));
    assert!(by_size < by_age * 0.6, "{by_size} against {by_age}");
}

#[test]
fn classes_go_by_priority_and_a_class_is_worth_its_time() {
    let mut stage = stage(WaitingOptions {
        max_wait: Duration::from_secs(3_600),
        ..narrow()
    });
    let running = stage.go(&ask(1));
    let low = stage.wait_in_line(&in_class("low", 0));
    let normal = stage.wait_in_line(&in_class("no such class", 0));
    stage.wait(1);
    let high = stage.wait_in_line(&in_class("high", 0));
    // Ten seconds for each class: what comes more than ten seconds after a normal one, or twenty after a low one, goes after it.
    stage.wait(19_990);
    let in_time = stage.wait_in_line(&in_class("high", 0));
    stage.wait(20);
    let too_late = stage.wait_in_line(&in_class("high", 0));
    let another_low = stage.wait_in_line(&in_class("low", 0));
    assert_eq!(
        stage.order(running, 0),
        [high, normal, in_time, low, too_late, another_low]
    );
}

#[test]
fn what_is_too_much_is_shed_in_order() {
    let mut sheddable = ClassOptions::new("scrap");
    sheddable.sheddable = true;
    let mut options = narrow();
    options.calls = 4;
    options.classes.insert(1, sheddable);
    let mut stage = stage(options);
    stage.go(&ask(1));
    let scrap = stage.wait_in_line(&in_class("scrap", MODEST));
    let low = stage.wait_in_line(&in_class("low", GREEDY));
    let high = stage.wait_in_line(&in_class("high", GREEDY));
    stage.wait_in_line(&in_class("high", GREEDY));
    // The sheddable one first, though its class is higher than `low`; then the lower class.
    stage.wait_in_line(&in_class("low", MODEST));
    assert_eq!(stage.causes(), [(scrap, "displaced")]);
    stage.wait_in_line(&in_class("high", MODEST));
    assert_eq!(stage.causes().len(), 1);
    stage.wait_in_line(&in_class("high", MODEST));
    assert_eq!(stage.causes().len(), 1);
    // Only high ones are left, two of each tenant: nobody has less.
    assert_eq!(stage.shed(&in_class("high", GREEDY)).0, ShedCause::RoomFull);
    assert_eq!(stage.shed(&in_class("low", 77)).0, ShedCause::RoomFull);
    // A third tenant has less than either.
    stage.wait_in_line(&in_class("high", 77));
    let displaced = stage.causes();
    assert_eq!(displaced.len(), 1);
    assert!(
        ![low, high].contains(&displaced[0].0),
        "the last of its queue, not the first"
    );
}

#[test]
fn bytes_are_bounded_too() {
    let mut options = narrow();
    options.bytes = 1_000;
    let mut stage = stage(options);
    stage.go(&ask(1));
    let with = |tenant, bytes| Ask {
        bytes,
        ..of(tenant, 1_000)
    };
    assert_eq!(stage.shed(&with(0, 1_001)).0, ShedCause::RoomFull);
    let large = stage.wait_in_line(&with(GREEDY, 900));
    stage.wait_in_line(&with(MODEST, 100));
    // The bytes of the large one are what its tenant takes.
    stage.wait_in_line(&with(MODEST, 100));
    assert_eq!(stage.causes(), [(large, "displaced")]);
    assert_eq!(stage.pool.room(stage.now).bytes, 200);
}

#[test]
fn time_runs_out_by_pool_class_and_deadline() {
    let mut options = narrow();
    options.classes[2].max_wait = Some(Duration::from_secs(3));
    let mut stage = stage(options);
    stage.go(&ask(1));
    let usual = stage.wait_in_line(&in_class("normal", 0));
    let brief = stage.wait_in_line(&in_class("low", 0));
    // It needs some time of an endpoint, so it has to go so much earlier.
    let pace = stage.pool.rows(stage.now).next().unwrap().pace;
    let service = Duration::from_secs_f64(pace.fixed + pace.seconds(crate::Work::of(8_192.0, 0.0)));
    let urgent = stage.wait_in_line(&Ask {
        deadline: Some(stage.now + Duration::from_secs(2) + service),
        ..of(0, 8_192)
    });
    for (millis, expected) in [
        (2_000, vec![(urgent, "too_late")]),
        (1_000, vec![(brief, "waited_out")]),
        (2_000, vec![(usual, "waited_out")]),
    ] {
        stage.wait(millis - 1);
        assert_eq!(stage.causes(), [], "{expected:?}");
        assert_eq!(stage.pool.next_wakeup(), Some(stage.now + Duration::from_millis(1)));
        stage.wait(1);
        assert_eq!(stage.causes(), expected);
    }
    let late = Ask {
        deadline: Some(stage.now + service),
        ..of(0, 8_192)
    };
    assert_eq!(stage.shed(&late).0, ShedCause::TooLate);
    assert_eq!(stage.pool.next_wakeup(), None);
}

#[test]
fn the_time_to_try_again_follows_the_measured_pace() {
    let mut stage = stage(WaitingOptions {
        calls: 100,
        max_wait: Duration::from_secs(20),
        ..narrow()
    });
    let mut running = stage.go(&ask(1));
    // A thousand tokens go every 100 ms: 10,000 a second.
    for _ in 0..100 {
        stage.wait_in_line(&of(0, 1_000));
    }
    for _ in 0..80 {
        stage.wait(100);
        running = stage.next_after(&running).unwrap().1;
        stage.wait_in_line(&of(0, 1_000));
    }
    let pace = stage.pool.room(stage.now).pace;
    assert!((9_000.0..11_000.0).contains(&pace), "{pace}");
    let (cause, retry_after) = stage.shed(&of(0, 1_000));
    assert_eq!(cause, ShedCause::RoomFull);
    // A hundred wait, and this one.
    assert!((9.0..11.5).contains(&retry_after.as_secs_f64()), "{retry_after:?}");
    // One of another tenant takes turns with them.
    let (_, of_other) = {
        let options = WaitingOptions {
            max_wait: Duration::from_millis(1),
            ..stage.pool.options().waiting.clone()
        };
        let all = PoolOptions {
            waiting: options,
            ..stage.pool.options().clone()
        };
        stage.pool.reconfigure(all, Profile::default());
        stage.shed(&of(9, 1_000))
    };
    assert!(of_other < Duration::from_millis(400), "{of_other:?}");
}

#[test]
fn what_has_no_hope_is_not_kept() {
    let mut options = narrow();
    options.max_wait = Duration::from_secs(2);
    options.classes[2].sheddable = true;
    let mut stage = stage(options);
    stage.go(&ask(1));
    // Nothing moves for a second; then so much is known.
    for _ in 0..30 {
        stage.wait_in_line(&of(0, 1_000));
    }
    stage.wait(1_500);
    let (cause, retry_after) = stage.shed(&of(0, 2_000));
    assert_eq!(cause, ShedCause::NoHope);
    assert!(retry_after > Duration::from_secs(2), "{retry_after:?}");
    assert_eq!(stage.shed(&in_class("low", 0)).0, ShedCause::Sheddable);
    stage.wait_in_line(&of(0, 100));
}

#[test]
fn who_leaves_frees_the_place() {
    let mut options = narrow();
    options.calls = 1;
    let mut stage = stage(options);
    let running = stage.go(&ask(1));
    let first = stage.wait_in_line(&of(0, 10));
    assert_eq!(stage.shed(&of(0, 10)).0, ShedCause::RoomFull);
    assert!(stage.pool.leave(first, stage.now));
    assert!(!stage.pool.leave(first, stage.now), "only once");
    let second = stage.wait_in_line(&of(0, 10));
    assert_eq!(stage.next_after(&running).unwrap().0, second);
}

#[test]
fn a_pool_without_endpoints_keeps_its_waiting_calls() {
    let mut stage = stage(narrow());
    stage.go(&ask(1));
    let (kept, lost) = (
        stage.wait_in_line(&of(0, 10)),
        stage.wait_in_line(&Ask {
            deadline: Some(stage.now + SECOND),
            ..of(1, 10)
        }),
    );
    let id = stage.ids[0];
    stage.pool.remove(id, stage.now);
    stage.wait(2_000);
    // Nobody being there says more than the time being over.
    assert_eq!(stage.causes(), [(lost, "not_ready")]);
    assert!(matches!(
        stage.pool.ask(&ask(1), stage.now),
        Answer::Shed(Refusal::NotReady { .. })
    ));
    let id = stage.add("10.0.0.9:8000");
    stage.prove(id);
    assert!(stage.released().is_empty(), "nothing is known of its load");
    stage.page(id, &Signals::default());
    assert_eq!(stage.released()[0].ticket, kept);
}

#[test]
fn a_reload_keeps_who_waits() {
    let mut stage = stage(narrow());
    let running = stage.go(&ask(1));
    let low = stage.wait_in_line(&in_class("low", 0));
    let high = stage.wait_in_line(&in_class("high", 0));
    let normal = stage.wait_in_line(&in_class("normal", 0));
    // Another order, fewer places, and one class gone.
    let mut options = stage.pool.options().clone();
    options.waiting.calls = 1;
    options.waiting.classes = ["low", "normal"].map(ClassOptions::new).to_vec();
    options.waiting.default_class = 1;
    stage.pool.reconfigure(options, Profile::default());
    stage.pool.check_invariants().unwrap();
    assert_eq!(
        stage.shed(&in_class("low", 0)).0,
        ShedCause::RoomFull,
        "a place too few"
    );
    assert_eq!(stage.order(running, 0), [low, high, normal]);
}

#[test]
fn who_cannot_use_the_room_does_not_hold_up_others() {
    let mut options = PoolOptions {
        waiting: narrow(),
        ..PoolOptions::default()
    };
    options.staleness.stale_after = Duration::from_secs(3_600);
    let mut stage = Stage::with(2, Profile::default(), options);
    let on_first = stage.pick_on(0);
    let on_second = stage.pick_on(1);
    let tried = [on_first.endpoint];
    let elsewhere = stage.wait_in_line(&Ask {
        excluded: &tried,
        ..of(0, 10)
    });
    let anywhere = stage.wait_in_line(&of(0, 10_000));
    assert_eq!(stage.next_after(&on_first).unwrap().0, anywhere);
    assert_eq!(stage.next_after(&on_second).unwrap().0, elsewhere);
}
