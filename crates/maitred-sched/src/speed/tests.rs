use fastrand::Rng;

use super::*;
use crate::pace::SpeedPrior;

/// An endpoint of a known pace, seen through noise.
struct Truth {
    pace: Pace,
    rng: Rng,
}

impl Truth {
    fn first_token(&mut self) -> FirstToken {
        let input = 200.0 + 12_000.0 * self.rng.f64() * self.rng.f64();
        let own = Work::of(input, input * 0.5 * self.rng.f64());
        let ahead = if self.rng.bool() {
            Work::of(20_000.0 * self.rng.f64(), 0.0)
        } else {
            Work::NONE
        };
        let noise = 0.95 + 0.1 * self.rng.f64();
        // One in ten waited for somebody whom nobody saw.
        let unseen = if self.rng.u32(..10) == 0 { 0.5 } else { 0.0 };
        FirstToken {
            own,
            before: Before::Work(ahead),
            seconds: (self.pace.fixed + self.pace.seconds(ahead.plus(own))) * noise + unseen,
        }
    }

    fn token_time(&mut self) -> TokenTime {
        let (batch, context) = (1.0 + self.rng.f64() * 100.0, 4e5 * self.rng.f64());
        let each = self.pace.step + self.pace.sequence * batch + self.pace.context * context;
        let output = self.rng.u32(10..500);
        TokenTime {
            output,
            seconds: f64::from(output - 1) * each * (0.95 + 0.1 * self.rng.f64()),
            batch,
            context,
        }
    }
}

fn scaled(pace: Pace, factor: f64) -> Pace {
    Pace {
        fixed: pace.fixed,
        token: pace.token * factor,
        attention: pace.attention * factor,
        step: pace.step * factor,
        sequence: pace.sequence * factor,
        context: pace.context * factor,
    }
}

fn learn(prior: Pace, truth: Pace, samples: u32) -> Speed {
    let mut speed = Speed::new(prior);
    let mut truth = Truth {
        pace: truth,
        rng: Rng::with_seed(1),
    };
    for _ in 0..samples {
        speed.learn_first_token(&truth.first_token());
        speed.learn_token_time(&truth.token_time());
    }
    speed
}

fn is_near(seen: f64, expected: f64, share: f64) -> bool {
    (seen / expected - 1.0).abs() < share
}

#[test]
fn priors_that_are_three_times_off_are_overcome() {
    let truth = SpeedPrior::H100With8b.pace();
    for factor in [1.0 / 3.0, 1.0, 3.0] {
        let pace = learn(scaled(truth, factor), truth, 100).pace();
        let work = Work::of(8_000.0, 2_000.0);
        assert!(
            is_near(pace.seconds(work), truth.seconds(work), 0.08),
            "{factor}: {pace:?}"
        );
        assert!(is_near(pace.token, truth.token, 0.15), "{factor}: {pace:?}");
        let step = |pace: &Pace| pace.step + 50.0 * pace.sequence + 1e5 * pace.context;
        assert!(is_near(step(&pace), step(&truth), 0.08), "{factor}: {pace:?}");
        assert!(is_near(pace.fixed, truth.fixed, 0.5), "{factor}: {pace:?}");
    }
}

#[test]
fn another_card_is_recognised() {
    let (prior, truth) = (SpeedPrior::H100With8b.pace(), SpeedPrior::L40sWith14b.pace());
    let pace = learn(prior, truth, 100).pace();
    for work in [Work::of(500.0, 0.0), Work::of(8_000.0, 0.0), Work::of(4_000.0, 8_000.0)] {
        assert!(
            is_near(pace.seconds(work), truth.seconds(work), 0.12),
            "{work:?}: {pace:?}"
        );
    }
}

#[test]
fn what_is_never_seen_stays_with_the_prior() {
    let prior = SpeedPrior::H100With8b.pace();
    let mut speed = Speed::new(prior);
    for _ in 0..10_000 {
        // Always the same prompt, so only its whole time can be learnt.
        let own = Work::of(2_000.0, 0.0);
        speed.learn_first_token(&FirstToken {
            own,
            before: Before::Nobody,
            seconds: 2.0 * (prior.fixed + prior.seconds(own)),
        });
    }
    let pace = speed.pace();
    assert!(
        is_near(pace.token / prior.token, 2.0, 0.5) && is_near(pace.fixed / prior.fixed, 2.0, 0.5),
        "{pace:?}"
    );
    assert!(is_near(speed.factors().0[1], 1.0, 1e-9) && is_near(pace.step / prior.step, speed.slowness(), 1e-9));
}

#[test]
fn odd_samples_leave_it_bounded() {
    let prior = SpeedPrior::H100With8b.pace();
    let mut speed = Speed::new(prior);
    for seconds in [0.0, 1e9, 0.0, f64::MAX] {
        for _ in 0..100 {
            speed.learn_first_token(&FirstToken {
                own: Work::of(0.0, 4e9),
                before: Before::Work(Work::of(4e9, 0.0)),
                seconds,
            });
            speed.learn_token_time(&TokenTime {
                output: 8,
                seconds,
                batch: 1.0,
                context: 0.0,
            });
        }
        let pace = speed.pace();
        let Common([factor, decode, ..]) = speed.factors();
        assert!(pace.seconds(Work::of(1e4, 0.0)).is_finite() && pace.step.is_finite());
        assert!((1.0 / FACTOR_BOUND..=FACTOR_BOUND).contains(&factor), "{factor}");
        assert!((1.0 / FACTOR_BOUND..=FACTOR_BOUND).contains(&decode), "{decode}");
    }
}

#[test]
fn a_change_of_speed_is_followed() {
    let truth = SpeedPrior::H100With8b.pace();
    let mut speed = learn(truth, truth, 500);
    let mut throttled = Truth {
        pace: scaled(truth, 2.0),
        rng: Rng::with_seed(2),
    };
    for _ in 0..300 {
        speed.learn_first_token(&throttled.first_token());
    }
    assert!(is_near(speed.factors().0[0], 2.0, 0.15), "{:?}", speed.factors());
}
