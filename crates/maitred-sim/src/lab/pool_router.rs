//! The scheduler that serves, as a router: the very code of [`Pool`], fed as the gateway's shell feeds it.

use maitred_sched::{
    Answer, Ask, EndpointOptions, LoraSignal, Picked, Pool, PoolOptions, Profile, Proofs, ReadinessReport,
    ShareMessage, SignalSet, Signals,
};
use maitred_types::{EndpointId, LeaseEnd, LeaseId, ModelName, Time, TokenCount, Usage, UsageSource};

use super::call::LabCall;
use super::fleet::{EndpointFacts, EndpointIndex, FleetView};
use super::record::CallEnd;
use super::router::{AdapterBits, CallReport, PageReading, Placement, Released, Router};
use crate::kv::KeyMap;
use crate::lora::{AdapterIndex, MAX_ADAPTERS};

/// One gateway with one pool.
#[derive(Debug)]
pub struct PoolRouter {
    name: String,
    pool: Pool,
    /// The endpoints' present lives, in the order of the fleet.
    ids: Vec<EndpointId>,
    leases: KeyMap<u64, LeaseId>,
    /// The calls that wait, by their tickets.
    tickets: KeyMap<u64, u64>,
    adapters: Vec<ModelName>,
}

impl PoolRouter {
    /// A pool of these endpoints, all of them ready, that chooses by `profile`.
    #[must_use]
    pub fn new(name: &str, facts: &[EndpointFacts], (options, profile): (PoolOptions, Profile), seed: u64) -> Self {
        let endpoints = u32::try_from(facts.len()).unwrap_or(u32::MAX);
        let options = PoolOptions {
            max_endpoints: options.max_endpoints.max(endpoints),
            ..options
        };
        let mut pool = Pool::new(options, profile, seed);
        let mut ids = Vec::with_capacity(facts.len());
        for (index, facts) in facts.iter().enumerate() {
            let options = EndpointOptions {
                block_size: Some(facts.block_size),
                blocks: Some(facts.blocks),
                reports: REPORTS,
                ..EndpointOptions::default()
            };
            // There is room for all of them.
            if let Ok(id) = pool.add(format!("endpoint-{index}:8000").into(), options, Time::ZERO) {
                pool.set_readiness(id, ReadinessReport::Healthy(Proofs::ALL), Time::ZERO);
                ids.push(id);
            }
        }
        Self {
            name: name.to_owned(),
            pool,
            ids,
            leases: KeyMap::default(),
            tickets: KeyMap::default(),
            adapters: (0..MAX_ADAPTERS).map(adapter_name).collect(),
        }
    }

    /// The pool, for what it counts.
    #[must_use]
    pub const fn pool(&self) -> &Pool {
        &self.pool
    }

    /// What is asked for a call without an adapter.
    #[must_use]
    pub fn ask(call: &LabCall) -> Ask<'_> {
        Ask {
            session: call.session,
            input_tokens: call.input,
            output_tokens: call.max_output.unwrap_or(EXPECTED_OUTPUT),
            output_limit: call.max_output,
            length_key: Some(call.tenant.into()),
            tenant: call.tenant.into(),
            class: CLASSES.get(usize::from(call.class)).copied(),
            chain: Some(&call.chain),
            ..Ask::default()
        }
    }

    /// Notes the booking of a call.
    fn go(&mut self, number: u64, picked: &Picked) -> Placement {
        self.leases.insert(number, picked.lease);
        let Some(endpoint) = self.place(picked.endpoint) else {
            return Placement::Shed;
        };
        let why = &picked.why;
        // Without a price nothing may have been looked up, and then nothing held is no prediction.
        let chosen = why.ranked().first();
        let chosen = chosen.filter(|chosen| why.price.is_some() || chosen.matched > 0.0);
        Placement::Go {
            endpoint,
            predicted_cached: chosen.map(|chosen| whole_tokens(chosen.matched)),
        }
    }

    fn place(&self, endpoint: EndpointId) -> Option<EndpointIndex> {
        // Endpoints never leave, so slots are handed out in the order of the fleet.
        let index = endpoint.slot.index();
        self.ids.get(index)?;
        u32::try_from(index).ok().map(EndpointIndex::new)
    }

    fn names(&self, bits: u64) -> Vec<ModelName> {
        let used = (0..self.adapters.len()).filter(|index| bits >> index & 1 == 1);
        used.map(|index| self.adapters[index].clone()).collect()
    }

    fn lora(&self, bits: AdapterBits) -> LoraSignal {
        LoraSignal {
            max: bits.max,
            running: self.names(bits.running),
            waiting: self.names(bits.waiting),
        }
    }

    /// Nobody fetches the events, and none of them needs an answer here: restarts are told, not guessed.
    fn drop_events(&mut self) {
        while self.pool.poll_event().is_some() {}
    }
}

const REPORTS: SignalSet = SignalSet::QUEUED
    .union(SignalSet::RUNNING)
    .union(SignalSet::KV)
    .union(SignalSet::BLOCKS)
    .union(SignalSet::PROGRESS);

/// What the laboratory calls the adapter at `index`.
#[must_use]
pub fn adapter_name(index: usize) -> ModelName {
    format!("adapter-{index}").into()
}

impl Router for PoolRouter {
    fn name(&self) -> &str {
        &self.name
    }

    fn arrive(&mut self, call: &LabCall, now: Time, _: &FleetView<'_>) -> Placement {
        let adapter = call.adapter.map(AdapterIndex::get);
        let ask = Ask {
            adapter: adapter
                .and_then(|index| self.adapters.get(index))
                .map(ModelName::as_str),
            ..Self::ask(call)
        };
        match self.pool.ask(&ask, now) {
            Answer::Go(picked) => self.go(call.number, &picked),
            Answer::Wait(ticket) => {
                self.tickets.insert(ticket.get(), call.number);
                Placement::Wait
            }
            Answer::Shed(_) => Placement::Shed,
        }
    }

    fn released(&mut self, now: Time, _: &FleetView<'_>, out: &mut Vec<Released>) {
        self.pool.advance(now);
        while let Some(released) = self.pool.released(now) {
            let Some(number) = self.tickets.remove(&released.ticket.get()) else {
                continue;
            };
            let placement = released
                .outcome
                .map_or(Placement::Shed, |picked| self.go(number, &picked));
            out.push(Released { number, placement });
        }
    }

    fn next_wakeup(&self) -> Option<Time> {
        self.pool.next_wakeup()
    }

    fn first_token(&mut self, call: &LabCall, _: EndpointIndex, now: Time) {
        if let Some(lease) = self.leases.get(&call.number) {
            self.pool.first_token(*lease, now);
        }
    }

    fn finished(&mut self, call: &LabCall, _: EndpointIndex, report: &CallReport, now: Time) {
        let Some(lease) = self.leases.remove(&call.number) else {
            return;
        };
        let usage = Usage {
            input: call.input,
            cached_input: report.cached,
            output: report.output,
            reasoning: None,
            source: UsageSource::Reported,
        };
        let (end, usage) = match report.end {
            CallEnd::Answered => (LeaseEnd::Success, Some(&usage)),
            // The endpoint did its work: it refused what it cannot do.
            CallEnd::Refused | CallEnd::Shed => (LeaseEnd::Success, None),
            CallEnd::Lost | CallEnd::Unfinished => (LeaseEnd::Failure, None),
        };
        self.pool.finish(lease, end, usage, now);
        self.drop_events();
    }

    fn page(&mut self, endpoint: EndpointIndex, page: &PageReading, now: Time) {
        let Some(id) = self.ids.get(endpoint.get()).copied() else {
            return;
        };
        let signals = Signals {
            queued: page.queued,
            running: page.running,
            kv_used: Some(page.kv_used),
            block_size: Some(page.block_size),
            blocks: Some(page.blocks),
            lora: page.adapters.map(|bits| self.lora(bits)),
            progress: Some(page.progress),
        };
        self.pool.observe(id, &signals, page.asked_at, now);
        self.drop_events();
    }

    fn share(&mut self, now: Time) -> Option<Vec<u8>> {
        Some(self.pool.share(now).to_bytes())
    }

    fn hear(&mut self, from: u32, message: &[u8], now: Time) {
        // What this very program wrote can be read.
        if let Ok(message) = ShareMessage::read(message) {
            self.pool.hear(from.into(), &message, now);
        }
    }

    fn restarted(&mut self, endpoint: EndpointIndex, now: Time) {
        let Some(id) = self.ids.get_mut(endpoint.get()) else {
            return;
        };
        if let Some(next) = self.pool.restart(*id, now) {
            *id = next;
            self.pool
                .set_readiness(next, ReadinessReport::Healthy(Proofs::ALL), now);
        }
        self.drop_events();
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "never negative, and a float cast saturates"
)]
fn whole_tokens(tokens: f32) -> TokenCount {
    TokenCount::new(tokens as u32)
}

/// The names of the scheduler's classes, highest first.
const CLASSES: [&str; 3] = ["high", "normal", "low"];

/// What is expected of a call that sets no limit.
const EXPECTED_OUTPUT: TokenCount = TokenCount::new(256);
