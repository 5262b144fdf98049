use super::*;

fn talk() -> Kind {
    Kind {
        shared: Some(SharedText {
            texts: Spread { count: 10, skew: 1.0 },
            tokens: LengthPlan::new(640, 0.0),
            share: 0.5,
        }),
        turns: Turns {
            mean: 4.0,
            max: 12,
            added: LengthPlan::new(50, 0.3),
            pause: Duration::from_secs(5),
            per_token: Duration::from_millis(20),
        },
        sessions: true,
        tenants: Spread { count: 5, skew: 1.0 },
        ..Kind::new(LengthPlan::new(200, 0.5), LengthPlan::new(100, 0.5))
    }
}

fn take(kinds: Vec<Kind>, calls: usize, seed: u64) -> Vec<LabCall> {
    let generator = Generator::new(kinds, (20.0, Shape::Steady), (64, 16_384), seed);
    generator.take(calls).map(|call| call.unwrap()).collect()
}

fn shared(left: &LabCall, right: &LabCall) -> usize {
    let pairs = left.chain.hashes().iter().zip(right.chain.hashes());
    pairs.take_while(|(left, right)| left == right).count()
}

#[test]
fn the_rate_is_kept_whatever_the_number_of_turns() {
    let calls = take(
        vec![talk(), Kind::new(LengthPlan::new(9, 0.0), LengthPlan::new(9, 0.0))],
        40_000,
        1,
    );
    assert!(calls.is_sorted_by_key(|call| call.arrived));
    let last = calls.last().unwrap().arrived.as_secs_f64();
    let rate = 40_000.0 / last;
    assert!((rate - 20.0).abs() < 0.6, "{rate}");
}

#[test]
fn a_next_turn_begins_with_the_one_before_and_its_answer() {
    let calls = take(vec![talk()], 3_000, 2);
    let mut turns = 0;
    for (index, call) in calls.iter().enumerate() {
        let later = calls[index + 1..].iter().find(|later| later.session == call.session);
        let Some(later) = later else { continue };
        turns += 1;
        let answered = call.answered(call.output);
        let expected = answered.blocks();
        let found = answered
            .hashes()
            .iter()
            .zip(later.chain.hashes())
            .take_while(|(left, right)| left == right)
            .count();
        assert_eq!(found, expected, "turn after call {index}");
        assert!(later.input > call.input + call.output);
        assert_eq!((later.tenant, later.adapter), (call.tenant, call.adapter));
    }
    assert!(turns > 1_500, "{turns} of 3000 calls have a next turn");
}

#[test]
fn what_is_shared_is_shared_and_nothing_else() {
    let single = Kind {
        turns: Turns::single(),
        ..talk()
    };
    let calls = take(vec![single.clone()], 400, 3);
    let sharing: Vec<usize> = (1..400)
        .map(|at| (0..at).map(|before| shared(&calls[before], &calls[at])).max().unwrap())
        .collect();
    let some = sharing.iter().filter(|blocks| **blocks > 0).count();
    assert!((120..240).contains(&some), "{some} of 399 share");
    assert!(
        sharing.iter().all(|blocks| [0, 10].contains(blocks)),
        "all of a text or nothing"
    );
    let alone = Kind { shared: None, ..single };
    let calls = take(vec![alone.clone()], 200, 3);
    assert!((1..200).all(|at| shared(&calls[at - 1], &calls[at]) == 0));
    // The same text under another adapter is other content.
    let adapted = Kind {
        adapters: Some(Spread { count: 2, skew: 0.0 }),
        shared: Some(SharedText {
            texts: Spread::ONE,
            tokens: LengthPlan::new(640, 0.0),
            share: 1.0,
        }),
        ..alone
    };
    let calls = take(vec![adapted], 50, 4);
    for pair in calls.windows(2) {
        assert_eq!(shared(&pair[0], &pair[1]) > 0, pair[0].adapter == pair[1].adapter);
    }
}

#[test]
fn the_same_seed_is_the_same_workload() {
    let print = |seed| -> Vec<(Time, u32, u32, Vec<u64>)> {
        let calls = take(vec![talk()], 500, seed);
        let print = |call: &LabCall| {
            (
                call.arrived,
                call.input.get(),
                call.output.get(),
                call.chain.hashes().to_vec(),
            )
        };
        calls.iter().map(print).collect()
    };
    assert_eq!(print(1), print(1));
    assert_ne!(print(1), print(2));
}

#[test]
fn no_prompt_outgrows_the_context() {
    let mut kind = talk();
    kind.turns.mean = 1e9;
    kind.turns.max = u32::MAX;
    kind.own = LengthPlan::new(4_000, 2.0);
    let generator = Generator::new(vec![kind], (20.0, Shape::Steady), (64, 5_000), 5);
    for call in generator.take(5_000).map(|call| call.unwrap()) {
        assert!(
            call.input.get() + call.output.get() <= 5_000,
            "{} and {}",
            call.input,
            call.output
        );
    }
}
