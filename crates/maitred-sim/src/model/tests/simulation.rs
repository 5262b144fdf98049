//! Random clients: the bookkeeping is checked after every step, every account is settled, and runs repeat.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// One action of a random client.
#[derive(Clone, Debug)]
enum Action {
    Submit {
        prefix: u32,
        tokens: u32,
        output: u32,
        adapter: Option<usize>,
    },
    Cancel {
        nth: usize,
    },
    Wait {
        millis: u64,
    },
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        5 => (0..4_u32, 1..400_u32, 0..60_u32, proptest::option::of(0..3_usize))
            .prop_map(|(prefix, tokens, output, adapter)| Action::Submit { prefix, tokens, output, adapter }),
        1 => (0..20_usize).prop_map(|nth| Action::Cancel { nth }),
        4 => (0..120_u64).prop_map(|millis| Action::Wait { millis }),
    ]
}

/// What a client knows of its request.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    prompt: u32,
    output: u32,
    tokens: u32,
    ended: bool,
    cancelled: bool,
}

/// Everything that can be seen of a run.
#[derive(Debug, PartialEq)]
struct Told {
    events: Vec<SimEvent>,
    /// The gauges after each action.
    pages: Vec<Gauges>,
    stats: EngineStats,
}

/// How time passes in a simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pass {
    /// Step by step, every token told.
    Steps,
    /// At once, first tokens told.
    Leap,
    /// From event to event, first tokens told.
    Hop,
}

fn simulate(actions: &[Action], blocks: u32) -> Told {
    simulate_passing(actions, blocks, Pass::Steps)
}

fn simulate_passing(actions: &[Action], blocks: u32, how: Pass) -> Told {
    let token_events = match how {
        Pass::Steps => TokenEvents::Each,
        Pass::Leap | Pass::Hop => TokenEvents::First,
    };
    let lora = LoraOptions {
        adapters: ["a", "b", "c"].map(ModelName::from).to_vec(),
        resident: 2,
        load_time: Duration::from_millis(50),
    };
    let options = EngineOptions {
        batched_tokens: NonZeroU32::new(128),
        token_events,
        lora: Some(lora),
        ..options(blocks, 6)
    };
    // With a front, so that arrivals fall between steps.
    let profile = EngineProfile {
        front_delay: Duration::from_millis(7),
        ..plain()
    };
    let mut run = Run {
        model: EngineModel::new(&profile, &options, Time::ZERO),
        events: Vec::new(),
    };
    let pass = |run: &mut Run, millis| match how {
        Pass::Steps => drop(run.to(millis)),
        Pass::Leap => run.leap(millis),
        Pass::Hop => run.hop(millis),
    };
    let mut seen: BTreeMap<u64, Seen> = BTreeMap::new();
    let (mut pages, mut millis) = (Vec::new(), 0);
    for action in actions {
        match action {
            Action::Submit { .. } => submit(&mut run, &mut seen, action),
            Action::Cancel { nth } => {
                let id = seen.keys().nth(*nth).copied();
                if let Some(id) = id
                    && run.model.cancel(RequestNumber(id), run.model.now)
                {
                    seen.get_mut(&id).unwrap().cancelled = true;
                }
            }
            Action::Wait { millis: wait } => {
                millis += wait;
                pass(&mut run, millis);
            }
        }
        run.model.check_invariants().unwrap();
        pages.push(run.model.gauges());
    }
    pass(&mut run, millis + 10_000_000);
    if token_events == TokenEvents::Each {
        settle_accounts(&run, &mut seen);
    }
    Told {
        events: run.events,
        pages,
        stats: run.model.stats.clone(),
    }
}

fn submit(run: &mut Run, seen: &mut BTreeMap<u64, Seen>, action: &Action) {
    let Action::Submit {
        prefix,
        tokens,
        output,
        adapter,
    } = *action
    else {
        return;
    };
    let id = seen.len() as u64;
    // Requests of one prefix agree in their first 200 tokens.
    let tail = u32::try_from(id).unwrap();
    let text = (0..tokens).map(|index| if index < 200 { prefix } else { 1000 + tail });
    let name = adapter.map(|adapter| ["a", "b", "c"][adapter]);
    let prompt = if prefix % 2 == 0 {
        Prompt::new(text, 16, name)
    } else {
        let mut prompt = Prompt::of_passages(name);
        prompt.append(prefix.into(), tokens.min(200), 16);
        prompt.append(u64::from(1000 + tail), tokens.saturating_sub(200), 16);
        prompt
    };
    let adapter = adapter.and_then(AdapterIndex::new);
    let taken = run.model.submit(
        SimRequest {
            adapter,
            ..request(id, prompt, output)
        },
        run.model.now,
    );
    if taken.is_ok() {
        seen.insert(
            id,
            Seen {
                prompt: tokens,
                output,
                ..Seen::default()
            },
        );
    }
}

/// Every request ends exactly once, with all its tokens in order, and the totals agree with the sums.
fn settle_accounts(run: &Run, seen: &mut BTreeMap<u64, Seen>) {
    let mut usages = SimUsage::default();
    for event in &run.events {
        match *event {
            SimEvent::Token { id, n, .. } => {
                let seen = seen.get_mut(&id.0).unwrap();
                assert!(!seen.ended);
                assert_eq!(n, seen.tokens + 1, "tokens come one by one");
                seen.tokens = n;
            }
            SimEvent::Finished { id, usage, .. } => {
                let seen = seen.get_mut(&id.0).unwrap();
                assert!(!seen.ended && !seen.cancelled);
                seen.ended = true;
                assert_eq!((usage.prompt.get(), usage.output.get()), (seen.prompt, seen.output));
                assert_eq!(usage.output.get(), seen.tokens);
                assert!(usage.cached.get() < seen.prompt && usage.cached.get().is_multiple_of(16));
                usages.prompt += usage.prompt;
                usages.cached += usage.cached;
            }
            SimEvent::Preempted { id, .. } => assert!(!seen[&id.0].ended),
        }
    }
    for (id, seen) in seen.iter() {
        assert!(seen.ended != seen.cancelled, "request {id}: {seen:?}");
    }
    let counters = run.model.stats().counters;
    let tokens: u64 = seen.values().map(|seen| u64::from(seen.tokens)).sum();
    assert_eq!(counters.generation_tokens, tokens);
    let ended = seen.values().filter(|seen| seen.ended).count() as u64;
    assert_eq!(counters.stopped, ended);
    assert_eq!(counters.aborted, seen.len() as u64 - ended);
    assert!(counters.prompt_tokens >= u64::from(usages.prompt.get()));
    assert_eq!(run.model.pool.used(), 0);
    assert_eq!((run.model.requests(), run.model.next_event()), (0, None));
    assert_eq!(run.model.adapters.in_use(), (0, 0));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn bookkeeping_holds_and_runs_repeat(actions in proptest::collection::vec(action(), 1..80), blocks in 30..120_u32) {
        let first = simulate(&actions, blocks);
        prop_assert_eq!(&first, &simulate(&actions, blocks), "the same actions give the same events, bit for bit");
    }

    #[test]
    fn how_time_is_cut_does_not_matter(actions in proptest::collection::vec(action(), 1..30), cuts in 1..9_u64) {
        let cut: Vec<Action> = actions
            .iter()
            .flat_map(|action| match action {
                Action::Wait { millis } => {
                    let mut parts = vec![Action::Wait { millis: millis / cuts }; usize::try_from(cuts).unwrap()];
                    parts.push(Action::Wait { millis: millis % cuts });
                    parts
                }
                other => vec![other.clone()],
            })
            .collect();
        let (whole, cut) = (simulate(&actions, 60), simulate(&cut, 60));
        prop_assert_eq!((whole.events, whole.stats), (cut.events, cut.stats));
    }
}

/// Long answers, so that there are stretches to be computed at once.
fn long_action() -> impl Strategy<Value = Action> {
    prop_oneof![
        3 => (0..4_u32, 1..300_u32, 1..700_u32, proptest::option::of(0..3_usize))
            .prop_map(|(prefix, tokens, output, adapter)| Action::Submit { prefix, tokens, output, adapter }),
        1 => (0..10_usize).prop_map(|nth| Action::Cancel { nth }),
        4 => (0..3000_u64).prop_map(|millis| Action::Wait { millis }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn stretches_at_once_are_the_same_as_step_by_step(
        actions in proptest::collection::vec(long_action(), 1..30),
        blocks in 65..300_u32,
    ) {
        let mut each = simulate_passing(&actions, blocks, Pass::Steps);
        each.events.retain(|event| !matches!(event, SimEvent::Token { n, .. } if *n > 1));
        prop_assert_eq!(&each, &simulate_passing(&actions, blocks, Pass::Leap));
        prop_assert_eq!(&each, &simulate_passing(&actions, blocks, Pass::Hop));
    }
}
