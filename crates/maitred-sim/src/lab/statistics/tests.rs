use std::time::Duration;

use maitred_types::Time;
use proptest::prelude::*;

use super::paired::{mean_interval, student_t};
use super::*;

fn sketch(values: &[f64]) -> Sketch {
    let mut sketch = Sketch::new();
    values.iter().for_each(|value| sketch.add(*value));
    sketch
}

/// Nearest rank in a sorted list.
fn exact(values: &[f64], q: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (1..=sorted.len()).find(|rank| *rank as f64 >= q * sorted.len() as f64);
    sorted[rank.unwrap_or(sorted.len()) - 1]
}

fn close(left: f64, right: f64, error: f64) -> bool {
    (left - right).abs() <= error * right.abs() + 1e-12
}

proptest! {
    #[test]
    fn quantiles_are_within_the_stated_error(
        exponents in prop::collection::vec(-6.0..4.0_f64, 1..400),
        q in 0.0..=1.0_f64,
    ) {
        let values: Vec<f64> = exponents.iter().map(|exponent| 10_f64.powf(*exponent)).collect();
        let sketch = sketch(&values);
        prop_assert!(close(sketch.quantile(q), exact(&values, q), RELATIVE_ERROR));
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        prop_assert!(close(sketch.mean(), mean, 1e-9));
        let (value, least) = (exact(&values, q), exact(&values, 0.0));
        let counted = values.iter().filter(|other| **other <= value * 1.02).count() as f64 / values.len() as f64;
        let fewest = values.iter().filter(|other| **other <= value).count() as f64 / values.len() as f64;
        prop_assert!((fewest..=counted).contains(&sketch.share_up_to(value)));
        prop_assert!(sketch.share_up_to(least / 2.0) <= 0.0);
    }

    #[test]
    fn a_merged_sketch_is_the_sketch_of_all(
        left in prop::collection::vec(0.0..100.0_f64, 0..100),
        right in prop::collection::vec(0.001..1e6_f64, 0..100),
    ) {
        let mut merged = sketch(&left);
        merged.merge(&sketch(&right));
        let all: Vec<f64> = left.iter().chain(&right).copied().collect();
        let whole = sketch(&all);
        prop_assert_eq!(merged.count(), whole.count());
        for q in [0.0, 0.1, 0.5, 0.9, 0.99, 1.0] {
            prop_assert!(close(merged.quantile(q), whole.quantile(q), 1e-12));
        }
    }

    #[test]
    fn shares_keep_every_amount(
        entries in prop::collection::vec((0_u64..5_000_000, 0_usize..4, 1_u32..100), 1..200),
    ) {
        let mut series = ShareSeries::new(4);
        let mut totals = [0.0; 4];
        for (millis, endpoint, amount) in &entries {
            series.add(Time::from_millis(*millis), *endpoint, f64::from(*amount));
            totals[*endpoint] += f64::from(*amount);
        }
        prop_assert!(series.windows().len() <= WINDOWS_MAX);
        for (endpoint, total) in totals.iter().enumerate() {
            let sum: f64 = series.windows().iter().map(|window| window[endpoint]).sum();
            prop_assert!(close(sum, *total, 1e-12));
        }
    }
}

#[test]
fn a_coarser_sketch_would_be_noticed() {
    // The negative control of the property above: 3 % is outside the stated error.
    let values: Vec<f64> = (1..1000).map(f64::from).collect();
    assert!(!close(
        sketch(&values).quantile(0.5) * 1.03,
        exact(&values, 0.5),
        RELATIVE_ERROR
    ));
}

#[test]
fn odd_values_do_no_harm() {
    let sketch = sketch(&[f64::NAN, -1.0, 0.0, f64::INFINITY, 1.0]);
    assert_eq!(sketch.count(), 4);
    assert!(close(sketch.quantile(0.25), 0.0, 0.0) && close(sketch.max(), 1e9, 0.0));
    assert!(close(Sketch::new().quantile(0.5), 0.0, 0.0));
}

#[test]
fn students_t_is_that_of_the_tables() {
    for (freedom, expected) in [
        (1, 12.706),
        (4, 2.776),
        (9, 2.262),
        (12, 2.179),
        (13, 2.160),
        (30, 2.042),
        (1000, 1.962),
    ] {
        assert!(
            (student_t(freedom) - expected).abs() < 6e-4,
            "{freedom}: {}",
            student_t(freedom)
        );
    }
}

#[test]
fn pairs_are_compared_by_their_differences() {
    let theirs = [10.0, 20.0, 30.0, 40.0, 50.0];
    let ours = theirs.map(|value| value * 0.9);
    let result = paired(&ours, &theirs).unwrap();
    assert!(close(result.difference.mean, -3.0, 1e-9));
    // The spread of −1 … −5 around −3 is √2.5; over √5 and times 2.7764 that is 1.963.
    assert!(close(result.difference.high, -3.0 + 1.9632, 1e-3));
    assert!(result.is_significant());
    let ratio = result.ratio.unwrap();
    assert!(close(ratio.low, 0.9, 1e-9) && close(ratio.high, 0.9, 1e-9));

    let noisy = paired(&[1.0, 3.0, 2.0], &[2.0, 2.0, 2.0]).unwrap();
    assert!(!noisy.is_significant());
    assert!(paired(&[1.0], &[1.0]).is_none() && paired(&[1.0, 2.0], &[1.0]).is_none());
    assert!(paired(&[0.0, 1.0], &[1.0, 1.0]).unwrap().ratio.is_none());
}

#[test]
fn the_interval_holds_the_truth_as_often_as_it_says() {
    let mut random = fastrand::Rng::with_seed(7);
    let held = (0..2000)
        .filter(|_| {
            let samples: Vec<f64> = (0..5)
                .map(|_| (0..12).map(|_| random.f64()).sum::<f64>() - 6.0)
                .collect();
            let interval = mean_interval(&samples);
            interval.low <= 0.0 && 0.0 <= interval.high
        })
        .count();
    assert!((1860..=1940).contains(&held), "{held} of 2000");
}

#[test]
fn imbalance_is_the_largest_over_the_mean() {
    assert!(close(imbalance(&[1.0, 1.0, 4.0]), 2.0, 1e-12));
    assert!(close(imbalance(&[]), 1.0, 1e-12) && close(imbalance(&[0.0, 0.0]), 1.0, 1e-12));
    let mut series = ShareSeries::new(1);
    series.add(Time::from_millis(95_000), 0, 1.0);
    series.add(Time::from_millis(96_000), 0, 1.0);
    series.add(Time::from_millis(96_000), 1, 1.0);
    assert_eq!((series.width(), series.windows().len()), (Duration::from_secs(2), 49));
}
