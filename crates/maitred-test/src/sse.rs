//! Server-sent events as a client reads them. Written apart from the gateway's own reader, so that one checks the other.

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The `event` field, if there was one.
    pub name: Option<String>,
    /// The `data` lines, joined by line breaks.
    pub data: String,
}

impl Event {
    /// The data as JSON.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        match serde_json::from_str(&self.data) {
            Ok(value) => value,
            Err(error) => panic!("not JSON ({error}): {}", self.data),
        }
    }

    /// Whether this is the mark at the end of an OpenAI stream.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.data == "[DONE]"
    }
}

/// Turns bytes, however they are cut, into events.
#[derive(Clone, Debug, Default)]
pub struct SseReader {
    bytes: Vec<u8>,
}

impl SseReader {
    /// Takes more bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole event. Comments and events without data are passed over.
    pub fn next_event(&mut self) -> Option<Event> {
        loop {
            let end = self.block_end()?;
            let block: Vec<u8> = self.bytes.drain(..end).collect();
            if let Some(event) = parse(&String::from_utf8_lossy(&block)) {
                return Some(event);
            }
        }
    }

    /// What came after the last whole event.
    #[must_use]
    pub fn rest(&self) -> &[u8] {
        &self.bytes
    }

    /// All events of a whole body.
    #[must_use]
    pub fn all(body: &[u8]) -> Vec<Event> {
        let mut reader = Self::default();
        reader.push(body);
        std::iter::from_fn(|| reader.next_event()).collect()
    }

    /// Where the first block with its blank line ends.
    fn block_end(&self) -> Option<usize> {
        let ends = |mark: &[u8]| {
            self.bytes
                .windows(mark.len())
                .position(|window| window == mark)
                .map(|at| at + mark.len())
        };
        [ends(b"\n\n"), ends(b"\r\n\r\n")].into_iter().flatten().min()
    }
}

fn parse(block: &str) -> Option<Event> {
    let mut name = None;
    let mut data: Vec<&str> = Vec::new();
    for line in block.lines() {
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => name = Some(value.to_owned()),
            "data" => data.push(value),
            _ => {}
        }
    }
    (!data.is_empty()).then(|| Event {
        name,
        data: data.join("\n"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_the_same_however_the_bytes_are_cut() {
        let body = b": hello\n\nevent: a\ndata: 1\ndata: 2\n\ndata:3\r\n\r\nid: 7\n\ndata: [DONE]\n\nrest";
        let whole = SseReader::all(body);
        let event = |name: Option<&str>, data: &str| Event {
            name: name.map(str::to_owned),
            data: data.to_owned(),
        };
        assert_eq!(
            whole,
            [event(Some("a"), "1\n2"), event(None, "3"), event(None, "[DONE]")]
        );
        for cut in 0..=body.len() {
            let (head, tail) = body.split_at(cut);
            let mut reader = SseReader::default();
            let mut events = Vec::new();
            for part in [head, tail] {
                reader.push(part);
                events.extend(std::iter::from_fn(|| reader.next_event()));
            }
            assert_eq!(events, whole, "cut at {cut}");
            assert_eq!(reader.rest(), b"rest");
        }
    }
}
