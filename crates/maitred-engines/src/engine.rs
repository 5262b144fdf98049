//! The engines, and the one table of facts that each has.

mod facts;
mod hosted;
mod sglang;
mod triton;
mod triton_tensorrt_llm;
mod trtllm_serve;
mod vllm;

pub use facts::WrongModel;

use std::fmt;

pub(crate) use facts::EngineFacts;

use crate::metrics::MetricMapping;
use crate::readiness::ReadinessStep;

/// A kind of model server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Engine {
    /// vLLM's OpenAI server.
    #[default]
    Vllm,
    /// SGLang's HTTP server.
    Sglang,
    /// TensorRT-LLM's own server, `trtllm-serve`.
    TrtllmServe,
    /// Triton Inference Server with the TensorRT-LLM backend.
    TritonTensorrtLlm,
    /// Triton Inference Server with any other backend.
    Triton,
    /// No engine that one runs, but a hosted API that speaks OpenAI's dialect.
    Hosted,
}

impl Engine {
    /// Every engine that an endpoint of a pool may run, in the order of the reference.
    pub const ALL: &'static [Self] = &[
        Self::Vllm,
        Self::Sglang,
        Self::TrtllmServe,
        Self::TritonTensorrtLlm,
        Self::Triton,
    ];

    /// The table of this engine.
    pub(crate) const fn facts(self) -> &'static EngineFacts {
        match self {
            Self::Vllm => &vllm::FACTS,
            Self::Sglang => &sglang::FACTS,
            Self::TrtllmServe => &trtllm_serve::FACTS,
            Self::TritonTensorrtLlm => &triton_tensorrt_llm::FACTS,
            Self::Triton => &triton::FACTS,
            Self::Hosted => &hosted::FACTS,
        }
    }

    /// The name in configurations, metrics and logs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.facts().name
    }

    /// The engine of that name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|engine| engine.name() == name)
    }

    /// One line for the reference page.
    #[must_use]
    pub const fn about(self) -> &'static str {
        self.facts().about
    }

    /// Where each figure of its metrics page is found.
    #[must_use]
    pub fn mapping(self) -> MetricMapping {
        self.facts().metrics.mapping()
    }

    /// Where its metrics page is.
    #[must_use]
    pub const fn metrics_path(self) -> &'static str {
        self.facts().metrics_path
    }

    /// The port of its metrics page, where that is not the serving port.
    #[must_use]
    pub const fn metrics_port(self) -> Option<u16> {
        self.facts().metrics_port
    }

    /// Where it says whether it is able to serve.
    #[must_use]
    pub const fn health_path(self) -> &'static str {
        self.facts().health.path
    }

    /// What must be seen, in this order, before the endpoint may get calls.
    #[must_use]
    pub const fn readiness(self) -> &'static [ReadinessStep] {
        self.facts().readiness
    }

    /// What it does with a call for a model it does not serve.
    #[must_use]
    pub const fn wrong_model(self) -> WrongModel {
        self.facts().wrong_model
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back_and_nothing_else_does() {
        let names: Vec<_> = Engine::ALL.iter().map(|engine| engine.name()).collect();
        assert_eq!(
            names,
            ["vllm", "sglang", "trtllm-serve", "triton-tensorrt-llm", "triton"]
        );
        for &engine in Engine::ALL {
            assert_eq!(Engine::parse(engine.name()), Some(engine));
        }
        for name in ["", "VLLM", "vllm ", "default"] {
            assert_eq!(Engine::parse(name), None, "{name}");
        }
    }

    #[test]
    fn built_in_mappings_are_sound_and_every_figure_reads_back() {
        for &engine in Engine::ALL {
            let mapping = engine.mapping();
            assert_eq!(mapping.check(), Ok(()), "{engine}");
            assert!(!mapping.queued.is_empty(), "{engine}");
            for (name, alternatives) in mapping.figures() {
                for figure in alternatives {
                    let printed = figure.to_string();
                    let read = crate::metrics::Figure::parse(&printed);
                    assert_eq!(read.as_ref(), Ok(figure), "{engine} {name} {printed}");
                }
            }
        }
    }

    #[test]
    fn readiness_ends_with_an_inference_after_the_model_is_listed() {
        for &engine in Engine::ALL {
            let steps = engine.readiness();
            let at = |wanted| steps.iter().position(|step| *step == wanted);
            assert_eq!(steps.last(), Some(&ReadinessStep::Infer), "{engine}");
            assert!(at(ReadinessStep::ListModels) < at(ReadinessStep::Infer), "{engine}");
            let has_kv = !engine.mapping().kv_used.is_empty();
            assert_eq!(at(ReadinessStep::KvPool).is_some(), has_kv, "{engine}");
        }
    }
}
