//! When things begin: a Poisson process whose rate may change with time.

use std::time::Duration;

use fastrand::Rng;
use maitred_types::Time;

/// How the rate changes. The mean over a whole period is the given rate in each case.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Shape {
    /// Not at all.
    #[default]
    Steady,
    /// In each period, a burst.
    Bursts {
        /// From the beginning of one burst to that of the next.
        every: Duration,
        /// How long it lasts.
        length: Duration,
        /// How many times the rate outside it is the rate inside.
        factor: f64,
    },
    /// As a sine, such as day and night.
    Waves {
        /// From crest to crest.
        period: Duration,
        /// How far the rate goes from the mean, as a fraction of it: 0 to 1.
        depth: f64,
    },
}

impl Shape {
    /// The rate at `at`, as a multiple of the mean.
    fn factor(&self, at: f64) -> f64 {
        match self {
            Self::Steady => 1.0,
            Self::Bursts { every, length, factor } => {
                let (every, length) = (every.as_secs_f64(), length.as_secs_f64());
                let inside = at % every < length;
                self.calm() * if inside { *factor } else { 1.0 }
            }
            Self::Waves { period, depth } => 1.0 + depth * (std::f64::consts::TAU * at / period.as_secs_f64()).sin(),
        }
    }

    /// The rate outside bursts.
    fn calm(&self) -> f64 {
        match self {
            Self::Bursts { every, length, factor } => {
                let share = (length.as_secs_f64() / every.as_secs_f64()).min(1.0);
                1.0 / (1.0 + (factor - 1.0) * share)
            }
            Self::Steady | Self::Waves { .. } => 1.0,
        }
    }

    /// The highest multiple.
    fn peak(&self) -> f64 {
        match self {
            Self::Steady => 1.0,
            Self::Bursts { factor, .. } => self.calm() * factor.max(1.0),
            Self::Waves { depth, .. } => 1.0 + depth,
        }
    }
}

/// An endless sequence of times.
#[derive(Clone, Debug)]
pub struct Arrivals {
    rate: f64,
    shape: Shape,
    rng: Rng,
    at: f64,
}

impl Arrivals {
    /// `rate` times a second on average. A rate that is no positive number never begins anything.
    #[must_use]
    pub fn new(rate: f64, shape: Shape, seed: u64) -> Self {
        Self {
            rate,
            shape,
            rng: Rng::with_seed(seed),
            at: 0.0,
        }
    }
}

impl Iterator for Arrivals {
    type Item = Time;

    fn next(&mut self) -> Option<Time> {
        let peak = self.shape.peak();
        if !(self.rate > 0.0 && self.rate.is_finite() && peak.is_finite()) {
            return None;
        }
        // Thinning (Lewis, Shedler, 1979): draw at the highest rate, keep as many as the rate of the moment asks for.
        loop {
            self.at -= (1.0 - self.rng.f64()).ln() / (self.rate * peak);
            if self.rng.f64() * peak <= self.shape.factor(self.at) {
                let at = Duration::try_from_secs_f64(self.at).ok()?;
                return Some(Time::ZERO + at);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shape_keeps_the_mean_rate() {
        let shapes = [
            Shape::Steady,
            Shape::Bursts {
                every: Duration::from_secs(20),
                length: Duration::from_secs(2),
                factor: 8.0,
            },
            Shape::Waves {
                period: Duration::from_secs(100),
                depth: 0.9,
            },
        ];
        for shape in shapes {
            let end = Time::from_millis(2_000_000);
            let arrivals = Arrivals::new(10.0, shape, 3).take_while(|at| *at < end);
            let times: Vec<Time> = arrivals.collect();
            assert!(times.is_sorted());
            let rate = times.len() as f64 / 2_000.0;
            assert!((rate - 10.0).abs() < 0.3, "{shape:?}: {rate}");
        }
        let burst = shapes[1];
        let early = Arrivals::new(10.0, burst, 3)
            .take_while(|at| *at < Time::from_millis(2_000))
            .count();
        assert!(early > 60, "{early} in a burst of two seconds");
        assert_eq!(Arrivals::new(f64::NAN, Shape::Steady, 1).next(), None);
        assert_eq!(Arrivals::new(0.0, Shape::Steady, 1).next(), None);
    }
}
