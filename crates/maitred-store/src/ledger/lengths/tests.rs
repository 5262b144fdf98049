use super::*;

/// Prompts of these lengths, so many of each.
fn of(prompts: impl IntoIterator<Item = (u64, u64)>) -> Lengths {
    let mut lengths = Lengths::default();
    for (tokens, calls) in prompts {
        let step = (0..).find(|step| tokens < end_of(*step)).unwrap();
        lengths.add(step, (calls, tokens * calls, tokens));
    }
    lengths
}

/// A heap of prompts around a length: each doubling away from it has a fourth of the calls.
fn heap(middle: u64, calls: u64) -> Vec<(u64, u64)> {
    [(4, 1), (2, 4), (1, 16)]
        .into_iter()
        .flat_map(|(factor, part)| [(middle / factor, calls * part), (middle * factor, calls * part)])
        .collect()
}

#[test]
fn steps_follow_each_other() {
    for step in 1..(STEPS * DOUBLINGS) as usize {
        assert_eq!(begin_of(step), end_of(step - 1));
        assert!(end_of(step) > begin_of(step), "{step}");
    }
    assert_eq!((end_of(0), end_of(8), end_of(16)), (16, 32, 64));
    assert_eq!(end_of(1_000), u64::MAX);
}

#[test]
fn quantiles_are_right_up_to_a_step() {
    let lengths = of((1..=10_000).map(|tokens| (tokens, 1)));
    for (share, exact) in [(0.1, 1_000.0), (0.5, 5_000.0), (0.9, 9_000.0), (0.99, 9_900.0)] {
        let found = as_float(lengths.quantile(share));
        assert!(found >= exact && found < exact * 1.1, "{found} for {exact}");
    }
    assert_eq!((lengths.quantile(1.0), lengths.longest), (10_000, 10_000));
    assert_eq!(Lengths::default().quantile(0.5), 0);
}

#[test]
fn a_line_is_drawn_between_two_kinds_and_not_through_one() {
    let two = of(heap(300, 10).into_iter().chain(heap(20_000, 3)));
    let line = two.gap().unwrap();
    assert!((1_200..5_000).contains(&line.at_least), "{line:?}");
    assert!((0.2..0.26).contains(&line.calls), "{line:?}");
    assert!(line.tokens > 0.9, "{line:?}");
    for one in [
        of(heap(2_000, 10)),
        of((1..=1_000).map(|tokens| (tokens * 10, 1))),
        of([(500, 10_000)]),
    ] {
        assert_eq!(one.gap(), None);
    }
    assert_eq!(
        of(heap(300, 1).into_iter().chain([(20_000, 10)])).gap(),
        None,
        "too few"
    );
}
