//! The form of an engine's table.

use crate::metrics::{Figure, Fold, LoraSpec, MetricMapping, MetricSpec, Read};
use crate::readiness::ReadinessStep;

/// Everything that is known of one engine.
#[derive(Debug)]
pub(crate) struct EngineFacts {
    /// The name in configurations.
    pub(crate) name: &'static str,
    /// One line for the reference page.
    pub(crate) about: &'static str,
    /// Where the figures of the metrics page are.
    pub(crate) metrics: MetricRows,
    /// Where the metrics page is.
    pub(crate) metrics_path: &'static str,
    /// The port of the metrics page, where that is not the serving port.
    pub(crate) metrics_port: Option<u16>,
    /// How it says whether it is able to serve.
    pub(crate) health: HealthRow,
    /// What must be seen before it may get calls.
    pub(crate) readiness: &'static [ReadinessStep],
    /// What it does with a call for a model it does not serve.
    pub(crate) wrong_model: WrongModel,
    /// Texts in a 503 or in an error event that mean "too much to do". Compared without regard to case.
    pub(crate) overload_texts: &'static [&'static str],
    /// Refusals that mean "the call is longer than the context window".
    pub(crate) too_long: &'static [LengthText],
    /// Refusals that mean "I do not serve this model or adapter".
    pub(crate) model_gone: &'static [GoneText],
}

/// How a message begins that says that the model or adapter asked for is not served. The whole beginning is the engine's own
/// wording around a name that the gateway itself has put into the call: engines echo what callers send, and a caller's words
/// must not read as a fault of the endpoint.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GoneText {
    /// The status that it comes with.
    pub(crate) status: u16,
    /// What stands before the name.
    pub(crate) before: &'static str,
    /// Which name.
    pub(crate) named: GoneName,
    /// What stands behind the name; if it is empty, the name ends its line.
    pub(crate) after: &'static str,
}

/// The name in a [`GoneText`].
#[derive(Clone, Copy, Debug)]
pub(crate) enum GoneName {
    /// The model, as the gateway asked for it.
    Model,
    /// What follows the colon of `base:adapter`.
    Adapter,
    /// None at all.
    Nothing,
}

/// The refusal of a model by name, with this status.
pub(crate) const fn gone(status: u16, before: &'static str, after: &'static str) -> GoneText {
    GoneText {
        status,
        before,
        named: GoneName::Model,
        after,
    }
}

impl GoneText {
    /// Whether `message`, which came with `status`, begins so, when `asked` was the model's name in the call.
    pub(crate) fn is_said(&self, status: u16, message: &str, asked: &str) -> bool {
        let name = match self.named {
            GoneName::Model => Some(asked),
            GoneName::Adapter => asked.split_once(':').map(|(_, adapter)| adapter.trim()),
            GoneName::Nothing => Some(""),
        };
        let rest = || message.strip_prefix(self.before)?.strip_prefix(name?);
        status == self.status
            && rest().is_some_and(|rest| {
                if self.after.is_empty() {
                    rest.is_empty() || rest.starts_with('\n')
                } else {
                    rest.starts_with(self.after)
                }
            })
    }
}

/// How a message begins that says that the call is too long: an engine's own words around a number. What callers send is not in
/// it, so that their words do not read as the engine's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LengthText {
    /// What stands before the number.
    pub(crate) before: &'static str,
    /// What stands behind it.
    pub(crate) after: &'static str,
}

impl LengthText {
    /// Whether `message` begins so.
    pub(crate) fn is_said(self, message: &str) -> bool {
        let rest = message.strip_prefix(self.before);
        rest.is_some_and(|rest| {
            let behind = rest.trim_start_matches(|digit: char| digit.is_ascii_digit());
            behind.len() < rest.len() && behind.starts_with(self.after)
        })
    }
}

/// What an engine does with a call for a model it does not serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WrongModel {
    /// It refuses, so an answer proves that the model is served.
    Refused,
    /// It answers with the model it has and repeats the wrong name, so an answer proves nothing about the model.
    Served,
    /// Not known; taken as [`WrongModel::Served`] where it matters.
    Unknown,
}

/// The health probe.
#[derive(Debug)]
pub(crate) struct HealthRow {
    /// Where to ask.
    pub(crate) path: &'static str,
    /// Statuses that mean "not able to serve now": while loading, and while shutting down.
    pub(crate) unavailable: &'static [u16],
}

/// The figures of a metrics page.
#[derive(Debug)]
pub(crate) struct MetricRows {
    pub(crate) queued: &'static [FigureRow],
    pub(crate) running: &'static [FigureRow],
    pub(crate) kv_used: &'static [FigureRow],
    pub(crate) block_size: &'static [FigureRow],
    pub(crate) blocks: &'static [FigureRow],
    pub(crate) lora: Option<LoraRow>,
    pub(crate) progress: &'static [FigureRow],
    pub(crate) started: &'static [FigureRow],
}

/// A [`Figure`] as a constant.
#[derive(Debug)]
pub(crate) struct FigureRow {
    family: &'static str,
    labels: &'static [(&'static str, &'static str)],
    label: Option<&'static str>,
    fold: Fold,
}

/// A [`LoraSpec`] as a constant.
#[derive(Debug)]
pub(crate) struct LoraRow {
    pub(crate) family: &'static str,
    pub(crate) max_label: &'static str,
    pub(crate) running_label: &'static str,
    pub(crate) waiting_label: &'static str,
}

/// The value of a family's one series.
pub(crate) const fn value(family: &'static str) -> FigureRow {
    FigureRow {
        family,
        labels: &[],
        label: None,
        fold: Fold::One,
    }
}

/// The value of the series with these labels.
pub(crate) const fn selected(family: &'static str, labels: &'static [(&'static str, &'static str)]) -> FigureRow {
    FigureRow {
        family,
        labels,
        label: None,
        fold: Fold::One,
    }
}

/// A label of an info-style gauge.
pub(crate) const fn label(family: &'static str, label: &'static str) -> FigureRow {
    FigureRow {
        family,
        labels: &[],
        label: Some(label),
        fold: Fold::One,
    }
}

/// The sum over a family's series.
pub(crate) const fn sum(family: &'static str) -> FigureRow {
    FigureRow {
        family,
        labels: &[],
        label: None,
        fold: Fold::Sum,
    }
}

impl FigureRow {
    fn figure(&self) -> Figure {
        let own = |text: &str| text.to_owned();
        Figure {
            spec: MetricSpec {
                family: own(self.family),
                labels: self
                    .labels
                    .iter()
                    .map(|(name, value)| (own(name), own(value)))
                    .collect(),
            },
            read: self.label.map_or(Read::Value, |label| Read::Label(own(label))),
            fold: self.fold,
        }
    }
}

impl MetricRows {
    /// The rows as a mapping.
    pub(crate) fn mapping(&self) -> MetricMapping {
        let figures = |rows: &[FigureRow]| rows.iter().map(FigureRow::figure).collect();
        MetricMapping {
            queued: figures(self.queued),
            running: figures(self.running),
            kv_used: figures(self.kv_used),
            block_size: figures(self.block_size),
            blocks: figures(self.blocks),
            lora: self.lora.as_ref().map(|row| LoraSpec {
                family: row.family.to_owned(),
                max_label: row.max_label.to_owned(),
                running_label: row.running_label.to_owned(),
                waiting_label: row.waiting_label.to_owned(),
            }),
            progress: figures(self.progress),
            started: figures(self.started),
            custom: Vec::new(),
        }
    }
}
