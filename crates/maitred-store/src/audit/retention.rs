//! How long the audit is kept: which of its closed segments go, oldest first, so that what stays is one whole chain.

use std::time::Duration;

use maitred_types::UnixMillis;

/// Of the time that entries are kept, a segment takes this part at most, so that they leave in small steps.
const PARTS: u32 = 24;

/// How long entries stay. All of them for ever, unless something is said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// How long a segment stays after its last entry.
    pub keep: Option<Duration>,
    /// Most bytes of all segments together.
    pub max_bytes: Option<u64>,
}

/// A segment that is not written any more, as far as it matters here.
#[derive(Clone, Copy, Debug)]
pub(super) struct Closed {
    /// Its size.
    pub(super) bytes: u64,
    /// When its last entry was written, if that can be known.
    pub(super) ended: Option<UnixMillis>,
}

/// What goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Leaving {
    /// So many of the oldest, since they are too old.
    pub(super) aged: usize,
    /// So many after those, since together they are too much.
    pub(super) surplus: usize,
}

impl Leaving {
    pub(super) const fn count(self) -> usize {
        self.aged + self.surplus
    }
}

impl Retention {
    /// Which of `closed`, oldest first, go at `now`, where the segment that is written has `open` bytes.
    pub(super) fn leaving(&self, closed: &[Closed], open: u64, now: UnixMillis) -> Leaving {
        let is_old = |closed: &&Closed| match (self.keep, closed.ended) {
            (Some(keep), Some(ended)) => ended < before(now, keep),
            _ => false,
        };
        // One that is younger than those behind it (the clock was set) holds them back: there is no hole in what stays.
        let aged = closed.iter().take_while(is_old).count();
        let rest = closed.get(aged..).unwrap_or_default();
        let mut held = open + rest.iter().map(|closed| closed.bytes).sum::<u64>();
        let mut surplus = 0;
        for closed in rest {
            if self.max_bytes.is_none_or(|most| held <= most) {
                break;
            }
            held -= closed.bytes;
            surplus += 1;
        }
        Leaving { aged, surplus }
    }

    /// Whether a segment that began at `began` holds so much time that it is closed at `now`.
    pub(super) fn is_long(&self, began: UnixMillis, now: UnixMillis) -> bool {
        self.keep.is_some_and(|keep| began < before(now, keep / PARTS))
    }
}

fn before(now: UnixMillis, span: Duration) -> UnixMillis {
    UnixMillis::new(
        now.get()
            .saturating_sub(u64::try_from(span.as_millis()).unwrap_or(u64::MAX)),
    )
}

#[cfg(test)]
mod tests;
