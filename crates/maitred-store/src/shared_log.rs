//! A log that several gateways write and read: one stream of Redis or Valkey, with a bounded past.
//!
//! A stream rather than a channel, because whoever joins, or was cut off for a while, reads what it missed. The order of entries
//! is the server's, the same for all. Each writer names itself, so that a reader can leave its own entries out.

use std::fmt;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::streams::{StreamId, StreamMaxlen, StreamRangeReply, StreamReadOptions, StreamReadReply};
use redis::{AsyncCommands, AsyncConnectionConfig, Client, RedisError};

/// The writer's name in an entry.
const WRITER: &str = "w";
/// The bytes of an entry.
const BYTES: &str = "b";
/// Most entries that are fetched at once.
const BATCH: usize = 256;
/// Largest entry that is written or believed, in bytes.
const ENTRY_MAX: usize = 1 << 20;

/// Where a log is kept and how long it is.
#[derive(Clone)]
pub struct SharedLogOptions {
    /// The server: `redis://`, `rediss://` or `redis+unix://`. It may hold a password, so it is never printed.
    pub url: String,
    /// The key of the stream.
    pub key: String,
    /// Entries kept, about; older ones are dropped by the server.
    pub keep: usize,
    /// How long connecting, or an answer, may take.
    pub timeout: Duration,
}

impl fmt::Debug for SharedLogOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedLogOptions")
            .field("key", &self.key)
            .field("keep", &self.keep)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

/// A log that can be opened for writing and for reading.
#[derive(Clone)]
pub struct SharedLog {
    client: Client,
    options: SharedLogOptions,
}

impl fmt::Debug for SharedLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.options.fmt(f)
    }
}

/// What somebody wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Who.
    pub writer: u64,
    /// What.
    pub bytes: Vec<u8>,
}

/// Why the log could not be written or read.
#[derive(Debug)]
pub enum LogError {
    /// The server cannot be reached, does not answer, or refuses.
    Server(RedisError),
    /// An entry is larger than any may be.
    TooLarge {
        /// Its size in bytes.
        bytes: usize,
    },
}

impl fmt::Display for LogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server(error) => write!(f, "the shared log's server: {error}"),
            Self::TooLarge { bytes } => write!(
                f,
                "an entry of {bytes} bytes is too large for the shared log, which takes up to {ENTRY_MAX}"
            ),
        }
    }
}

impl std::error::Error for LogError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Server(error) => Some(error),
            Self::TooLarge { .. } => None,
        }
    }
}

impl From<RedisError> for LogError {
    fn from(error: RedisError) -> Self {
        Self::Server(error)
    }
}

impl SharedLog {
    /// Names a log; nothing is connected yet.
    ///
    /// # Errors
    /// The address has not the form of one. The message does not repeat it.
    pub fn new(options: SharedLogOptions) -> Result<Self, LogError> {
        let client = Client::open(options.url.as_str())?;
        Ok(Self { client, options })
    }

    /// Opens the log for writing, as `writer`.
    ///
    /// # Errors
    /// The server cannot be reached in time.
    pub async fn writer(&self, writer: u64) -> Result<Writer, LogError> {
        Ok(Writer {
            connection: self.connect(self.options.timeout).await?,
            key: self.options.key.clone(),
            keep: self.options.keep,
            writer,
        })
    }

    /// Opens the log for reading what others than `reader` wrote, beginning with the `past` newest entries.
    ///
    /// # Errors
    /// The server cannot be reached in time, or refuses.
    pub async fn reader(&self, reader: u64, past: usize) -> Result<(Reader, Vec<Entry>), LogError> {
        // Waiting for an entry may take as long as the wait, and then the answer its own time.
        let patience = self.options.timeout * 2;
        let mut connection = self.connect(patience).await?;
        let newest: StreamRangeReply = connection
            .xrevrange_count(&self.options.key, "+", "-", past.max(1))
            .await?;
        let after = newest.ids.first().map_or_else(|| "0-0".to_owned(), |id| id.id.clone());
        let entries = newest.ids.iter().take(past).rev();
        let entries = entries.filter_map(|id| entry(id, reader)).collect();
        Ok((
            Reader {
                connection,
                key: self.options.key.clone(),
                wait: self.options.timeout,
                after,
                reader,
            },
            entries,
        ))
    }

    async fn connect(&self, answer: Duration) -> Result<MultiplexedConnection, LogError> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.options.timeout))
            .set_response_timeout(Some(answer));
        Ok(self
            .client
            .get_multiplexed_async_connection_with_config(&config)
            .await?)
    }
}

/// The writing end. After an error it is done for: open another.
pub struct Writer {
    connection: MultiplexedConnection,
    key: String,
    keep: usize,
    writer: u64,
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer")
            .field("key", &self.key)
            .field("writer", &self.writer)
            .finish_non_exhaustive()
    }
}

impl Writer {
    /// Appends an entry.
    ///
    /// # Errors
    /// It is too large, or the server does not take it. It may have been written all the same when the answer was lost.
    pub async fn append(&mut self, bytes: &[u8]) -> Result<(), LogError> {
        if bytes.len() > ENTRY_MAX {
            return Err(LogError::TooLarge { bytes: bytes.len() });
        }
        let name = self.writer.to_be_bytes();
        let fields: [(&str, &[u8]); 2] = [(WRITER, &name), (BYTES, bytes)];
        let keep = StreamMaxlen::Approx(self.keep);
        let _id: Option<String> = self.connection.xadd_maxlen(&self.key, keep, "*", &fields).await?;
        Ok(())
    }
}

/// The reading end. After an error it is done for: open another.
pub struct Reader {
    connection: MultiplexedConnection,
    key: String,
    wait: Duration,
    /// The newest entry that was read.
    after: String,
    reader: u64,
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader")
            .field("key", &self.key)
            .field("reader", &self.reader)
            .finish_non_exhaustive()
    }
}

impl Reader {
    /// The next entries of others, oldest first; none after a while in which nobody wrote.
    ///
    /// # Errors
    /// The server has gone or does not answer.
    pub async fn next(&mut self) -> Result<Vec<Entry>, LogError> {
        let wait = usize::try_from(self.wait.as_millis()).unwrap_or(usize::MAX).max(1);
        let options = StreamReadOptions::default().count(BATCH).block(wait);
        let reply: Option<StreamReadReply> = self
            .connection
            .xread_options(&[&self.key], &[&self.after], &options)
            .await?;
        let ids: Vec<StreamId> = reply
            .into_iter()
            .flat_map(|reply| reply.keys)
            .flat_map(|key| key.ids)
            .collect();
        if let Some(newest) = ids.last() {
            self.after.clone_from(&newest.id);
        }
        Ok(ids.iter().filter_map(|id| entry(id, self.reader)).collect())
    }
}

/// An entry as it is in the stream; `None` for one's own, and for what no gateway wrote.
fn entry(id: &StreamId, reader: u64) -> Option<Entry> {
    let name: Vec<u8> = id.get(WRITER)?;
    let writer = u64::from_be_bytes(name.try_into().ok()?);
    let bytes: Vec<u8> = id.get(BYTES)?;
    (writer != reader && bytes.len() <= ENTRY_MAX).then_some(Entry { writer, bytes })
}

#[cfg(test)]
mod tests;
