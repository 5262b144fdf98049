//! Checks of `profiles`.

use std::collections::BTreeMap;

use maitred_sched::{Filter, Picker, Profile, Scorer, SignalSet, Weighted};

use super::Checker;
use crate::path::Path;
use crate::raw;

/// The profiles that pools may name: the built-in ones, and those of the file.
pub(super) struct Profiles {
    known: BTreeMap<String, Known>,
}

struct Known {
    profile: Profile,
    is_written: bool,
}

impl Profiles {
    fn built_in() -> Self {
        let known = raw::built_in_profiles().into_iter().map(|(name, profile)| {
            let known = Known {
                profile,
                is_written: false,
            };
            (name.to_owned(), known)
        });
        Self { known: known.collect() }
    }

    /// Their names, in order.
    pub(super) fn names(&self) -> Vec<&str> {
        self.known.keys().map(String::as_str).collect()
    }

    /// The profile of that name; the default one if there is none, which is reported elsewhere.
    pub(super) fn get(&self, name: &str) -> Profile {
        self.known
            .get(name)
            .map_or_else(Profile::default, |known| known.profile.clone())
    }

    /// The signals that the profile of that name reads, if the file wrote it. The built-in ones suit every engine.
    pub(super) fn written_reads(&self, name: &str) -> Option<SignalSet> {
        let known = self.known.get(name)?;
        known.is_written.then(|| known.profile.reads())
    }
}

impl Checker<'_> {
    pub(super) fn profiles(&mut self, written: &[raw::Profile]) -> Profiles {
        let top = Path::top("profiles");
        let names = written.iter().enumerate();
        self.unique(
            "profile name",
            names.map(|(index, profile)| (profile.name.as_str(), top.index(index).key("name"))),
        );
        let mut profiles = Profiles::built_in();
        for (index, raw) in written.iter().enumerate() {
            let profile = self.profile(raw, &top.index(index));
            let name = raw.name.as_str();
            let is_built_in = profiles.known.get(name).is_some_and(|known| known.profile == profile);
            let known = Known {
                profile,
                is_written: !is_built_in,
            };
            profiles.known.insert(name.to_owned(), known);
        }
        profiles
    }

    fn profile(&mut self, raw: &raw::Profile, path: &Path) -> Profile {
        let picker = raw.picker.0;
        let scorers = self.scorers(raw, path);
        let filters = self.filters(raw, path);
        self.scores(picker, &scorers, path);
        // Whatever `build` would refuse has been reported above, with its place.
        Profile::build(&filters, &scorers, &[picker]).unwrap_or_default()
    }

    fn scorers(&mut self, raw: &raw::Profile, path: &Path) -> Vec<Weighted> {
        let at = path.key("scorers");
        let names = raw.scorers.iter().enumerate();
        self.unique(
            "scorer",
            names.map(|(index, scorer)| (scorer.name.0.name(), at.index(index).key("name"))),
        );
        let weighted = raw.scorers.iter().map(|scorer| Weighted {
            scorer: scorer.name.0,
            #[expect(clippy::cast_possible_truncation, reason = "weights are small and need few digits")]
            weight: scorer.weight as f32,
        });
        weighted.collect()
    }

    /// The picker and the scorers fit together.
    fn scores(&mut self, picker: Picker, scorers: &[Weighted], path: &Path) {
        let counts = scorers.iter().any(|weighted| weighted.weight > 0.0);
        if picker.uses_scores() && !counts {
            let known: Vec<_> = Scorer::ALL.iter().map(|scorer| scorer.name()).collect();
            self.error(
                &path.key("picker"),
                format!(
                    "the picker `{}` goes by scores, and no scorer has a weight above 0",
                    picker.name()
                ),
                format!("add to `scorers` one or more of {}", known.join(", ")),
            );
        }
        if !picker.uses_scores() && counts {
            self.warn(
                &path.key("picker"),
                format!(
                    "the picker `{}` does not look at scores, so the scorers do nothing",
                    picker.name()
                ),
                "remove the scorers, or use the picker `max-score`",
            );
        }
    }

    fn filters(&mut self, raw: &raw::Profile, path: &Path) -> Vec<Filter> {
        let at = path.key("filters");
        let names = raw.filters.iter().enumerate();
        self.unique(
            "filter",
            names.map(|(index, filter)| (filter.name.0.name(), at.index(index).key("name"))),
        );
        let mut filters = Vec::new();
        for (index, used) in raw.filters.iter().enumerate() {
            match with_limit(used.name.0, used.max) {
                Ok(filter) => filters.push(filter),
                Err(reason) => {
                    let message = format!("this limit does not suit the filter `{}`", used.name.0.name());
                    self.error(&at.index(index).key("max"), message, reason);
                }
            }
        }
        filters
    }
}

/// The filter with the limit that the file gives it.
fn with_limit(filter: Filter, max: Option<f64>) -> Result<Filter, &'static str> {
    let Some(max) = max else { return Ok(filter) };
    match filter {
        Filter::LowQueue { .. } => match count(max) {
            Some(max) if max > 0 => Ok(Filter::LowQueue { max }),
            _ => Err("it is a whole number of waiting requests, at least 1"),
        },
        Filter::KvHeadroom { .. } if max > 0.0 && max <= 1.0 => Ok(Filter::KvHeadroom { max }),
        Filter::KvHeadroom { .. } => Err("it is a share of the KV cache, above 0 and at most 1"),
        Filter::Ready
        | Filter::NotExcluded
        | Filter::NotEjected
        | Filter::BelowCap
        | Filter::Fresh
        | Filter::NotCooling
        | Filter::HasRoom
        | Filter::LoraCapacity => Err("this filter has no limit; remove `max`"),
    }
}

/// `number` as a count, if it is one.
fn count(number: f64) -> Option<u32> {
    let in_range = (0.0..=f64::from(u32::MAX)).contains(&number) && number.fract() == 0.0;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the range was checked"
    )]
    in_range.then_some(number as u32)
}
