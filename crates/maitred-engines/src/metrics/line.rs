//! One line of Prometheus text or OpenMetrics, taken apart without allocating.

use memchr::memchr2;

/// What follows a metric's name on a line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample<'a> {
    /// The inside of the braces, as written; empty without labels.
    pub(super) labels: &'a [u8],
    /// The value; NaN and infinities included.
    pub(super) value: f64,
    /// The explicit timestamp, in whatever unit the page uses.
    pub(super) timestamp: Option<f64>,
}

impl<'a> Sample<'a> {
    /// Reads what stands after the name: `{labels} value [timestamp] [# exemplar]`. `None` when it is anything else.
    pub(super) fn parse(after_name: &'a [u8]) -> Option<Self> {
        let rest = after_name.trim_ascii_start();
        let (labels, rest) = match rest.split_first() {
            Some((b'{', inside)) => split_labels(inside)?,
            _ => (&[][..], rest),
        };
        let (value, rest) = number(rest)?;
        let timestamp = match rest.trim_ascii_start().first() {
            None | Some(b'#') => None,
            Some(_) => {
                let (timestamp, rest) = number(rest)?;
                if !matches!(rest.trim_ascii_start().first(), None | Some(b'#')) {
                    return None;
                }
                Some(timestamp)
            }
        };
        Some(Self {
            labels,
            value,
            timestamp,
        })
    }
}

/// Reads the next blank-separated word as a number.
fn number(bytes: &[u8]) -> Option<(f64, &[u8])> {
    let bytes = bytes.trim_ascii_start();
    let end = bytes.iter().position(u8::is_ascii_whitespace).unwrap_or(bytes.len());
    let (word, rest) = bytes.split_at(end);
    Some((parse_number(word)?, rest))
}

/// A number as Prometheus writes it: also `NaN`, `+Inf`, `-Inf`.
pub(super) fn parse_number(word: &[u8]) -> Option<f64> {
    std::str::from_utf8(word).ok()?.parse().ok()
}

/// Splits at the brace that closes the labels.
fn split_labels(inside: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut at = 0;
    loop {
        at += memchr2(b'"', b'}', inside.get(at..)?)?;
        if inside.get(at) == Some(&b'}') {
            return Some((inside.get(..at)?, inside.get(at + 1..)?));
        }
        at = quote_end(inside, at + 1)? + 1;
    }
}

/// The index of the quote that closes the one before `start`.
fn quote_end(bytes: &[u8], start: usize) -> Option<usize> {
    let mut at = start;
    loop {
        at += memchr2(b'"', b'\\', bytes.get(at..)?)?;
        match bytes.get(at) {
            Some(b'"') => return Some(at),
            _ => at += 2,
        }
    }
}

/// The labels of a series, in order: name, and value as written. Ends at the first thing that is not a label.
#[derive(Clone, Debug)]
pub(super) struct Labels<'a> {
    rest: &'a [u8],
}

impl<'a> Labels<'a> {
    /// The labels between the braces.
    pub(super) const fn new(inside: &'a [u8]) -> Self {
        Self { rest: inside }
    }
}

impl<'a> Iterator for Labels<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let equals = memchr::memchr(b'=', self.rest)?;
        let name = self.rest.get(..equals)?.trim_ascii();
        let value = self.rest.get(equals + 1..)?.trim_ascii_start();
        let (&quote, value) = value.split_first()?;
        if quote != b'"' {
            return None;
        }
        let end = quote_end(value, 0)?;
        let after = value.get(end + 1..)?.trim_ascii_start();
        self.rest = after.strip_prefix(b",").unwrap_or_default();
        Some((name, value.get(..end)?))
    }
}

/// Whether a label's value, as written on the page, is the plain text `wanted`.
pub(super) fn means(written: &[u8], wanted: &[u8]) -> bool {
    let mut wanted = wanted.iter();
    let mut written = written.iter();
    while let Some(&byte) = written.next() {
        let plain = if byte == b'\\' {
            match written.next() {
                Some(b'n') => b'\n',
                Some(&escaped) => escaped,
                None => return false,
            }
        } else {
            byte
        };
        if wanted.next() != Some(&plain) {
            return false;
        }
    }
    wanted.next().is_none()
}

/// The plain text of a label's value; bytes that are not UTF-8 become replacement characters.
pub(super) fn unescape(written: &[u8]) -> String {
    let mut plain = Vec::with_capacity(written.len());
    let mut written = written.iter();
    while let Some(&byte) = written.next() {
        match (byte, byte == b'\\') {
            (_, false) => plain.push(byte),
            (_, true) => match written.next() {
                Some(b'n') => plain.push(b'\n'),
                Some(&escaped) => plain.push(escaped),
                None => {}
            },
        }
    }
    String::from_utf8_lossy(&plain).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_taken_apart() {
        let check = |text: &str, labels: &str, value: f64, timestamp: Option<f64>| {
            let sample = Sample::parse(text.as_bytes()).unwrap_or_else(|| panic!("{text}"));
            assert_eq!(String::from_utf8_lossy(sample.labels), labels, "{text}");
            assert!(
                sample.value.total_cmp(&value).is_eq(),
                "{text}: {} is not {value}",
                sample.value
            );
            assert_eq!(sample.timestamp, timestamp, "{text}");
        };
        check(" 1", "", 1.0, None);
        check("\t1.5e3\r", "", 1500.0, None);
        check(" NaN", "", f64::NAN, None);
        check(" +Inf", "", f64::INFINITY, None);
        check("{a=\"b\"} 2", "a=\"b\"", 2.0, None);
        check("{a=\"}\\\"}\"}2 1700", "a=\"}\\\"}\"", 2.0, Some(1700.0));
        check(" {} 3 17.5 # {trace=\"x\"} 1 2", "", 3.0, Some(17.5));
        check(" 3 # {trace=\"x\"} 1 2", "", 3.0, None);
    }

    #[test]
    fn other_text_is_no_sample() {
        for text in [
            "",
            " ",
            " x",
            "{a=\"b\" 1",
            "{a=\"b} 1",
            "{} ",
            " 1 x",
            " 1 2 3",
            " 1,5",
            "{a=\"\\",
        ] {
            assert!(Sample::parse(text.as_bytes()).is_none(), "{text}");
        }
    }

    #[test]
    fn labels_are_split_and_compared_unescaped() {
        let inside = br#" a = "1", b="x,\"=}" ,c="\\\n","#;
        let found: Vec<_> = Labels::new(inside)
            .map(|(name, value)| (name.to_vec(), unescape(value)))
            .collect();
        let wanted = [("a", "1"), ("b", "x,\"=}"), ("c", "\\\n")];
        let wanted: Vec<_> = wanted.map(|(n, v)| (n.as_bytes().to_vec(), v.to_owned())).to_vec();
        assert_eq!(found, wanted);
        assert!(means(br#"x\"y"#, b"x\"y"));
        assert!(means(br"\\\n", b"\\\n"));
        for (written, wanted) in [("a", "b"), ("a", ""), ("", "a"), ("a\\", "a"), ("ab", "a")] {
            assert!(!means(written.as_bytes(), wanted.as_bytes()), "{written} {wanted}");
        }
    }
}
