//! As much of ZMTP 3 as the subscription needs: greeting, the NULL handshake, frames and messages (RFC 23,
//! <https://rfc.zeromq.org/spec/23/>). Bytes in, bytes out; no socket is known here.
//!
//! Version 3.0 is spoken: every libzmq since 4.0 understands it, and subscriptions are plain messages in it.

/// Bytes of a greeting.
pub const GREETING: usize = 64;
/// Most frames of a message.
const FRAMES_MAX: usize = 16;

const MORE: u8 = 1;
const LONG: u8 = 2;
const COMMAND: u8 = 4;

/// The greeting of a peer that speaks version 3.0 with the NULL mechanism.
#[must_use]
pub fn greeting() -> [u8; GREETING] {
    let mut greeting = [0; GREETING];
    greeting[0] = 0xff;
    greeting[9] = 0x7f;
    greeting[10] = 3;
    greeting[12..16].copy_from_slice(b"NULL");
    greeting
}

/// Why a peer is not talked to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZmtpError {
    /// It does not speak version 3 or later.
    Version,
    /// It asks for credentials.
    Mechanism,
    /// A frame or message is larger than is read.
    TooLarge,
    /// A frame is none.
    Malformed,
}

impl std::fmt::Display for ZmtpError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Version => "the peer does not speak ZMTP 3",
            Self::Mechanism => "the peer asks for credentials",
            Self::TooLarge => "a message is larger than is read",
            Self::Malformed => "a frame is malformed",
        })
    }
}

impl std::error::Error for ZmtpError {}

/// Judges a peer's greeting.
///
/// # Errors
/// When it cannot be talked to.
pub fn check_greeting(greeting: &[u8; GREETING]) -> Result<(), ZmtpError> {
    if greeting[0] != 0xff || greeting[9] & 1 == 0 || greeting[10] < 3 {
        return Err(ZmtpError::Version);
    }
    let mut null = [0; 20];
    null[..4].copy_from_slice(b"NULL");
    if greeting[12..32] == null {
        Ok(())
    } else {
        Err(ZmtpError::Mechanism)
    }
}

/// The command that ends the handshake, for a socket of this type (`SUB`, `DEALER`, `PUB`, `ROUTER`).
#[must_use]
pub fn ready(socket_type: &str) -> Vec<u8> {
    let mut body = b"\x05READY\x0bSocket-Type\0\0\0".to_vec();
    body.push(u8::try_from(socket_type.len()).unwrap_or(u8::MAX));
    body.extend_from_slice(socket_type.as_bytes());
    let mut bytes = Vec::new();
    put_frame(COMMAND, &body, &mut bytes);
    bytes
}

/// A message in one or more frames.
pub fn put_message<F: AsRef<[u8]>>(frames: &[F], bytes: &mut Vec<u8>) {
    for (at, frame) in frames.iter().enumerate() {
        let more = if at + 1 < frames.len() { MORE } else { 0 };
        put_frame(more, frame.as_ref(), bytes);
    }
}

/// A subscription to topics that begin so.
#[must_use]
pub fn subscribe(topic: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_message(&[[&[1], topic].concat()], &mut bytes);
    bytes
}

fn put_frame(flags: u8, body: &[u8], bytes: &mut Vec<u8>) {
    match u8::try_from(body.len()) {
        Ok(length) => bytes.extend_from_slice(&[flags, length]),
        Err(_) => {
            bytes.push(flags | LONG);
            bytes.extend_from_slice(&(body.len() as u64).to_be_bytes());
        }
    }
    bytes.extend_from_slice(body);
}

/// What has come in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Incoming {
    /// A command; its body with its name.
    Command(Vec<u8>),
    /// A whole message, frame by frame.
    Message(Vec<Vec<u8>>),
}

impl Incoming {
    /// What has to be answered to it: a PING gets a PONG with its context (RFC 37).
    #[must_use]
    pub fn reply(&self) -> Option<Vec<u8>> {
        let Self::Command(body) = self else { return None };
        let context = body.strip_prefix(b"\x04PING")?.get(2..)?;
        let mut bytes = Vec::new();
        put_frame(COMMAND, &[b"\x04PONG", context].concat(), &mut bytes);
        Some(bytes)
    }
}

/// Puts incoming bytes together into messages. However they are cut, the messages are the same.
#[derive(Clone, Debug)]
pub struct Decoder {
    buffer: Vec<u8>,
    frames: Vec<Vec<u8>>,
    /// Bytes of `frames`.
    gathered: usize,
    max: usize,
}

impl Decoder {
    /// A decoder that refuses messages of more than `max` bytes.
    #[must_use]
    pub const fn new(max: usize) -> Self {
        Self {
            buffer: Vec::new(),
            frames: Vec::new(),
            gathered: 0,
            max,
        }
    }

    /// Takes bytes in.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// What has come in whole.
    ///
    /// # Errors
    /// When the peer sends what is no frame or more than is read; nothing sensible comes after that.
    pub fn poll(&mut self) -> Result<Option<Incoming>, ZmtpError> {
        loop {
            let Some((flags, head, length)) = self.head()? else {
                return Ok(None);
            };
            let Some(body) = self.buffer.get(head..head + length) else {
                return Ok(None);
            };
            let body = body.to_vec();
            self.buffer.drain(..head + length);
            if flags & COMMAND != 0 {
                return Ok(Some(Incoming::Command(body)));
            }
            self.gathered += body.len();
            self.frames.push(body);
            if flags & MORE == 0 {
                self.gathered = 0;
                return Ok(Some(Incoming::Message(std::mem::take(&mut self.frames))));
            }
            if self.frames.len() >= FRAMES_MAX {
                return Err(ZmtpError::TooLarge);
            }
        }
    }

    /// Flags, bytes of the head and bytes of the body of the frame that comes next.
    fn head(&self) -> Result<Option<(u8, usize, usize)>, ZmtpError> {
        let Some(&flags) = self.buffer.first() else {
            return Ok(None);
        };
        if flags & !(MORE | LONG | COMMAND) != 0 || flags & COMMAND != 0 && flags & MORE != 0 {
            return Err(ZmtpError::Malformed);
        }
        let (head, length) = if flags & LONG == 0 {
            let Some(&length) = self.buffer.get(1) else {
                return Ok(None);
            };
            (2, usize::from(length))
        } else {
            let Some(length) = self.buffer.get(1..9).and_then(|bytes| bytes.try_into().ok()) else {
                return Ok(None);
            };
            let length = usize::try_from(u64::from_be_bytes(length)).map_err(|_| ZmtpError::TooLarge)?;
            (9, length)
        };
        if length.saturating_add(self.gathered) > self.max {
            return Err(ZmtpError::TooLarge);
        }
        Ok(Some((flags, head, length)))
    }
}
