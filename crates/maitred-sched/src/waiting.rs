//! What the waiting room is told, and what it says.

use std::sync::Arc;
use std::time::Duration;

use crate::ask::{Picked, Refusal};

/// Most classes that a pool can be told of. Beyond it they count as the last one.
pub const MAX_CLASSES: usize = 16;

/// When calls wait in the gateway, how many may, and in which order they go.
#[derive(Clone, Debug, PartialEq)]
pub struct WaitingOptions {
    /// Most calls that wait at one time; 0 turns waiting off, and [`crate::Pool::ask`] refuses where it would wait. Default 1,024.
    pub calls: u32,
    /// Most bytes that the waiting calls hold. Default 256 MiB.
    pub bytes: u64,
    /// Longest wait, unless the class or the ask says less. Where more comes than can be served the waits of those that are served
    /// grow up to this, so with a longer one than callers find useful nobody is served usefully. Default 2 s.
    pub max_wait: Duration,
    /// An endpoint with this many prompt tokens of own calls that have no output yet, cached ones not counted, has no room. Default
    /// 8,192, one chunk of the engine's prefill: what is sent while it works on that is there when it has done. More of it would only
    /// move the queue to where nothing can be reordered, shed or forgotten.
    pub prefill_tokens: u64,
    /// The same in time, at the endpoint's own pace; both hold. Default `None`.
    pub prefill_time: Option<Duration>,
    /// An endpoint whose calls would get their tokens this far apart with one call more, by its learnt pace, has no room; but twice what a
    /// small batch takes there is always allowed. Default 200 ms, the pace of a reader: where much more comes than can be served, batches
    /// grow until nobody can read along.
    pub token_time: Option<Duration>,
    /// An endpoint with this many requests in its engine's queue has no room. Default 5.
    pub queued: u32,
    /// An endpoint with this part of its KV cache in use has no room. Default 0.8.
    pub kv_used: f64,
    /// By which part `queued` and `kv_used` may be exceeded. Default 0.
    pub headroom: f64,
    /// Inside a tenant small calls go first; the wait that makes up for one doubling of the size. Default 2 s.
    pub size_age: Duration,
    /// The wait that makes up for one class. Default 10 s.
    pub class_age: Duration,
    /// The classes, highest first. Default: `high`, `normal`, and `low`, which is sheddable.
    pub classes: Vec<ClassOptions>,
    /// The place among `classes` of asks that name none, or none that there is. Default 1, `normal`.
    pub default_class: usize,
}

impl Default for WaitingOptions {
    fn default() -> Self {
        let mut low = ClassOptions::new("low");
        low.sheddable = true;
        Self {
            calls: 1_024,
            bytes: 256 << 20,
            max_wait: Duration::from_secs(2),
            prefill_tokens: 8_192,
            prefill_time: None,
            token_time: Some(Duration::from_millis(200)),
            queued: 5,
            kv_used: 0.8,
            headroom: 0.0,
            size_age: Duration::from_secs(2),
            class_age: Duration::from_secs(10),
            classes: vec![ClassOptions::new("high"), ClassOptions::new("normal"), low],
            default_class: 1,
        }
    }
}

/// One class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassOptions {
    /// Its name.
    pub name: Arc<str>,
    /// Whether its calls are shed before others, and the more readily the longer the wait they would have.
    pub sheddable: bool,
    /// Longest wait, if not the pool's.
    pub max_wait: Option<Duration>,
}

impl ClassOptions {
    /// A class that is not shed before others.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self {
            name: Arc::from(name),
            sheddable: false,
            max_wait: None,
        }
    }
}

/// A waiting call. Never used twice within a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TicketId(pub(crate) u64);

impl TicketId {
    /// The bare number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// The answer to an ask that may wait.
#[derive(Clone, Debug, PartialEq)]
#[expect(
    clippy::large_enum_variant,
    reason = "it is taken apart at once, and the large one is the usual one"
)]
pub enum Answer {
    /// There is room: go.
    Go(Picked),
    /// There is none now. [`crate::Pool::released`] says when there is, or that there will not be.
    Wait(TicketId),
    /// There is none, and no waiting either.
    Shed(Refusal),
}

/// The end of a wait.
#[derive(Clone, Debug, PartialEq)]
pub struct Released {
    /// Whose.
    pub ticket: TicketId,
    /// How long it was.
    pub waited: Duration,
    /// A booked place, or why there is none.
    pub outcome: Result<Picked, Refusal>,
}

/// Why a call was shed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShedCause {
    /// As many calls, or bytes, wait as may, and none of them is to go before this one.
    RoomFull,
    /// It made room for a call that is worth more, or of a tenant that has less.
    Displaced,
    /// It waited for as long as it may.
    WaitedOut,
    /// It could not have been answered by its deadline any more.
    TooLate,
    /// The wait before it is longer than it may wait.
    NoHope,
    /// Its class is sheddable, and the wait before it is long.
    Sheddable,
}

impl ShedCause {
    /// All causes.
    pub const ALL: &'static [Self] = &[
        Self::RoomFull,
        Self::Displaced,
        Self::WaitedOut,
        Self::TooLate,
        Self::NoHope,
        Self::Sheddable,
    ];

    /// The word for logs, metrics and records.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::RoomFull => "room_full",
            Self::Displaced => "displaced",
            Self::WaitedOut => "waited_out",
            Self::TooLate => "too_late",
            Self::NoHope => "no_hope",
            Self::Sheddable => "sheddable",
        }
    }
}

/// The waiting calls of one class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassReport {
    /// The class.
    pub name: Arc<str>,
    /// Its waiting calls.
    pub calls: usize,
    /// Uncached prompt tokens of them.
    pub tokens: u64,
    /// How long the oldest of them has waited.
    pub oldest: Option<Duration>,
}

/// What waits in a pool.
#[derive(Clone, Debug, PartialEq)]
pub struct RoomReport {
    /// Waiting calls.
    pub calls: usize,
    /// Bytes that they hold.
    pub bytes: u64,
    /// Uncached prompt tokens released per second, as measured while calls waited.
    pub pace: f64,
    /// By class, highest first.
    pub classes: Vec<ClassReport>,
}
