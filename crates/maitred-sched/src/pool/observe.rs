//! Scrapes: a new sample moves the line that dead reckoning starts from.

use maitred_types::{EndpointId, Time};

use crate::event::PoolEvent;
use crate::page::{Figures, PageVerdict, Presence};
use crate::pool::Pool;
use crate::reckoning::{Outside, Sample};
use crate::signals::Signals;

/// What became of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Observed {
    /// It is the endpoint's newest.
    Taken,
    /// It is the endpoint's newest, but the page stands still under load, so the endpoint counts as stale.
    Frozen,
    /// It is older than one that is there. Ignored.
    Old,
    /// A figure that only grows went backwards: the endpoint has restarted. Ignored; call [`Pool::restart`].
    RestartSeen,
    /// There is no such endpoint, or it lives another life. Ignored.
    Unknown,
}

impl Pool {
    /// Takes one reading of an endpoint's page. `sampled_at` is when the request for the page was sent.
    pub fn observe(&mut self, id: EndpointId, signals: &Signals, sampled_at: Time, now: Time) -> Observed {
        let now = self.tick(now);
        let Some(at) = self.columns.find(id) else {
            self.counters.late_reports += 1;
            return Observed::Unknown;
        };
        let sampled_at = sampled_at.min(now);
        if self.columns.gates[at]
            .sampled_at
            .is_some_and(|newest| sampled_at < newest)
        {
            self.counters.old_samples += 1;
            return Observed::Old;
        }
        self.counters.odd_samples += u64::from(signals.is_odd());
        let verdict = self.watch_page(at, signals, sampled_at);
        if verdict == PageVerdict::Restarted {
            self.say_restarted(at);
            return Observed::RestartSeen;
        }
        // A page that did not move is no news of others.
        self.take_sample(at, signals, sampled_at, verdict == PageVerdict::Moving);
        self.note_change_at(at);
        let frozen = verdict == PageVerdict::Frozen;
        if self.columns.gates[at].frozen != frozen {
            self.columns.gates[at].frozen = frozen;
            self.events.push(if frozen {
                PoolEvent::Frozen { endpoint: id }
            } else {
                PoolEvent::Thawed { endpoint: id }
            });
        }
        if frozen { Observed::Frozen } else { Observed::Taken }
    }

    /// Counts a scrape that gave no figures. The endpoint's newest sample grows older, and that is all.
    pub fn scrape_failed(&mut self, id: EndpointId, now: Time) {
        self.tick(now);
        match self.columns.find(id) {
            Some(at) => {
                self.columns.endpoints[at].tally.failed_scrapes += 1;
                self.note_change_at(at);
            }
            None => self.counters.late_reports += 1,
        }
    }

    fn watch_page(&mut self, at: usize, signals: &Signals, sampled_at: Time) -> PageVerdict {
        let endpoint = &mut self.columns.endpoints[at];
        let presence = Presence {
            in_flight: self.columns.gates[at].in_flight,
            decoding: self.columns.loads[at].decoding,
            since: endpoint.present_since,
        };
        let figures = Figures {
            queued: signals.queued,
            running: signals.running,
            kv_bits: signals.kv_checked().map(f64::to_bits),
            progress: signals.progress,
        };
        endpoint
            .watch
            .read(figures, &presence, sampled_at, self.options.staleness.frozen_after)
    }

    fn say_restarted(&mut self, at: usize) {
        let endpoint = self.columns.id(at);
        if !self.columns.endpoints[at].restart_seen {
            self.columns.endpoints[at].restart_seen = true;
            self.events.push(PoolEvent::RestartSeen { endpoint });
        }
    }

    fn take_sample(&mut self, at: usize, signals: &Signals, sampled_at: Time, is_news: bool) {
        let endpoint = &mut self.columns.endpoints[at];
        let cut = sampled_at.saturating_sub(self.options.reckoning.sample_lag);
        let outside = Outside::of(&mut self.leases, endpoint.leases, &mut endpoint.marks, sampled_at, cut);
        let sample = Sample {
            queued: signals.queued,
            running: signals.running,
            kv_used: signals.kv_checked(),
        };
        let pool = endpoint.kv_pool(Some(signals));
        self.prefixes.size(at, pool.block_size, pool.blocks);
        let load = &mut self.columns.loads[at];
        load.set_pool(pool);
        load.take(sample, &outside, sampled_at, self.now);
        self.columns.gates[at].sampled_at = Some(sampled_at);
        let gate = &self.columns.gates[at];
        let told = self.columns.heard[at].sequences();
        let excess = outside.excess(signals.queued.saturating_add(signals.running), told, gate.in_flight);
        if is_news {
            let memory = self.options.reckoning.memory;
            load.others.learn(excess, (memory, self.fleet.hold), sampled_at);
        }
        let waiting = gate.in_flight.saturating_sub(load.decoding);
        let foreign = f64::from(signals.queued.saturating_sub(outside.own_waiting(waiting)));
        let foreign = foreign.min(load.others.now(sampled_at));
        let work = self.fleet.mean_work.times(foreign);
        let seconds = self.columns.paces[at].seconds(work);
        self.columns.backlogs[at].see_foreign(seconds, sampled_at);
        let last = endpoint.reported.as_ref();
        if last.is_none_or(|last| last.lora != signals.lora) {
            self.columns.adapters[at].take(signals.lora.as_ref());
        }
        if last != Some(signals) {
            endpoint.reported = Some(signals.clone());
        }
    }
}
