//! A mapping made ready for scanning: what to compare a line's first bytes with, and what to do with a line that fits.

use smallvec::SmallVec;

use super::figure::{Figure, Fold, Read};
use super::line::{Labels, Sample, means, parse_number};
use super::mapping::MetricMapping;

/// One way to read one figure, as bytes.
#[derive(Debug)]
pub(super) struct Probe {
    labels: Vec<(Vec<u8>, Vec<u8>)>,
    label: Option<Vec<u8>>,
    fold: Fold,
}

/// What a probe has found on the page so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    value: Option<f64>,
    timestamp: f64,
}

impl Slot {
    /// Nothing found yet.
    pub(super) const EMPTY: Self = Self {
        value: None,
        timestamp: f64::NEG_INFINITY,
    };

    /// The figure, if it is a finite number.
    pub(super) fn finite(self) -> Option<f64> {
        self.value.filter(|value| value.is_finite())
    }
}

impl Probe {
    fn new(figure: &Figure) -> Self {
        let bytes = |text: &String| text.clone().into_bytes();
        Self {
            labels: figure
                .spec
                .labels
                .iter()
                .map(|(name, value)| (bytes(name), bytes(value)))
                .collect(),
            label: match &figure.read {
                Read::Value => None,
                Read::Label(name) => Some(bytes(name)),
            },
            fold: figure.fold,
        }
    }

    /// Takes note of a series of the probe's family.
    pub(super) fn offer(&self, sample: &Sample<'_>, slot: &mut Slot) {
        if !self.matches(sample.labels) {
            return;
        }
        let value = match &self.label {
            None => sample.value,
            Some(wanted) => label_number(sample.labels, wanted),
        };
        match self.fold {
            Fold::Sum if value.is_finite() => slot.value = Some(slot.value.unwrap_or(0.0) + value),
            Fold::Sum => {}
            Fold::One => {
                let timestamp = sample.timestamp.unwrap_or(f64::NEG_INFINITY);
                if slot.value.is_none() || timestamp > slot.timestamp {
                    *slot = Slot {
                        value: Some(value),
                        timestamp,
                    };
                }
            }
        }
    }

    fn matches(&self, labels: &[u8]) -> bool {
        self.labels.iter().all(|(wanted, value)| {
            Labels::new(labels).any(|(name, written)| name == wanted.as_slice() && means(written, value))
        })
    }
}

/// A label taken as a number; NaN when it is none, as `None` in Python's pages.
fn label_number(labels: &[u8], wanted: &[u8]) -> f64 {
    Labels::new(labels)
        .find(|(name, _)| *name == wanted)
        .and_then(|(_, written)| parse_number(written.trim_ascii()))
        .unwrap_or(f64::NAN)
}

/// A wanted family and the probes that read it.
#[derive(Debug)]
pub(super) struct Family {
    name: Vec<u8>,
    /// Indexes into the plan's probes.
    pub(super) probes: SmallVec<[usize; 4]>,
    /// Whether this is the family that lists adapters.
    pub(super) lists_adapters: bool,
}

/// Families that begin with the same byte: their common beginning, and which bytes may follow it.
#[derive(Debug)]
struct Group {
    first: u8,
    prefix: Vec<u8>,
    next: Box<[bool; 256]>,
    families: Vec<Family>,
}

/// Indexes into the plan's probes, for each figure of a mapping.
#[derive(Debug, Default)]
pub(super) struct Figures {
    pub(super) queued: SmallVec<[usize; 2]>,
    pub(super) running: SmallVec<[usize; 2]>,
    pub(super) kv_used: SmallVec<[usize; 2]>,
    pub(super) block_size: SmallVec<[usize; 2]>,
    pub(super) blocks: SmallVec<[usize; 2]>,
    pub(super) progress: SmallVec<[usize; 2]>,
    pub(super) started: SmallVec<[usize; 2]>,
    pub(super) custom: Vec<usize>,
}

/// A mapping made ready for scanning.
#[derive(Debug)]
pub(super) struct Plan {
    groups: Vec<Group>,
    pub(super) probes: Vec<Probe>,
    pub(super) figures: Figures,
    pub(super) lora: Option<super::lora::LoraSpec>,
}

impl Plan {
    pub(super) fn new(mapping: &MetricMapping) -> Self {
        let mut builder = Builder::default();
        let figures = Figures {
            queued: builder.add_all(&mapping.queued),
            running: builder.add_all(&mapping.running),
            kv_used: builder.add_all(&mapping.kv_used),
            block_size: builder.add_all(&mapping.block_size),
            blocks: builder.add_all(&mapping.blocks),
            progress: builder.add_all(&mapping.progress),
            started: builder.add_all(&mapping.started),
            custom: mapping
                .custom
                .iter()
                .map(|custom| builder.add(&custom.figure))
                .collect(),
        };
        if let Some(lora) = &mapping.lora {
            builder.family(&lora.family).lists_adapters = true;
        }
        Self {
            groups: group(builder.families),
            probes: builder.probes,
            figures,
            lora: mapping.lora.clone(),
        }
    }

    /// The wanted family that a line belongs to, and what follows its name.
    pub(super) fn family_of<'a>(&self, line: &'a [u8]) -> Option<(&Family, &'a [u8])> {
        let line = match line.first()? {
            b'#' => return None,
            b' ' | b'\t' => line.trim_ascii_start(),
            _ => line,
        };
        let first = *line.first()?;
        let group = self.groups.iter().find(|group| group.first == first)?;
        let tail = line.strip_prefix(group.prefix.as_slice())?;
        let fits = tail.first().is_none_or(|next| group.next[usize::from(*next)]);
        if !fits {
            return None;
        }
        group.families.iter().find_map(|family| {
            let rest = line.strip_prefix(family.name.as_slice())?;
            let ends = rest.first().is_some_and(|next| matches!(next, b'{' | b' ' | b'\t'));
            ends.then_some((family, rest))
        })
    }
}

#[derive(Default)]
struct Builder {
    families: Vec<Family>,
    probes: Vec<Probe>,
}

impl Builder {
    fn add_all(&mut self, figures: &[Figure]) -> SmallVec<[usize; 2]> {
        figures.iter().map(|figure| self.add(figure)).collect()
    }

    fn add(&mut self, figure: &Figure) -> usize {
        let index = self.probes.len();
        self.probes.push(Probe::new(figure));
        self.family(&figure.spec.family).probes.push(index);
        index
    }

    fn family(&mut self, name: &str) -> &mut Family {
        let at = self.families.iter().position(|family| family.name == name.as_bytes());
        let at = at.unwrap_or_else(|| {
            self.families.push(Family {
                name: name.as_bytes().to_vec(),
                probes: SmallVec::new(),
                lists_adapters: false,
            });
            self.families.len() - 1
        });
        &mut self.families[at]
    }
}

fn group(families: Vec<Family>) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for family in families {
        let Some(&first) = family.name.first() else { continue };
        match groups.iter_mut().find(|group| group.first == first) {
            Some(group) => {
                let same = group
                    .prefix
                    .iter()
                    .zip(&family.name)
                    .take_while(|(a, b)| a == b)
                    .count();
                group.prefix.truncate(same);
                group.families.push(family);
            }
            None => groups.push(Group {
                first,
                prefix: family.name.clone(),
                next: Box::new([false; 256]),
                families: vec![family],
            }),
        }
    }
    for group in &mut groups {
        for family in &group.families {
            match family.name.get(group.prefix.len()) {
                Some(&next) => group.next[usize::from(next)] = true,
                None => b"{ \t".iter().for_each(|&next| group.next[usize::from(next)] = true),
            }
        }
    }
    groups
}
