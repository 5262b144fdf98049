//! Who got how much, window by window.

use std::time::Duration;

use maitred_types::Time;

/// Most windows of a series. When more would be needed, neighbours are joined and each window is twice as wide.
pub const WINDOWS_MAX: usize = 96;

/// Amounts per endpoint and window of time.
#[derive(Clone, Debug, PartialEq)]
pub struct ShareSeries {
    endpoints: usize,
    width: Duration,
    /// One row of `endpoints` amounts per window.
    windows: Vec<Vec<f64>>,
}

impl ShareSeries {
    /// Of `endpoints` endpoints, in windows that are one second wide at first.
    #[must_use]
    pub const fn new(endpoints: usize) -> Self {
        Self {
            endpoints,
            width: Duration::from_secs(1),
            windows: Vec::new(),
        }
    }

    /// Counts `amount` for `endpoint` at a time after the start. An endpoint beyond the number given is left out.
    pub fn add(&mut self, at: Time, endpoint: usize, amount: f64) {
        if endpoint >= self.endpoints {
            return;
        }
        let mut window = self.window_of(at);
        while window >= WINDOWS_MAX {
            self.widen();
            window = self.window_of(at);
        }
        if window >= self.windows.len() {
            self.windows.resize_with(window + 1, || vec![0.0; self.endpoints]);
        }
        self.windows[window][endpoint] += amount;
    }

    /// How wide a window is.
    #[must_use]
    pub const fn width(&self) -> Duration {
        self.width
    }

    /// The amounts, one row per window.
    #[must_use]
    pub fn windows(&self) -> &[Vec<f64>] {
        &self.windows
    }

    fn window_of(&self, at: Time) -> usize {
        let windows = at.since(Time::ZERO).as_nanos() / self.width.as_nanos().max(1);
        usize::try_from(windows).unwrap_or(usize::MAX)
    }

    fn widen(&mut self) {
        self.width = self.width.saturating_mul(2);
        let old = std::mem::take(&mut self.windows);
        self.windows = old
            .chunks(2)
            .map(|pair| {
                let mut joined = pair[0].clone();
                if let Some(second) = pair.get(1) {
                    joined.iter_mut().zip(second).for_each(|(sum, amount)| *sum += amount);
                }
                joined
            })
            .collect();
    }
}
