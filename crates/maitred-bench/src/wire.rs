//! As much HTTP/1 as both ends of the measurement need, with as little work as possible.

use memchr::memmem;

/// A message whose head is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Framed {
    /// Bytes of the head, its blank line included.
    pub(crate) head: usize,
    /// Bytes of the body; nothing when it comes in chunks.
    pub(crate) body: Option<usize>,
}

impl Framed {
    /// Reads the framing at the beginning of `bytes`; nothing when the head is not complete.
    pub(crate) fn of(bytes: &[u8]) -> Option<Self> {
        let head = memmem::find(bytes, b"\r\n\r\n")? + 4;
        let lines = bytes.get(..head).unwrap_or_default();
        let length = value(lines, b"content-length").map(|value| value.iter().fold(0, decimal));
        let is_chunked = value(lines, b"transfer-encoding").is_some();
        Some(Self {
            head,
            body: if is_chunked { None } else { Some(length.unwrap_or(0)) },
        })
    }

    /// How long the whole message at the beginning of `bytes` is; nothing when more is to come.
    pub(crate) fn end(self, bytes: &[u8]) -> Option<usize> {
        match self.body {
            Some(body) => (bytes.len() >= self.head + body).then_some(self.head + body),
            None => {
                let body = bytes.get(self.head.saturating_sub(2)..).unwrap_or_default();
                memmem::find(body, b"\r\n0\r\n\r\n").map(|at| self.head - 2 + at + 7)
            }
        }
    }
}

fn decimal(number: usize, digit: &u8) -> usize {
    number * 10 + usize::from(digit.saturating_sub(b'0'))
}

/// The value of the header `name` (in lower case), whatever case the wire has.
fn value<'a>(head: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    head.split(|byte| *byte == b'\n').find_map(|line| {
        let (found, rest) = line.split_at_checked(name.len())?;
        let rest = rest.strip_prefix(b":").filter(|_| found.eq_ignore_ascii_case(name))?;
        Some(rest.trim_ascii())
    })
}

/// The status of an answer.
pub(crate) fn status(head: &[u8]) -> u16 {
    let digits = head.get(9..12).unwrap_or_default();
    digits
        .iter()
        .fold(0, |status, digit| status * 10 + u16::from(digit.saturating_sub(b'0')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_end_where_their_framing_says() {
        let check = |text: &str, end: Option<usize>| {
            let found = Framed::of(text.as_bytes()).and_then(|framed| framed.end(text.as_bytes()));
            assert_eq!(found, end, "{text}");
        };
        check("GET / HTTP/1.1\r\n\r\n", Some(18));
        check("GET / HTTP/1.1\r\n", None);
        check("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcd", Some(41));
        check("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab", None);
        check(
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\nx",
            Some(60),
        );
        check(
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
            Some(52),
        );
        check(
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n",
            None,
        );
        assert_eq!(status(b"HTTP/1.1 429 Too Many"), 429);
    }
}
