use proptest::prelude::*;

use super::*;

const ALLOWANCE: Allowance = Allowance {
    ratio: 0.05,
    window: Duration::from_secs(180),
};

/// Plays calls at ten a second, each refused at first with the probability that `refused` gives for its second; a share of these is
/// helped by another endpoint, the others are degraded. Gives the changes of state with their seconds.
fn play(seconds: u64, refused: impl Fn(u64) -> f64, helped: f64) -> (Objective, Vec<(u64, State)>) {
    let mut objective = Objective::new(ALLOWANCE, Time::ZERO);
    let mut changes = Vec::new();
    let mut owed = [0.0; 2];
    for tenth in 0..seconds * 10 {
        let (second, now) = (tenth / 10, Time::from_millis(tenth * 100));
        owed[0] += refused(second);
        let is_refused = owed[0] >= 1.0;
        let mut is_degraded = false;
        let mut note = |change: Option<State>| changes.extend(change.map(|state| (second, state)));
        note(objective.attempted(is_refused, now));
        if is_refused {
            owed[0] -= 1.0;
            owed[1] += helped;
            if owed[1] >= 1.0 {
                owed[1] -= 1.0;
                note(objective.attempted(false, now));
            } else {
                is_degraded = true;
            }
        }
        let served = match (is_degraded, objective.state()) {
            (false, _) => Served::Full,
            (true, State::Breach) => Served::Withheld,
            (true, _) => Served::Degraded,
        };
        let mut note = |change: Option<State>| changes.extend(change.map(|state| (second, state)));
        note(objective.served(served, now));
    }
    (objective, changes)
}

#[test]
fn a_bad_day_is_warned_of_and_is_a_breach_within_the_window() {
    // In order for ten minutes; then 429 rises to 27 % within five, and other endpoints help half of it.
    let rise = |second: u64| match second {
        0..600 => 0.002,
        #[expect(clippy::cast_precision_loss, reason = "a few hundred")]
        600..900 => 0.002 + (second - 600) as f64 / 300.0 * 0.27,
        900..1500 => 0.272,
        _ => 0.0,
    };
    let (objective, changes) = play(2100, rise, 0.5);
    let first = |wanted: State| changes.iter().find(|(_, state)| *state == wanted).map(|(at, _)| *at);
    let (warned, breached) = (first(State::Warning).unwrap(), first(State::Breach).unwrap());
    assert!((600..690).contains(&warned), "{changes:?}");
    assert!(breached > warned + 20 && breached < 900, "{changes:?}");
    // It ends by itself, within a window of the cause's end, and once.
    let over = changes.iter().rfind(|(_, state)| *state == State::Calm).unwrap().0;
    assert!((1500..1700).contains(&over), "{changes:?}");
    assert_eq!(changes.iter().filter(|(_, state)| *state == State::Breach).count(), 1);
    assert_eq!(objective.state(), State::Calm);
}

#[test]
fn a_sudden_one_is_a_breach_in_a_fifth_of_the_window() {
    let (_, changes) = play(1200, |second| if second < 600 { 0.0 } else { 0.27 }, 0.0);
    let breach = changes.iter().find(|(_, state)| *state == State::Breach).unwrap();
    assert!((600..640).contains(&breach.0), "{changes:?}");
    assert!(
        changes[0].1 == State::Warning && changes[0].0 <= breach.0,
        "{changes:?}"
    );
}

#[test]
fn what_is_within_the_objective_is_no_news() {
    assert_eq!(play(3600, |_| 0.04, 0.0).1, []);
    // What is closed does not open because it is closed.
    let (_, changes) = play(3600, |_| 0.5, 0.0);
    assert_eq!(changes.last().unwrap().1, State::Breach, "{changes:?}");
}

#[test]
fn a_few_calls_say_nothing() {
    let mut objective = Objective::new(ALLOWANCE, Time::ZERO);
    for second in 0..LEAST_CALLS - 1 {
        assert_eq!(
            objective.served(Served::Degraded, Time::from_millis(second * 1000)),
            None
        );
    }
    let breach = objective.served(Served::Degraded, Time::from_millis(30_000));
    assert_eq!(breach, Some(State::Breach));
    assert_eq!(objective.advance(Time::from_millis(210_000)), Some(State::Calm));
    assert_eq!(objective.figures().calls, 0);
}

proptest! {
    /// Whatever comes in whatever order, the window holds what came within it.
    #[test]
    fn the_window_holds_what_came_within_it(
        events in proptest::collection::vec((0..400_u64, any::<bool>(), any::<bool>()), 1..300)
    ) {
        let mut objective = Objective::new(ALLOWANCE, Time::ZERO);
        let mut now = 0;
        let mut all = Vec::new();
        for (pause, is_degraded, is_call) in events {
            now += pause * 50;
            let at = Time::from_millis(now);
            if is_call {
                let served = if is_degraded { Served::Degraded } else { Served::Full };
                objective.served(served, at);
                all.push((now, is_degraded));
            } else {
                objective.attempted(is_degraded, at);
            }
            let figures = objective.figures();
            let step = 180_000 / STEPS as u64;
            let since = |time: u64| (now / step).saturating_sub(time / step) < STEPS as u64;
            let within: Vec<_> = all.iter().filter(|(time, _)| since(*time)).collect();
            prop_assert_eq!(figures.calls, within.len() as u64);
            prop_assert_eq!(figures.degraded, within.iter().filter(|(_, degraded)| *degraded).count() as u64);
            prop_assert!((0.0..=1.0).contains(&figures.ratio) && (0.0..=1.0).contains(&figures.refused_ratio));
        }
    }
}
