//! What a pool counts about itself.

/// Totals since the pool was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolCounters {
    /// Asks.
    pub asks: u64,
    /// Asks that got a lease.
    pub booked: u64,
    /// Asks that were refused, for whatever reason, those included that waited before.
    pub refused: u64,
    /// Asks that had to wait.
    pub waited: u64,
    /// Of these, ones whose caller left.
    pub left: u64,
    /// Leases that were finished, fenced ones included.
    pub finished: u64,
    /// Finishes of leases that had been finished before; ignored.
    pub late_finishes: u64,
    /// Reports about endpoints, or lives of endpoints, that are no more; ignored.
    pub late_reports: u64,
    /// Samples older than the newest one; ignored.
    pub old_samples: u64,
    /// Samples with a figure that cannot be, such as a fraction above one; corrected.
    pub odd_samples: u64,
    /// Scores that were no number; taken for 0.
    pub odd_scores: u64,
    /// Times that the clock went backwards; time stands still instead.
    pub clock_jumps: u64,
    /// Events dropped because nobody fetched them.
    pub dropped_events: u64,
    /// Log entries for dead reckoning that were forgotten because the log was full, on the endpoints now in the pool.
    pub dropped_marks: u64,
}
