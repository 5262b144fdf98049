//! A bar for runs that take long, on a terminal only.

use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use maitred_runtime::Clock;
use maitred_types::Time;

/// Calls between two looks at the clock.
const STRIDE: u64 = 2048;
/// Time between two drawings.
const PAUSE: Duration = Duration::from_millis(100);
const WIDTH: u64 = 40;

/// How far something has got, counted in calls.
#[derive(Debug)]
pub(super) struct Progress {
    what: &'static str,
    total: Option<u64>,
    count: AtomicU64,
    clock: Clock,
    began: Time,
    /// When the bar was last drawn.
    drawn: AtomicU64,
    is_shown: bool,
}

impl Progress {
    /// Begins at nothing. Without a total only the count is shown.
    pub(super) fn new(what: &'static str, total: Option<u64>) -> Self {
        let clock = Clock::start();
        Self {
            what,
            total,
            count: AtomicU64::new(0),
            began: clock.now(),
            drawn: AtomicU64::new(0),
            clock,
            is_shown: std::io::stderr().is_terminal(),
        }
    }

    /// One call more.
    pub(super) fn count(&self) {
        let count = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        if self.is_shown && count.is_multiple_of(STRIDE) {
            self.draw(count);
        }
    }

    fn draw(&self, count: u64) {
        let now = self.clock.now();
        let drawn = self.drawn.load(Ordering::Relaxed);
        let is_due = now.since(Time::from_nanos(drawn)) >= PAUSE;
        let mine = self
            .drawn
            .compare_exchange(drawn, now.as_nanos(), Ordering::Relaxed, Ordering::Relaxed);
        if !is_due || mine.is_err() {
            return;
        }
        let seconds = now.since(self.began).as_secs_f64().max(1e-3);
        let speed = count as f64 / seconds;
        let line = match self.total.filter(|total| *total > 0) {
            Some(total) => {
                let full = count.min(total) * WIDTH / total;
                let bar: String = (0..WIDTH).map(|at| if at < full { '█' } else { '░' }).collect();
                let left = total.saturating_sub(count) as f64 / speed;
                format!(
                    "{} {bar} {count}/{total} calls, {speed:.0}/s, {left:.0} s left",
                    self.what
                )
            }
            None => format!("{}: {count} calls, {speed:.0}/s", self.what),
        };
        self.show(&line);
    }

    /// Takes the bar away; how long it all took.
    pub(super) fn end(&self) -> Duration {
        if self.is_shown {
            self.show("");
        }
        self.clock.now().since(self.began)
    }

    fn show(&self, line: &str) {
        // A terminal that cannot be written to shows no bar; that is all.
        let mut terminal = std::io::stderr().lock();
        if write!(terminal, "\r\x1b[K{line}").is_ok() {
            _ = terminal.flush().is_ok();
        }
    }
}
