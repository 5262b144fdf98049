//! The pick: gather candidates, narrow them, choose one, book it.

use maitred_types::{EndpointId, LeaseId, Time};
use smallvec::SmallVec;

use crate::ask::{Ask, AttemptKind, Picked, Refusal};
use crate::columns::{Gate, Phase, Trial, slot_number};
use crate::filter::{Filter, Removed};
use crate::hash::name_hash;
use crate::lease::Lease;
use crate::picker::{self, Picker};
use crate::pool::Pool;
use crate::pool::sabotage::Sabotage;
use crate::profile::{Profile, Weighted};
use crate::scorer::{Scene, Scorer, clamp_score, rendezvous};
use crate::why::{Explain, MAX_RANKED, PickReason, Ranked, Why};

/// Buffers that every pick uses again.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    candidates: Vec<u32>,
    /// Values of all candidates, scorer by scorer.
    values: Vec<f32>,
    totals: Vec<f32>,
}

impl Scratch {
    pub(super) fn reserve(&mut self, endpoints: usize) {
        for (buffer, needed) in [
            (&mut self.values, endpoints * Scorer::COUNT),
            (&mut self.totals, endpoints),
        ] {
            buffer.reserve(needed.saturating_sub(buffer.len()));
        }
        self.candidates.reserve(endpoints.saturating_sub(self.candidates.len()));
    }
}

/// What the filters left.
#[derive(Clone, Copy, Debug, Default)]
struct Field {
    removed: Removed,
    /// Endpoints of the pool.
    endpoints: u32,
    /// Of these, ready ones.
    ready: u32,
    /// Of these, ones that the call has not tried.
    untried: u32,
    in_panic: bool,
}

/// The candidate that was chosen, and who was compared with it.
#[derive(Clone, Copy, Debug)]
struct Choice {
    /// Its place among the candidates.
    at: usize,
    reason: PickReason,
    /// The place of the other of two.
    against: Option<usize>,
}

impl Pool {
    /// Chooses an endpoint and books a lease on it. The lease must be finished exactly once.
    ///
    /// # Errors
    ///
    /// A [`Refusal`] that says why nothing was booked; nothing is held then.
    pub fn pick(&mut self, ask: &Ask<'_>, now: Time) -> Result<Picked, Refusal> {
        let now = self.tick(now);
        self.counters.asks += 1;
        let picked = self.try_pick(ask, now);
        match &picked {
            Ok(_) => self.counters.booked += 1,
            Err(_) => self.counters.refused += 1,
        }
        picked
    }

    fn try_pick(&mut self, ask: &Ask<'_>, now: Time) -> Result<Picked, Refusal> {
        let retry_after = self.options.retry_after;
        if ask.attempt == AttemptKind::Retry && !self.may_retry() {
            return Err(Refusal::RetryBudget { retry_after });
        }
        let full = Refusal::Saturated {
            retry_after,
            removed: Removed::default(),
        };
        if self.leases.len() >= self.max_leases() {
            return Err(full);
        }
        let mut field = self.gather(ask);
        let bound = self.pinned(ask);
        if bound.is_none() {
            self.narrow(ask, &mut field);
        }
        if self.scratch.candidates.is_empty() {
            return Err(self.refusal(&field));
        }
        let choice = bound.unwrap_or_else(|| self.choose(ask, &field));
        let why = self.explain(ask, &field, choice);
        let at = self.scratch.candidates[choice.at] as usize;
        self.check_booking(at, ask, &field);
        let lease = self.book(at, ask, now).ok_or(full)?;
        Ok(Picked {
            lease,
            endpoint: self.columns.id(at),
            address: self.columns.endpoints[at].address.clone(),
            why,
        })
    }

    /// Whether the retry budget has a place. It is taken by the pick of a [`AttemptKind::Retry`] and held until that lease
    /// ends, so there is nothing to give back by hand.
    #[must_use]
    pub fn may_retry(&self) -> bool {
        self.retries.allows(self.leases.len(), &self.options.retry)
    }

    /// Asks the hard filters. In panic, that is when all that is left is ejected, ejection is not asked.
    fn gather(&mut self, ask: &Ask<'_>) -> Field {
        let mut field = self.gather_with(ask, Panic::No);
        let ejected = field.removed.by(Filter::NotEjected);
        if ejected > 0 && ejected == field.untried {
            field = self.gather_with(ask, Panic::Yes);
            field.in_panic = true;
        }
        field
    }

    fn gather_with(&mut self, ask: &Ask<'_>, panic: Panic) -> Field {
        let freshness = self.freshness();
        let (skip_hard, skip_caps) = (
            self.is_sabotaged(Sabotage::SkipHardFilters),
            self.is_sabotaged(Sabotage::SkipCaps),
        );
        let candidates = &mut self.scratch.candidates;
        candidates.clear();
        let mut field = Field::default();
        for (at, gate) in (0_u32..).zip(&self.columns.gates) {
            if gate.phase == Phase::Gone {
                continue;
            }
            field.endpoints += 1;
            if gate.phase != Phase::Ready && !skip_hard {
                field.removed.add(Filter::Ready, 1);
                continue;
            }
            field.ready += 1;
            if is_excluded(ask, at, gate) && !skip_hard {
                field.removed.add(Filter::NotExcluded, 1);
                continue;
            }
            field.untried += 1;
            if panic == Panic::No && gate.is_ejected(freshness.now) {
                field.removed.add(Filter::NotEjected, 1);
                continue;
            }
            match gate.full(&freshness) {
                Some(Filter::BelowCap) if skip_caps => candidates.push(at),
                Some(filter) => field.removed.add(filter, 1),
                None => candidates.push(at),
            }
        }
        field
    }

    /// The endpoint that the connection is bound to, if it passed the hard filters.
    fn pinned(&self, ask: &Ask<'_>) -> Option<Choice> {
        let at = slot_number(self.columns.find(ask.pinned?)?);
        let place = self.scratch.candidates.binary_search(&at).ok()?;
        Some(Choice {
            at: place,
            reason: PickReason::Pinned,
            against: None,
        })
    }

    /// Asks the soft filter that is always on, and then those of the profile.
    fn narrow(&mut self, ask: &Ask<'_>, field: &mut Field) {
        let freshness = self.freshness();
        let scene = Scene {
            columns: &self.columns,
            freshness,
            adapter: ask.adapter.map(name_hash),
            home: None,
        };
        for filter in std::iter::once(&Filter::NotCooling).chain(self.profile.filters()) {
            let candidates = &mut self.scratch.candidates;
            if filter.is_soft() && !candidates.iter().any(|at| filter.passes(&scene, *at as usize)) {
                continue;
            }
            let before = candidates.len();
            candidates.retain(|at| filter.passes(&scene, *at as usize));
            field.removed.add(*filter, slot_number(before - candidates.len()));
        }
    }

    fn refusal(&self, field: &Field) -> Refusal {
        let removed = field.removed;
        if field.ready == 0 {
            Refusal::NotReady { removed }
        } else if field.untried == 0 {
            Refusal::AllExcluded { removed }
        } else {
            let retry_after = self.options.retry_after;
            Refusal::Saturated { retry_after, removed }
        }
    }

    fn choose(&mut self, ask: &Ask<'_>, field: &Field) -> Choice {
        let count = self.scratch.candidates.len();
        if count == 1 {
            let reason = if field.in_panic {
                PickReason::Panic
            } else {
                PickReason::OnlyOne
            };
            return Choice {
                at: 0,
                reason,
                against: None,
            };
        }
        self.disturb();
        let home = self.home(ask);
        let mut choice = self.choose_among(ask, home);
        if field.in_panic {
            choice.reason = PickReason::Panic;
        } else if home == Some(self.scratch.candidates[choice.at] as usize) {
            choice.reason = PickReason::Session;
        }
        choice
    }

    /// The home of the ask's session, if the profile's choice heeds sessions.
    fn home(&self, ask: &Ask<'_>) -> Option<usize> {
        let scorers = self.profile.scorers();
        let heeds = scorers
            .iter()
            .any(|weighted| weighted.scorer == Scorer::SessionAffinity && weighted.weight > 0.0);
        let session = ask.session.filter(|_| heeds && self.profile.picker().uses_scores())?;
        rendezvous(session, &self.columns, &self.scratch.candidates)
    }

    fn choose_among(&mut self, ask: &Ask<'_>, home: Option<usize>) -> Choice {
        let count = self.scratch.candidates.len();
        let (at, reason, against) = match self.profile.picker() {
            Picker::Random => (picker::any(count, &mut self.rng), PickReason::Chance, None),
            Picker::RoundRobin => {
                let at = picker::next_in_turn(&self.scratch.candidates, self.turn);
                self.turn = self.scratch.candidates[at];
                (at, PickReason::Turn, None)
            }
            Picker::WeightedRandom => {
                self.score_all(ask, home);
                let at = picker::weighted(&self.scratch.totals, &mut self.rng);
                (at, PickReason::Scored, None)
            }
            Picker::MaxScore => {
                self.score_all(ask, home);
                let (scratch, work) = (&self.scratch, &self.columns.work);
                let effort = |place: usize| work[scratch.candidates[place] as usize];
                let at = picker::highest(&scratch.totals, effort, &mut self.rng);
                (at, PickReason::Scored, None)
            }
            Picker::PowerOfTwo => {
                let (better, other) = self.better_of_two(ask, home);
                (better, PickReason::TwoChoices, Some(other))
            }
        };
        Choice { at, reason, against }
    }

    fn better_of_two(&mut self, ask: &Ask<'_>, home: Option<usize>) -> (usize, usize) {
        let scene = Scene {
            columns: &self.columns,
            freshness: self.freshness(),
            adapter: ask.adapter.map(name_hash),
            home,
        };
        let scratch = &mut self.scratch;
        let count = scratch.candidates.len();
        let first = match preferred(&self.profile, &scene, scratch, &mut self.rng) {
            Some(place) => place,
            None => picker::any(count, &mut self.rng),
        };
        let second = picker::other(first, count, &mut self.rng);
        let pair = [scratch.candidates[first], scratch.candidates[second]];
        let (mut values, mut totals) = ([0.0; 2 * Scorer::COUNT], [0.0; 2]);
        let scorers = self.profile.scorers();
        let used = &mut values[..2 * scorers.len()];
        score(
            scorers,
            &scene,
            &pair,
            (used, &mut totals),
            &mut self.counters.odd_scores,
        );
        let effort = |place: usize| self.columns.work[pair[place] as usize];
        match picker::highest(&totals, effort, &mut self.rng) {
            0 => (first, second),
            _ => (second, first),
        }
    }

    /// Fills the buffers with the values and totals of all candidates.
    fn score_all(&mut self, ask: &Ask<'_>, home: Option<usize>) {
        let scene = Scene {
            columns: &self.columns,
            freshness: self.freshness(),
            adapter: ask.adapter.map(name_hash),
            home,
        };
        let scratch = &mut self.scratch;
        let (count, scorers) = (scratch.candidates.len(), self.profile.scorers());
        scratch.values.clear();
        scratch.values.resize(count * scorers.len(), 0.0);
        scratch.totals.clear();
        scratch.totals.resize(count, 0.0);
        let buffers = (&mut scratch.values[..], &mut scratch.totals[..]);
        score(
            scorers,
            &scene,
            &scratch.candidates,
            buffers,
            &mut self.counters.odd_scores,
        );
    }

    /// Writes down the choice. The values are computed again for those that the record describes, which is cheaper than
    /// keeping them for all in every pick.
    fn explain(&mut self, ask: &Ask<'_>, field: &Field, choice: Choice) -> Why {
        let mut why = Why {
            picker: self.profile.picker(),
            reason: choice.reason,
            endpoints: field.endpoints,
            candidates: slot_number(self.scratch.candidates.len()),
            removed: field.removed,
            scorers: SmallVec::new(),
            ranked: SmallVec::new(),
        };
        let mut places: SmallVec<[usize; MAX_RANKED]> = SmallVec::new();
        places.push(choice.at);
        places.extend(choice.against);
        if ask.explain == Explain::Full {
            let home = self.home(ask);
            self.score_all(ask, home);
            best_others(&self.scratch.totals, &mut places);
        }
        self.describe(ask, &places, &mut why);
        why
    }

    fn describe(&mut self, ask: &Ask<'_>, places: &[usize], why: &mut Why) {
        let home = self.home(ask);
        let scene = Scene {
            columns: &self.columns,
            freshness: self.freshness(),
            adapter: ask.adapter.map(name_hash),
            home,
        };
        let mut slots: SmallVec<[u32; MAX_RANKED]> = SmallVec::new();
        slots.extend(places.iter().map(|place| self.scratch.candidates[*place]));
        let scorers = self.profile.scorers();
        let (mut values, mut totals) = ([0.0; MAX_RANKED * Scorer::COUNT], [0.0; MAX_RANKED]);
        let used = (&mut values[..slots.len() * scorers.len()], &mut totals[..slots.len()]);
        score(scorers, &scene, &slots, used, &mut self.counters.odd_scores);
        why.scorers.extend_from_slice(scorers);
        for (place, slot) in slots.iter().enumerate() {
            let mut row = [0.0; Scorer::COUNT];
            for (value, column) in row.iter_mut().zip(values.chunks_exact(slots.len())) {
                *value = column[place];
            }
            let endpoint = self.columns.id(*slot as usize);
            why.ranked.push(Ranked::new(endpoint, totals[place], row));
        }
    }

    fn book(&mut self, at: usize, ask: &Ask<'_>, now: Time) -> Option<LeaseId> {
        let endpoint = self.columns.id(at);
        let mut lease = Lease::new(endpoint, now, ask.input_tokens);
        let gate = &mut self.columns.gates[at];
        lease.adapter = ask.adapter.map(name_hash);
        lease.retry = ask.attempt == AttemptKind::Retry;
        lease.trial = gate.trial == Trial::Open;
        self.columns.loads[at].booked(&mut lease, ask.output_tokens);
        let row = &mut self.columns.endpoints[at];
        let id = self.leases.insert(lease, &mut row.leases)?;
        if lease.trial {
            gate.trial = Trial::Taken;
        }
        if gate.in_flight == 0 {
            row.present_since = now;
        }
        gate.in_flight += 1;
        row.tally.picks += 1;
        row.recent.add_one(now);
        self.columns.work[at] += u64::from(ask.input_tokens.get()) + 1;
        if let Some(adapter) = lease.adapter {
            self.columns.adapters[at].book(adapter);
        }
        if lease.retry {
            self.retries.take();
        }
        Some(id)
    }

    /// Looks at the hard filters once more, for the one that is about to be booked. Costs a few nanoseconds and makes a
    /// mistake in the selection visible instead of silent.
    fn check_booking(&mut self, at: usize, ask: &Ask<'_>, field: &Field) {
        let (gate, freshness) = (&self.columns.gates[at], self.freshness());
        let broken = if gate.phase != Phase::Ready {
            Some(Filter::Ready)
        } else if is_excluded(ask, slot_number(at), gate) {
            Some(Filter::NotExcluded)
        } else if gate.is_ejected(freshness.now) && !field.in_panic {
            Some(Filter::NotEjected)
        } else {
            gate.full(&freshness)
        };
        if let Some(filter) = broken {
            self.note_breach(filter, self.columns.id(at));
        }
    }
}

/// Whether ejection is ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Panic {
    No,
    Yes,
}

fn is_excluded(ask: &Ask<'_>, at: u32, gate: &Gate) -> bool {
    let is_it = |id: &EndpointId| id.slot.index() == at as usize && id.incarnation == gate.incarnation;
    !ask.excluded.is_empty() && ask.excluded.iter().any(is_it)
}

/// The candidate that affinity prefers for this ask, any of them if several; `None` when there is no preference.
fn preferred(profile: &Profile, scene: &Scene<'_>, scratch: &mut Scratch, rng: &mut fastrand::Rng) -> Option<usize> {
    let count = scratch.candidates.len();
    let affinities: SmallVec<[Weighted; 2]> = profile
        .scorers()
        .iter()
        .filter(|weighted| weighted.scorer.is_affinity_for(scene))
        .copied()
        .collect();
    if affinities.is_empty() {
        return None;
    }
    scratch.values.clear();
    scratch.values.resize(count * affinities.len(), 0.0);
    scratch.totals.clear();
    scratch.totals.resize(count, 0.0);
    let buffers = (&mut scratch.values[..], &mut scratch.totals[..]);
    // What is odd here is counted when the pair is scored.
    score(&affinities, scene, &scratch.candidates, buffers, &mut 0);
    Some(picker::highest(&scratch.totals, |_| 0, rng))
}

/// Fills `values`, scorer by scorer, and `totals` for `candidates`.
fn score(
    scorers: &[Weighted],
    scene: &Scene<'_>,
    candidates: &[u32],
    (values, totals): (&mut [f32], &mut [f32]),
    odd: &mut u64,
) {
    let columns = values.chunks_exact_mut(candidates.len());
    for (weighted, column) in scorers.iter().zip(columns) {
        weighted.scorer.fill(scene, candidates, column);
        for (value, total) in column.iter_mut().zip(totals.iter_mut()) {
            *value = clamp_score(*value, odd);
            *total += weighted.weight * *value;
        }
    }
}

/// Appends the places of the highest totals that are not there yet, best first, until the record is full.
fn best_others(totals: &[f32], places: &mut SmallVec<[usize; MAX_RANKED]>) {
    while places.len() < MAX_RANKED.min(totals.len()) {
        let others = totals.iter().enumerate().filter(|(at, _)| !places.contains(at));
        match others.max_by(|a, b| a.1.total_cmp(b.1)) {
            Some((at, _)) => places.push(at),
            None => return,
        }
    }
}
