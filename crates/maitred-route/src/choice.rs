//! How one of several targets is chosen for a call.

use std::cmp::Reverse;
use std::time::Duration;

use smallvec::SmallVec;

use crate::facts::Facts;
use crate::plan::TargetId;

/// Targets, and how one of them is chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// The targets, in the order of the file; at least one.
    pub targets: Vec<Share>,
    /// How the first is chosen.
    pub choose: Choose,
    /// Which calls weights treat alike.
    pub sticky: Sticky,
    /// The least quality class that [`Choose::Cost`] takes.
    pub quality: Option<u32>,
}

/// A target among those of a choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Which.
    pub target: TargetId,
    /// Its part of the calls, as against the sum of all parts.
    pub weight: u32,
    /// Most time that a call may spend there.
    pub within: Option<Duration>,
}

/// How one of several targets is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choose {
    /// The first; the others when it does not answer.
    #[default]
    Order,
    /// By weight.
    Weight,
    /// The cheapest that is good enough.
    Cost,
}

impl Choose {
    /// Every way, in order.
    pub const ALL: &'static [Self] = &[Self::Order, Self::Weight, Self::Cost];

    /// The word in the configuration.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Order => "order",
            Self::Weight => "weight",
            Self::Cost => "cost",
        }
    }

    /// What it does, for the reference page.
    #[must_use]
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Order => "The first; when it does not answer the next, and so on.",
            Self::Weight => {
                "By weight, so that each gets its part of the calls. When the chosen one does not answer, those that are the same model stand in."
            }
            Self::Cost => {
                "The one at which the call is expected to cost least, of those whose `quality` is enough; when it does not answer the next in price. Targets without a price come last."
            }
        }
    }
}

/// Which calls weights treat alike.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sticky {
    /// Each call is drawn for itself.
    #[default]
    Nothing,
    /// Calls of one session, or, where a call names none, of one user.
    Session,
    /// Calls of one user.
    User,
}

impl Sticky {
    /// The number that decides for a call. It is the same for all calls that are treated alike, on every gateway and after every
    /// restart; where there is nothing to stick to it is the call's own.
    fn draw(self, facts: &Facts<'_>, salt: (&str, &str)) -> u64 {
        let of_user = || facts.user.map(|user| hash(&[facts.tenant, user]));
        let stuck = match self {
            Self::Nothing => None,
            Self::Session => facts.session.or_else(of_user),
            Self::User => of_user(),
        };
        // With the route's name in it, who is drawn for one route is not drawn for all others.
        stuck.map_or(facts.draw, |stuck| mixed(stuck ^ hash(&[salt.0, salt.1])))
    }
}

impl Choice {
    /// The targets in the order in which a call tries them, of those that `fits` lets pass. `salt` tells this choice from others.
    pub(crate) fn order(
        &self,
        facts: &Facts<'_>,
        salt: (&str, &str),
        mut fits: impl FnMut(TargetId) -> bool,
    ) -> SmallVec<[Share; 4]> {
        let takes_part = |share: &Share| self.choose != Choose::Weight || share.weight > 0;
        let targets = self.targets.iter().copied().filter(takes_part);
        let mut fitting: SmallVec<[Share; 4]> = targets.filter(|share| fits(share.target)).collect();
        match self.choose {
            Choose::Order => {}
            // The sort is stable: of two that cost the same the first in the file is first.
            Choose::Cost => fitting.sort_by_cached_key(|share| {
                let cost = (facts.cost)(share.target);
                (Reverse(cost.is_some()), cost)
            }),
            Choose::Weight => {
                let first = drawn(&fitting, self.sticky.draw(facts, salt));
                if let Some(front) = fitting.get_mut(..=first) {
                    front.rotate_right(1);
                }
            }
        }
        fitting
    }
}

/// The place of the target that a number stands for.
fn drawn(targets: &[Share], draw: u64) -> usize {
    let sum: u64 = targets.iter().map(|share| u64::from(share.weight)).sum();
    // The high half of a product spreads the number over the sum without the bias of a remainder.
    let mut left = u64::try_from((u128::from(draw) * u128::from(sum)) >> 64).unwrap_or(0);
    for (place, share) in targets.iter().enumerate() {
        match left.checked_sub(u64::from(share.weight)) {
            Some(rest) => left = rest,
            None => return place,
        }
    }
    0
}

/// FNV-1a, so that the same texts give the same number in every build.
fn hash(texts: &[&str]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325;
    for text in texts {
        // No byte of UTF-8 is 255, so it keeps texts apart.
        for byte in text.bytes().chain([0xff]) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    mixed(hash)
}

/// The finisher of `SplitMix64`: spreads what differs over all bits.
const fn mixed(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}
