//! Pages as gateways read them: in turn, perhaps old, noisy or frozen.

use std::collections::VecDeque;
use std::time::Duration;

use fastrand::Rng;
use maitred_types::Time;

use super::plan::{FrozenPage, ScrapePlan};
use super::router::{AdapterBits, PageReading};
use crate::model::EngineModel;

/// One gateway's subscription to one page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    pub(super) gateway: usize,
    pub(super) endpoint: usize,
}

/// Whose page is read when. All pages have the same period, so the order of turns never changes.
#[derive(Debug)]
pub(super) struct Pages {
    plan: ScrapePlan,
    /// Turns with the part of the period after which they come, sorted.
    turns: Vec<(u64, Turn)>,
    next: usize,
    round: u64,
    /// Readings that are not shown yet, oldest first, for each turn; only where pages have an age.
    held: Vec<VecDeque<(Time, PageReading)>>,
    /// The last reading before a freeze, for each turn.
    shown: Vec<PageReading>,
    rng: Rng,
}

/// Most readings that are held back for one page, whatever its age.
const MAX_HELD: usize = 1024;

impl Pages {
    pub(super) fn new(plan: &ScrapePlan, gateways: usize, endpoints: usize, seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let period = nanos(plan.period);
        let mut turns = Vec::new();
        for gateway in 0..gateways {
            for endpoint in 0..endpoints {
                if period > 0 {
                    turns.push((rng.u64(0..period), Turn { gateway, endpoint }));
                }
            }
        }
        turns.sort_by_key(|(phase, _)| *phase);
        Self {
            held: vec![VecDeque::new(); turns.len()],
            shown: vec![PageReading::default(); turns.len()],
            plan: plan.clone(),
            turns,
            next: 0,
            round: 0,
            rng,
        }
    }

    /// When the next page is read.
    pub(super) fn next(&self) -> Time {
        let Some((phase, _)) = self.turns.get(self.next) else {
            return Time::MAX;
        };
        Time::from_nanos(
            self.round
                .saturating_mul(nanos(self.plan.period))
                .saturating_add(*phase),
        )
    }

    /// Whose it is.
    pub(super) fn turn(&self) -> Option<Turn> {
        self.turns.get(self.next).map(|(_, turn)| *turn)
    }

    /// Reads the page whose turn it is. The engine has been brought to `now`. `None` while nothing is old enough to be shown.
    pub(super) fn read(&mut self, engine: &EngineModel, now: Time) -> Option<PageReading> {
        let at = self.next;
        let endpoint = self.turns.get(at)?.1.endpoint;
        self.next += 1;
        if self.next == self.turns.len() {
            (self.next, self.round) = (0, self.round + 1);
        }
        let is_frozen = |page: &FrozenPage| page.endpoint.get() == endpoint && (page.from..page.until).contains(&now);
        if !self.plan.frozen.iter().any(is_frozen) {
            let reading = read(engine);
            self.shown[at] = self.aged(at, reading, now)?;
        }
        let mut reading = self.shown[at].clone();
        if reading.blocks == 0 {
            return None;
        }
        reading.asked_at = now;
        self.blur(&mut reading);
        Some(reading)
    }

    /// The newest reading that is as old as it must be.
    fn aged(&mut self, at: usize, reading: PageReading, now: Time) -> Option<PageReading> {
        if self.plan.age.is_zero() {
            return Some(reading);
        }
        let held = &mut self.held[at];
        if held.len() < MAX_HELD {
            held.push_back((now, reading));
        }
        let shown_until = now.saturating_sub(self.plan.age);
        while held.get(1).is_some_and(|(read, _)| *read <= shown_until) {
            held.pop_front();
        }
        let (read, oldest) = held.front()?;
        (*read <= shown_until).then(|| oldest.clone())
    }

    fn blur(&mut self, reading: &mut PageReading) {
        if self.plan.noise <= 0.0 {
            return;
        }
        let mut factor = || 1.0 + self.plan.noise * (2.0 * self.rng.f64() - 1.0);
        reading.queued = scaled(reading.queued, factor());
        reading.running = scaled(reading.running, factor());
        reading.kv_used = (reading.kv_used * factor()).clamp(0.0, 1.0);
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a float cast saturates, which is wanted here"
)]
fn scaled(count: u32, factor: f64) -> u32 {
    (f64::from(count) * factor).round() as u32
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn read(engine: &EngineModel) -> PageReading {
    let gauges = engine.gauges();
    let counters = &engine.stats().counters;
    PageReading {
        asked_at: Time::ZERO,
        queued: gauges.waiting,
        running: gauges.running,
        kv_used: gauges.kv_usage(),
        block_size: engine.block_size(),
        blocks: engine.blocks(),
        progress: counters.prompt_tokens + counters.generation_tokens,
        adapters: engine
            .adapters_in_use()
            .map(|(max, running, waiting)| AdapterBits { max, running, waiting }),
    }
}
