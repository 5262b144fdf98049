//! Quota, as the data path holds it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use maitred_config::SharingSettings;
use maitred_obs::Meters;
use maitred_tenant::{
    Amount, Edition, Limit, Lookback, Measure, Moment, Past, Quota, QuotaRefusal, Reservation, SharedOptions,
    SharedQuota, Standing, Subject,
};
use maitred_types::{FaultKind, UnixMillis};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use crate::clock::Clock;

/// Most counters that are kept: some hundred bytes each.
const COUNTERS_MAX: usize = 200_000;
/// What the monotone clock of quota says at the gateway's start: what was used before that has a place on it too.
const PAST: Duration = Duration::from_secs(400 * 24 * 3600);

/// Limits that this gateway holds for itself, or its part of those that several share.
#[derive(Debug)]
enum Core {
    Own(Quota),
    Shared(SharedQuota),
}

/// Every limit, and what is used of it. One per process.
#[derive(Debug)]
pub struct QuotaHost {
    core: Mutex<Core>,
    clock: Clock,
    meters: Arc<Meters>,
    /// Told when the store of shared quota should be asked at once.
    pub(crate) hungry: Notify,
    /// Whether the store of shared quota answers.
    pub(crate) store_answers: watch::Sender<bool>,
    /// Whether there are limits for calls that belong to no task. Without them most calls need not look.
    limits_all: AtomicBool,
    /// Which limits there are, set after all else: a call that reserved under another one may have to be charged late.
    edition: AtomicU64,
    abandoned: AtomicU64,
}

/// Why a call may not go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoQuota {
    /// What this is called.
    pub fault: FaultKind,
    /// What the client is told.
    pub message: String,
    /// When to try again, where waiting helps.
    pub retry_after: Option<Duration>,
    /// How the limit stands that refuses, if it is one on calls.
    pub calls: Option<Standing>,
    /// How the limit stands that refuses, if it is one on tokens.
    pub tokens: Option<Standing>,
}

/// What a call has reserved. Settle it; one that is dropped is settled at all that it reserved, and counted.
#[derive(Debug)]
pub struct Reserved {
    host: Arc<QuotaHost>,
    reservation: Option<Reservation>,
    most: Amount,
    /// How the tightest limit on calls stands.
    pub calls: Option<Standing>,
    /// How the tightest limit on tokens stands.
    pub tokens: Option<Standing>,
    /// Whether something of it was taken without knowing what other gateways have used.
    pub is_blind: bool,
    /// Whether a limit on tokens or money is for the call, so that it must not use more than it reserved.
    pub limits_output: bool,
    /// Whether any limit is for the call.
    pub is_limited: bool,
}

impl QuotaHost {
    /// Without `sharing` the limits are this gateway's own.
    pub(crate) fn new(
        limits: &[Limit],
        sharing: Option<&SharingSettings>,
        clock: Clock,
        meters: Arc<Meters>,
    ) -> Arc<Self> {
        let core = match sharing {
            Some(sharing) => {
                let options = SharedOptions {
                    counters: COUNTERS_MAX,
                    gateways: sharing.gateways,
                    without_store: sharing.without_store,
                };
                Core::Shared(SharedQuota::new(limits.to_vec(), options))
            }
            None => Core::Own(Quota::new(limits.to_vec(), COUNTERS_MAX)),
        };
        Arc::new(Self {
            core: Mutex::new(core),
            clock,
            meters,
            hungry: Notify::new(),
            store_answers: watch::Sender::new(false),
            limits_all: AtomicBool::new(limits_all(limits)),
            edition: AtomicU64::default(),
            abandoned: AtomicU64::new(0),
        })
    }

    /// Takes other limits; what was used of those that stay stays used. Says when that was: calls that had ended by then are counted for
    /// no limit that is new.
    pub(crate) fn reconfigure(&self, limits: &[Limit]) -> UnixMillis {
        let mut core = self.core.lock();
        let edition = match &mut *core {
            Core::Own(quota) => {
                quota.reconfigure(limits.to_vec(), COUNTERS_MAX);
                quota.edition()
            }
            Core::Shared(quota) => {
                quota.reconfigure(limits.to_vec());
                Edition::default()
            }
        };
        self.limits_all.store(limits_all(limits), Ordering::Relaxed);
        self.edition.store(edition.0, Ordering::Release);
        self.clock.unix_now()
    }

    /// Reserves what a call may use at most.
    ///
    /// # Errors
    /// A limit has no room, or it cannot be known.
    pub fn reserve(self: &Arc<Self>, subject: &Subject<'_>, most: Amount) -> Result<Reserved, NoQuota> {
        // First the edition: whoever sees the new one sees the new limits.
        let edition = Edition(self.edition.load(Ordering::Acquire));
        if subject.task.is_none() && !self.limits_all.load(Ordering::Relaxed) {
            return Ok(self.reserved(Reservation::of_nothing(edition), most));
        }
        let at = self.moment();
        let (reserved, is_hungry) = self.core.lock().reserve(subject, most, at);
        if is_hungry {
            self.hungry.notify_one();
        }
        match reserved {
            Ok(reservation) => {
                if reservation.is_blind {
                    self.meters.quota_blind.inc();
                }
                Ok(self.reserved(reservation, most))
            }
            Err((refusal, limit)) => Err(no_quota(refusal, limit.as_ref())),
        }
    }

    fn reserved(self: &Arc<Self>, reservation: Reservation, most: Amount) -> Reserved {
        Reserved {
            host: Arc::clone(self),
            calls: reservation.calls,
            tokens: reservation.tokens,
            is_blind: reservation.is_blind,
            limits_output: reservation.limits_output,
            is_limited: !reservation.is_of_nothing(),
            reservation: Some(reservation),
            most,
        }
    }

    /// Does something with the part of shared limits, if they are shared.
    pub(crate) fn with_shared<T>(&self, act: impl FnOnce(&mut SharedQuota, Moment) -> T) -> Option<T> {
        let at = self.moment();
        match &mut *self.core.lock() {
            Core::Own(_) => None,
            Core::Shared(quota) => Some(act(quota, at)),
        }
    }

    /// What has to be known of the past, for limits that were added since this was asked last. Nothing where several gateways share the
    /// limits: the store knows it.
    pub(crate) fn lookbacks(&self) -> Vec<Lookback> {
        let at = self.moment();
        match &mut *self.core.lock() {
            Core::Own(quota) => quota.lookbacks(at),
            Core::Shared(_) => Vec::new(),
        }
    }

    /// Whether several gateways share the limits.
    pub(crate) fn is_shared(&self) -> bool {
        matches!(&*self.core.lock(), Core::Shared(_))
    }

    /// Counts what was used in the past. Says whether there was room for all counters.
    pub(crate) fn recall<'a>(&self, lookback: &Lookback, pasts: impl IntoIterator<Item = Past<'a>>) -> bool {
        let at = self.moment();
        let mut is_whole = true;
        for past in pasts {
            // One by one, so that calls need not wait for all of them.
            is_whole &= match &mut *self.core.lock() {
                Core::Own(quota) => quota.recall(lookback, &past, at),
                Core::Shared(quota) => quota.recall(lookback, &past, at),
            };
        }
        is_whole
    }

    /// How many reservations were never settled by whoever made them.
    #[must_use]
    pub fn abandoned(&self) -> u64 {
        self.abandoned.load(Ordering::Relaxed)
    }

    fn moment(&self) -> Moment {
        Moment {
            now: self.clock.now() + PAST,
            unix: self.clock.unix_now(),
        }
    }
}

impl Core {
    /// Reserves; says too whether the store of shared quota should be asked at once. A refusal comes with the limit that it is about.
    fn reserve(
        &mut self,
        subject: &Subject<'_>,
        most: Amount,
        at: Moment,
    ) -> (Result<Reservation, (QuotaRefusal, Option<Refusing>)>, bool) {
        let (reserved, is_hungry) = match self {
            Self::Own(quota) => (quota.reserve(subject, most, at), false),
            Self::Shared(quota) => (quota.reserve(subject, most, at), quota.take_hunger()),
        };
        let with_limit = |refusal| match refusal {
            QuotaRefusal::Exceeded { limit, .. } => (refusal, self.refusing(limit, subject, at)),
            _ => (refusal, None),
        };
        (reserved.map_err(with_limit), is_hungry)
    }

    /// A limit that refuses a subject.
    fn refusing(&mut self, limit: u16, subject: &Subject<'_>, at: Moment) -> Option<Refusing> {
        let (standings, limits) = match self {
            Self::Own(quota) => (quota.standings(subject, at), quota.limits()),
            Self::Shared(quota) => (quota.standings(subject, at), quota.limits()),
        };
        let (_, standing) = standings.into_iter().find(|(number, _)| *number == limit)?;
        let limit = limits.get(usize::from(limit))?.clone();
        Some(Refusing { limit, standing })
    }
}

impl Reserved {
    /// The most that it was reserved for.
    #[must_use]
    pub const fn most(&self) -> Amount {
        self.most
    }

    /// Ends it with what the call really used; nothing, if it was never forwarded. Limits that are new since it was made are charged too.
    pub fn settle(mut self, used: Amount, subject: &Subject<'_>) {
        self.end(used, Some(subject));
    }

    /// Ends it as if it had never been made: the call goes on to another target, and reserves there.
    pub fn give_back(mut self) {
        let Some(reservation) = self.reservation.take().filter(|held| !held.is_of_nothing()) else {
            return;
        };
        let at = self.host.moment();
        match &mut *self.host.core.lock() {
            Core::Own(quota) => quota.give_back(reservation, at),
            Core::Shared(quota) => quota.give_back(reservation),
        }
    }

    fn end(&mut self, used: Amount, subject: Option<&Subject<'_>>) {
        let Some(reservation) = self.reservation.take() else {
            return;
        };
        let is_late = reservation.edition().0 != self.host.edition.load(Ordering::Acquire);
        if reservation.is_of_nothing() && !is_late {
            return;
        }
        let at = self.host.moment();
        match (&mut *self.host.core.lock(), subject) {
            (Core::Own(quota), Some(subject)) => {
                quota.charge_late(&reservation, subject, used, at);
                quota.settle(reservation, used, at);
            }
            (Core::Own(quota), None) => quota.settle(reservation, used, at),
            (Core::Shared(quota), _) => quota.settle(reservation, used),
        }
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        if self.reservation.as_ref().is_some_and(|held| !held.is_of_nothing()) {
            self.host.abandoned.fetch_add(1, Ordering::Relaxed);
            self.end(self.most, None);
        }
    }
}

fn limits_all(limits: &[Limit]) -> bool {
    limits.iter().any(|limit| !limit.is_default)
}

/// A limit that has no room, and how it stands.
#[derive(Debug)]
struct Refusing {
    limit: Limit,
    standing: Standing,
}

fn no_quota(refusal: QuotaRefusal, refusing: Option<&Refusing>) -> NoQuota {
    let retry_after = match refusal {
        QuotaRefusal::Exceeded { retry_after, .. } => retry_after,
        _ => Some(Duration::from_secs(10)),
    };
    let message = match (refusal, refusing.map(|refusing| &refusing.limit)) {
        (
            QuotaRefusal::Exceeded {
                remaining,
                wanted,
                retry_after,
                ..
            },
            Some(limit),
        ) => {
            let (name, what) = (&limit.name, limit.measure.name().replace('_', " "));
            let amount = limit.amount;
            let so = format!(
                "the quota `{name}` allows {amount} {what}; {remaining} are left, and this call may need {wanted}"
            );
            match retry_after {
                Some(_) => so,
                None if wanted > amount => {
                    format!("{so}. It can never fit: ask for fewer output tokens, or shorten the prompt")
                }
                None => so,
            }
        }
        _ => refusal.to_string(),
    };
    let standing = |is_asked: fn(Measure) -> bool| {
        let refusing = refusing.filter(|refusing| is_asked(refusing.limit.measure));
        refusing.map(|refusing| refusing.standing)
    };
    NoQuota {
        fault: refusal.fault(),
        message,
        retry_after,
        calls: standing(|measure| matches!(measure, Measure::Calls { .. } | Measure::ConcurrentCalls)),
        tokens: standing(Measure::counts_tokens),
    }
}

#[cfg(test)]
mod tests {
    use maitred_tenant::{Dimensions, LimitMatch};

    use super::*;

    fn limit() -> Limit {
        Limit {
            name: "team".to_owned(),
            only: LimitMatch::default(),
            per: Dimensions::TENANT,
            measure: Measure::TokensPerDay,
            amount: 100,
            is_default: false,
        }
    }

    fn host(is_default: bool) -> Arc<QuotaHost> {
        let limit = Limit { is_default, ..limit() };
        QuotaHost::new(&[limit], None, Clock::start(), Arc::new(Meters::new("test")))
    }

    const SUBJECT: Subject<'static> = Subject {
        tenant: "t",
        user: None,
        key: None,
        model: "m",
        task: None,
    };

    const fn tokens(tokens: u64) -> Amount {
        Amount { tokens, money: 0 }
    }

    #[tokio::test]
    async fn what_is_dropped_is_charged_and_counted() {
        let host = host(false);
        drop(host.reserve(&SUBJECT, tokens(70)).unwrap());
        assert_eq!(host.abandoned(), 1);
        let refused = host.reserve(&SUBJECT, tokens(31)).unwrap_err();
        assert_eq!(refused.fault, FaultKind::QuotaExceeded);
        assert_eq!(
            refused.message,
            "the quota `team` allows 100 tokens per day; 30 are left, and this call may need 31"
        );
        assert!(refused.retry_after.is_some());
        let told = refused.tokens.map(|standing| (standing.limit, standing.remaining));
        assert_eq!((told, refused.calls), (Some((100, 30)), None));
        let never = host.reserve(&SUBJECT, tokens(101)).unwrap_err();
        assert!(never.message.contains("It can never fit"), "{}", never.message);
        let rest = host.reserve(&SUBJECT, tokens(30)).unwrap();
        assert_eq!(rest.tokens.map(|standing| standing.remaining), Some(0));
        rest.settle(tokens(0), &SUBJECT);
        assert!(host.reserve(&SUBJECT, tokens(30)).is_ok());
    }

    #[tokio::test]
    async fn calls_without_a_task_pass_by_what_holds_for_tasks() {
        let host = host(true);
        let reserved = host.reserve(&SUBJECT, tokens(1000)).unwrap();
        assert!(!reserved.is_limited);
        drop(reserved);
        assert_eq!(host.abandoned(), 0);
    }

    #[tokio::test]
    async fn a_call_that_runs_while_the_first_limit_comes_is_charged_by_it() {
        let host = host(true);
        let reserved = host.reserve(&SUBJECT, tokens(1000)).unwrap();
        let limit = Limit {
            name: "new".to_owned(),
            is_default: false,
            ..limit()
        };
        host.reconfigure(&[limit]);
        assert_eq!(host.lookbacks().len(), 1);
        reserved.settle(tokens(60), &SUBJECT);
        let refused = host.reserve(&SUBJECT, tokens(41)).unwrap_err();
        assert_eq!(refused.tokens.map(|standing| standing.remaining), Some(40));
        assert!(host.reserve(&SUBJECT, tokens(40)).is_ok());
    }
}
