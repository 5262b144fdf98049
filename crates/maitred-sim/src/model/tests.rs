//! The scheduler's rules, one by one.

mod simulation;

use maitred_types::ModelName;

use super::*;
use crate::lora::AdapterIndex;
use crate::prefix::Prompt;
use crate::request::SimUsage;

/// A profile in which a step takes exactly 10 ms and the front nothing, so that times can be read.
fn plain() -> EngineProfile {
    let mut profile = EngineProfile::find("h100-8b").unwrap();
    profile.costs = crate::profile::StepCosts {
        prefill_fixed_ms: 10.0,
        token_us: 0.0,
        attention_ns: 0.0,
        decode_fixed_ms: 10.0,
        sequence_ms: 0.0,
        context_ns: 0.0,
    };
    profile.step_overhead = Duration::ZERO;
    profile.front_delay = Duration::ZERO;
    profile
}

fn options(blocks: u32, sequences: u32) -> EngineOptions {
    EngineOptions {
        blocks: Some(blocks),
        sequences: NonZeroU32::new(sequences),
        ..EngineOptions::default()
    }
}

fn request(id: u64, prompt: Prompt, output_tokens: u32) -> SimRequest {
    SimRequest {
        id: RequestNumber(id),
        prompt,
        adapter: None,
        output_tokens,
        reason: FinishReason::Stop,
        output_seed: id,
        max_tokens: None,
    }
}

/// A model with its events, checked after every step.
struct Run {
    model: EngineModel,
    events: Vec<SimEvent>,
}

impl Run {
    fn new(options: &EngineOptions) -> Self {
        Self {
            model: EngineModel::new(&plain(), options, Time::ZERO),
            events: Vec::new(),
        }
    }

    #[track_caller]
    fn submit(&mut self, request: SimRequest) {
        self.model.submit(request, self.model.now).unwrap();
    }

    #[track_caller]
    fn to(&mut self, millis: u64) -> &mut Self {
        while let Some(next) = self
            .model
            .next_event()
            .filter(|next| *next <= Time::from_millis(millis))
        {
            self.model.advance(next, &mut |event| self.events.push(event));
            self.model.check_invariants().unwrap();
        }
        self.model.advance(Time::from_millis(millis), &mut |_| {
            panic!("an event after the last one")
        });
        self
    }

    /// Lets time pass in one jump.
    fn leap(&mut self, millis: u64) {
        self.model
            .advance(Time::from_millis(millis), &mut |event| self.events.push(event));
        self.model.check_invariants().unwrap();
    }

    /// Lets time pass from one promised event to the next; nothing may be told before.
    fn hop(&mut self, millis: u64) {
        let to = Time::from_millis(millis);
        while let Some(next) = self.model.quiet_until().filter(|next| *next <= to) {
            let before = next.saturating_sub(Duration::from_nanos(1));
            self.model.advance(before.max(self.model.now), &mut |event| {
                assert!(matches!(event, SimEvent::Preempted { .. }), "{event:?} before {next:?}");
                self.events.push(event);
            });
            self.model.check_invariants().unwrap();
            self.model.advance(next, &mut |event| self.events.push(event));
            assert!(
                self.model.quiet_until().is_none_or(|later| later > next),
                "no way forward at {next:?}"
            );
        }
        self.leap(millis);
    }

    /// When request `id` got its `n`th token, in milliseconds.
    fn token(&self, id: u64, n: u32) -> Option<u64> {
        self.events.iter().find_map(|event| match *event {
            SimEvent::Token { id: other, n: m, at } if (other.0, m) == (id, n) => Some(at.as_nanos() / 1_000_000),
            _ => None,
        })
    }

    fn usage(&self, id: u64) -> SimUsage {
        let ended = self.events.iter().find_map(|event| match *event {
            SimEvent::Finished { id: other, usage, .. } if other.0 == id => Some(usage),
            _ => None,
        });
        ended.unwrap_or_else(|| panic!("request {id} has not ended"))
    }

    fn preempted(&self) -> Vec<u64> {
        let preempted = self.events.iter().filter_map(|event| match event {
            SimEvent::Preempted { id, .. } => Some(id.0),
            _ => None,
        });
        preempted.collect()
    }
}

#[test]
fn the_first_token_comes_with_the_step_that_ends_the_prompt() {
    // A budget of 8192: 20,000 prompt tokens take three steps, and each token one more.
    let mut run = Run::new(&EngineOptions::default());
    run.submit(request(1, Prompt::unique(20_000, 16, 1), 3));
    run.to(1000);
    assert_eq!([1, 2, 3].map(|n| run.token(1, n)), [Some(30), Some(40), Some(50)]);
    assert_eq!(
        run.usage(1),
        SimUsage {
            prompt: TokenCount::new(20_000),
            cached: TokenCount::ZERO,
            output: TokenCount::new(3),
        }
    );
    assert_eq!(
        run.model.stats().counters.computed_tokens,
        20_002,
        "the last token is never computed"
    );
}

#[test]
fn decodes_come_first_and_the_prompt_gets_what_is_left() {
    let mut run = Run::new(&EngineOptions {
        batched_tokens: NonZeroU32::new(100),
        ..EngineOptions::default()
    });
    run.submit(request(1, Prompt::unique(50, 16, 1), 20));
    run.submit(request(2, Prompt::unique(248, 16, 2), 2));
    run.to(1000);
    // 50 beside 50; then 99 beside one decode; then another 99 ends it.
    assert_eq!((run.token(1, 1), run.token(2, 1)), (Some(10), Some(30)));
    assert_eq!(run.token(1, 20), Some(200), "and nobody is held up");
}

#[test]
fn waiting_requests_join_in_the_order_they_came() {
    let mut run = Run::new(&options(1000, 2));
    for id in 1..=4 {
        run.submit(request(id, Prompt::unique(32, 16, id), 3));
    }
    run.to(15);
    assert_eq!((run.model.gauges().running, run.model.gauges().waiting), (2, 2));
    run.to(1000);
    assert_eq!(
        [1, 2, 3, 4].map(|id| run.token(id, 1)),
        [Some(10), Some(10), Some(40), Some(40)]
    );
    assert_eq!(
        run.model.gauges(),
        Gauges {
            kv_usable: 999,
            ..Gauges::default()
        }
    );
}

#[test]
fn a_known_prefix_is_not_computed_again_but_its_last_token_is() {
    let check = |prompt: u32, cached: u32| {
        let mut run = Run::new(&EngineOptions::default());
        run.submit(request(1, Prompt::unique(prompt, 16, 7), 1));
        run.to(100);
        run.submit(request(2, Prompt::unique(prompt, 16, 7), 1));
        run.to(1000);
        assert_eq!(run.usage(2).cached.get(), cached, "{prompt} tokens");
        let counters = run.model.stats().counters;
        assert_eq!(
            (counters.prefix_queries, counters.prefix_hits),
            (2 * u64::from(prompt), u64::from(cached))
        );
    };
    check(15, 0);
    check(16, 0);
    check(17, 16);
    check(32, 16);
    check(33, 32);
    check(100, 96);
}

#[test]
fn an_answer_is_cached_for_the_next_turn() {
    let turn = |text: u32| {
        (0..text)
            .chain((0..40).map(|index| crate::output_token(1, index)))
            .collect::<Vec<_>>()
    };
    let mut run = Run::new(&EngineOptions::default());
    run.submit(request(1, Prompt::new(0..64, 16, None), 40));
    run.to(1000);
    let mut next = turn(64);
    next.extend([9; 30]);
    run.submit(request(2, Prompt::new(next, 16, None), 1));
    run.to(2000);
    assert_eq!(
        run.usage(2).cached.get(),
        96,
        "64 of the prompt and two blocks of the answer; the third was not full"
    );
}

#[test]
fn a_prefix_is_shared_within_one_step() {
    let mut run = Run::new(&EngineOptions::default());
    run.submit(request(1, Prompt::unique(160, 16, 7), 2));
    run.submit(request(2, Prompt::unique(160, 16, 7), 2));
    run.to(11);
    assert_eq!(run.model.stats().counters.computed_tokens, 160 + 16);
    assert_eq!(run.model.gauges().kv_used, 11, "ten blocks and a twin of the tenth");
    run.to(1000);
    assert_eq!(run.usage(2).cached.get(), 144);
}

#[test]
fn without_a_prefix_cache_everything_is_computed() {
    let mut run = Run::new(&EngineOptions {
        prefix_caching: PrefixCaching::Off,
        ..EngineOptions::default()
    });
    for id in 1..=2 {
        run.submit(request(id, Prompt::unique(160, 16, 7), 2));
        run.to(100 * id);
    }
    assert_eq!(
        (run.usage(2).cached.get(), run.model.stats().counters.prefix_queries),
        (0, 0)
    );
}

#[test]
fn the_last_to_join_is_preempted_and_computed_again() {
    // Nine usable blocks: two requests of four blocks each fit, until their answers grow.
    let mut run = Run::new(&options(10, 8));
    run.submit(request(1, Prompt::unique(63, 16, 1), 40));
    run.submit(request(2, Prompt::unique(63, 16, 2), 40));
    run.to(35);
    // At 20 ms both need a fifth block; one is left, and the first gets it.
    assert_eq!(run.preempted(), [2]);
    let gauges = run.model.gauges();
    assert_eq!((gauges.running, gauges.waiting, gauges.kv_used), (1, 1, 5));
    run.to(10_000);
    assert_eq!(run.token(1, 40), Some(400), "the first is not held up");
    assert_eq!(
        (run.usage(2).output.get(), run.usage(2).cached.get()),
        (40, 0),
        "usage tells of the first admission"
    );
    assert_eq!(run.model.stats().counters.preemptions, 1);
    let tokens = run
        .events
        .iter()
        .filter(|event| matches!(event, SimEvent::Token { id, .. } if id.0 == 2));
    assert_eq!(tokens.count(), 40, "no token is told twice");
}

#[test]
fn a_preempted_request_finds_its_own_blocks_if_nobody_took_them() {
    let mut run = Run::new(&options(10, 8));
    run.submit(request(1, Prompt::unique(63, 16, 1), 3));
    run.submit(request(2, Prompt::unique(63, 16, 2), 20));
    run.to(10_000);
    // The first used one block more and ended; the second finds all it had, and only lost a step.
    assert_eq!(run.preempted(), [2]);
    assert_eq!(
        run.model.stats().counters.computed_tokens,
        63 + 2 + 63 + 19,
        "nothing is computed twice"
    );
    assert_eq!(run.token(2, 20), Some(210));
}

#[test]
fn a_lone_request_never_waits_for_the_reserve() {
    // 150 usable blocks: one of them is held in reserve, except for a request that is alone.
    let mut run = Run::new(&options(151, 8));
    run.submit(request(1, Prompt::unique(2399, 16, 1), 1));
    run.to(10);
    assert_eq!(run.token(1, 1), Some(10));
    run.submit(request(2, Prompt::unique(16, 16, 2), 8));
    run.submit(request(3, Prompt::unique(2383, 16, 3), 1));
    run.submit(request(4, Prompt::unique(16, 16, 4), 1));
    run.to(10_000);
    assert_eq!(run.token(2, 1), Some(20));
    assert_eq!(
        run.token(3, 1),
        Some(100),
        "149 blocks were not free before the second ended"
    );
    assert_eq!(
        run.token(4, 1),
        Some(110),
        "nobody overtakes, and the last free block is held in reserve"
    );
}

#[test]
fn the_deepest_blocks_of_the_request_that_ended_first_are_lost_first() {
    let mut run = Run::new(&options(11, 8));
    run.submit(request(1, Prompt::unique(80, 16, 1), 1));
    run.to(100);
    run.submit(request(2, Prompt::unique(80, 16, 2), 1));
    run.to(200);
    // Ten usable blocks are all named now. Three more push out the last three of the first request.
    run.submit(request(3, Prompt::unique(48, 16, 3), 1));
    run.to(300);
    let cached = |run: &mut Run, id: u64, seed: u64, millis: u64| {
        run.submit(request(id, Prompt::unique(81, 16, seed), 1));
        run.to(millis);
        run.usage(id).cached.get()
    };
    assert_eq!(cached(&mut run.clone_at_rest(), 4, 1, 400), 32);
    assert_eq!(cached(&mut run, 5, 2, 400), 80);
}

impl Run {
    fn clone_at_rest(&self) -> Self {
        Self {
            model: self.model.clone(),
            events: self.events.clone(),
        }
    }
}

#[test]
fn a_cancelled_request_frees_everything() {
    let mut run = Run::new(&options(100, 1));
    run.submit(request(1, Prompt::unique(64, 16, 1), 100));
    run.submit(request(2, Prompt::unique(64, 16, 2), 100));
    run.to(35);
    run.submit(request(3, Prompt::unique(64, 16, 3), 100));
    for id in [3, 2, 1] {
        assert!(run.model.cancel(RequestNumber(id), Time::from_millis(36)));
        assert!(!run.model.cancel(RequestNumber(id), Time::from_millis(36)), "only once");
        run.model.check_invariants().unwrap();
    }
    assert_eq!(run.model.gauges().running, 1, "the step under way goes on");
    let before = run.events.len();
    run.to(1000);
    assert_eq!(run.events.len(), before, "cancelled requests say nothing more");
    assert_eq!(
        run.model.gauges(),
        Gauges {
            kv_usable: 99,
            ..Gauges::default()
        }
    );
    assert_eq!((run.model.requests(), run.model.next_event()), (0, None));
    assert_eq!(run.model.stats().counters.finished(FinishReason::Abort), 3);
}

#[test]
fn what_can_never_be_computed_is_refused() {
    let lora = LoraOptions {
        adapters: vec!["a".into()],
        resident: 1,
        load_time: Duration::ZERO,
    };
    let options = EngineOptions {
        context: TokenCount::new(1000),
        requests: 2,
        lora: Some(lora),
        ..options(11, 8)
    };
    let mut run = Run::new(&options);
    let mut refused = |request: SimRequest| run.model.submit(request, Time::ZERO).unwrap_err();
    let (context, room) = (TokenCount::new(1000), TokenCount::new(160));
    assert_eq!(
        refused(request(1, Prompt::unique(990, 16, 1), 11)),
        Refused::TooLong { limit: context }
    );
    assert_eq!(
        refused(request(1, Prompt::unique(150, 16, 1), 11)),
        Refused::NeverFits { limit: room }
    );
    let unknown = SimRequest {
        adapter: AdapterIndex::new(1),
        ..request(1, Prompt::unique(1, 16, 1), 1)
    };
    assert_eq!(refused(unknown), Refused::UnknownAdapter);
    run.submit(request(1, Prompt::unique(150, 16, 1), 10));
    let twin = request(1, Prompt::unique(1, 16, 1), 1);
    assert_eq!(run.model.submit(twin, Time::ZERO), Err(Refused::DuplicateNumber));
    run.submit(request(2, Prompt::unique(1, 16, 1), 1));
    let third = request(3, Prompt::unique(1, 16, 1), 1);
    assert_eq!(run.model.submit(third, Time::ZERO), Err(Refused::QueueFull));
    run.to(10_000);
    assert_eq!(run.usage(1).output.get(), 10, "what fits exactly is computed");
}

#[test]
fn adapters_wait_for_slots_and_pay_for_loading() {
    let names = ["a", "b", "c"].map(ModelName::from).to_vec();
    let lora = LoraOptions {
        adapters: names,
        resident: 2,
        load_time: Duration::from_millis(200),
    };
    let mut run = Run::new(&EngineOptions {
        lora: Some(lora),
        ..EngineOptions::default()
    });
    let adapted = |id: u64, adapter: usize, output: u32| SimRequest {
        adapter: AdapterIndex::new(adapter),
        ..request(id, Prompt::unique(8, 16, id), output)
    };
    run.submit(adapted(1, 0, 2));
    run.submit(adapted(2, 1, 5));
    run.submit(adapted(3, 2, 1));
    run.submit(adapted(4, 0, 1));
    run.submit(request(5, Prompt::unique(8, 16, 5), 1));
    run.to(409);
    assert_eq!(run.events.len(), 0);
    run.to(410);
    // Two adapters are loaded in the first step; the third request is passed over by those that need no slot of their own.
    assert_eq!(
        [1, 2, 3, 4, 5].map(|id| run.token(id, 1)),
        [Some(410), Some(410), None, Some(410), Some(410)]
    );
    assert_eq!((run.model.gauges().waiting, run.model.gauges().deferred), (1, 1));
    assert_eq!(run.model.adapters.in_use(), (0b011, 0b100));
    run.to(10_000);
    // The first adapter is free at 420; the third takes its place and holds everybody up while it is loaded.
    assert_eq!(
        (run.token(1, 2), run.token(3, 1), run.token(2, 3)),
        (Some(420), Some(630), Some(630))
    );
    let newest = run
        .model
        .stats()
        .lora
        .iter()
        .max_by_key(|series| series.updated)
        .copied()
        .unwrap();
    assert_eq!((newest.running, newest.waiting), (0, 0));
    assert!(
        run.model
            .stats()
            .lora
            .iter()
            .any(|series| (series.running, series.waiting) == (0b011, 0b100))
    );
}

#[test]
fn an_adapter_is_part_of_what_a_block_holds() {
    let lora = LoraOptions {
        adapters: vec!["a".into()],
        resident: 1,
        load_time: Duration::ZERO,
    };
    let mut run = Run::new(&EngineOptions {
        lora: Some(lora),
        ..EngineOptions::default()
    });
    run.submit(request(1, Prompt::new(0..64, 16, None), 1));
    run.to(100);
    let prompt = || Prompt::new(0..64, 16, Some("a"));
    for id in [2, 3] {
        run.submit(SimRequest {
            adapter: AdapterIndex::new(0),
            ..request(id, prompt(), 1)
        });
        run.to(100 * id);
    }
    assert_eq!((run.usage(2).cached.get(), run.usage(3).cached.get()), (0, 48));
}

#[test]
fn gauges_are_as_old_as_the_last_step_unless_asked_otherwise() {
    for (gauges, seen) in [(GaugeUpdates::PerStep, 0), (GaugeUpdates::Live, 1)] {
        let mut run = Run::new(&EngineOptions {
            gauges,
            ..EngineOptions::default()
        });
        run.submit(request(1, Prompt::unique(64, 16, 1), 2));
        run.to(5);
        assert_eq!(
            run.model.gauges().running,
            seen,
            "{gauges:?}: the first step has not ended"
        );
        run.to(11);
        assert_eq!(run.model.gauges().running, 1);
    }
}

#[test]
fn the_front_delays_but_does_not_occupy() {
    let profile = EngineProfile {
        front_delay: Duration::from_millis(5),
        ..plain()
    };
    let mut model = EngineModel::new(&profile, &EngineOptions::default(), Time::ZERO);
    let mut first_tokens = Vec::new();
    for id in 0..3 {
        model
            .submit(request(id, Prompt::unique(8, 16, id), 1), Time::ZERO)
            .unwrap();
    }
    model.advance(Time::from_millis(100), &mut |event| {
        if let SimEvent::Token { at, .. } = event {
            first_tokens.push(at);
        }
    });
    assert_eq!(first_tokens, [Time::from_millis(15); 3]);
}

#[test]
fn pace_and_warm_up_stretch_steps() {
    let warm_up = Some(WarmUp {
        requests: 1,
        factor: 3.0,
    });
    let mut run = Run::new(&EngineOptions {
        warm_up,
        ..EngineOptions::default()
    });
    run.submit(request(1, Prompt::unique(8, 16, 1), 1));
    run.to(100);
    run.submit(request(2, Prompt::unique(8, 16, 2), 1));
    run.to(200);
    run.model.set_pace(4.0);
    run.submit(request(3, Prompt::unique(8, 16, 3), 1));
    run.to(300);
    assert_eq!([1, 2, 3].map(|id| run.token(id, 1)), [Some(30), Some(110), Some(240)]);
}

#[test]
fn a_request_without_answer_ends_with_its_prompt() {
    let mut run = Run::new(&EngineOptions::default());
    run.submit(request(1, Prompt::unique(8, 16, 1), 0));
    run.to(100);
    assert_eq!(run.usage(1).output, TokenCount::ZERO);
    assert_eq!(run.token(1, 1), None);
}

#[test]
fn a_stretch_is_not_told_step_by_step() {
    let options = EngineOptions {
        token_events: TokenEvents::First,
        ..EngineOptions::default()
    };
    let mut model = EngineModel::new(&plain(), &options, Time::ZERO);
    for id in 0..3 {
        model
            .submit(request(id, Prompt::unique(100, 16, id), 1000), Time::ZERO)
            .unwrap();
    }
    // One jump ends in the middle of the stretch, with everything as it should be there.
    let mut events = 0;
    model.advance(Time::from_millis(5_003), &mut |_| events += 1);
    model.check_invariants().unwrap();
    assert_eq!((events, model.stats().counters.generation_tokens), (3, 3 * 500));
    assert_eq!(model.next_event(), Some(Time::from_millis(5_010)));
    model.interrupt();
    assert!(
        model
            .sequences
            .iter()
            .all(|sequence| sequence.generated == 500 && sequence.computed == 599)
    );
    model.advance(Time::from_millis(20_000), &mut |_| events += 1);
    assert_eq!((events, model.pool.used()), (6, 0));
}

#[test]
fn each_check_of_the_bookkeeping_can_fail() {
    let broken = |change: fn(&mut EngineModel)| {
        let mut run = Run::new(&options(100, 2));
        for id in 1..=3 {
            run.submit(request(id, Prompt::unique(64, 16, id), 100));
        }
        run.to(15);
        change(&mut run.model);
        run.model.check_invariants().unwrap_err().0
    };
    let found = [
        broken(|model| _ = model.sequences[0].blocks.pop()),
        broken(|model| _ = model.waiting.pop_front()),
        broken(|model| _ = model.places.remove(&1)),
        broken(|model| model.limits.sequences = 1),
        broken(|model| model.limits.batched_tokens = 1),
    ];
    let mut distinct = found.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), found.len(), "{found:?}");
}
