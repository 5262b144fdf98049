//! The engine behind the face: the model, the calls it computes, its faults, and how wall-clock time becomes its time.
//!
//! One lock guards it. It is held for the microseconds that a step's bookkeeping takes, never across an await. A task wakes
//! when the model has something to tell, and brings it up to the present; everybody who looks does the same, so nobody sees
//! the past. Timers are coarser than a step at high time scales: a wake-up tells all that has happened since the last one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use maitred_runtime::Clock;
use maitred_sim::{EngineModel, EngineOptions, EngineProfile, FinishReason, RequestNumber, SimEvent, SimRequest};
use maitred_types::{Time, UnixMillis};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::faults::{CallFault, FaultPatch, Faults, MetricsFault};
use super::kv_events::Publisher;
use super::progress::Progress;

/// Where the engine is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    /// It loads the model and cannot infer.
    Loading,
    /// It serves.
    Serving,
    /// It says that it is leaving, and still serves.
    Draining,
    /// Its scheduler is dead; the face answers with errors for a moment.
    Dead,
}

impl Life {
    /// The word on the admin path.
    pub(super) const fn label(self) -> &'static str {
        match self {
            Self::Loading => "loading",
            Self::Serving => "serving",
            Self::Draining => "draining",
            Self::Dead => "dead",
        }
    }
}

/// A sequence of a call.
#[derive(Debug)]
struct Sequence {
    progress: Arc<Progress>,
    choice: usize,
}

/// What the lock guards.
#[derive(Debug)]
pub(super) struct State {
    pub(super) model: EngineModel,
    pub(super) life: Life,
    pub(super) faults: Faults,
    pub(super) face: FaceCounters,
    /// The metrics page that a frozen or seldom renewed page keeps showing, and when it was made.
    pub(super) kept_page: Option<(Time, Arc<str>)>,
    /// Who is told what happens to the prefix cache.
    publisher: Option<Arc<Publisher>>,
    sequences: BTreeMap<u64, Sequence>,
    next_number: u64,
    rng: fastrand::Rng,
    started: Time,
}

/// What the API front counts: answers by path, method and class of status.
#[derive(Clone, Debug, Default)]
pub(super) struct FaceCounters {
    /// Finished HTTP answers.
    pub(super) answers: BTreeMap<(&'static str, &'static str, u16), u64>,
}

/// The engine behind the face.
#[derive(Debug)]
pub(super) struct Core {
    state: Mutex<State>,
    woken: Notify,
    /// Told when the last sequence has ended.
    idle: Notify,
    clock: Clock,
    time_scale: f64,
    /// When the process started, in civil time.
    pub(super) born: UnixMillis,
}

impl Core {
    pub(super) fn new(profile: &EngineProfile, options: &EngineOptions, pace: Pace) -> Self {
        let state = State {
            model: EngineModel::new(profile, options, Time::ZERO),
            life: Life::Loading,
            faults: Faults::default(),
            face: FaceCounters::default(),
            kept_page: None,
            publisher: None,
            sequences: BTreeMap::new(),
            next_number: 1,
            rng: fastrand::Rng::with_seed(pace.seed),
            started: pace.clock.now(),
        };
        Self {
            state: Mutex::new(state),
            woken: Notify::new(),
            idle: Notify::new(),
            clock: pace.clock,
            time_scale: pace.time_scale,
            born: pace.clock.unix_now(),
        }
    }

    /// Looks at, or changes, the engine as it is now.
    pub(super) fn with<R>(&self, look: impl FnOnce(&mut State) -> R) -> R {
        let mut state = self.state.lock();
        self.catch_up(&mut state);
        look(&mut state)
    }

    /// The clock on the wall.
    pub(super) const fn clock(&self) -> Clock {
        self.clock
    }

    /// A point of the engine's time in civil time.
    pub(super) fn unix_seconds(&self, time: Time) -> f64 {
        self.born.get() as f64 / 1e3 + time.as_secs_f64() / self.time_scale
    }

    /// How long a time of the engine takes on the wall.
    pub(super) fn on_the_wall(&self, duration: Duration) -> Duration {
        Duration::try_from_secs_f64(duration.as_secs_f64() / self.time_scale).unwrap_or(Duration::MAX)
    }

    fn engine_time(&self, state: &State) -> Time {
        let wall = self.clock.now().since(state.started);
        Time::ZERO + Duration::try_from_secs_f64(wall.as_secs_f64() * self.time_scale).unwrap_or(Duration::MAX)
    }

    /// Lets the model run up to the present and tells each call what came of it.
    fn catch_up(&self, state: &mut State) {
        let now = self.engine_time(state);
        let State { model, sequences, .. } = state;
        model.advance(now, &mut |event| match event {
            SimEvent::Token { id, n, .. } => {
                if let Some(sequence) = sequences.get(&id.0) {
                    sequence
                        .progress
                        .update(|answer| answer.choices[sequence.choice].tokens = n);
                }
            }
            SimEvent::Finished { id, reason, usage, .. } => {
                if let Some(sequence) = sequences.remove(&id.0) {
                    sequence.progress.update(|answer| {
                        let choice = &mut answer.choices[sequence.choice];
                        choice.end = Some(reason);
                        choice.usage = usage;
                    });
                }
            }
            SimEvent::Preempted { .. } => {}
        });
        self.tell_cache(state);
        self.tell_idle(state);
    }

    fn tell_cache(&self, state: &mut State) {
        if let Some(publisher) = &state.publisher {
            let changes = state.model.take_cache_changes();
            publisher.publish(&changes, self.clock.unix_now().get() as f64 / 1e3);
        }
    }

    /// From here on `publisher` is told what happens to the prefix cache.
    pub(super) fn publish_to(&self, publisher: Arc<Publisher>) {
        self.with(|state| {
            state.model.note_cache_changes();
            state.publisher = Some(publisher);
        });
    }

    /// The next batches of KV events are lost on the way.
    pub(super) fn lose_kv_events(&self, batches: u32) {
        self.with(|state| {
            if let Some(publisher) = &state.publisher {
                publisher.lose(batches);
            }
        });
    }

    /// Submits the sequences of one call; their numbers are chosen here.
    ///
    /// # Errors
    /// The model's refusal. Sequences that were taken before it are cancelled.
    pub(super) fn submit(
        self: &Arc<Self>,
        requests: Vec<SimRequest>,
        progress: &Arc<Progress>,
    ) -> Result<Ticket, maitred_sim::Refused> {
        let mut ticket = Ticket {
            core: Arc::clone(self),
            numbers: Vec::with_capacity(requests.len()),
        };
        let mut refused = None;
        self.with(|state| {
            let now = self.engine_time(state);
            for (choice, mut request) in requests.into_iter().enumerate() {
                let number = state.next_number;
                state.next_number += 1;
                request.id = RequestNumber(number);
                if let Err(why) = state.model.submit(request, now) {
                    refused = Some(why);
                    return;
                }
                ticket.numbers.push(number);
                state.sequences.insert(
                    number,
                    Sequence {
                        progress: Arc::clone(progress),
                        choice,
                    },
                );
            }
        });
        self.woken.notify_one();
        // The ticket cancels on its way out.
        refused.map_or(Ok(ticket), Err)
    }

    fn cancel(&self, numbers: &[u64]) {
        self.with(|state| {
            let now = self.engine_time(state);
            for number in numbers {
                if state.sequences.remove(number).is_some() {
                    state.model.cancel(RequestNumber(*number), now);
                }
            }
            self.tell_idle(state);
        });
    }

    fn tell_idle(&self, state: &State) {
        if state.sequences.is_empty() {
            self.idle.notify_waiters();
        }
    }

    /// What goes wrong with the next call.
    pub(super) fn draw_fault(&self) -> Option<CallFault> {
        self.with(|state| state.faults.draw(&mut state.rng))
    }

    /// Changes faults; the new ones.
    pub(super) fn patch_faults(&self, patch: &FaultPatch) -> Faults {
        self.set_faults(|faults| patch.apply(faults))
    }

    /// Replaces faults; the new ones.
    pub(super) fn set_faults(&self, change: impl FnOnce(Faults) -> Faults) -> Faults {
        let faults = self.with(|state| {
            let before = state.faults.metrics;
            state.faults = change(state.faults);
            state.model.set_pace(state.faults.slow);
            if state.faults.metrics != before || before != MetricsFault::Frozen {
                state.kept_page = None;
            }
            state.faults
        });
        self.woken.notify_one();
        faults
    }

    /// Ends every answer at once, as vLLM does when it is told to go: with what it has and the reason "abort". A choice that
    /// has begun gets one more token with the reason.
    pub(super) fn abort_all(&self) {
        self.end_all(|choice| {
            choice.tokens += u32::from(choice.tokens > 0);
            choice.end = Some(FinishReason::Abort);
        });
    }

    /// The scheduler dies: no answer gets another token.
    pub(super) fn die(&self) {
        self.with(|state| state.life = Life::Dead);
        self.end_all(|_| {});
    }

    fn end_all(&self, end: impl Fn(&mut super::progress::ChoiceProgress)) {
        self.with(|state| {
            let now = self.engine_time(state);
            let died = state.life == Life::Dead;
            for (number, sequence) in std::mem::take(&mut state.sequences) {
                state.model.cancel(RequestNumber(number), now);
                sequence.progress.update(|answer| {
                    answer.engine_died |= died;
                    end(&mut answer.choices[sequence.choice]);
                });
            }
        });
    }

    /// Waits until no sequence is left.
    pub(super) async fn idle(&self) {
        loop {
            let idle = self.idle.notified();
            tokio::pin!(idle);
            // Enlisted before looking, so that no notice is missed.
            idle.as_mut().enable();
            if self.with(|state| state.sequences.is_empty()) {
                return;
            }
            idle.await;
        }
    }

    /// Keeps the model up to the present until the task is dropped.
    pub(super) async fn drive(self: Arc<Self>) {
        loop {
            let next = self.with(|state| {
                let next = state.model.next_event()?;
                Some(state.started + self.on_the_wall(next.since(Time::ZERO)))
            });
            let woken = self.woken.notified();
            match next {
                Some(next) => tokio::select! {
                    () = tokio::time::sleep_until(self.clock.instant(next)) => {}
                    () = woken => {}
                },
                None => woken.await,
            }
        }
    }
}

/// How fast the engine's time runs, and from where.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// The clock on the wall.
    pub(super) clock: Clock,
    /// How many times faster than it the engine runs.
    pub(super) time_scale: f64,
    /// The seed of fault rates.
    pub(super) seed: u64,
}

/// A call's place in the engine. Dropping it, as happens when the client goes away, cancels what has not ended.
#[derive(Debug)]
pub(super) struct Ticket {
    core: Arc<Core>,
    numbers: Vec<u64>,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.core.cancel(&self.numbers);
    }
}
