//! Calls that wait for a place: asked once, woken when the core lets them go, forgotten when their client leaves.
//!
//! The core decides who goes, whoever happened to change it. So after each change the one who made it asks the core who goes now, and
//! wakes them, all under the lock. Nothing polls.

use std::sync::Arc;
use std::time::Duration;

use maitred_obs::WaitMeters;
use maitred_sched::{Answer, Explain, Picked, Refusal, Released, RoomReport, TicketId};
use maitred_types::{LeaseEnd, Time};
use tokio::sync::oneshot;

use crate::booking::{Ask, Booking, NoPlace};
use crate::decision::{Evidence, named};
use crate::host::{Chosen, Core, PoolHost};

/// Who waits for the end of a wait.
#[derive(Debug)]
pub(crate) struct Waiter {
    turn: oneshot::Sender<Turn>,
    choice: Option<Evidence>,
}

/// The end of a wait.
#[derive(Debug)]
struct Turn {
    chosen: Chosen,
    waited: Duration,
}

/// What came of an ask that may wait.
#[expect(
    clippy::large_enum_variant,
    reason = "it is taken apart at once, and the large one is the usual one"
)]
enum Asked {
    Chosen(Chosen),
    Waits(TicketId, oneshot::Receiver<Turn>),
}

impl PoolHost {
    /// Books a place for an attempt, and waits for one where there is none now. Dropping the future ends the wait.
    ///
    /// # Errors
    /// When no endpoint can take it, or the wait was too long; the reason says whether trying again helps, and when.
    pub async fn ask(self: &Arc<Self>, ask: &Ask<'_>, now: Time) -> Result<Booking, NoPlace> {
        let detail = self.decisions().detail();
        let asked = self.with_core(now, |core| core.ask(ask, detail, now));
        let (ticket, turn) = match asked {
            Asked::Chosen(chosen) => return self.settle(chosen, Duration::ZERO),
            Asked::Waits(ticket, turn) => (ticket, turn),
        };
        // The moment at which its wait ends may be the next at which the core has something to do.
        self.bell.notify_one();
        let mut place = Place {
            host: Arc::clone(self),
            ticket,
            turn: Some(turn),
            meters: self.meters().waits(&self.class_name(ask.class)),
        };
        place.meters.begins();
        let Turn { chosen, waited } = place.end().await;
        place.meters.lasted(waited);
        drop(place);
        self.settle(chosen, waited)
    }

    /// The class of a call as metrics name it: one of those that the settings have.
    fn class_name(&self, asked: Option<&str>) -> Arc<str> {
        let settings = self.settings();
        let waiting = &settings.options.waiting;
        let named = waiting.classes.iter().find(|class| Some(&*class.name) == asked);
        let class = named.or_else(|| waiting.classes.get(waiting.default_class));
        class.map_or_else(|| Arc::from(""), |class| class.name.clone())
    }

    /// What waits in the pool.
    #[must_use]
    pub fn room(&self, now: Time) -> RoomReport {
        self.with_core(now, |core| core.pool.room(now))
    }

    /// The client of a waiting call has gone. If a place was booked for it just then, that is given back.
    fn leave(&self, ticket: TicketId, turn: oneshot::Receiver<Turn>) {
        // Time stands still for those who leave: the core takes any moment not before the newest.
        let now = Time::ZERO;
        self.with_core(now, |core| core.leave(ticket, turn, now));
    }
}

/// A place in the waiting room.
struct Place {
    host: Arc<PoolHost>,
    ticket: TicketId,
    /// `None` once the end has come.
    turn: Option<oneshot::Receiver<Turn>>,
    meters: WaitMeters,
}

impl Place {
    async fn end(&mut self) -> Turn {
        let ended = match &mut self.turn {
            Some(turn) => turn.await.ok(),
            None => None,
        };
        self.turn = None;
        ended.unwrap_or_else(|| Turn {
            // Nobody holds the other end any more: the pool is gone.
            chosen: Chosen::refused(Refusal::NotReady {
                removed: maitred_sched::Removed::default(),
            }),
            waited: Duration::ZERO,
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.meters.ends();
        if let Some(turn) = self.turn.take() {
            self.host.leave(self.ticket, turn);
        }
    }
}

impl Core {
    /// Lets the shadows look, and then asks.
    fn ask(&mut self, ask: &Ask<'_>, detail: Option<Explain>, now: Time) -> Asked {
        let asked = ask.to_core(detail.unwrap_or_default());
        let considered = self.shadows.consider(&mut self.pool, &asked, now);
        let picked = match self.pool.ask(&asked, now) {
            Answer::Go(picked) => Ok(picked),
            Answer::Shed(refusal) => Err(refusal),
            Answer::Wait(ticket) => {
                let (sender, turn) = oneshot::channel();
                // What the shadows would choose now says nothing about later.
                let choice = detail.map(|_| Evidence::of(ask, now));
                self.waiters.insert(ticket, Waiter { turn: sender, choice });
                return Asked::Waits(ticket, turn);
            }
        };
        let shadows = self.shadows.compare(considered, &picked);
        let choice = detail.map(|_| Evidence {
            names: named(&self.pool, picked.as_ref().ok(), &shadows),
            shadows,
            ..Evidence::of(ask, now)
        });
        Asked::Chosen(self.chosen(picked, choice))
    }

    /// Wakes everybody whose wait has ended. To be called after each change of the pool.
    pub(crate) fn call_up(&mut self, now: Time) {
        while let Some(Released {
            ticket,
            waited,
            outcome,
        }) = self.pool.released(now)
        {
            let lease = outcome.as_ref().ok().map(|picked| picked.lease);
            let waiter = self.waiters.remove(&ticket);
            let is_told = waiter.is_some_and(|waiter| self.tell(waiter, outcome, waited));
            if let (false, Some(lease)) = (is_told, lease) {
                self.pool.finish(lease, LeaseEnd::Cancelled, None, now);
            }
        }
    }

    /// False if nobody listens any more.
    fn tell(&self, waiter: Waiter, picked: Result<Picked, Refusal>, waited: Duration) -> bool {
        let choice = waiter.choice.map(|choice| Evidence {
            names: named(&self.pool, picked.as_ref().ok(), &[]),
            ..choice
        });
        let chosen = self.chosen(picked, choice);
        waiter.turn.send(Turn { chosen, waited }).is_ok()
    }

    fn leave(&mut self, ticket: TicketId, mut turn: oneshot::Receiver<Turn>, now: Time) {
        if self.waiters.remove(&ticket).is_some() {
            self.pool.leave(ticket, now);
        } else if let Ok(Turn { chosen, .. }) = turn.try_recv()
            && let Ok(picked) = chosen.picked
        {
            self.pool.finish(picked.lease, LeaseEnd::Cancelled, None, now);
        }
    }
}

#[cfg(test)]
mod tests;
