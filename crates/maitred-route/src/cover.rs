//! Which rules no call can ever reach, since the rules before them take all of their calls.
//!
//! What a rule asks is a conjunction of conditions about things that do not depend on each other. What is left of its calls when
//! an earlier rule has taken its own is cut into pieces: those that fail the earlier rule's first condition, those that meet the first and
//! fail the second, and so on. A rule is out of reach if every piece is empty or is taken by further rules. Whether a piece is
//! empty can be told exactly, thing by thing, so the answer is exact as long as there is not too much to look at; what is beyond
//! [`LOOKS_MAX`] counts as within reach.
//!
//! Two things are not known here and are taken for possible: that a tenant, user, group, class or type of task other than those named
//! exists, and that two headers or claims have anything to do with each other.

use std::collections::BTreeSet;
use std::sync::Arc;

use maitred_types::TokenCount;

use crate::condition::Condition;
use crate::rule::{Route, Rule};

/// Most looks at two bounds of a piece beside each other, for a whole route. Routes of a dozen rules need some thousands.
const LOOKS_MAX: usize = 1_000_000;

/// A part of a route that no call reaches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutOfReach {
    /// The place of the rule; none for the targets where no rule matches.
    pub rule: Option<usize>,
    /// The places of the earlier rules that take its calls; empty if its own conditions contradict each other.
    pub taken_by: Vec<usize>,
}

impl Route {
    /// Everything of the route that no call reaches.
    #[must_use]
    pub fn out_of_reach(&self) -> Vec<OutOfReach> {
        let mut looks = LOOKS_MAX;
        let places = (0..self.rules.len()).map(Some).chain([None]);
        let found = places.filter_map(|rule| {
            let taken_by = self.taken(rule, &mut looks)?;
            Some(OutOfReach {
                rule,
                taken_by: taken_by.into_iter().collect(),
            })
        });
        found.collect()
    }

    /// The earlier rules that take all calls of a rule, if they do.
    fn taken(&self, place: Option<usize>, looks: &mut usize) -> Option<BTreeSet<usize>> {
        let rule = place.and_then(|place| self.rules.get(place));
        let versions: Vec<Option<&str>> = match rule {
            Some(rule) if !rule.versions.is_empty() => rule.versions.iter().map(|version| Some(&**version)).collect(),
            _ => vec![None],
        };
        let own: Vec<Piece<'_>> = rule.iter().flat_map(|rule| &rule.when).map(Piece::Meets).collect();
        let mut taken_by = BTreeSet::new();
        for version in versions {
            let before = self.rules.iter().enumerate().take(place.unwrap_or(self.rules.len()));
            let before: Vec<(usize, &Rule)> = before.filter(|(_, rule)| rule.is_for(version)).collect();
            // One rule that takes all says more than several of which each takes a part.
            let alone = before
                .iter()
                .map(std::slice::from_ref)
                .find_map(|rule| taken(&own, rule, looks));
            taken_by.extend(alone.or_else(|| taken(&own, &before, looks))?);
        }
        Some(taken_by)
    }
}

/// Those of `rules` that take all calls of a piece, if they do.
fn taken(piece: &[Piece<'_>], rules: &[(usize, &Rule)], looks: &mut usize) -> Option<BTreeSet<usize>> {
    let mut cut = Cut {
        looks,
        used: BTreeSet::new(),
    };
    cut.is_taken(piece, rules).then_some(cut.used)
}

/// One bound of a piece.
#[derive(Clone, Copy, Debug)]
enum Piece<'r> {
    Meets(&'r Condition),
    Fails(&'r Condition),
}

/// The cutting of one piece.
struct Cut<'l> {
    /// Looks that are left.
    looks: &'l mut usize,
    /// The rules that took a part.
    used: BTreeSet<usize>,
}

impl Cut<'_> {
    /// Whether all calls within `piece` meet one of `rules`.
    fn is_taken(&mut self, piece: &[Piece<'_>], rules: &[(usize, &Rule)]) -> bool {
        if self.is_empty(piece) {
            return true;
        }
        // A rule that takes nothing of the piece is not worth cutting for.
        let mut rest = rules.iter();
        let first = rest.by_ref().find(|(_, rule)| {
            let conditions = rule.when.iter().map(Piece::Meets);
            !self.is_empty(&piece.iter().copied().chain(conditions).collect::<Vec<_>>())
        });
        let Some((place, first)) = first else { return false };
        let mut inside = piece.to_vec();
        for condition in &first.when {
            let mut outside = inside.clone();
            outside.push(Piece::Fails(condition));
            if *self.looks == 0 || !self.is_taken(&outside, rest.as_slice()) {
                return false;
            }
            inside.push(Piece::Meets(condition));
        }
        self.used.insert(*place);
        true
    }

    fn is_empty(&mut self, piece: &[Piece<'_>]) -> bool {
        *self.looks = self.looks.saturating_sub(piece.len() * piece.len());
        is_empty(piece)
    }
}

/// Whether no call can be within all of these bounds.
fn is_empty(piece: &[Piece<'_>]) -> bool {
    let meets = piece.iter().filter_map(|bound| match bound {
        Piece::Meets(condition) => Some(*condition),
        Piece::Fails(_) => None,
    });
    let fails = piece.iter().filter_map(|bound| match bound {
        Piece::Fails(condition) => Some(*condition),
        Piece::Meets(_) => None,
    });
    let (meets, fails): (Vec<_>, Vec<_>) = (meets.collect(), fails.collect());
    meets.iter().any(|condition| {
        condition.is_impossible()
            || match condition {
                Condition::InputTokens { .. } => no_length(&meets, &fails),
                Condition::Time(_) => no_time(&meets, &fails),
                Condition::Tools(_) | Condition::Images(_) | Condition::JsonSchema(_) | Condition::Stream(_) => {
                    is_contradicted(condition, &meets, &fails)
                }
                Condition::Group(wanted) | Condition::Claim(_, wanted) => {
                    // Whoever has several values meets several conditions, so only what is excluded counts.
                    let excluded = excluded(condition, &fails);
                    wanted.iter().all(|value| excluded.contains(value))
                }
                _ => no_value(condition, &meets, &fails),
            }
    }) || fails.iter().any(|condition| match condition {
        Condition::InputTokens { .. } => no_length(&meets, &fails),
        Condition::Time(_) => no_time(&meets, &fails),
        // It is one way or the other, so failing both is as impossible as meeting both.
        _ => is_contradicted_twice(condition, &fails),
    })
}

/// What a condition about one value lists, and what it is about.
fn listed(condition: &Condition) -> Option<(&str, &[Arc<str>])> {
    match condition {
        Condition::Tenant(values)
        | Condition::User(values)
        | Condition::Group(values)
        | Condition::Class(values)
        | Condition::Task(values) => Some(("", values)),
        Condition::Header(name, values) | Condition::Claim(name, values) => Some((name, values)),
        _ => None,
    }
}

fn are_about_the_same(one: &Condition, two: &Condition) -> bool {
    one.key() == two.key() && listed(one).map(|(name, _)| name) == listed(two).map(|(name, _)| name)
}

/// The values that conditions which are to fail list.
fn excluded<'c>(about: &Condition, fails: &[&'c Condition]) -> BTreeSet<&'c Arc<str>> {
    let same = fails.iter().filter(|condition| are_about_the_same(about, condition));
    same.filter_map(|condition| listed(condition))
        .flat_map(|(_, values)| values)
        .collect()
}

/// Whether nothing of what a condition lists is left by the others about the same one value.
fn no_value(condition: &Condition, meets: &[&Condition], fails: &[&Condition]) -> bool {
    let Some((_, values)) = listed(condition) else {
        return false;
    };
    let excluded = excluded(condition, fails);
    let same: Vec<_> = meets
        .iter()
        .filter(|other| are_about_the_same(condition, other))
        .collect();
    let is_possible = |value: &&Arc<str>| {
        let is_listed = |other: &&Condition| listed(other).is_some_and(|(_, values)| values.contains(*value));
        !excluded.contains(*value) && same.iter().all(|other| is_listed(other))
    };
    !values.iter().any(|value| is_possible(&value))
}

/// Whether another condition wants the opposite, or is to fail although it wants the same.
fn is_contradicted(condition: &Condition, meets: &[&Condition], fails: &[&Condition]) -> bool {
    let opposes = |other: &&&Condition| other.key() == condition.key() && **other != condition;
    meets.iter().any(|other| opposes(&other)) || fails.contains(&condition)
}

fn is_contradicted_twice(condition: &Condition, fails: &[&Condition]) -> bool {
    let is_flag = matches!(
        condition,
        Condition::Tools(_) | Condition::Images(_) | Condition::JsonSchema(_) | Condition::Stream(_)
    );
    is_flag
        && fails
            .iter()
            .any(|other| other.key() == condition.key() && *other != condition)
}

/// Whether no number of tokens is within all bounds. Between two figures that are named nothing changes, so those are enough.
fn no_length(meets: &[&Condition], fails: &[&Condition]) -> bool {
    let has = |condition: &Condition, tokens: TokenCount| match condition {
        Condition::InputTokens { at_least, below } => {
            Some(tokens >= *at_least && below.is_none_or(|below| tokens < below))
        }
        _ => None,
    };
    let named = meets.iter().chain(fails).flat_map(|condition| match condition {
        Condition::InputTokens { at_least, below } => [Some(*at_least), *below],
        _ => [None, None],
    });
    let mut figures = named.flatten().chain([TokenCount::ZERO]);
    !figures.any(|tokens| {
        meets.iter().all(|condition| has(condition, tokens) != Some(false))
            && fails.iter().all(|condition| has(condition, tokens) != Some(true))
    })
}

/// Whether no minute of the week is within all bounds. Between two minutes at which one of them turns nothing changes, so those are
/// enough.
fn no_time(meets: &[&Condition], fails: &[&Condition]) -> bool {
    let has = |condition: &Condition, minute: u32| match condition {
        Condition::Time(schedule) => Some(schedule.holds_at(minute)),
        _ => None,
    };
    let schedules = meets.iter().chain(fails).filter_map(|condition| match condition {
        Condition::Time(schedule) => Some(schedule),
        _ => None,
    });
    !schedules.flat_map(|schedule| schedule.turns()).any(|minute| {
        meets.iter().all(|condition| has(condition, minute) != Some(false))
            && fails.iter().all(|condition| has(condition, minute) != Some(true))
    })
}

#[cfg(test)]
mod tests;
