//! The scanner: one pass over a page, line by line, that stops only at wanted families.

use std::sync::Arc;

use memchr::memchr;
use smallvec::SmallVec;

use super::line::Sample;
use super::lora::{LoraMemory, Newest, offer, whole_u32};
use super::mapping::MetricMapping;
use super::page::{Mandatory, PageError, PageSignals};
use super::plan::{Plan, Slot};

/// Finds the figures of one mapping on the pages of one endpoint.
///
/// A scan takes time proportional to the page, whose size the caller caps, and allocates only when the list of adapters
/// changes or when there are more than four custom figures. Lines it cannot read are passed over: a page is judged by what
/// it says, not by what else is on it. A clone shares the compiled mapping and is cheap.
#[derive(Clone, Debug)]
pub struct Scanner {
    plan: Arc<Plan>,
    slots: Vec<Slot>,
    lora: LoraMemory,
}

impl Scanner {
    /// Compiles `mapping`.
    #[must_use]
    pub fn new(mapping: &MetricMapping) -> Self {
        let plan = Plan::new(mapping);
        Self {
            slots: vec![Slot::EMPTY; plan.probes.len()],
            plan: Arc::new(plan),
            lora: LoraMemory::default(),
        }
    }

    /// Reads the figures of `page`, which is Prometheus text or OpenMetrics.
    ///
    /// # Errors
    /// When the page is empty or plainly something else. A page that merely lacks figures is no error: see
    /// [`PageSignals::missing`].
    pub fn scan(&mut self, page: &[u8]) -> Result<PageSignals, PageError> {
        match page.trim_ascii_start().first() {
            None => return Err(PageError::Empty),
            Some(b'<') => return Err(PageError::Html),
            Some(b'{' | b'[') => return Err(PageError::Json),
            Some(_) => {}
        }
        let newest = self.walk(page);
        let lora = self.plan.lora.as_ref().and_then(|spec| self.lora.read(newest, spec));
        Ok(PageSignals { lora, ..self.collect() })
    }

    /// Fills the slots; returns the newest series that lists adapters.
    fn walk<'a>(&mut self, page: &'a [u8]) -> Newest<'a> {
        self.slots.fill(Slot::EMPTY);
        let plan = &*self.plan;
        let mut newest: Newest<'a> = None;
        let mut rest = page;
        while !rest.is_empty() {
            let end = memchr(b'\n', rest).unwrap_or(rest.len());
            let (line, after) = rest.split_at(end);
            rest = after.get(1..).unwrap_or_default();
            let Some((family, after_name)) = plan.family_of(line) else {
                continue;
            };
            let Some(sample) = Sample::parse(after_name) else {
                continue;
            };
            for &index in &family.probes {
                plan.probes[index].offer(&sample, &mut self.slots[index]);
            }
            if family.lists_adapters {
                offer(&mut newest, sample.value, sample.labels);
            }
        }
        newest
    }

    fn collect(&self) -> PageSignals {
        let figures = &self.plan.figures;
        let first = |alternatives: &[usize]| alternatives.iter().find_map(|&index| self.slots[index].finite());
        let count = |alternatives: &[usize]| first(alternatives).filter(|count| *count >= 0.0);
        let whole = |alternatives: &[usize]| first(alternatives).and_then(whole_u32).filter(|whole| *whole > 0);
        let mut signals = PageSignals {
            queued: count(&figures.queued),
            running: count(&figures.running),
            kv_used: first(&figures.kv_used).map(|used| used.clamp(0.0, 1.0)),
            block_size: whole(&figures.block_size),
            blocks: whole(&figures.blocks),
            progress: self.sum(&figures.progress),
            started: first(&figures.started),
            custom: figures.custom.iter().map(|&index| self.slots[index].finite()).collect(),
            ..PageSignals::default()
        };
        signals.missing = self.missing(&signals);
        signals
    }

    fn sum(&self, counters: &[usize]) -> Option<f64> {
        counters
            .iter()
            .filter_map(|&index| self.slots[index].finite())
            .reduce(|sum, value| sum + value)
    }

    fn missing(&self, signals: &PageSignals) -> SmallVec<[Mandatory; 3]> {
        let figures = &self.plan.figures;
        [
            (Mandatory::Queued, &figures.queued, signals.queued),
            (Mandatory::Running, &figures.running, signals.running),
            (Mandatory::KvUsed, &figures.kv_used, signals.kv_used),
        ]
        .into_iter()
        .filter(|(_, wanted, found)| !wanted.is_empty() && found.is_none())
        .map(|(figure, _, _)| figure)
        .collect()
    }
}

#[cfg(test)]
mod tests;
