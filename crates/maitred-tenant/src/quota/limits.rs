//! All limits, and which of them concern a call, found without looking at the others.
//!
//! Each limit is filed under one of the names that it asks for: the one that the fewest limits ask for. A call then looks at what is filed
//! under its own key, user, tenant and model, and at the limits that ask for no name.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, DefaultHasher};

use smallvec::SmallVec;

use super::{Limit, Measure, Subject};

/// Limits by a name. The names are the configuration's, so that nobody from outside chooses what is in here; with a hash that is always
/// the same one run is like another.
type Files = HashMap<Box<str>, Vec<u16>, BuildHasherDefault<DefaultHasher>>;

/// What a limit can ask for by name: key, user, tenant, model.
const OWNERS: usize = 4;

/// A number that no other limit has that ever was: counters are named by it, so that they stay what they are when others come and go.
pub(super) type Series = u64;

/// A limit that concerns a call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Concerned<'a> {
    /// Its place in the list.
    pub(super) number: u16,
    pub(super) series: Series,
    pub(super) limit: &'a Limit,
}

/// All limits.
#[derive(Debug, Default)]
pub(super) struct Limits {
    all: Vec<Limit>,
    series: Vec<Series>,
    /// The next that is given.
    next: Series,
    numbers: HashMap<Series, u16, BuildHasherDefault<DefaultHasher>>,
    /// Those from here on have not been asked about yet: see [`Limits::take_new`].
    new: Series,
    /// Those that ask for no name.
    open: Vec<u16>,
    files: [Files; OWNERS],
    /// By their own names; one for each measure.
    named: Files,
}

impl Limits {
    /// The most that there can be.
    pub(super) const MAX: usize = 4096;

    pub(super) fn new(limits: Vec<Limit>) -> Self {
        let mut new = Self::default();
        new.replace(limits);
        new
    }

    /// Takes other limits. One that counts as an earlier one did takes its place.
    pub(super) fn replace(&mut self, mut limits: Vec<Limit>) {
        limits.truncate(Self::MAX);
        let mut before: HashMap<_, Series> = HashMap::new();
        for (limit, series) in self.all.iter().zip(&self.series) {
            before.entry(limit.counts_as()).or_insert(*series);
        }
        let mut next = self.next;
        let series = limits.iter().map(|limit| {
            before.remove(&limit.counts_as()).unwrap_or_else(|| {
                next += 1;
                next - 1
            })
        });
        self.series = series.collect();
        self.next = next;
        self.numbers = self.series.iter().copied().zip(0_u16..).collect();
        self.all = limits;
        self.file();
    }

    fn file(&mut self) {
        let mut asked: [HashMap<&str, usize>; OWNERS] = Default::default();
        for limit in &self.all {
            for (asked, name) in asked.iter_mut().zip(names(limit)) {
                if let Some(name) = name {
                    *asked.entry(name).or_default() += 1;
                }
            }
        }
        let mut files: [Files; OWNERS] = Default::default();
        self.open.clear();
        for (number, limit) in (0_u16..).zip(&self.all) {
            let by = asked.iter().zip(names(limit)).zip(&mut files);
            let counted = by.filter_map(|((asked, name), file)| Some((asked.get(name?)?, name?, file)));
            match counted.min_by_key(|(count, ..)| **count) {
                Some((_, name, file)) => file.entry(name.into()).or_default().push(number),
                None => self.open.push(number),
            }
        }
        self.files = files;
        self.named.clear();
        for (number, limit) in (0_u16..).zip(&self.all) {
            self.named.entry(limit.name.as_str().into()).or_default().push(number);
        }
    }

    pub(super) fn as_slice(&self) -> &[Limit] {
        &self.all
    }

    pub(super) fn get(&self, number: u16) -> Option<Concerned<'_>> {
        let limit = self.all.get(usize::from(number))?;
        let series = *self.series.get(usize::from(number))?;
        Some(Concerned { number, series, limit })
    }

    /// The limit that a counter is of, unless it has gone.
    pub(super) fn of(&self, series: Series) -> Option<&Limit> {
        self.all.get(usize::from(*self.numbers.get(&series)?))
    }

    pub(super) fn has(&self, series: Series) -> bool {
        self.numbers.contains_key(&series)
    }

    /// The next series: limits that are added later have this one or a later one.
    pub(super) const fn next(&self) -> Series {
        self.next
    }

    /// The limits that have been added since this was asked last.
    pub(super) fn take_new(&mut self) -> Vec<Concerned<'_>> {
        let new = std::mem::replace(&mut self.new, self.next);
        self.iter().filter(|one| one.series >= new).collect()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Concerned<'_>> {
        (0..self.all.len()).filter_map(|number| self.get(u16::try_from(number).ok()?))
    }

    /// The limit of that name and measure.
    pub(super) fn named(&self, measure: &str, name: &str) -> Option<Concerned<'_>> {
        let of_name = self.named.get(name)?.iter().filter_map(|number| self.get(*number));
        let mut of_measure = of_name.filter(|one| one.limit.measure.name() == measure);
        of_measure.next()
    }

    /// Those that hold for a subject, in the order in which they are written. One that is a default gives way to any other of its measure.
    pub(super) fn concerning(&self, subject: &Subject<'_>) -> SmallVec<[Concerned<'_>; 4]> {
        let names = [subject.key, subject.user, Some(subject.tenant), Some(subject.model)];
        let filed = self.files.iter().zip(names).filter_map(|(file, name)| file.get(name?));
        let filed = filed.flatten().chain(&self.open).filter_map(|number| self.get(*number));
        let mut found: SmallVec<[Concerned<'_>; 4]> = filed.filter(|one| one.limit.applies(subject)).collect();
        found.sort_unstable_by_key(|one| one.number);
        if found.iter().any(|one| one.limit.is_default) {
            let written = found.iter().filter(|one| !one.limit.is_default);
            let written: SmallVec<[Measure; 4]> = written.map(|one| one.limit.measure).collect();
            found.retain(|one| !one.limit.is_default || !written.contains(&one.limit.measure));
        }
        found
    }
}

/// The names that a limit asks for. Patterns of models are none.
fn names(limit: &Limit) -> [Option<&str>; OWNERS] {
    let only = &limit.only;
    [
        only.key.as_ref().map(maitred_types::KeyId::as_str),
        only.user.as_ref().map(crate::UserId::as_str),
        only.tenant.as_ref().map(maitred_types::TenantId::as_str),
        only.model.as_ref().and_then(crate::ModelPattern::name),
    ]
}

#[cfg(test)]
mod tests;
