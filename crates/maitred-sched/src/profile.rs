//! Profiles: any number of filters, any number of weighted scorers, exactly one picker.

use std::fmt;

use smallvec::SmallVec;

use crate::filter::Filter;
use crate::picker::Picker;
use crate::scorer::Scorer;
use crate::signals::SignalSet;

/// A scorer and how much it counts in a profile.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weighted {
    /// What is valued.
    pub scorer: Scorer,
    /// How much it counts; not below zero.
    pub weight: f32,
}

/// How a pool chooses. Made only by [`Profile::build`], so every profile there is makes sense.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    filters: SmallVec<[Filter; 4]>,
    scorers: SmallVec<[Weighted; Scorer::COUNT]>,
    picker: Picker,
}

/// Why a profile makes no sense.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ProfileError {
    /// It has no picker.
    NoPicker,
    /// It has more than one picker; the place is that of the second in the list.
    SeveralPickers {
        /// How many.
        count: usize,
    },
    /// Its picker reads scores and nothing gives any.
    NothingToScore {
        /// Which.
        picker: Picker,
    },
    /// A scorer is named twice.
    ScorerTwice {
        /// Which.
        scorer: Scorer,
    },
    /// An optional filter is named twice.
    FilterTwice {
        /// Which, as it is named for the second time.
        filter: Filter,
    },
    /// A weight is below zero or no number.
    BadWeight {
        /// Whose.
        scorer: Scorer,
        /// As given.
        weight: f32,
    },
    /// A limit is below zero or no number, or one that no endpoint can be below.
    BadLimit {
        /// Whose.
        filter: Filter,
    },
}

impl fmt::Display for ProfileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPicker => write!(f, "the profile has no picker; it needs exactly one of {Pickers}"),
            Self::SeveralPickers { count } => write!(f, "the profile has {count} pickers; it needs exactly one"),
            Self::NothingToScore { picker } => {
                write!(
                    f,
                    "picker `{}` reads scores, but the profile has no scorer",
                    picker.name()
                )
            }
            Self::ScorerTwice { scorer } => write!(f, "scorer `{}` is named twice", scorer.name()),
            Self::FilterTwice { filter } => write!(f, "filter `{}` is named twice", filter.name()),
            Self::BadWeight { scorer, weight } => {
                write!(
                    f,
                    "the weight of `{}` is {weight}; it must be a number of 0 or more",
                    scorer.name()
                )
            }
            Self::BadLimit { filter } => {
                write!(
                    f,
                    "the limit of `{}` lets no endpoint pass; it must be above 0",
                    filter.name()
                )
            }
        }
    }
}

impl std::error::Error for ProfileError {}

/// Prints the names of all pickers.
struct Pickers;

impl fmt::Display for Pickers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, picker) in Picker::ALL.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{}", picker.name())?;
        }
        Ok(())
    }
}

impl Profile {
    /// A profile of `filters` beyond the built-in ones, `scorers` and one picker.
    ///
    /// Naming a built-in filter is allowed and changes nothing.
    ///
    /// # Errors
    ///
    /// The first thing that makes no sense, in the order of the arguments but the pickers first.
    pub fn build(filters: &[Filter], scorers: &[Weighted], pickers: &[Picker]) -> Result<Self, ProfileError> {
        let picker = match pickers {
            [] => return Err(ProfileError::NoPicker),
            [picker] => *picker,
            [..] => return Err(ProfileError::SeveralPickers { count: pickers.len() }),
        };
        let filters = checked_filters(filters)?;
        let scorers = checked_scorers(scorers)?;
        if picker.uses_scores() && scorers.is_empty() {
            return Err(ProfileError::NothingToScore { picker });
        }
        Ok(Self {
            filters,
            scorers,
            picker,
        })
    }

    /// The textbook policy: draw two, take the one with fewer active requests (Mitzenmacher's two choices).
    #[must_use]
    pub fn least_request() -> Self {
        Self::of(&[(Scorer::LeastRequest, 1.0)], Picker::PowerOfTwo)
    }

    /// In turn, whatever the load.
    #[must_use]
    pub fn round_robin() -> Self {
        Self::of(&[], Picker::RoundRobin)
    }

    /// The lowest cost in seconds; see [`Picker::LeastCost`].
    #[must_use]
    pub fn least_cost() -> Self {
        Self::of(&[], Picker::LeastCost)
    }

    fn of(scorers: &[(Scorer, f32)], picker: Picker) -> Self {
        let weighted = scorers.iter().map(|(scorer, weight)| Weighted {
            scorer: *scorer,
            weight: *weight,
        });
        Self {
            filters: SmallVec::new(),
            scorers: weighted.collect(),
            picker,
        }
    }

    /// Filters beyond the built-in ones, in order.
    #[must_use]
    pub fn filters(&self) -> &[Filter] {
        &self.filters
    }

    /// Scorers with their weights, in order.
    #[must_use]
    pub fn scorers(&self) -> &[Weighted] {
        &self.scorers
    }

    /// The picker.
    #[must_use]
    pub const fn picker(&self) -> Picker {
        self.picker
    }

    /// The signals that filters and scorers read. What a pool's endpoints do not report is left out of the choice.
    #[must_use]
    pub fn reads(&self) -> SignalSet {
        let filters = self.filters.iter().map(|filter| filter.reads());
        let scorers = self.scorers.iter().map(|weighted| weighted.scorer.reads());
        let picker = std::iter::once(self.picker.reads());
        filters
            .chain(scorers)
            .chain(picker)
            .fold(SignalSet::NONE, SignalSet::union)
    }

    /// Whether it makes use of [`crate::Ask::chain`], so that making one is worth the work.
    #[must_use]
    pub fn reads_chain(&self) -> bool {
        self.picker.reads_chain() || self.scorers.iter().any(|weighted| weighted.scorer.reads_chain())
    }
}

impl Default for Profile {
    /// The lowest cost in seconds, which the laboratory found best over all of its workloads.
    fn default() -> Self {
        Self::least_cost()
    }
}

impl Profile {
    /// Active requests, prefill, queue and KV use together, affinities where a call has any, and the highest total of all: for where
    /// weights are wanted that can be turned by hand.
    #[must_use]
    pub fn scored() -> Self {
        Self::of(
            &[
                (Scorer::LeastRequest, 1.0),
                (Scorer::Prefill, 1.0),
                (Scorer::Queue, 1.0),
                (Scorer::Kv, 1.0),
                (Scorer::LoraAffinity, 1.0),
                (Scorer::SessionAffinity, 0.5),
            ],
            Picker::MaxScore,
        )
    }
}

fn checked_filters(named: &[Filter]) -> Result<SmallVec<[Filter; 4]>, ProfileError> {
    let mut filters = SmallVec::<[Filter; 4]>::new();
    for filter in named {
        let is_possible = match filter {
            Filter::LowQueue { max } => *max > 0,
            Filter::KvHeadroom { max } => *max > 0.0,
            Filter::Ready
            | Filter::NotExcluded
            | Filter::NotEjected
            | Filter::BelowCap
            | Filter::Fresh
            | Filter::NotCooling
            | Filter::HasRoom
            | Filter::LoraCapacity => true,
        };
        if !is_possible {
            return Err(ProfileError::BadLimit { filter: *filter });
        }
        if Filter::BUILT_IN.contains(filter) {
            continue;
        }
        if filters.iter().any(|earlier| earlier.index() == filter.index()) {
            return Err(ProfileError::FilterTwice { filter: *filter });
        }
        filters.push(*filter);
    }
    Ok(filters)
}

fn checked_scorers(named: &[Weighted]) -> Result<SmallVec<[Weighted; Scorer::COUNT]>, ProfileError> {
    let mut scorers = SmallVec::<[Weighted; Scorer::COUNT]>::new();
    for &Weighted { scorer, weight } in named {
        if !weight.is_finite() || weight < 0.0 {
            return Err(ProfileError::BadWeight { scorer, weight });
        }
        if scorers.iter().any(|earlier| earlier.scorer == scorer) {
            return Err(ProfileError::ScorerTwice { scorer });
        }
        scorers.push(Weighted { scorer, weight });
    }
    Ok(scorers)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: Weighted = Weighted {
        scorer: Scorer::LeastRequest,
        weight: 1.0,
    };

    #[test]
    fn a_profile_that_makes_no_sense_is_refused() {
        let check = |filters: &[Filter], scorers: &[Weighted], pickers: &[Picker], words: &str| {
            let error = Profile::build(filters, scorers, pickers).unwrap_err();
            assert!(error.to_string().contains(words), "{error}");
        };
        check(&[], &[LEAST], &[], "no picker; it needs exactly one of power-of-two");
        check(&[], &[LEAST], &[Picker::Random, Picker::MaxScore], "has 2 pickers");
        check(&[], &[LEAST], &[Picker::Random, Picker::Random], "has 2 pickers");
        check(&[], &[], &[Picker::MaxScore], "`max-score` reads scores");
        check(
            &[],
            &[LEAST, LEAST],
            &[Picker::MaxScore],
            "`least-request` is named twice",
        );
        for weight in [-1.0, f32::NAN, f32::INFINITY] {
            let odd = Weighted { weight, ..LEAST };
            check(&[], &[odd], &[Picker::MaxScore], "must be a number of 0 or more");
        }
        let twice = [Filter::LowQueue { max: 5 }, Filter::LowQueue { max: 6 }];
        check(&twice, &[LEAST], &[Picker::MaxScore], "`low-queue` is named twice");
        for none in [
            Filter::LowQueue { max: 0 },
            Filter::KvHeadroom { max: 0.0 },
            Filter::KvHeadroom { max: f64::NAN },
        ] {
            check(&[none], &[LEAST], &[Picker::MaxScore], "lets no endpoint pass");
        }
    }

    #[test]
    fn the_presets_pass_their_own_checks_and_say_what_they_read() {
        let check = |profile: Profile, reads: &str| {
            let again = Profile::build(profile.filters(), profile.scorers(), &[profile.picker()]);
            assert_eq!(again.as_ref(), Ok(&profile));
            assert_eq!(profile.reads().to_string(), reads);
        };
        check(Profile::scored(), "queued, kv_used, blocks, lora");
        assert_eq!(Profile::default(), Profile::least_cost());
        check(Profile::least_request(), "none");
        check(Profile::round_robin(), "none");
        check(Profile::least_cost(), "queued, running, kv_used, blocks, lora");
        let built_in = Profile::build(Filter::BUILT_IN, &[LEAST], &[Picker::PowerOfTwo]);
        assert_eq!(built_in, Ok(Profile::least_request()));
    }
}
