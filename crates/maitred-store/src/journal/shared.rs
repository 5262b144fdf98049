//! The lines of journals in a stream of Redis or Valkey: the id of an entry is its number.

use std::fmt;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::streams::{StreamId, StreamRangeReply, StreamReadOptions, StreamReadReply};
use redis::{AsyncCommands, AsyncConnectionConfig, Client, Script};

use crate::chain::LINE_MAX;
use crate::shared_log::LogError;

/// The field of an entry.
const LINE: &str = "line";
/// Most entries that are fetched at once.
const BATCH: usize = 256;
/// How long the server may take.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Where it is.
#[derive(Clone)]
pub struct SharedJournal {
    client: Client,
    key: String,
}

impl fmt::Debug for SharedJournal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedJournal")
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

/// What came of a publication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Published {
    /// Everybody will read it.
    Yes,
    /// Another gateway was first with this number, or a later one.
    Taken,
    /// Lines before it are missing: this is the newest number there is. The server has lost its memory.
    Behind(u64),
    /// The line before it is another there: the gateways that share the stream have made other changes.
    Foreign,
}

/// Appends the line with a number if the newest is the one before, in one step; gives the newest otherwise, and -2 if that has the
/// number before and is another line.
const PUBLISH: &str = "
local newest = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)
local number = 0
if newest[1] then number = tonumber(string.match(newest[1][1], '^%d+')) end
if number + 1 ~= tonumber(ARGV[1]) then return number end
if newest[1] and newest[1][2][2] ~= ARGV[3] then return -2 end
redis.call('XADD', KEYS[1], ARGV[1] .. '-0', 'line', ARGV[2])
return -1
";

impl SharedJournal {
    /// Names a stream; nothing is connected yet.
    ///
    /// # Errors
    /// The address has not the form of one. The message does not repeat it.
    pub fn new(url: &str, key: String) -> Result<Self, LogError> {
        Ok(Self {
            client: Client::open(url)?,
            key,
        })
    }

    async fn connect(&self, answer: Duration) -> Result<MultiplexedConnection, LogError> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(TIMEOUT))
            .set_response_timeout(Some(answer));
        Ok(self
            .client
            .get_multiplexed_async_connection_with_config(&config)
            .await?)
    }

    /// Publishes the line with this number, if the newest there is is `before`.
    ///
    /// # Errors
    /// The server does not answer or refuses. It may have been published all the same when the answer was lost.
    pub async fn publish(&self, number: u64, line: &[u8], before: &[u8]) -> Result<Published, LogError> {
        let mut connection = self.connect(TIMEOUT).await?;
        let script = Script::new(PUBLISH);
        let mut call = script.key(&self.key);
        let newest: i64 = call
            .arg(number)
            .arg(line)
            .arg(before)
            .invoke_async(&mut connection)
            .await?;
        Ok(match u64::try_from(newest) {
            Err(_) if newest == -2 => Published::Foreign,
            Err(_) => Published::Yes,
            Ok(newest) if newest >= number => Published::Taken,
            Ok(newest) => Published::Behind(newest),
        })
    }

    /// Publishes those of `lines`, all there are from the first on, that the server has not. If what it has are other lines, nothing
    /// is published, and the number of one that differs is given.
    ///
    /// # Errors
    /// The server does not answer.
    pub async fn give_back(&self, lines: &[Vec<u8>]) -> Result<Option<u64>, LogError> {
        if let Some(number) = self.difference(lines).await? {
            return Ok(Some(number));
        }
        let newest = self.newest().await?;
        let mut before: &[u8] = &[];
        for (number, line) in (1..).zip(lines) {
            if number > newest && self.publish(number, line, before).await? == Published::Foreign {
                return Ok(Some(number - 1));
            }
            before = line;
        }
        // Another may have given back its own meanwhile, and was first.
        self.difference(lines).await
    }

    /// The number of a line that is another there than in `lines`, all there are from the first on. The last of those that both have
    /// is compared: each names the hash of the one before, so if it is the same all before it are.
    ///
    /// # Errors
    /// The server does not answer.
    pub async fn difference(&self, lines: &[Vec<u8>]) -> Result<Option<u64>, LogError> {
        let number = self.newest().await?.min(lines.len() as u64);
        let own = usize::try_from(number)
            .ok()
            .and_then(|number| lines.get(number.checked_sub(1)?));
        let Some(own) = own else { return Ok(None) };
        let mut connection = self.connect(TIMEOUT).await?;
        let id = format!("{number}-0");
        let found: StreamRangeReply = connection.xrange_count(&self.key, &id, &id, 1).await?;
        let line = found.ids.first().and_then(|id| id.get::<Vec<u8>>(LINE));
        Ok(line.filter(|line| line != own).map(|_| number))
    }

    /// The number of the newest line; 0 if there is none.
    ///
    /// # Errors
    /// The server does not answer.
    pub async fn newest(&self) -> Result<u64, LogError> {
        let mut connection = self.connect(TIMEOUT).await?;
        let newest: StreamRangeReply = connection.xrevrange_count(&self.key, "+", "-", 1).await?;
        Ok(newest.ids.first().map_or(0, number_of))
    }

    /// Opens the stream for reading the lines after `number`.
    ///
    /// # Errors
    /// The server does not answer.
    pub async fn reader(&self, number: u64) -> Result<SharedReader, LogError> {
        Ok(SharedReader {
            connection: self.connect(TIMEOUT * 2).await?,
            key: self.key.clone(),
            after: number,
        })
    }
}

/// The reading end. After an error it is done for: open another.
pub struct SharedReader {
    connection: MultiplexedConnection,
    key: String,
    after: u64,
}

impl fmt::Debug for SharedReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedReader")
            .field("after", &self.after)
            .finish_non_exhaustive()
    }
}

impl SharedReader {
    /// The next lines, oldest first; none after a while in which there were none.
    ///
    /// # Errors
    /// The server has gone or does not answer.
    pub async fn next(&mut self) -> Result<Vec<Vec<u8>>, LogError> {
        let wait = usize::try_from(TIMEOUT.as_millis()).unwrap_or(usize::MAX);
        let options = StreamReadOptions::default().count(BATCH).block(wait);
        let after = format!("{}-0", self.after);
        let reply: Option<StreamReadReply> = self.connection.xread_options(&[&self.key], &[&after], &options).await?;
        let ids: Vec<StreamId> = reply
            .into_iter()
            .flat_map(|reply| reply.keys)
            .flat_map(|key| key.ids)
            .collect();
        if let Some(newest) = ids.last() {
            self.after = number_of(newest);
        }
        let lines = ids.iter().filter_map(|id| id.get::<Vec<u8>>(LINE));
        Ok(lines.filter(|line| line.len() <= LINE_MAX).collect())
    }
}

fn number_of(id: &StreamId) -> u64 {
    let number = id.id.split('-').next().and_then(|number| number.parse().ok());
    number.unwrap_or(0)
}
