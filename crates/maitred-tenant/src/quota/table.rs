//! The counters, found by limit and owner, and bounded in number.

use std::collections::BTreeMap;

use super::limits::{Limits, Series};
use super::{Dimensions, Limit, Moment, Subject};

/// How many counters are looked at for each that is made, whether they can go. So before a table fills up from half of its size, each
/// was looked at twice.
const LOOKS: usize = 4;
/// How many are looked at for a call that finds no room.
const LOOKS_WITHOUT_ROOM: usize = 32;

/// What is kept of one owner and one limit.
pub(super) trait Slot {
    /// Its limit.
    fn series(&self) -> Series;
    /// Whether a new one would say the same.
    fn is_idle(&self, at: Moment) -> bool;
}

/// Where a counter is, and which one it is of those that were there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    index: u32,
    generation: u32,
}

#[derive(Debug)]
struct Entry<C> {
    generation: u32,
    kept: Option<Kept<C>>,
}

#[derive(Debug)]
struct Kept<C> {
    counter: C,
    name: Box<str>,
    /// Whose it is, if each tenant has one of its own.
    tenant: Option<Box<str>>,
}

/// Every counter that says something.
#[derive(Debug)]
pub(super) struct Table<C> {
    /// By the limit's series and the owners' names, the whole of them: two owners never share a counter.
    places: BTreeMap<Box<str>, u32>,
    entries: Vec<Entry<C>>,
    free: Vec<u32>,
    /// How many each tenant has.
    shares: BTreeMap<Box<str>, usize>,
    cap: usize,
    /// The name that is looked up, in a buffer that is used again.
    name: String,
    /// Which counter is looked at next, whether it can go.
    hand: usize,
    /// How many are to be looked at, for those that were made.
    looks: usize,
}

impl<C: Slot> Table<C> {
    pub(super) fn new(cap: usize) -> Self {
        Self {
            places: BTreeMap::new(),
            entries: Vec::new(),
            free: Vec::new(),
            shares: BTreeMap::new(),
            cap: cap.max(1),
            name: String::new(),
            hand: 0,
            looks: 0,
        }
    }

    pub(super) fn set_cap(&mut self, cap: usize) {
        // Counters that are in use are not thrown away; the table shrinks as they fall idle.
        self.cap = cap.max(1).max(self.len());
    }

    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    pub(super) const fn cap(&self) -> usize {
        self.cap
    }

    /// Sees to it that there is room for `more` counters of a tenant. Drops counters that say nothing any more and those of limits that have
    /// gone, a few with each call: never all of them while a call waits.
    pub(super) fn make_room(&mut self, (more, tenant): (usize, &str), limits: &Limits, at: Moment) {
        for _ in 0..std::mem::take(&mut self.looks) {
            self.look_at_next(limits, at);
        }
        for _ in 0..LOOKS_WITHOUT_ROOM {
            if self.has_room(more, tenant) {
                break;
            }
            self.look_at_next(limits, at);
        }
    }

    /// Whether there is room for `more` counters of a tenant. One may have half of the table, so that it cannot shut out all others
    /// by naming many users and tasks.
    pub(super) fn has_room(&self, more: usize, tenant: &str) -> bool {
        let own = self.shares.get(tenant).copied().unwrap_or(0);
        self.len() + more <= self.cap && own + more <= (self.cap / 2).max(1)
    }

    /// The subject's counter of a limit, which is made if there is none. `None` when there is no room for one. Drops none, so
    /// that what was found before stays where it is.
    pub(super) fn find(
        &mut self,
        (series, limit): (Series, &Limit),
        subject: &Subject<'_>,
        make: impl FnOnce() -> C,
    ) -> Option<Place> {
        match self.look((series, limit), subject) {
            Some(place) => Some(place),
            None => {
                let tenant = limit.dimensions().has(Dimensions::TENANT).then_some(subject.tenant);
                self.add(self.name.as_str().into(), tenant, make)
            }
        }
    }

    /// The counter of a limit and of owners whose names are written as those of a counter are, which is made if there is none and if
    /// there is room.
    pub(super) fn find_named(
        &mut self,
        (series, limit): (Series, &Limit),
        owners: &str,
        (limits, at): (&Limits, Moment),
        make: impl FnOnce() -> C,
    ) -> Option<Place> {
        let name: Box<str> = format!("{series}{SERIES_END}{owners}").into();
        if let Some(index) = self.places.get(&name) {
            return Some(self.place(*index));
        }
        let tenant = first_owner(limit, owners);
        let counted = tenant.unwrap_or_default();
        self.make_room((1, counted), limits, at);
        if self.has_room(1, counted) {
            self.add(name, tenant, make)
        } else {
            None
        }
    }

    fn add(&mut self, name: Box<str>, tenant: Option<&str>, make: impl FnOnce() -> C) -> Option<Place> {
        if self.len() >= self.cap {
            return None;
        }
        let kept = Kept {
            counter: make(),
            name: name.clone(),
            tenant: tenant.map(Box::from),
        };
        let index = if let Some(index) = self.free.pop() {
            if let Some(entry) = self.entries.get_mut(index as usize) {
                entry.kept = Some(kept);
            }
            index
        } else {
            let index = u32::try_from(self.entries.len()).ok()?;
            self.entries.push(Entry {
                generation: 0,
                kept: Some(kept),
            });
            index
        };
        self.places.insert(name, index);
        if self.len() > self.cap / 2 {
            self.looks += LOOKS;
        }
        if let Some(tenant) = tenant {
            match self.shares.get_mut(tenant) {
                Some(own) => *own += 1,
                None => {
                    self.shares.insert(tenant.into(), 1);
                }
            }
        }
        Some(self.place(index))
    }

    /// The subject's counter of a limit, if there is one. Leaves its name in the buffer.
    pub(super) fn look(&mut self, limit: (Series, &Limit), subject: &Subject<'_>) -> Option<Place> {
        write_name(&mut self.name, limit, subject);
        self.places.get(self.name.as_str()).map(|index| self.place(*index))
    }

    fn place(&self, index: u32) -> Place {
        let generation = self.entries.get(index as usize).map_or(0, |entry| entry.generation);
        Place { index, generation }
    }

    pub(super) fn get_mut(&mut self, place: Place) -> Option<&mut C> {
        let entry = self.entries.get_mut(place.index as usize)?;
        if entry.generation != place.generation {
            return None;
        }
        entry.kept.as_mut().map(|kept| &mut kept.counter)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Place, &C)> {
        (0_u32..).zip(&self.entries).filter_map(|(index, entry)| {
            let kept = entry.kept.as_ref()?;
            let generation = entry.generation;
            Some((Place { index, generation }, &kept.counter))
        })
    }

    /// A counter, with the names of its owners.
    pub(super) fn get_named_mut(&mut self, place: Place) -> Option<(&str, &mut C)> {
        let entry = self.entries.get_mut(place.index as usize)?;
        if entry.generation != place.generation {
            return None;
        }
        let Kept { counter, name, .. } = entry.kept.as_mut()?;
        Some((name.split_once(SERIES_END).map_or("", |(_, owners)| owners), counter))
    }

    /// Drops the next counter if it says nothing any more, or if its limit has gone.
    fn look_at_next(&mut self, limits: &Limits, at: Moment) {
        let index = if self.hand < self.entries.len() { self.hand } else { 0 };
        self.hand = index + 1;
        let Some(entry) = self.entries.get_mut(index) else {
            return;
        };
        let is_over = |kept: &mut Kept<C>| kept.counter.is_idle(at) || !limits.has(kept.counter.series());
        if let Some(kept) = entry.kept.take_if(is_over) {
            entry.generation = entry.generation.wrapping_add(1);
            self.places.remove(&kept.name);
            release(&mut self.shares, kept.tenant.as_deref());
            self.free.extend(u32::try_from(index));
        }
    }
}

/// A tenant has one counter less.
fn release(shares: &mut BTreeMap<Box<str>, usize>, tenant: Option<&str>) {
    let Some((tenant, own)) = tenant.and_then(|tenant| Some((tenant, shares.get_mut(tenant)?))) else {
        return;
    };
    *own -= 1;
    if *own == 0 {
        shares.remove(tenant);
    }
}

/// The tenant of a counter, from its owners as [`write_name`] writes them.
fn first_owner<'a>(limit: &Limit, owners: &'a str) -> Option<&'a str> {
    let (length, names) = owners.split_once('.')?;
    let tenant = names.get(..length.parse().ok()?)?;
    limit.dimensions().has(Dimensions::TENANT).then_some(tenant)
}

const SERIES_END: char = ':';

/// The limit's series and the owners' names. Each name has its length before it, so no two lists of names read the same.
fn write_name(name: &mut String, (series, limit): (Series, &Limit), subject: &Subject<'_>) {
    name.clear();
    push_number(name, usize::try_from(series).unwrap_or(usize::MAX));
    name.push(SERIES_END);
    let per = limit.dimensions();
    let owners = [
        (Dimensions::TENANT, Some(subject.tenant)),
        (Dimensions::USER, subject.user),
        (Dimensions::KEY, subject.key),
        (Dimensions::MODEL, Some(subject.model)),
        (Dimensions::TASK, subject.task),
    ];
    for (_, owner) in owners.iter().filter(|(dimension, _)| per.has(*dimension)) {
        match owner {
            Some(owner) => {
                push_number(name, owner.len());
                name.push('.');
                name.push_str(owner);
            }
            None => name.push('-'),
        }
    }
}

/// Decimal digits, without the machinery of formatting.
fn push_number(text: &mut String, number: usize) {
    if number >= 10 {
        push_number(text, number / 10);
    }
    text.push(char::from(b"0123456789"[number % 10]));
}
