//! The family that tells which adapters run and wait.

use std::sync::Arc;

use super::line::{Labels, parse_number, unescape};

/// Most adapter names that are kept of one list; a page that lists more is cut, for nobody loads so many at once.
pub const MAX_ADAPTER_NAMES: usize = 1024;

/// Where the adapters of an engine are listed: a gauge whose value is the time of its last change and whose labels hold
/// the lists. Old series linger on the page; the one with the largest value counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoraSpec {
    /// The family, such as `vllm:lora_requests_info`.
    pub family: String,
    /// The label with the number of adapters that may run at once.
    pub max_label: String,
    /// The label with the adapters of running requests, separated by commas.
    pub running_label: String,
    /// The label with the adapters of waiting requests, separated by commas.
    pub waiting_label: String,
}

/// Which adapters an engine runs and which wait. The lists are sorted and hold each name once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoraPage {
    /// How many adapters may run at once, if the engine says so.
    pub max: Option<u32>,
    /// Adapters of running requests.
    pub running: Vec<Box<str>>,
    /// Adapters of waiting requests.
    pub waiting: Vec<Box<str>>,
}

/// Finds the newest series of a page and keeps what it said, so that names are allocated only when they change.
#[derive(Clone, Debug, Default)]
pub(super) struct LoraMemory {
    labels: Vec<u8>,
    page: Option<Arc<LoraPage>>,
}

/// The newest series seen so far on the page that is being scanned.
pub(super) type Newest<'a> = Option<(f64, &'a [u8])>;

/// Offers a series; the one with the largest value stays, and of equal ones the first.
pub(super) fn offer<'a>(newest: &mut Newest<'a>, value: f64, labels: &'a [u8]) {
    let older = newest.is_none_or(|(best, _)| value > best);
    if !value.is_nan() && older {
        *newest = Some((value, labels));
    }
}

impl LoraMemory {
    /// What the newest series says; the very same value as before when it says the same.
    pub(super) fn read(&mut self, newest: Newest<'_>, spec: &LoraSpec) -> Option<Arc<LoraPage>> {
        let (_, labels) = newest?;
        let known = self.page.is_some() && self.labels == labels;
        if !known {
            self.labels.clear();
            self.labels.extend_from_slice(labels);
            self.page = Some(Arc::new(parse(labels, spec)));
        }
        self.page.clone()
    }
}

fn parse(labels: &[u8], spec: &LoraSpec) -> LoraPage {
    let mut page = LoraPage::default();
    for (name, value) in Labels::new(labels) {
        if name == spec.max_label.as_bytes() {
            page.max = parse_number(value).and_then(whole_u32);
        } else if name == spec.running_label.as_bytes() {
            page.running = names(value);
        } else if name == spec.waiting_label.as_bytes() {
            page.waiting = names(value);
        }
    }
    page
}

fn names(written: &[u8]) -> Vec<Box<str>> {
    let mut names: Vec<Box<str>> = unescape(written)
        .split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty())
        .take(MAX_ADAPTER_NAMES)
        .map(Box::from)
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// A whole number that fits; anything else is no count.
pub(super) fn whole_u32(number: f64) -> Option<u32> {
    let fits = (0.0..=f64::from(u32::MAX)).contains(&number) && number.fract() == 0.0;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the range is checked above"
    )]
    fits.then_some(number as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_unique_and_trimmed() {
        let check = |written: &str, wanted: &[&str]| {
            let found = names(written.as_bytes());
            let found: Vec<&str> = found.iter().map(AsRef::as_ref).collect();
            assert_eq!(found, wanted, "{written}");
        };
        check("", &[]);
        check(",, ,", &[]);
        check("b,a", &["a", "b"]);
        check(" b , a ,b", &["a", "b"]);
        check(r#"a\"x,b\\y"#, &["a\"x", "b\\y"]);
        assert_eq!(names("x,".repeat(5).as_bytes()).len(), 1);
    }

    #[test]
    fn only_whole_numbers_are_counts() {
        let check = |number: f64, wanted: Option<u32>| assert_eq!(whole_u32(number), wanted, "{number}");
        check(0.0, Some(0));
        check(16.0, Some(16));
        check(4_294_967_295.0, Some(u32::MAX));
        check(4_294_967_296.0, None);
        check(0.5, None);
        check(-1.0, None);
        check(f64::NAN, None);
        check(f64::INFINITY, None);
    }

    #[test]
    fn the_largest_value_is_the_newest_and_the_first_of_equals_stays() {
        let mut newest: Newest<'_> = None;
        for (value, labels) in [
            (f64::NAN, "nan"),
            (1.0, "old"),
            (3.0, "new"),
            (3.0, "same"),
            (2.0, "mid"),
        ] {
            offer(&mut newest, value, labels.as_bytes());
        }
        assert_eq!(newest.map(|(_, labels)| labels), Some(&b"new"[..]));
    }
}
