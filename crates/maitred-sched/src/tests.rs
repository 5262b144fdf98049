//! What the crate does, area by area, seen through its public face.

mod consider;
mod costs;
mod health;
mod leases;
mod life;
mod picking;
mod prefixes;
mod reckoning;
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "figures of a toy"
)]
mod shares;
mod sharing;
mod simulation;
mod waiting;

use maitred_types::{EndpointId, LeaseEnd, Time, TokenCount};

use crate::{
    Ask, EndpointOptions, EndpointRow, EndpointState, Picked, Pool, PoolEvent, PoolOptions, Profile, Proofs,
    ReadinessReport, Signals, StalenessPolicy,
};

/// A pool with a clock of its own.
struct Stage {
    pool: Pool,
    now: Time,
    ids: Vec<EndpointId>,
}

impl Stage {
    /// `count` ready endpoints with fresh, idle pages.
    fn ready(count: usize, profile: Profile) -> Self {
        Self::with(count, profile, PoolOptions::default())
    }

    fn with(count: usize, profile: Profile, options: PoolOptions) -> Self {
        let mut stage = Self {
            pool: Pool::new(options, profile, 7),
            now: Time::from_millis(1_000),
            ids: Vec::new(),
        };
        for at in 0..count {
            let id = stage.add(&format!("10.0.0.{at}:8000"));
            stage.ids.push(id);
            stage.prove(id);
        }
        stage.scrape();
        stage.events();
        stage
    }

    fn add(&mut self, address: &str) -> EndpointId {
        self.pool
            .add(address.into(), EndpointOptions::default(), self.now)
            .unwrap()
    }

    fn prove(&mut self, id: EndpointId) {
        self.pool
            .set_readiness(id, ReadinessReport::Healthy(Proofs::ALL), self.now);
    }

    /// Every endpoint's page is read and shows nothing.
    fn scrape(&mut self) {
        for id in self.ids.clone() {
            self.page(id, &Signals::default());
        }
    }

    fn page(&mut self, id: EndpointId, signals: &Signals) {
        self.pool.observe(id, signals, self.now, self.now);
    }

    /// Moves the clock without a scrape.
    fn wait(&mut self, millis: u64) {
        self.now = self.now + std::time::Duration::from_millis(millis);
        self.pool.advance(self.now);
    }

    /// Moves the clock and reads all pages.
    fn wait_scraping(&mut self, millis: u64) {
        self.wait(millis);
        self.scrape();
    }

    fn pick(&mut self) -> Picked {
        self.pick_as(&ask(100)).unwrap()
    }

    fn pick_as(&mut self, ask: &Ask<'_>) -> Result<Picked, crate::Refusal> {
        let picked = self.pool.pick(ask, self.now);
        self.pool.check_invariants().unwrap();
        picked
    }

    fn finish(&mut self, picked: &Picked, end: LeaseEnd) {
        self.pool.finish(picked.lease, end, None, self.now);
        self.pool.check_invariants().unwrap();
    }

    /// Books on the endpoint at `at` alone.
    fn pick_on(&mut self, at: usize) -> Picked {
        let others: Vec<_> = self.ids.iter().copied().filter(|id| *id != self.ids[at]).collect();
        let only = Ask {
            excluded: &others,
            ..ask(100)
        };
        self.pick_as(&only).unwrap()
    }

    /// A call on the endpoint at `at` that ends so.
    fn call_on(&mut self, at: usize, end: LeaseEnd) {
        let picked = self.pick_on(at);
        self.finish(&picked, end);
    }

    fn events(&mut self) -> Vec<PoolEvent> {
        std::iter::from_fn(|| self.pool.poll_event()).collect()
    }

    fn row(&self, id: EndpointId) -> Option<EndpointRow<'_>> {
        self.pool.rows(self.now).find(|row| row.endpoint == id)
    }

    fn state(&self, at: usize) -> EndpointState {
        self.row(self.ids[at]).unwrap().state
    }

    fn place(&self, picked: &Picked) -> usize {
        self.ids.iter().position(|id| *id == picked.endpoint).unwrap()
    }
}

fn ask(input_tokens: u32) -> Ask<'static> {
    Ask {
        model: "tiny",
        input_tokens: TokenCount::new(input_tokens),
        ..Ask::default()
    }
}

fn saturating() -> PoolOptions {
    let mut options = PoolOptions::default();
    options.staleness.policy = StalenessPolicy::Saturated;
    options
}

fn ignoring_age() -> PoolOptions {
    let mut options = PoolOptions::default();
    options.staleness.policy = StalenessPolicy::Ignore;
    options
}

const SECOND: std::time::Duration = std::time::Duration::from_secs(1);
