//! Reading an engine's metrics page: what to look for, and the scanner that finds it.

mod figure;
mod line;
mod lora;
mod mapping;
mod page;
mod plan;
mod scanner;

pub use figure::{Figure, FigureError, Fold, MetricSpec, Read};
pub use lora::{LoraPage, LoraSpec, MAX_ADAPTER_NAMES};
pub use mapping::{CustomFigure, MAX_ALTERNATIVES, MAX_CUSTOM_FIGURES, MappingError, MetricMapping};
pub use page::{Continuity, Mandatory, PageError, PageSignals};
pub use scanner::Scanner;
