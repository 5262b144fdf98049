//! HTTP/1 on the wire, for both sides: lenient in what it shows, strict about where things end.

use std::fmt;
use std::io;

use bytes::{Buf as _, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

/// A head larger than this fails the test.
const HEAD_BYTES_MAX: usize = 4 << 20;
/// Bytes asked of the socket at a time.
const READ_BYTES: usize = 64 << 10;

/// Anything that bytes flow through.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin + fmt::Debug {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin + fmt::Debug> Stream for S {}

/// The first line and the headers of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// The request line or status line.
    pub first_line: String,
    /// Names in lower case, in the order of the wire.
    pub headers: Vec<(String, String)>,
}

impl Head {
    fn parse(bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes);
        let mut lines = text.split("\r\n");
        let first_line = lines.next().unwrap_or_default().to_owned();
        let pairs = lines.filter_map(|line| line.split_once(':'));
        Self {
            first_line,
            headers: pairs
                .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
                .collect(),
        }
    }

    /// The value of the first header `name` (in lower case).
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }

    /// The status of an answer.
    #[must_use]
    pub fn status(&self) -> u16 {
        let status = self.first_line.split(' ').nth(1).and_then(|word| word.parse().ok());
        match status {
            Some(status) => status,
            None => panic!("not a status line: {}", self.first_line),
        }
    }

    fn is_chunked(&self) -> bool {
        self.header("transfer-encoding")
            .is_some_and(|value| value.eq_ignore_ascii_case("chunked"))
    }

    fn length(&self) -> Option<u64> {
        self.header("content-length").and_then(|value| value.parse().ok())
    }

    /// How the body of a request is framed.
    pub(crate) fn request_framing(&self) -> Framing {
        match self.length() {
            _ if self.is_chunked() => Framing::Chunked,
            length => Framing::Length(length.unwrap_or(0)),
        }
    }

    /// How the body of an answer is framed.
    pub(crate) fn answer_framing(&self) -> Framing {
        match (self.status(), self.length()) {
            (204 | 304, _) => Framing::Length(0),
            _ if self.is_chunked() => Framing::Chunked,
            (_, Some(length)) => Framing::Length(length),
            (_, None) => Framing::UntilClose,
        }
    }
}

/// Where a body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    Length(u64),
    Chunked,
    UntilClose,
    Ended(BodyEnd),
}

/// How a body ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyEnd {
    /// As its framing says.
    Complete,
    /// The connection closed or broke before that.
    Cut,
}

/// A connection with what was read ahead.
#[derive(Debug)]
pub(crate) struct Wire<S> {
    stream: S,
    buffer: BytesMut,
}

impl<S: Stream> Wire<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self {
            stream,
            buffer: BytesMut::new(),
        }
    }

    pub(crate) fn stream(&self) -> &S {
        &self.stream
    }

    pub(crate) async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes).await?;
        self.stream.flush().await
    }

    /// Says that nothing more will be sent.
    pub(crate) async fn shut(&mut self) -> io::Result<()> {
        self.stream.shutdown().await
    }

    /// Reads more; false at the end or when the connection broke.
    async fn fill(&mut self) -> bool {
        self.buffer.reserve(READ_BYTES);
        self.stream.read_buf(&mut self.buffer).await.is_ok_and(|read| read > 0)
    }

    /// Waits until the other side has closed. What it still sends is kept.
    pub(crate) async fn closed(&mut self) {
        while self.fill().await {}
    }

    /// The next head; nothing when the connection ended before it was whole.
    pub(crate) async fn head(&mut self) -> Option<Head> {
        const MARK: &[u8] = b"\r\n\r\n";
        loop {
            if let Some(at) = self.buffer.windows(MARK.len()).position(|window| window == MARK) {
                let bytes = self.buffer.split_to(at + MARK.len());
                return Some(Head::parse(bytes.get(..at).unwrap_or_default()));
            }
            assert!(
                self.buffer.len() <= HEAD_BYTES_MAX,
                "a head of more than {HEAD_BYTES_MAX} bytes"
            );
            if !self.fill().await {
                return None;
            }
        }
    }

    /// The next bytes of a body; nothing once it has ended, and `framing` then says how.
    pub(crate) async fn piece(&mut self, framing: &mut Framing) -> Option<BytesMut> {
        let piece = match framing {
            Framing::Ended(_) => None,
            Framing::Length(left) => self.measured(left).await,
            Framing::Chunked => self.chunk().await,
            Framing::UntilClose => {
                let more = !self.buffer.is_empty() || self.fill().await;
                Some(if more { self.buffer.split() } else { BytesMut::new() })
            }
        };
        match piece {
            Some(bytes) if !bytes.is_empty() => Some(bytes),
            ended => {
                if !matches!(framing, Framing::Ended(_)) {
                    *framing = Framing::Ended(if ended.is_some() {
                        BodyEnd::Complete
                    } else {
                        BodyEnd::Cut
                    });
                }
                None
            }
        }
    }

    /// Some of the `left` bytes; empty when none are left; nothing when the connection ended too early.
    async fn measured(&mut self, left: &mut u64) -> Option<BytesMut> {
        if *left > 0 && self.buffer.is_empty() && !self.fill().await {
            return None;
        }
        let take = usize::try_from(*left).unwrap_or(usize::MAX).min(self.buffer.len());
        *left -= u64::try_from(take).unwrap_or(u64::MAX);
        Some(self.buffer.split_to(take))
    }

    /// One whole chunk; empty when it was the last one.
    async fn chunk(&mut self) -> Option<BytesMut> {
        let line = self.line().await?;
        let size = line.split(';').next().unwrap_or_default().trim();
        let Ok(size) = usize::from_str_radix(size, 16) else {
            panic!("not the size of a chunk: {line}");
        };
        if size == 0 {
            while !self.line().await?.is_empty() {}
            return Some(BytesMut::new());
        }
        while self.buffer.len() < size + 2 {
            if !self.fill().await {
                return None;
            }
        }
        let chunk = self.buffer.split_to(size);
        self.buffer.advance(2);
        Some(chunk)
    }

    async fn line(&mut self) -> Option<String> {
        loop {
            if let Some(at) = self.buffer.windows(2).position(|window| window == b"\r\n") {
                let line = self.buffer.split_to(at + 2);
                return Some(String::from_utf8_lossy(line.get(..at).unwrap_or_default()).into_owned());
            }
            if !self.fill().await {
                return None;
            }
        }
    }
}
