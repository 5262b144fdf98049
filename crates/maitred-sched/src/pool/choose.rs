//! The choice among candidates that have passed the filters, and its record. Nothing is booked here.

use fastrand::Rng;
use smallvec::SmallVec;

use crate::ask::Ask;
use crate::columns::slot_number;
use crate::picker::{self, Picker};
use crate::pool::Pool;
use crate::pool::least_cost::Costs;
use crate::pool::pick::Field;
use crate::profile::{Profile, Weighted};
use crate::scorer::{Figures, Scene, Scorer, Subject, clamp_score, rendezvous};
use crate::why::{Explain, MAX_RANKED, PickReason, Ranked, Removals, Why};

/// Buffers that every pick uses again.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    /// The slots of the candidates, in rising order.
    pub(super) candidates: Vec<u32>,
    figures: Figures,
    /// Values of all candidates, scorer by scorer.
    values: Vec<f32>,
    totals: Vec<f32>,
    pub(super) costs: Costs,
}

impl Scratch {
    pub(super) fn reserve(&mut self, endpoints: usize) {
        self.figures.reserve(endpoints);
        self.costs.reserve(endpoints);
        self.candidates.reserve(endpoints.saturating_sub(self.candidates.len()));
        self.totals.reserve(endpoints.saturating_sub(self.totals.len()));
        let values = endpoints * Scorer::COUNT;
        self.values.reserve(values.saturating_sub(self.values.len()));
    }

    /// Scores all candidates; says how many values were no number.
    fn score_all(&mut self, scorers: &[Weighted], scene: &Scene<'_>) -> u64 {
        let count = self.candidates.len();
        self.values.clear();
        self.values.resize(count * scorers.len(), 0.0);
        self.totals.clear();
        self.totals.resize(count, 0.0);
        let mut buffers = Buffers {
            figures: &mut self.figures,
            values: &mut self.values,
            totals: &mut self.totals,
        };
        score(scorers, scene, &self.candidates, &mut buffers)
    }
}

/// The candidate that was chosen, and who was compared with it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choice {
    /// Its place among the candidates.
    pub(super) at: usize,
    pub(super) reason: PickReason,
    /// The place of the other of two.
    against: Option<usize>,
    /// Whether it was chosen by the totals of all candidates, which are there still.
    is_by_total: bool,
}

impl Choice {
    pub(super) const fn new(at: usize, reason: PickReason) -> Self {
        Self {
            at,
            reason,
            against: None,
            is_by_total: false,
        }
    }

    /// One that was chosen by the totals of all candidates.
    pub(super) const fn by_total(at: usize, reason: PickReason) -> Self {
        Self {
            is_by_total: true,
            ..Self::new(at, reason)
        }
    }
}

impl Pool {
    /// Chooses one of the candidates, of which there is at least one.
    pub(super) fn choose(&mut self, subject: Subject, in_panic: bool) -> Choice {
        let is_only_one = self.scratch.candidates.len() == 1;
        let mut choice = if is_only_one {
            Choice::new(0, PickReason::OnlyOne)
        } else {
            self.disturb();
            self.choose_among(subject)
        };
        let chosen = self.scratch.candidates[choice.at] as usize;
        if in_panic {
            choice.reason = PickReason::Panic;
        } else if subject.home == Some(chosen) && !is_only_one {
            choice.reason = PickReason::Session;
        }
        choice
    }

    /// The home of the ask's session, if the profile's choice heeds sessions.
    pub(super) fn home(&self, ask: &Ask<'_>) -> Option<usize> {
        let session = ask.session?;
        let scorers = self.profile.scorers();
        let heeds = |weighted: &Weighted| weighted.scorer == Scorer::SessionAffinity && weighted.weight > 0.0;
        let is_heeded = self.profile.picker() == Picker::LeastCost
            || (self.profile.picker().uses_scores() && scorers.iter().any(heeds));
        is_heeded
            .then(|| rendezvous(session, &self.columns, &self.scratch.candidates))
            .flatten()
    }

    fn choose_among(&mut self, subject: Subject) -> Choice {
        let count = self.scratch.candidates.len();
        match self.profile.picker() {
            Picker::Random => Choice::new(picker::any(count, &mut self.rng), PickReason::Chance),
            Picker::RoundRobin => {
                let at = picker::next_in_turn(&self.scratch.candidates, self.turn);
                self.turn = self.scratch.candidates[at];
                Choice::new(at, PickReason::Turn)
            }
            Picker::WeightedRandom => {
                self.score_all(subject);
                let at = picker::weighted(&self.scratch.totals, &mut self.rng);
                Choice::by_total(at, PickReason::Scored)
            }
            Picker::MaxScore => {
                self.score_all(subject);
                let (scratch, work) = (&self.scratch, &self.columns.work);
                let effort = |place: usize| work[scratch.candidates[place] as usize];
                let at = picker::highest(&scratch.totals, effort, &mut self.rng);
                Choice::by_total(at, PickReason::Scored)
            }
            Picker::PowerOfTwo => self.better_of_two(subject),
            Picker::LeastCost => self.cheapest(subject),
        }
    }

    fn score_all(&mut self, subject: Subject) {
        let columns = &self.columns;
        let scene = Scene { columns, subject };
        self.counters.odd_scores += self.scratch.score_all(self.profile.scorers(), &scene);
    }

    fn better_of_two(&mut self, subject: Subject) -> Choice {
        let columns = &self.columns;
        let scene = Scene { columns, subject };
        let count = self.scratch.candidates.len();
        let first = match preferred(&self.profile, &scene, &mut self.scratch, &mut self.rng) {
            Some(place) => place,
            None => picker::any(count, &mut self.rng),
        };
        let second = picker::other(first, count, &mut self.rng);
        let pair = [self.scratch.candidates[first], self.scratch.candidates[second]];
        let scorers = self.profile.scorers();
        let (mut values, mut totals) = ([0.0; 2 * Scorer::COUNT], [0.0; 2]);
        let mut buffers = Buffers {
            figures: &mut self.scratch.figures,
            values: &mut values[..2 * scorers.len()],
            totals: &mut totals,
        };
        self.counters.odd_scores += score(scorers, &scene, &pair, &mut buffers);
        let effort = |place: usize| columns.work[pair[place] as usize];
        let (at, other) = match picker::highest(&totals, effort, &mut self.rng) {
            0 => (first, second),
            _ => (second, first),
        };
        Choice {
            against: Some(other),
            ..Choice::new(at, PickReason::TwoChoices)
        }
    }

    /// Writes down the choice. The values are computed again for those that the record describes, which is cheaper than
    /// keeping them for all in every pick. All candidates are scored for the record alone only where they are few.
    pub(super) fn record(&mut self, explain: Explain, field: &Field, subject: Subject, choice: Choice) -> Why {
        let mut places: SmallVec<[usize; MAX_RANKED]> = SmallVec::new();
        places.push(choice.at);
        places.extend(choice.against);
        let by_cost = self.profile.picker() == Picker::LeastCost;
        let mut has_totals = choice.is_by_total;
        if explain == Explain::Full && !has_totals && self.scratch.candidates.len() <= MAX_RANKED {
            has_totals = true;
            if by_cost {
                self.cost_all(subject);
            } else {
                self.score_all(subject);
            }
        }
        if explain == Explain::Full && has_totals {
            if by_cost {
                add_best(&self.scratch.costs.totals, |cost| -cost, &mut places);
            } else {
                add_best(&self.scratch.totals, f64::from, &mut places);
            }
        }
        let mut why = Why {
            picker: self.profile.picker(),
            reason: choice.reason,
            endpoints: field.endpoints,
            candidates: slot_number(self.scratch.candidates.len()),
            removed: field.removed,
            removals: Removals::new(),
            price: None,
            scorers: SmallVec::from_slice(self.profile.scorers()),
            ranked: SmallVec::new(),
        };
        self.rank(&places, subject, &mut why);
        if by_cost && has_totals {
            why.price = Some(self.scratch.costs.prices.usual());
            for (place, ranked) in places.iter().zip(&mut why.ranked) {
                ranked.cost = Some(self.terms(*place, subject));
            }
        }
        why
    }

    fn rank(&mut self, places: &[usize], subject: Subject, why: &mut Why) {
        let columns = &self.columns;
        let scene = Scene { columns, subject };
        let scorers = self.profile.scorers();
        let mut slots: SmallVec<[u32; MAX_RANKED]> = SmallVec::new();
        slots.extend(places.iter().map(|place| self.scratch.candidates[*place]));
        let count = slots.len();
        let (mut values, mut totals) = ([0.0; MAX_RANKED * Scorer::COUNT], [0.0; MAX_RANKED]);
        let mut buffers = Buffers {
            figures: &mut self.scratch.figures,
            values: &mut values[..count * scorers.len()],
            totals: &mut totals[..count],
        };
        self.counters.odd_scores += score(scorers, &scene, &slots, &mut buffers);
        for (place, slot) in slots.iter().enumerate() {
            let mut row = [0.0; Scorer::COUNT];
            for (value, column) in row.iter_mut().zip(values.chunks_exact(count)) {
                *value = column[place];
            }
            let at = *slot as usize;
            let sums = (totals[place], columns.matched[at]);
            why.ranked.push(Ranked::new(columns.id(at), sums, row));
        }
    }
}

/// The candidate that affinity prefers for this ask, any of them if several; `None` when no affinity applies.
fn preferred(profile: &Profile, scene: &Scene<'_>, scratch: &mut Scratch, rng: &mut Rng) -> Option<usize> {
    let scorers = profile.scorers().iter().copied();
    let affinities: SmallVec<[Weighted; Scorer::COUNT]> = scorers
        .filter(|weighted| weighted.scorer.is_affinity() && weighted.scorer.applies(&scene.subject))
        .collect();
    if affinities.is_empty() {
        return None;
    }
    // Affinities have no odd values to count.
    scratch.score_all(&affinities, scene);
    Some(picker::highest(&scratch.totals, |_| 0, rng))
}

/// Where scores are written.
struct Buffers<'a> {
    figures: &'a mut Figures,
    /// Scorer by scorer.
    values: &'a mut [f32],
    totals: &'a mut [f32],
}

/// Scores `candidates`; says how many values were no number.
fn score(scorers: &[Weighted], scene: &Scene<'_>, candidates: &[u32], buffers: &mut Buffers<'_>) -> u64 {
    buffers.figures.read(scene, candidates);
    let columns = buffers.values.chunks_exact_mut(candidates.len());
    let mut not_numbers = 0;
    let heard = scorers.iter().zip(columns);
    for (weighted, column) in heard.filter(|(weighted, _)| weighted.scorer.applies(&scene.subject)) {
        weighted.scorer.fill(scene, buffers.figures, candidates, column);
        for (value, total) in column.iter_mut().zip(buffers.totals.iter_mut()) {
            *value = clamp_score(*value, &mut not_numbers);
            *total += weighted.weight * *value;
        }
    }
    u64::from(not_numbers)
}

/// Appends the places of those worth most that are not there yet, best first, until the record is full.
fn add_best<T: Copy>(totals: &[T], worth: impl Fn(T) -> f64, places: &mut SmallVec<[usize; MAX_RANKED]>) {
    let room = MAX_RANKED - places.len();
    let mut best: SmallVec<[(f64, usize); MAX_RANKED + 1]> = SmallVec::new();
    for (at, total) in totals.iter().enumerate() {
        let worth = worth(*total);
        let is_beyond = best.len() == room && best.last().is_none_or(|(last, _)| worth <= *last);
        if is_beyond || places.contains(&at) {
            continue;
        }
        let before = best.partition_point(|(other, _)| other.total_cmp(&worth).is_ge());
        best.insert(before, (worth, at));
        best.truncate(room);
    }
    places.extend(best.iter().map(|(_, at)| *at));
}
