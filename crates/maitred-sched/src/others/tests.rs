use fastrand::Rng;

use super::*;

const MEMORY: Duration = Duration::from_secs(30);
const HOLD: f64 = 5.0;

fn at(millis: u64) -> Time {
    Time::from_millis(millis)
}

/// A page every 50 ms from `from` on, with these excesses.
fn learn(others: &mut Others, from: u64, excesses: impl IntoIterator<Item = f64>) -> u64 {
    let mut now = from;
    for excess in excesses {
        others.learn(excess, (MEMORY, HOLD), at(now));
        now += 50;
    }
    now - 50
}

#[test]
fn a_load_is_believed_at_once_where_pages_were_true() {
    let mut others = Others::default();
    let now = learn(&mut others, 0, [0.0; 600]);
    assert!(others.now(at(now)) < f64::EPSILON);
    let now = learn(&mut others, now + 50, [10.0]);
    assert!((others.now(at(now)) - 10.0).abs() < 0.5, "it comes");
    let now = learn(&mut others, now + 50, (0..600).map(|turn| f64::from(10 + turn % 3)));
    let now = learn(&mut others, now + 50, [0.0]);
    assert!(others.now(at(now)) < 0.5, "it goes");
}

#[test]
fn errors_either_way_are_no_load() {
    let mut rng = Rng::with_seed(7);
    let mut others = Others::default();
    let mut now = learn(&mut others, 0, (0..1_200).map(|_| 20.0 * rng.f64() - 10.0));
    let mut worst: f64 = 0.0;
    for _ in 0..1_200 {
        now = learn(&mut others, now + 50, [20.0 * rng.f64() - 10.0]);
        worst = worst.max(others.now(at(now)));
    }
    assert!(worst < 3.0, "{worst}");
    // A real load on top of them is seen within the memory.
    let now = learn(
        &mut others,
        now + 50,
        (0..1_200).map(|_| 15.0 + 20.0 * rng.f64() - 10.0),
    );
    let seen = others.now(at(now));
    assert!((5.0..25.0).contains(&seen), "{seen}");
}

#[test]
fn pages_that_are_late_without_saying_so_are_no_load() {
    // Own load that swings by ten either way in twelve seconds, on pages of three seconds ago.
    let own = |millis: f64| 30.0 + 10.0 * (millis / 12_000.0 * std::f64::consts::TAU).sin();
    let mut others = Others::default();
    let mut worst: f64 = 0.0;
    for turn in 0_u32..2_400 {
        let millis = f64::from(turn) * 50.0;
        let now = learn(&mut others, u64::from(turn) * 50, [own(millis - 3_000.0) - own(millis)]);
        if turn > 1_200 {
            worst = worst.max(others.now(at(now)));
        }
    }
    assert!(worst < 3.0, "{worst}");
}

#[test]
fn what_a_page_said_falls_back_to_the_mean_as_answers_end() {
    let mut others = Others::default();
    let now = learn(&mut others, 0, (0..2_400).map(|turn| f64::from(4 + 2 * (turn % 2))));
    let now = learn(&mut others, now + 50, [20.0]);
    let mean = 5.0;
    let (fresh, held, old) = (
        others.now(at(now)),
        others.now(at(now + 5_000)),
        others.now(at(now + 500_000)),
    );
    assert!((fresh - 20.0).abs() < 0.5, "{fresh}");
    assert!((held - f64::midpoint(20.0, mean)).abs() < 0.5, "{held}");
    assert!((old - mean).abs() < 0.5, "{old}");
}

#[test]
fn fewer_than_are_known_of_is_never_a_load() {
    let mut others = Others::default();
    let now = learn(&mut others, 0, [-3.0; 100]);
    assert!(others.now(at(now)) < f64::EPSILON);
    assert!(Others::default().now(at(5)) < f64::EPSILON, "nor is nothing");
}
