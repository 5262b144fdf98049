//! What a scan of a page yields.

use std::fmt;
use std::sync::Arc;

use smallvec::SmallVec;

use super::lora::LoraPage;

/// A figure without which an endpoint cannot be scheduled by what happens inside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mandatory {
    /// Requests that wait in the engine.
    Queued,
    /// Requests that run in the engine.
    Running,
    /// Used share of the KV cache.
    KvUsed,
}

impl Mandatory {
    /// The figure's name in mappings.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::KvUsed => "kv_used",
        }
    }
}

/// The figures of one page. A figure is `None` when the page does not have it, or has it as NaN or infinite.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PageSignals {
    /// Requests that wait in the engine.
    pub queued: Option<f64>,
    /// Requests that run in the engine.
    pub running: Option<f64>,
    /// Used share of the KV cache. Brought into 0..=1: a figure above 1 counts as full, whatever it meant.
    pub kv_used: Option<f64>,
    /// Tokens per KV block.
    pub block_size: Option<u32>,
    /// Number of KV blocks.
    pub blocks: Option<u32>,
    /// Which adapters run and wait; `None` where the engine serves none. Shared with the scan before as long as nothing
    /// changes.
    pub lora: Option<Arc<LoraPage>>,
    /// Work done since the engine began, in a unit of the engine's own; only ever grows while the engine lives.
    pub progress: Option<f64>,
    /// When the engine's process began, in Unix seconds.
    pub started: Option<f64>,
    /// The custom figures, in the order of the mapping.
    pub custom: SmallVec<[Option<f64>; 4]>,
    pub(crate) missing: SmallVec<[Mandatory; 3]>,
}

/// How a page follows an earlier one of the same endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Continuity {
    /// Work was done in between.
    Advanced,
    /// No work shows. On an idle engine that is as it should be; while requests run, a page that stays so is frozen.
    Still,
    /// The engine began anew in between: what was known of its cache and counters is gone.
    Restarted,
}

impl PageSignals {
    /// The mandatory figures that the mapping looks for and the page lacks.
    #[must_use]
    pub fn missing(&self) -> &[Mandatory] {
        &self.missing
    }

    /// How this page follows `before`: by the start of the process where both pages tell it, and by the work done, which
    /// never shrinks while an engine lives.
    #[must_use]
    pub fn follows(&self, before: &Self) -> Continuity {
        let later = |now: Option<f64>, then: Option<f64>| now.zip(then).is_some_and(|(now, then)| now > then);
        if later(self.started, before.started) || later(before.progress, self.progress) {
            Continuity::Restarted
        } else if later(self.progress, before.progress) {
            Continuity::Advanced
        } else {
            Continuity::Still
        }
    }
}

/// Why a page holds no figures at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageError {
    /// There is nothing in it.
    Empty,
    /// It is HTML: a login page, or a proxy's error.
    Html,
    /// It is JSON. `trtllm-serve` answers `/metrics` so; its Prometheus page is `/prometheus/metrics`.
    Json,
}

impl PageError {
    /// The word for metrics and logs.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::Html => "html",
            Self::Json => "json",
        }
    }
}

impl fmt::Display for PageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "the metrics page is empty",
            Self::Html => "the metrics page is HTML, not Prometheus text",
            Self::Json => "the metrics page is JSON, not Prometheus text; is the path right for this engine?",
        })
    }
}

impl std::error::Error for PageError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_advances_stands_still_or_tells_of_a_restart() {
        let page = |progress: Option<f64>, started: Option<f64>| PageSignals {
            progress,
            started,
            ..PageSignals::default()
        };
        let check = |before: (Option<f64>, Option<f64>), now: (Option<f64>, Option<f64>), wanted: Continuity| {
            let found = page(now.0, now.1).follows(&page(before.0, before.1));
            assert_eq!(found, wanted, "{before:?} {now:?}");
        };
        let (old, new) = (Some(100.0), Some(200.0));
        check((old, old), (new, old), Continuity::Advanced);
        check((old, None), (new, None), Continuity::Advanced);
        check((old, old), (old, old), Continuity::Still);
        check((None, None), (old, old), Continuity::Still);
        check((new, None), (old, None), Continuity::Restarted);
        check((old, old), (new, new), Continuity::Restarted);
        check((new, old), (None, old), Continuity::Still);
    }
}
