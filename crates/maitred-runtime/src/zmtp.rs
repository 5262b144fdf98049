//! A ZeroMQ peer over a TCP connection: as much of ZMTP as KV events need. The framing is that of `maitred-engines`. Of our own, since
//! it is little, and so that every message is bounded before it is read and reconnecting follows the endpoint's life.

use std::io;

use maitred_engines::kv_events::zmtp::{
    Decoder, GREETING, Incoming, ZmtpError, check_greeting, greeting, put_message, ready,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Largest message that is read, in bytes. vLLM sends four bytes or so per token of a step.
const MESSAGE_MAX: usize = 16 << 20;
/// Bytes that are read at once.
const PIECE: usize = 64 << 10;

/// A connection to a ZeroMQ socket, after the handshake.
#[derive(Debug)]
pub struct ZmtpPeer {
    stream: TcpStream,
    decoder: Decoder,
    piece: Box<[u8]>,
}

impl ZmtpPeer {
    /// Shakes hands as a socket of this type: `SUB`, `DEALER`, `PUB` or `ROUTER`.
    ///
    /// # Errors
    /// When the connection breaks or the peer cannot be talked to.
    pub async fn shake_hands(mut stream: TcpStream, socket_type: &str) -> io::Result<Self> {
        stream.write_all(&greeting()).await?;
        let mut theirs = [0; GREETING];
        stream.read_exact(&mut theirs).await?;
        check_greeting(&theirs).map_err(broken)?;
        stream.write_all(&ready(socket_type)).await?;
        let mut peer = Self {
            stream,
            decoder: Decoder::new(MESSAGE_MAX),
            piece: vec![0; PIECE].into(),
        };
        match peer.incoming().await? {
            Incoming::Command(body) if body.starts_with(b"\x05READY") => Ok(peer),
            Incoming::Command(_) | Incoming::Message(_) => Err(broken(ZmtpError::Malformed)),
        }
    }

    async fn incoming(&mut self) -> io::Result<Incoming> {
        loop {
            if let Some(incoming) = self.decoder.poll().map_err(broken)? {
                return Ok(incoming);
            }
            match self.stream.read(&mut self.piece).await? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                read => self.decoder.feed(self.piece.get(..read).unwrap_or_default()),
            }
        }
    }

    /// The next message. Nothing of it is lost when the future is dropped.
    ///
    /// # Errors
    /// When the connection ends or breaks.
    pub async fn receive(&mut self) -> io::Result<Vec<Vec<u8>>> {
        loop {
            let incoming = self.incoming().await?;
            if let Some(reply) = incoming.reply() {
                self.stream.write_all(&reply).await?;
            }
            if let Incoming::Message(frames) = incoming {
                return Ok(frames);
            }
        }
    }

    /// Sends a message.
    ///
    /// # Errors
    /// When the connection breaks.
    pub async fn send<F: AsRef<[u8]>>(&mut self, frames: &[F]) -> io::Result<()> {
        let mut bytes = Vec::new();
        put_message(frames, &mut bytes);
        self.send_bytes(&bytes).await
    }

    /// Sends frames that are put together already.
    ///
    /// # Errors
    /// When the connection breaks.
    pub async fn send_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes).await
    }
}

fn broken(error: ZmtpError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}
