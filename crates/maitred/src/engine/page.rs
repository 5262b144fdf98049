//! The metrics page, as each engine writes it.

mod prometheus;
mod sglang;
mod triton;
mod trtllm;
mod vllm;

use maitred_engines::Engine;
use maitred_sim::{Gauges, LoraSeries};
use maitred_types::Time;

use super::core::{Core, FaceCounters, Life, State};
use super::faults::MetricsFault;
use prometheus::Page;

/// What a page is written from.
struct Source<'a> {
    state: &'a State,
    gauges: Gauges,
    model: &'a str,
    adapters: &'a [String],
    max_loras: usize,
    /// Start of the process, in Unix seconds.
    born: f64,
    context: u32,
    sees: Sees,
}

/// Which families are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sees {
    /// All.
    Everything,
    /// Those of the process only: the engine has not laid out its pool, or a fault hides what a scheduler needs.
    Process,
}

/// What a page needs beyond the engine's state.
#[derive(Clone, Debug)]
pub(super) struct PageSetup {
    /// Whose page.
    pub(super) engine: Engine,
    /// The model's name in labels.
    pub(super) model: String,
    /// The adapters' names.
    pub(super) adapters: Vec<String>,
    /// How many of them are on the GPU at once.
    pub(super) max_loras: usize,
    /// Most tokens of prompt and answer together.
    pub(super) context: u32,
    /// How long a page is shown before it is renewed.
    pub(super) interval: std::time::Duration,
}

impl PageSetup {
    /// The page now; `None` when a fault hides it.
    pub(super) fn render(&self, core: &Core) -> Option<std::sync::Arc<str>> {
        let now = core.clock().now();
        core.with(|state| {
            let fault = state.faults.metrics;
            if fault == MetricsFault::Missing {
                return None;
            }
            let kept = state
                .kept_page
                .as_ref()
                .filter(|(made, _)| fault == MetricsFault::Frozen || now.since(*made) < self.interval);
            if let Some((_, page)) = kept {
                return Some(std::sync::Arc::clone(page));
            }
            let page: std::sync::Arc<str> = self.write(core, state).into();
            state.kept_page = Some((now, std::sync::Arc::clone(&page)));
            Some(page)
        })
    }

    fn write(&self, core: &Core, state: &State) -> String {
        let hidden = state.life == Life::Loading || state.faults.metrics == MetricsFault::Partial;
        let source = Source {
            state,
            gauges: state.model.gauges(),
            model: &self.model,
            adapters: &self.adapters,
            max_loras: self.max_loras,
            born: core.born.get() as f64 / 1e3,
            context: self.context,
            sees: if hidden { Sees::Process } else { Sees::Everything },
        };
        let mut page = Page::default();
        match self.engine {
            Engine::Vllm => vllm::write(&mut page, &source, |time| core.unix_seconds(time)),
            Engine::Sglang => sglang::write(&mut page, &source),
            Engine::TrtllmServe => trtllm::write(&mut page, &source),
            Engine::TritonTensorrtLlm => triton::write_tensorrt_llm(&mut page, &source),
            Engine::Triton => triton::write(&mut page, &source),
            // It is none that can be named on the command line, and has no page.
            Engine::Hosted => {}
        }
        page.finish()
    }
}

impl Source<'_> {
    fn face(&self) -> &FaceCounters {
        &self.state.face
    }

    /// Names of the adapters in a bit set.
    fn names(&self, bits: u64) -> String {
        let names = self
            .adapters
            .iter()
            .enumerate()
            .filter(|(index, _)| bits >> index & 1 == 1);
        names.map(|(_, name)| name.as_str()).collect::<Vec<_>>().join(",")
    }
}

/// A function from the engine's time to Unix seconds.
trait Dates: Fn(Time) -> f64 {}

impl<F: Fn(Time) -> f64> Dates for F {}
