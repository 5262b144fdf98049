//! Why an endpoint was picked: a compact record that can be read afterwards.

use std::fmt;

use maitred_types::EndpointId;
use smallvec::SmallVec;

use crate::cost::CostTerms;
use crate::filter::{Filter, Removed};
use crate::picker::Picker;
use crate::profile::Weighted;
use crate::row::EndpointState;
use crate::scorer::Scorer;

/// The most candidates that one record describes.
pub const MAX_RANKED: usize = 8;
/// The most removed endpoints that one record names; the counts cover all.
pub const MAX_REMOVALS: usize = 8;

/// What decided a pick.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PickReason {
    /// It had the highest total, or a chance in proportion to its total.
    Scored,
    /// It was the better of two.
    TwoChoices,
    /// It was the only candidate.
    OnlyOne,
    /// Every ready endpoint was ejected, and one of them had to do.
    Panic,
    /// The connection is bound to it.
    Pinned,
    /// It is the home of the session, and its load did not speak against it.
    Session,
    /// It was its turn.
    Turn,
    /// By chance.
    Chance,
    /// It had the lowest cost.
    Cheapest,
}

impl PickReason {
    /// Every reason.
    pub const ALL: &'static [Self] = &[
        Self::Scored,
        Self::TwoChoices,
        Self::OnlyOne,
        Self::Panic,
        Self::Pinned,
        Self::Session,
        Self::Turn,
        Self::Chance,
        Self::Cheapest,
    ];

    /// The word for logs, metrics and records.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Scored => "scored",
            Self::TwoChoices => "two-choices",
            Self::OnlyOne => "only-one",
            Self::Panic => "panic",
            Self::Pinned => "pinned",
            Self::Session => "session",
            Self::Turn => "turn",
            Self::Chance => "chance",
            Self::Cheapest => "cheapest",
        }
    }
}

/// How much a pick should say about itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Explain {
    /// The candidates that were compared at the end: one or two.
    #[default]
    Short,
    /// The best candidates, up to [`MAX_RANKED`], with every value, and the names of removed endpoints, up to
    /// [`MAX_REMOVALS`]. Those that the choice itself did not score are scored only if no more than [`MAX_RANKED`] candidates are
    /// there, so it costs little whatever the pool's size. It changes nothing about the choice.
    Full,
}

/// One candidate and its values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ranked {
    /// Who.
    pub endpoint: EndpointId,
    /// The sum of its weighted values; 0 where nothing was scored.
    pub total: f32,
    /// What it would have cost, where costs decided.
    pub cost: Option<CostTerms>,
    /// Prompt tokens of the call that it is taken to hold in its prefix cache; 0 where that was not looked up.
    pub matched: f32,
    values: [f32; Scorer::COUNT],
}

impl Ranked {
    pub(crate) const fn new(endpoint: EndpointId, (total, matched): (f32, f32), values: [f32; Scorer::COUNT]) -> Self {
        Self {
            endpoint,
            total,
            cost: None,
            matched,
            values,
        }
    }
}

/// An endpoint that a filter removed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Removal {
    /// Who.
    pub endpoint: EndpointId,
    /// The first filter that refused it.
    pub filter: Filter,
    /// Where in its life it was.
    pub state: EndpointState,
}

/// Removed endpoints, in the order of their slots.
pub type Removals = SmallVec<[Removal; 2]>;

/// The record of one pick. Holds everything in place: making one allocates nothing, unless [`Explain::Full`] finds more than
/// two removed endpoints to name.
#[derive(Clone, Debug, PartialEq)]
pub struct Why {
    /// How the choice was made.
    pub picker: Picker,
    /// What decided.
    pub reason: PickReason,
    /// Endpoints of the pool.
    pub endpoints: u32,
    /// Endpoints left after all filters.
    pub candidates: u32,
    /// What each filter removed.
    pub removed: Removed,
    /// Who was removed, for [`Explain::Full`]; at most [`MAX_REMOVALS`] of them.
    pub removals: Removals,
    /// The price of own work at the candidates' mean wait, where costs decided. Each candidate's own is in its terms.
    pub price: Option<f64>,
    pub(crate) scorers: SmallVec<[Weighted; Scorer::COUNT]>,
    pub(crate) ranked: SmallVec<[Ranked; MAX_RANKED]>,
}

impl Why {
    /// The one that was picked first, then the others that were compared, best first.
    #[must_use]
    pub fn ranked(&self) -> &[Ranked] {
        &self.ranked
    }

    /// The profile's scorers, if anything was scored.
    #[must_use]
    pub fn scorers(&self) -> &[Weighted] {
        &self.scorers
    }

    /// The values of one candidate, scorer by scorer, before weighting.
    pub fn values(&self, ranked: &Ranked) -> impl Iterator<Item = (Scorer, f32)> {
        let scorers = self.scorers.iter().map(|weighted| weighted.scorer);
        scorers.zip(ranked.values)
    }
}

impl fmt::Display for Why {
    /// One line: `two-choices: 4 of 6 (not-ejected -1, fresh -1); slot 3 total 1.900 (least-request 0.950, kv 0.950)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (reason, left, all) = (self.reason.label(), self.candidates, self.endpoints);
        write!(f, "{reason}: {left} of {all}")?;
        for (index, (filter, endpoints)) in self.removed.iter().enumerate() {
            let open = if index == 0 { " (" } else { ", " };
            write!(f, "{open}{} -{endpoints}", filter.name())?;
        }
        if self.removed.total() > 0 {
            f.write_str(")")?;
        }
        for ranked in &self.ranked {
            let slot = ranked.endpoint.slot.index();
            write!(f, "; slot {slot} total {:.3}", ranked.total)?;
            if ranked.matched > 0.0 {
                write!(f, " holding {:.0}", ranked.matched)?;
            }
            for (index, (scorer, value)) in self.values(ranked).enumerate() {
                let open = if index == 0 { " (" } else { ", " };
                write!(f, "{open}{} {value:.3}", scorer.name())?;
            }
            if !self.scorers.is_empty() {
                f.write_str(")")?;
            }
        }
        Ok(())
    }
}
