//! Which figures are wanted of a page, and where each may be found.

use std::fmt;

use super::figure::Figure;
use super::lora::LoraSpec;

/// Most ways to read one figure.
pub const MAX_ALTERNATIVES: usize = 8;
/// Most figures that an operator may add to a mapping.
pub const MAX_CUSTOM_FIGURES: usize = 16;

/// Where each figure of a page is found. Alternatives are tried in order, and the first that the page has is taken:
/// names differ between versions of one engine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetricMapping {
    /// Requests that wait in the engine. Mandatory.
    pub queued: Vec<Figure>,
    /// Requests that run in the engine. Mandatory.
    pub running: Vec<Figure>,
    /// Used share of the KV cache, from 0 to 1. Mandatory.
    pub kv_used: Vec<Figure>,
    /// Tokens per KV block.
    pub block_size: Vec<Figure>,
    /// Number of KV blocks.
    pub blocks: Vec<Figure>,
    /// The family that tells which adapters run and wait.
    pub lora: Option<LoraSpec>,
    /// Counters of work done. Not alternatives: all that the page has are added. The sum only grows while an engine lives,
    /// so a smaller one tells of a restart, and one that stands still under load of a frozen page.
    pub progress: Vec<Figure>,
    /// Unix time, in seconds, at which the engine's process began; a later one tells of a restart.
    pub started: Vec<Figure>,
    /// Figures an operator added.
    pub custom: Vec<CustomFigure>,
}

/// A figure that an operator added to a mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CustomFigure {
    /// The name it goes by in profiles and metrics.
    pub name: String,
    /// Where it is found.
    pub figure: Figure,
}

/// Why a mapping cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MappingError {
    /// A figure has more alternatives than [`MAX_ALTERNATIVES`].
    TooManyAlternatives {
        /// The figure's name.
        figure: &'static str,
        /// How many it has.
        count: usize,
    },
    /// There are more custom figures than [`MAX_CUSTOM_FIGURES`].
    TooManyCustom(usize),
    /// Two custom figures have the same name.
    DuplicateCustom(String),
}

impl fmt::Display for MappingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooManyAlternatives { figure, count } => {
                write!(
                    f,
                    "`{figure}` has {count} alternatives; at most {MAX_ALTERNATIVES} are allowed"
                )
            }
            Self::TooManyCustom(count) => {
                write!(f, "{count} custom figures; at most {MAX_CUSTOM_FIGURES} are allowed")
            }
            Self::DuplicateCustom(name) => write!(f, "the custom figure `{name}` is defined twice"),
        }
    }
}

impl std::error::Error for MappingError {}

impl MetricMapping {
    /// This mapping with every figure replaced that `over` defines; custom figures are added.
    #[must_use]
    pub fn overlaid_with(&self, over: &Self) -> Self {
        let pick = |own: &[Figure], over: &[Figure]| if over.is_empty() { own.to_vec() } else { over.to_vec() };
        Self {
            queued: pick(&self.queued, &over.queued),
            running: pick(&self.running, &over.running),
            kv_used: pick(&self.kv_used, &over.kv_used),
            block_size: pick(&self.block_size, &over.block_size),
            blocks: pick(&self.blocks, &over.blocks),
            lora: over.lora.clone().or_else(|| self.lora.clone()),
            progress: pick(&self.progress, &over.progress),
            started: pick(&self.started, &over.started),
            custom: self.custom.iter().chain(&over.custom).cloned().collect(),
        }
    }

    /// The figures other than custom ones, by name, in the order of the reference.
    pub fn figures(&self) -> impl Iterator<Item = (&'static str, &[Figure])> {
        [
            ("queued", self.queued.as_slice()),
            ("running", &self.running),
            ("kv_used", &self.kv_used),
            ("block_size", &self.block_size),
            ("blocks", &self.blocks),
            ("progress", &self.progress),
            ("started", &self.started),
        ]
        .into_iter()
    }

    /// Checks the caps and the names.
    ///
    /// # Errors
    /// When a cap is passed or two custom figures share a name.
    pub fn check(&self) -> Result<(), MappingError> {
        for (figure, alternatives) in self.figures() {
            let count = alternatives.len();
            if count > MAX_ALTERNATIVES {
                return Err(MappingError::TooManyAlternatives { figure, count });
            }
        }
        if self.custom.len() > MAX_CUSTOM_FIGURES {
            return Err(MappingError::TooManyCustom(self.custom.len()));
        }
        let mut names: Vec<_> = self.custom.iter().map(|custom| &custom.name).collect();
        names.sort_unstable();
        match names.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(MappingError::DuplicateCustom(pair[0].clone())),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(texts: &[&str]) -> Vec<Figure> {
        texts.iter().map(|text| Figure::parse(text).unwrap()).collect()
    }

    #[test]
    fn an_overlay_replaces_figure_by_figure() {
        let own = MetricMapping {
            queued: figures(&["a"]),
            running: figures(&["b", "c"]),
            ..MetricMapping::default()
        };
        let over = MetricMapping {
            running: figures(&["mine"]),
            custom: vec![CustomFigure {
                name: "heat".to_owned(),
                figure: Figure::parse("gpu_heat").unwrap(),
            }],
            ..MetricMapping::default()
        };
        let both = own.overlaid_with(&over);
        assert_eq!(both.queued, figures(&["a"]));
        assert_eq!(both.running, figures(&["mine"]));
        assert_eq!(both.custom, over.custom);
        assert_eq!(own.overlaid_with(&MetricMapping::default()), own);
    }

    #[test]
    fn caps_and_names_are_checked() {
        let heat = |name: &str| CustomFigure {
            name: name.to_owned(),
            figure: Figure::parse("gpu_heat").unwrap(),
        };
        let many = MetricMapping {
            blocks: figures(&["a"; 9]),
            ..MetricMapping::default()
        };
        assert_eq!(
            many.check().unwrap_err().to_string(),
            "`blocks` has 9 alternatives; at most 8 are allowed"
        );
        let custom = |custom| MetricMapping {
            custom,
            ..MetricMapping::default()
        };
        assert_eq!(custom(vec![heat("x"), heat("y")]).check(), Ok(()));
        assert_eq!(
            custom(vec![heat("x"), heat("y"), heat("x")]).check(),
            Err(MappingError::DuplicateCustom("x".to_owned()))
        );
        assert_eq!(
            custom(vec![heat("x"); 17]).check(),
            Err(MappingError::TooManyCustom(17))
        );
    }
}
