//! Rolling a release out: shadow, steps, promotion; and back, as soon as anything speaks against it.
//!
//! [`Rollout`] is a state machine. In go calls that ended, what endpoints say they run, what operators command, and the time; out come the side
//! that a session falls to and [`Event`]s. What the guards know is in [`Guard`]; how sure they must be, in [`Terms`].
//!
//! The whole state can be written down and read again with the same continuation to the last bit. Whoever holds it must have it on
//! disk before acting upon an event: then a gateway that dies in any stage resumes there or rolls back, and never forgets. What is lost with
//! calls that were under way is evidence, never a decision.
//!
//! It must not know how calls are sent, how endpoints are asked, or where its state is kept.

mod events;
mod evidence;
mod guards;
mod numbers;
mod sessions;
mod sketch;
mod spread;
mod terms;

use std::time::Duration;

use maitred_types::UnixMillis;
use serde::{Deserialize, Serialize};

pub use events::{By, Event, Hold, StartRefusal, Status, Why};
pub use evidence::Tally;
pub use guards::{ErrorClass, Guard, Observation, Odds, Standing};
pub use sessions::SessionHash;
pub use terms::{Portion, STEP_PORTION_MAX, STEP_TENANTS_MAX, STEPS_MAX, Shadow, Step, Terms, TermsFault, Tolerances};

use crate::release::Verification;
use guards::{Guards, Seen, Settled};
use numbers::PPM;
use sessions::Place;

/// Most copies of calls that are under way at one time.
pub const SHADOW_IN_FLIGHT_MAX: u64 = 32;
/// From these odds against the candidate on no step is widened: first it must come out which way they go.
const SUSPICION: f64 = 4.0;

/// Who answers a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// The release that serves.
    Baseline,
    /// The release that is to serve.
    Candidate,
}

/// Where a rollout stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// Calls are copied to the candidate; its answers are compared and thrown away.
    Shadow,
    /// A step, from 0: a portion of sessions is the candidate's.
    Step(u8),
    /// Everything goes to the candidate; that its whole group runs it is not yet proven.
    Promoting,
    /// The candidate serves. The end.
    Promoted,
    /// Everything goes to the baseline; that its whole group runs it is not yet proven.
    RollingBack,
    /// The baseline serves, as before. The end.
    RolledBack,
}

/// Who calls.
#[derive(Clone, Copy, Debug)]
pub struct Caller<'a> {
    /// Whose call it is.
    pub tenant: &'a str,
    /// The session, else the user, else the call.
    pub session: SessionHash,
    /// When the session began, if that is known. One that began at the baseline is then not moved while it lasts.
    pub session_since: Option<UnixMillis>,
}

/// The side of a call. Kept with the call, and handed back with what is observed of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// Who answers.
    pub side: Side,
    /// In which stage, if the call is compared at all.
    compared: Option<Stage>,
    cell: u8,
}

/// Calls of either side that were compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Calls {
    /// The baseline's.
    pub baseline: u64,
    /// The candidate's.
    pub candidate: u64,
}

/// What the shadow has used of its own budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShadowUse {
    /// Copies that were made.
    pub made: u64,
    /// Copies that are over.
    pub over: u64,
    /// What they cost, in billionths of the currency's unit.
    pub cost: u64,
}

/// A rollout. See the module.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rollout {
    terms: Terms,
    stage: Stage,
    /// When each stage began, in milliseconds since 1970; the last is the present one.
    begun: Vec<(Stage, u64)>,
    /// By step.
    calls: Vec<Calls>,
    shadow_calls: Calls,
    shadow: ShadowUse,
    guards: Guards,
    hold: Option<Hold>,
    why: Option<Why>,
    /// What was last found of each side, baseline first.
    found: [Option<Verification>; 2],
}

impl Rollout {
    /// Begins a rollout.
    ///
    /// # Errors
    ///
    /// When the terms make no sense, or endpoints of either side do not run what its release says: what cannot be told of the baseline now
    /// could not be told after a rollback.
    pub fn start(
        terms: Terms,
        baseline: Verification,
        candidate: Verification,
        now: UnixMillis,
    ) -> Result<(Self, Vec<Event>), StartRefusal> {
        terms.check().map_err(StartRefusal::Terms)?;
        for (release, found) in [(&terms.baseline, &baseline), (&terms.candidate, &candidate)] {
            if found.release != release.name || !found.holds() {
                return Err(StartRefusal::NotVerified(found.clone()));
            }
        }
        let first = if terms.shadow.is_some() {
            Stage::Shadow
        } else {
            Stage::Step(0)
        };
        let mut rollout = Self {
            stage: first,
            begun: Vec::new(),
            calls: vec![Calls::default(); terms.steps.len()],
            shadow_calls: Calls::default(),
            shadow: ShadowUse::default(),
            guards: Guards::new(),
            hold: None,
            why: None,
            found: [Some(baseline), Some(candidate)],
            terms,
        };
        let mut events = Vec::new();
        rollout.enter(first, now, &mut events);
        Ok((rollout, events))
    }

    /// Takes a state up again that was written down. `terms` are those of the configuration now, if it has any of this name.
    ///
    /// A rollout in a stage that compares goes on under the terms it began with, or not at all: others are a reason to roll back.
    #[must_use]
    pub fn resume(mut self, terms: Option<&Terms>, now: UnixMillis) -> (Self, Vec<Event>) {
        let mut events = vec![Event::Resumed(self.stage)];
        // Copies under way died with the gateway; they may be made again.
        self.shadow.made = self.shadow.over;
        if self.compares() {
            if !self.is_whole() {
                self.guards = Guards::new();
                self.roll_back(Why::Unreadable, now, &mut events);
            } else if terms != Some(&self.terms) {
                self.roll_back(Why::TermsChanged, now, &mut events);
            }
        }
        (self, events)
    }

    /// The side of a call.
    #[must_use]
    pub fn assign(&self, caller: &Caller<'_>, now: UnixMillis) -> Assignment {
        let place = caller.session.place(&self.terms.name);
        let assigned = |side, compared| Assignment {
            side,
            compared,
            cell: place.cell,
        };
        match self.stage {
            Stage::Shadow => assigned(Side::Baseline, Some(self.stage)),
            Stage::RollingBack | Stage::RolledBack => assigned(Side::Baseline, None),
            Stage::Promoting | Stage::Promoted => {
                let lingers = now.get().saturating_sub(self.promoted_at()) < millis(self.terms.linger);
                let stays = lingers && self.began_elsewhere(caller, place);
                assigned(if stays { Side::Baseline } else { Side::Candidate }, None)
            }
            Stage::Step(_) if !self.step().is_some_and(|step| step.is_for(caller.tenant)) => {
                assigned(Side::Baseline, None)
            }
            Stage::Step(_) if !self.is_candidate(self.stage, caller.tenant, place) => {
                assigned(Side::Baseline, Some(self.stage))
            }
            // A session that was not chosen at random to be at the baseline proves nothing.
            Stage::Step(_) if self.began_elsewhere(caller, place) => assigned(Side::Baseline, None),
            Stage::Step(_) => assigned(Side::Candidate, Some(self.stage)),
        }
    }

    /// Books a copy of a call, if there is to be one. Its end must be told by [`Rollout::observe`], or by [`Rollout::forget`].
    pub fn copy(&mut self, caller: &Caller<'_>) -> Option<Assignment> {
        let shadow = self.terms.shadow.filter(|_| self.stage == Stage::Shadow)?;
        let place = caller.session.place(&self.terms.name);
        let in_flight = self.shadow.made.saturating_sub(self.shadow.over);
        let mean = self.shadow.cost / self.shadow.over.max(1);
        let expected = self.shadow.cost.saturating_add(mean.saturating_mul(in_flight));
        let has_budget = self.shadow.made < shadow.calls && expected < shadow.cost;
        if place.point >= shadow.portion.millionths() || in_flight >= SHADOW_IN_FLIGHT_MAX || !has_budget {
            return None;
        }
        self.shadow.made += 1;
        Some(Assignment {
            side: Side::Candidate,
            compared: Some(Stage::Shadow),
            cell: place.cell,
        })
    }

    /// Gives a copy back that was never sent, or whose end nobody saw.
    pub const fn forget(&mut self, copy: &Assignment) {
        if matches!((copy.side, copy.compared), (Side::Candidate, Some(Stage::Shadow))) {
            self.shadow.made = self.shadow.made.saturating_sub(1);
        }
    }

    /// Takes in a call that is over.
    pub fn observe(&mut self, call: &Assignment, observed: &Observation, now: UnixMillis) -> Vec<Event> {
        let mut events = Vec::new();
        let Some(stage) = call.compared else {
            return events;
        };
        let is_copy = stage == Stage::Shadow && call.side == Side::Candidate;
        if is_copy {
            self.shadow.over += 1;
            self.shadow.cost = self.shadow.cost.saturating_add(observed.cost.unwrap_or(0));
        }
        if !self.compares() {
            return events;
        }
        let calls = match stage {
            Stage::Step(step) => self.calls.get_mut(usize::from(step)),
            _ => Some(&mut self.shadow_calls),
        };
        if let Some(calls) = calls {
            match call.side {
                Side::Baseline => calls.baseline += 1,
                Side::Candidate => calls.candidate += 1,
            }
        }
        let is_settled = now.get().saturating_sub(self.since()) >= millis(self.terms.settle);
        let seen = Seen {
            side: call.side,
            cell: call.cell,
            settled: if is_settled { Settled::Yes } else { Settled::NotYet },
            observed,
        };
        self.guards.observe(&seen, &self.terms.tolerances);
        if call.side == Side::Candidate {
            self.decide(now, &mut events);
        }
        events
    }

    /// Takes in that a human took over from an answer of a call, or at the end of a session whose last call it was. May come long after
    /// the call; nothing is decided before the side's next call is over.
    pub fn takeover(&mut self, call: &Assignment) {
        if self.compares() && matches!(call.compared, Some(Stage::Step(_))) {
            self.guards.takeover(call.side);
        }
    }

    /// Lets time pass.
    pub fn tick(&mut self, now: UnixMillis) -> Vec<Event> {
        let mut events = Vec::new();
        self.decide(now, &mut events);
        events
    }

    /// Takes in what the endpoints of a side say they run. `asked` is when the first of them was asked: what was asked before the present
    /// stage began proves nothing of it.
    pub fn verified(&mut self, side: Side, found: Verification, asked: UnixMillis, now: UnixMillis) -> Vec<Event> {
        let mut events = Vec::new();
        let (release, place) = match side {
            Side::Baseline => (&self.terms.baseline, 0),
            Side::Candidate => (&self.terms.candidate, 1),
        };
        if found.release != release.name {
            return events;
        }
        let (holds, is_nowhere) = (found.holds(), found.is_nowhere());
        let is_fresh = asked.get() > self.since();
        let is_new = self
            .found
            .get(place)
            .is_none_or(|before| before.as_ref() != Some(&found));
        if let Some(slot) = self.found.get_mut(place) {
            *slot = Some(found.clone());
        }
        match (self.stage, side) {
            (Stage::Shadow | Stage::Step(_), Side::Candidate) if is_nowhere => {
                self.roll_back(Why::Drift, now, &mut events);
            }
            (Stage::Shadow | Stage::Step(_), _) => self.decide(now, &mut events),
            (Stage::Promoting, Side::Candidate) if holds && is_fresh => self.enter(Stage::Promoted, now, &mut events),
            (Stage::RollingBack, Side::Baseline) if holds && is_fresh => {
                self.enter(Stage::RolledBack, now, &mut events);
            }
            (Stage::Promoting, Side::Candidate) | (Stage::RollingBack, Side::Baseline) if !holds && is_new => {
                events.push(Event::NotDone(found));
            }
            _ => {}
        }
        events
    }

    /// An operator promotes the candidate without waiting for the rest of the steps. Does nothing once it is promoted or rolled back.
    pub fn promote(&mut self, actor: &str, now: UnixMillis) -> Vec<Event> {
        let mut events = Vec::new();
        if self.compares() {
            events.push(Event::PromotionBegan(By::Operator(actor.to_owned())));
            self.enter(Stage::Promoting, now, &mut events);
        }
        events
    }

    /// An operator rolls back. Does nothing once the candidate is promoted or rolled back: then the way back is a rollout of its own.
    pub fn abort(&mut self, actor: &str, now: UnixMillis) -> Vec<Event> {
        let mut events = Vec::new();
        if self.compares() || self.stage == Stage::Promoting {
            self.roll_back(Why::Operator(actor.to_owned()), now, &mut events);
        }
        events
    }

    /// Where it stands.
    #[must_use]
    pub const fn stage(&self) -> Stage {
        self.stage
    }

    /// Its terms.
    #[must_use]
    pub const fn terms(&self) -> &Terms {
        &self.terms
    }

    /// Everything an operator may want to know.
    #[must_use]
    pub fn status(&self) -> Status<'_> {
        Status {
            name: &self.terms.name,
            stage: self.stage,
            since: self.since(),
            portion: self.portion(),
            tenants: self.step().map_or(&[], |step| step.tenants.as_slice()),
            calls: self.stage_calls(),
            sample: self.stage_sample(),
            shadow: self.shadow,
            hold: self.hold,
            why: self.why.as_ref(),
            odds: self.odds(),
            standings: self.guards.standings().collect(),
            baseline: self.found[0].as_ref(),
            candidate: self.found[1].as_ref(),
        }
    }

    /// The portion of sessions that is the candidate's now.
    #[must_use]
    pub fn portion(&self) -> Portion {
        match self.stage {
            Stage::Step(_) => self.step().map_or(Portion::NONE, |step| step.portion),
            Stage::Promoting | Stage::Promoted => Portion::ALL,
            Stage::Shadow | Stage::RollingBack | Stage::RolledBack => Portion::NONE,
        }
    }

    /// The odds that the candidate is worse, and in what before all.
    #[must_use]
    pub fn odds(&self) -> Odds {
        self.guards.odds()
    }

    /// Calls of the candidate that were compared, over all stages.
    #[must_use]
    pub fn compared(&self) -> u64 {
        self.calls.iter().map(|calls| calls.candidate).sum::<u64>() + self.shadow_calls.candidate
    }

    fn decide(&mut self, now: UnixMillis, events: &mut Vec<Event>) {
        if !self.compares() {
            return;
        }
        let odds = Some(SUSPICION.ln())
            .filter(|log| self.guards.may_reach(*log))
            .map(|_| self.guards.odds());
        let needed = numbers::ratio(PPM / self.terms.risk.max(1)) * 1e6;
        let is_worse = |odds: &Odds| odds.log >= needed.ln() && self.compared() >= self.terms.sample_min;
        if let Some(odds) = odds.filter(is_worse) {
            let why = Why::Guard {
                guard: odds.guard,
                odds: numbers::ppm(odds.log.exp() / 1e6),
            };
            self.roll_back(why, now, events);
            return;
        }
        let hold = self.hold_for(odds, now);
        if hold != self.hold {
            self.hold = hold;
            events.extend(hold.map(Event::Held));
        }
        if hold.is_some() {
            return;
        }
        let next = match self.stage {
            Stage::Step(step) => usize::from(step) + 1,
            _ => 0,
        };
        if next < self.terms.steps.len() {
            self.enter(Stage::Step(u8::try_from(next).unwrap_or(u8::MAX)), now, events);
        } else {
            events.push(Event::PromotionBegan(By::Guards));
            self.enter(Stage::Promoting, now, events);
        }
    }

    /// What keeps the present step from being widened.
    fn hold_for(&self, odds: Option<Odds>, now: UnixMillis) -> Option<Hold> {
        let calls = self.stage_calls();
        if self.found.iter().flatten().any(|found| !found.holds()) {
            return Some(Hold::Drift);
        }
        let is_spent = self.shadow_is_spent();
        if calls.candidate < self.stage_sample() && !(is_spent && calls.candidate >= self.terms.sample_min) {
            return Some(if is_spent { Hold::Budget } else { Hold::Sample });
        }
        if calls.baseline < self.terms.sample_min {
            return Some(Hold::Control);
        }
        if now.get().saturating_sub(self.since()) < millis(self.terms.step_min) {
            return Some(Hold::Time);
        }
        odds.filter(|odds| odds.log >= SUSPICION.ln())
            .map(|odds| Hold::Suspicion(odds.guard))
    }

    fn roll_back(&mut self, why: Why, now: UnixMillis, events: &mut Vec<Event>) {
        events.push(Event::RollbackBegan(why.clone()));
        self.why = Some(why);
        self.enter(Stage::RollingBack, now, events);
    }

    fn enter(&mut self, stage: Stage, now: UnixMillis, events: &mut Vec<Event>) {
        // A wall clock may be set back; the order of stages may not.
        let at = now.get().max(self.since());
        self.stage = stage;
        self.hold = None;
        self.begun.push((stage, at));
        events.push(Event::Entered {
            stage,
            portion: self.portion(),
        });
    }

    /// Whether the stage is one in which the sides are compared.
    const fn compares(&self) -> bool {
        matches!(self.stage, Stage::Shadow | Stage::Step(_))
    }

    fn is_whole(&self) -> bool {
        let step_is = self.stage == Stage::Shadow || self.step().is_some();
        self.guards.is_whole() && self.calls.len() == self.terms.steps.len() && step_is && self.terms.check().is_ok()
    }

    fn step(&self) -> Option<&Step> {
        match self.stage {
            Stage::Step(step) => self.terms.steps.get(usize::from(step)),
            _ => None,
        }
    }

    fn since(&self) -> u64 {
        self.begun.last().map_or(0, |(_, at)| *at)
    }

    fn promoted_at(&self) -> u64 {
        let promoting = self.begun.iter().find(|(stage, _)| *stage == Stage::Promoting);
        promoting.map_or(0, |(_, at)| *at)
    }

    fn stage_calls(&self) -> Calls {
        match self.stage {
            Stage::Shadow => self.shadow_calls,
            Stage::Step(step) => self.calls.get(usize::from(step)).copied().unwrap_or_default(),
            _ => Calls::default(),
        }
    }

    fn stage_sample(&self) -> u64 {
        match self.stage {
            Stage::Shadow => self.terms.shadow.map_or(0, |shadow| shadow.calls),
            Stage::Step(step) => self.terms.sample_of(usize::from(step)),
            _ => 0,
        }
    }

    fn shadow_is_spent(&self) -> bool {
        let spent = |shadow: Shadow| self.shadow.cost >= shadow.cost;
        self.stage == Stage::Shadow && self.terms.shadow.is_some_and(spent)
    }

    fn is_candidate(&self, stage: Stage, tenant: &str, place: Place) -> bool {
        match stage {
            Stage::Step(step) => self
                .terms
                .steps
                .get(usize::from(step))
                .is_some_and(|step| step.is_for(tenant) && place.point < step.portion.millionths()),
            Stage::Promoting | Stage::Promoted => true,
            Stage::Shadow | Stage::RollingBack | Stage::RolledBack => false,
        }
    }

    /// Whether the session is known to have begun when it was the baseline's.
    fn began_elsewhere(&self, caller: &Caller<'_>, place: Place) -> bool {
        let Some(since) = caller.session_since else {
            return false;
        };
        let then = self.begun.iter().rev().find(|(_, at)| *at <= since.get());
        !then.is_some_and(|(stage, _)| self.is_candidate(*stage, caller.tenant, place))
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
