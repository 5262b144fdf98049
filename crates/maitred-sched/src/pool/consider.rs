//! What another profile would have chosen: the pick without the booking.

use fastrand::Rng;
use maitred_types::Time;

use crate::ask::Ask;
use crate::pool::Pool;
use crate::pool::pick::Manner;
use crate::pool::prefix::Look;
use crate::profile::Profile;
use crate::why::Why;

/// A profile that runs beside the live one and never books. It has a chance and a turn of its own, so the live choices are
/// the same with it and without it.
#[derive(Clone, Debug)]
pub struct Shadow {
    profile: Profile,
    rng: Rng,
    turn: u32,
}

impl Shadow {
    /// A shadow that chooses by `profile`. The same seed and the same asks give the same choices.
    #[must_use]
    pub fn new(profile: Profile, seed: u64) -> Self {
        Self {
            profile,
            rng: Rng::with_seed(seed),
            turn: u32::MAX,
        }
    }

    /// How it chooses.
    #[must_use]
    pub const fn profile(&self) -> &Profile {
        &self.profile
    }
}

impl Pool {
    /// What `shadow` would choose for `ask` on the facts of this moment; `None` when its filters leave nobody. Nothing is booked
    /// or counted, and no later pick is any different. Ask before the live pick: a booking changes the facts.
    ///
    /// Caps on all calls and on retries are not asked, since they are the same whatever the profile.
    pub fn consider(&mut self, ask: &Ask<'_>, shadow: &mut Shadow, now: Time) -> Option<Why> {
        self.tick(now);
        let odd_scores = self.counters.odd_scores;
        self.swap_policy(shadow);
        let selected = self.select(ask, Look::Aside, Manner::Anyhow);
        self.swap_policy(shadow);
        self.counters.odd_scores = odd_scores;
        selected.ok().map(|selected| selected.why)
    }

    fn swap_policy(&mut self, shadow: &mut Shadow) {
        std::mem::swap(&mut self.profile, &mut shadow.profile);
        std::mem::swap(&mut self.rng, &mut shadow.rng);
        std::mem::swap(&mut self.turn, &mut shadow.turn);
    }
}
