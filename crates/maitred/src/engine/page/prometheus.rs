//! The text format, as Python's client library writes it.

use maitred_sim::Histogram;

/// A page in the making.
#[derive(Debug, Default)]
pub(super) struct Page {
    text: String,
}

/// A kind of family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Only goes up.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Buckets, count and sum.
    Histogram,
}

impl Kind {
    const fn label(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

impl Page {
    /// Begins a family.
    pub(super) fn family(&mut self, name: &str, kind: Kind, help: &str) {
        self.text
            .push_str(&format!("# HELP {name} {help}\n# TYPE {name} {}\n", kind.label()));
    }

    /// A series of the family. `labels` are written as they are, without braces.
    pub(super) fn series(&mut self, name: &str, labels: &str, value: f64) {
        self.text.push_str(name);
        if !labels.is_empty() {
            self.text.push('{');
            self.text.push_str(labels);
            self.text.push('}');
        }
        self.text.push(' ');
        self.text.push_str(&number(value));
        self.text.push('\n');
    }

    /// A family of one series.
    pub(super) fn gauge(&mut self, name: &str, labels: &str, value: f64, help: &str) {
        self.family(name, Kind::Gauge, help);
        self.series(name, labels, value);
    }

    /// A histogram with one label set; `le` is put among the labels where the alphabet wants it.
    pub(super) fn histogram(&mut self, name: &str, (before, after): (&str, &str), histogram: &Histogram, help: &str) {
        self.family(name, Kind::Histogram, help);
        self.histogram_series(name, (before, after), histogram);
    }

    /// The series of a histogram.
    pub(super) fn histogram_series(&mut self, name: &str, (before, after): (&str, &str), histogram: &Histogram) {
        let bucket = |bound: &str| {
            let labels = [before, &format!("le=\"{bound}\""), after];
            labels
                .into_iter()
                .filter(|part| !part.is_empty())
                .collect::<Vec<_>>()
                .join(",")
        };
        let bucket_name = format!("{name}_bucket");
        for (bound, count) in histogram.buckets() {
            self.series(&bucket_name, &bucket(&number(bound)), count as f64);
        }
        self.series(&bucket_name, &bucket("+Inf"), histogram.count() as f64);
        let labels = [before, after]
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join(",");
        self.series(&format!("{name}_count"), &labels, histogram.count() as f64);
        self.series(&format!("{name}_sum"), &labels, histogram.sum());
    }

    /// The text.
    pub(super) fn finish(self) -> String {
        self.text
    }
}

/// A label value, escaped.
pub(super) fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// A number as Python's client prints it: with a point, and with an exponent from a million on.
fn number(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let plain = format!("{value:?}");
    let point = plain.find('.').unwrap_or(plain.len());
    if value <= 0.0 || point <= 6 || plain.contains('e') {
        return plain;
    }
    let digits: String = plain.chars().filter(char::is_ascii_digit).collect();
    let (first, rest) = digits.split_at(1);
    let mantissa = format!("{first}.{rest}");
    format!("{}e+{:02}", mantissa.trim_end_matches(['0', '.']), point - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_look_like_pythons() {
        let check = |value: f64, printed: &str| {
            assert_eq!(number(value), printed);
            if value.is_finite() {
                assert_eq!(printed.parse::<f64>().unwrap().to_bits(), value.to_bits());
            }
        };
        check(0.0, "0.0");
        check(4.0, "4.0");
        check(20_000.0, "20000.0");
        check(0.8947368421052632, "0.8947368421052632");
        check(1_073_741_824.0, "1.073741824e+09");
        check(1.796_070_052_846_365_2e9, "1.7960700528463652e+09");
        check(10_000_000.0, "1e+07");
        check(-7.5, "-7.5");
        check(f64::INFINITY, "+Inf");
        check(f64::NAN, "NaN");
    }
}
