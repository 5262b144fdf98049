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
    /// The mandatory figures that the mapping looks for and the page lacks.
    pub missing: SmallVec<[Mandatory; 3]>,
}

impl PageSignals {
    /// The mandatory figures that the mapping looks for and the page lacks.
    #[must_use]
    pub fn missing(&self) -> &[Mandatory] {
        &self.missing
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
