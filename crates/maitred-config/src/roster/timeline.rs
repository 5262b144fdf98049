//! Every change in its order, so that an earlier state can be looked at and brought back.

use std::collections::{BTreeMap, BTreeSet};

use maitred_types::KeyId;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{Change, ChangeRefusal, Kind, Roster, over};
use crate::settings::Settings;

/// Most bytes of a difference that says everything; a larger one says how many differ of each sort.
const DIFF_MAX: usize = 48 << 10;
/// Most keys that are named of those which stay as they are.
const NAMED_MAX: usize = 50;

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
        let wanted: BTreeSet<u64> = prefix.iter().filter_map(Change::restores).collect();
        let (mut roster, mut kept) = (Roster::default(), BTreeMap::new());
        for (before, change) in prefix.iter().enumerate() {
            if wanted.contains(&(before as u64)) {
                kept.insert(before as u64, roster.clone());
            }
            match change.restores() {
                None => drop(roster.apply(change)),
                Some(earlier) => {
                    // One that names itself or a later one was never made.
                    if let Some(earlier) = kept.get(&earlier).cloned() {
                        roster = restored(&roster, earlier, prefix.get(..before)?);
                    }
                }
            }
        }
        Some(roster)
    }

    /// Whether `change` may be made where `base` is the file.
    ///
    /// # Errors
    /// Says what is against it.
    pub fn check(&self, change: &Change, base: &Settings) -> Result<(), ChangeRefusal> {
        let Some(version) = change.restores() else {
            let is_past_key = change.revoked().is_some_and(|id| self.has_made(&KeyId::from(id)));
            // A restoration may have taken the key away, and the next one may bring it back.
            return if is_past_key {
                Ok(())
            } else {
                self.roster.check(change, base)
            };
        };
        let earlier = self.at(version).filter(|_| version < self.version());
        let earlier = earlier.ok_or_else(|| {
            ChangeRefusal::Unknown(format!(
                "{version} is no earlier version; `maitred changes list` shows them, the newest is {}",
                self.version()
            ))
        })?;
        let after = restored(&self.roster, earlier, &self.changes);
        if after == self.roster {
            let why = format!("everything that can be restored is as it was at version {version}");
            return Err(ChangeRefusal::Conflict(why));
        }
        after.fits(&self.roster, base)
    }

    /// What `change` would change, if it were made.
    #[must_use]
    pub fn preview(&self, change: &Change) -> Value {
        let mut after = self.roster.clone();
        match change.restores() {
            None => after.apply(change),
            Some(version) => self.at(version).map_or(Value::Null, |earlier| {
                let now = restored(&self.roster, earlier.clone(), &self.changes);
                let mut diff = self.roster.difference(&now);
                let stays = self.stays(&earlier, &now);
                if !stays.is_empty() {
                    diff["stays"] = stays.into();
                }
                diff
            }),
        }
    }

    /// What is not as it was in `earlier` although that was restored to `now`: a few ids of each sort, since keys do not become good
    /// again.
    fn stays(&self, earlier: &Roster, now: &Roster) -> Map<String, Value> {
        let of_run_time: BTreeSet<&KeyId> = self.changes.iter().filter_map(made).collect();
        let is_there = |id: &KeyId| earlier.keys.contains_key(id) || !of_run_time.contains(id);
        let revoked = now.revoked.difference(&earlier.revoked).filter(|id| is_there(id));
        let rotated = now.until.iter().filter(|(id, at)| earlier.until.get(*id) != Some(at));
        let rotated = rotated.map(|(id, _)| id).filter(|id| is_there(id));
        let new = now.keys.keys().filter(|id| !earlier.keys.contains_key(*id));
        let sorts = [
            ("revoked", shortened(revoked)),
            ("rotated", shortened(rotated)),
            ("successors", shortened(new)),
        ];
        let some = sorts.into_iter().filter(|(_, ids)| *ids != json!([]));
        some.map(|(name, ids)| (name.to_owned(), ids)).collect()
    }

    /// Whether there was ever such a key at run time.
    fn has_made(&self, id: &KeyId) -> bool {
        self.changes.iter().filter_map(made).any(|made| made == id)
    }

    /// Makes `change`, the next one.
    pub fn apply(&mut self, change: Change) {
        match change.restores() {
            None => drop(self.roster.apply(&change)),
            Some(version) => {
                if let Some(earlier) = self.at(version) {
                    self.roster = restored(&self.roster, earlier, &self.changes);
                }
            }
        }
        self.changes.push(change);
    }
}

/// `earlier`, but for what goes one way only after `present`, to which `changes` have led. A key that was revoked stays so: it may be in the
/// wrong hands. One that was rotated stays good as long as it then was, no longer, and so its callers keep the key that took its place.
fn restored(present: &Roster, mut earlier: Roster, changes: &[Change]) -> Roster {
    earlier.revoked.clone_from(&present.revoked);
    for (id, until) in &present.until {
        let until = earlier.until.get(id).map_or(*until, |before| *before.min(until));
        earlier.until.insert(id.clone(), until);
    }
    let of_run_time: BTreeSet<&KeyId> = changes.iter().filter_map(made).collect();
    for change in changes {
        let Kind::RotateKey(rotation) = &change.0 else { continue };
        let old = KeyId::from(rotation.id.as_str());
        let is_there = earlier.keys.contains_key(&old) || !of_run_time.contains(&old);
        let new = rotation.key.hash.get().id();
        if let Some(key) = present.keys.get(new).filter(|_| is_there) {
            earlier.keys.insert(new.clone(), key.clone());
        }
    }
    earlier
}

/// The key that a change makes.
fn made(change: &Change) -> Option<&KeyId> {
    match &change.0 {
        Kind::CreateKey(key) => Some(key.hash.get().id()),
        Kind::RotateKey(rotation) => Some(rotation.key.hash.get().id()),
        _ => None,
    }
}

/// A few of them, and how many more there are.
fn shortened<'a>(ids: impl Iterator<Item = &'a KeyId>) -> Value {
    let ids: Vec<&str> = ids.map(KeyId::as_str).collect();
    let mut named: Vec<String> = ids.iter().take(NAMED_MAX).map(|id| (*id).to_owned()).collect();
    if ids.len() > named.len() {
        named.push(format!("and {} more", ids.len() - named.len()));
    }
    named.into()
}

impl Change {
    /// Everything is to be as it was after the change of that number, but for keys that were revoked or rotated since.
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
            let of = |(id, at): (&KeyId, &maitred_types::UnixMillis)| {
                let at = crate::forms::Moment::new(*at).to_string();
                (id.as_str().to_owned(), at.into())
            };
            roster.until.iter().map(of).collect()
        };
        let keys = |roster: &Self| -> BTreeMap<String, crate::raw::Key> {
            let of = |(id, key): (&KeyId, &crate::raw::Key)| (id.as_str().to_owned(), key.clone());
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
