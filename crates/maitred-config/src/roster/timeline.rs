//! Every change in its order, so that an earlier state can be looked at and brought back.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{Change, ChangeRefusal, Kind, Roster, over};
use crate::settings::Settings;

/// Most bytes of a difference that says everything; a larger one says how many differ of each sort.
const DIFF_MAX: usize = 48 << 10;

/// All changes, oldest first, and the state that they lead to. The number of a change is its version; 0 is before the first.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    changes: Vec<Change>,
    roster: Roster,
}

impl Timeline {
    /// The present state.
    #[must_use]
    pub const fn roster(&self) -> &Roster {
        &self.roster
    }

    /// The number of the newest change.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.changes.len() as u64
    }

    /// The state as it was after the change of that number; `None` if there is none.
    #[must_use]
    pub fn at(&self, version: u64) -> Option<Roster> {
        let prefix = self.changes.get(..usize::try_from(version).ok()?)?;
        // Newest first: what has to be made after the state that an earlier restoration brought back.
        let (mut parts, mut rest) = (Vec::new(), prefix);
        while let Some((index, restored)) = last_restoration(rest) {
            parts.push(rest.get(index + 1..)?);
            // One that names itself or a later one was never made.
            rest = rest.get(..index)?.get(..usize::try_from(restored).ok()?)?;
        }
        parts.push(rest);
        let mut roster = Roster::default();
        for change in parts.into_iter().rev().flatten() {
            roster.apply(change);
        }
        roster.revoked = prefix
            .iter()
            .filter_map(Change::revoked)
            .map(maitred_types::KeyId::from)
            .collect();
        Some(roster)
    }

    /// Whether `change` may be made where `base` is the file.
    ///
    /// # Errors
    /// Says what is against it.
    pub fn check(&self, change: &Change, base: &Settings) -> Result<(), ChangeRefusal> {
        let Some(version) = change.restores() else {
            return self.roster.check(change, base);
        };
        let earlier = self.at(version).filter(|_| version < self.version());
        let earlier = earlier.ok_or_else(|| {
            ChangeRefusal::Unknown(format!(
                "{version} is no earlier version; `maitred changes list` shows them, the newest is {}",
                self.version()
            ))
        })?;
        if self.restored(earlier.clone()) == self.roster {
            let why = format!("everything that can be restored is as it was at version {version}");
            return Err(ChangeRefusal::Conflict(why));
        }
        earlier.fits(&self.roster, base)
    }

    /// What `change` would change, if it were made.
    #[must_use]
    pub fn preview(&self, change: &Change) -> Value {
        let mut after = self.roster.clone();
        match change.restores() {
            None => after.apply(change),
            Some(version) => self
                .at(version)
                .map_or(Value::Null, |earlier| self.roster.difference(&self.restored(earlier))),
        }
    }

    /// Makes `change`, the next one.
    pub fn apply(&mut self, change: Change) {
        match change.restores() {
            None => drop(self.roster.apply(&change)),
            Some(version) => {
                if let Some(earlier) = self.at(version) {
                    self.roster = self.restored(earlier);
                }
            }
        }
        self.changes.push(change);
    }

    /// What was revoked stays so: a key that somebody has revoked may be in the wrong hands.
    fn restored(&self, mut earlier: Roster) -> Roster {
        earlier.revoked.clone_from(&self.roster.revoked);
        earlier
    }
}

impl Change {
    /// Everything is to be as it was after the change of that number, but for keys that were revoked since.
    #[must_use]
    pub const fn restore(version: u64) -> Self {
        Self(Kind::Restore { version })
    }

    const fn restores(&self) -> Option<u64> {
        match self.0 {
            Kind::Restore { version } => Some(version),
            _ => None,
        }
    }
}

fn last_restoration(changes: &[Change]) -> Option<(usize, u64)> {
    let newest_first = changes.iter().enumerate().rev();
    newest_first
        .filter_map(|(index, change)| Some((index, change.restores()?)))
        .next()
}

impl Roster {
    /// Whether what is in this and not in `present` may be where `base` is the file: it may have changed since.
    fn fits(&self, present: &Self, base: &Settings) -> Result<(), ChangeRefusal> {
        for (name, limit) in &self.limits {
            if present.limits.get(name) != Some(limit) {
                over::fits_limit(limit, base)?;
            }
        }
        for (id, key) in &self.keys {
            if present.keys.contains_key(id) {
                continue;
            }
            if base.auth.keys.get(id).is_some() {
                let why = format!("the key `{id}` of that version stands in the file now");
                return Err(ChangeRefusal::Conflict(why));
            }
            over::fits_key(key, base)?;
        }
        Ok(())
    }

    /// What is not the same: before, in this, and after, in `other`.
    fn difference(&self, other: &Self) -> Value {
        let until = |roster: &Self| -> BTreeMap<String, Value> {
            let of = |(id, at): (&maitred_types::KeyId, &maitred_types::UnixMillis)| {
                let at = crate::forms::Moment::new(*at).to_string();
                (id.as_str().to_owned(), at.into())
            };
            roster.until.iter().map(of).collect()
        };
        let keys = |roster: &Self| -> BTreeMap<String, crate::raw::Key> {
            let of = |(id, key): (&maitred_types::KeyId, &crate::raw::Key)| (id.as_str().to_owned(), key.clone());
            roster.keys.iter().map(of).collect()
        };
        let sorts = [
            ("tenants", differing(&self.tenants, &other.tenants)),
            ("keys", differing(&keys(self), &keys(other))),
            ("limits", differing(&self.limits, &other.limits)),
            ("until", differing(&until(self), &until(other))),
        ];
        let diff = json!({ "before": side(&sorts, |(before, _)| before.clone().into()),
                           "after": side(&sorts, |(_, after)| after.clone().into()) });
        if diff.to_string().len() <= DIFF_MAX {
            return diff;
        }
        json!({ "before": side(&sorts, |(before, _)| before.len().into()),
                "after": side(&sorts, |(_, after)| after.len().into()) })
    }
}

type Sides = (Map<String, Value>, Map<String, Value>);

/// One side of a difference, without the sorts of which nothing differs.
fn side(sorts: &[(&str, Sides)], of: impl Fn(&Sides) -> Value) -> Value {
    let differing = sorts
        .iter()
        .filter(|(_, (before, after))| !before.is_empty() || !after.is_empty());
    differing
        .map(|(name, sides)| ((*name).to_owned(), of(sides)))
        .collect::<Map<_, _>>()
        .into()
}

fn differing<T: PartialEq + Serialize>(before: &BTreeMap<String, T>, after: &BTreeMap<String, T>) -> Sides {
    let not_in = |one: &BTreeMap<String, T>, other: &BTreeMap<String, T>| {
        let entries = one.iter().filter(|(name, value)| other.get(*name) != Some(value));
        entries.map(|(name, value)| (name.clone(), json!(value))).collect()
    };
    (not_in(before, after), not_in(after, before))
}

#[cfg(test)]
mod tests;
