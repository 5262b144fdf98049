//! Who holds how much of which counter, in Redis or Valkey.
//!
//! Each ask is one script within the server, so that it is answered whole or not at all. What the numbers of an ask and of its answer
//! mean is for the core of quota to say.

use std::fmt;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, RedisError, Script};

/// Names of counters that are heard of at once, at most.
const NEWS_MAX: usize = 4_096;

/// Why the store did not answer.
#[derive(Debug)]
pub struct QuotaStoreError(RedisError);

impl fmt::Display for QuotaStoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the store of shared quota: {}", self.0)
    }
}

impl std::error::Error for QuotaStoreError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}

impl From<RedisError> for QuotaStoreError {
    fn from(error: RedisError) -> Self {
        Self(error)
    }
}

/// What is new among counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct News {
    /// The server's civil time, in milliseconds.
    pub now: u64,
    /// How many gateways there are.
    pub gateways: u64,
    /// Counters of which something is to be heard, the newest first.
    pub names: Vec<String>,
}

/// A store of leases that can be connected to.
#[derive(Clone)]
pub struct QuotaStore {
    client: Client,
    group: String,
    timeout: Duration,
    ask: Script,
    news: Script,
}

impl fmt::Debug for QuotaStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QuotaStore")
            .field("group", &self.group)
            .finish_non_exhaustive()
    }
}

impl QuotaStore {
    /// Names a store; nothing is connected yet. `url` is `redis://`, `rediss://` or `redis+unix://`; it may hold a password, so it is
    /// never printed. All keys begin with `group`. Connecting, or an answer, may take `timeout`.
    ///
    /// # Errors
    /// The address has not the form of one. The message does not repeat it.
    pub fn new(url: &str, group: &str, timeout: Duration) -> Result<Self, QuotaStoreError> {
        Ok(Self {
            client: Client::open(url)?,
            // In braces, so that a cluster keeps all of it on one server.
            group: format!("{{{group}}}"),
            timeout,
            ask: Script::new(include_str!("quota_store.lua")),
            news: Script::new(include_str!("quota_news.lua")),
        })
    }

    /// Connects, as `gateway`.
    ///
    /// # Errors
    /// The server cannot be reached in time, or takes no scripts.
    pub async fn connect(&self, gateway: u64) -> Result<QuotaConnection, QuotaStoreError> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.timeout))
            .set_response_timeout(Some(self.timeout));
        let mut connection = self
            .client
            .get_multiplexed_async_connection_with_config(&config)
            .await?;
        self.ask.load_async(&mut connection).await?;
        Ok(QuotaConnection {
            connection,
            store: self.clone(),
            gateway,
        })
    }
}

/// A connection. After an error it is done for: make another.
pub struct QuotaConnection {
    connection: MultiplexedConnection,
    store: QuotaStore,
    gateway: u64,
}

impl fmt::Debug for QuotaConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QuotaConnection")
            .field("gateway", &self.gateway)
            .finish_non_exhaustive()
    }
}

impl QuotaConnection {
    /// Asks about counters, by name and numbers. An answer without numbers says that the ask came late. `now` is for tests; without it
    /// the server's clock counts.
    ///
    /// # Errors
    /// The server did not answer. It may have done what was asked all the same.
    pub async fn ask(&mut self, asks: &[(&str, &[u64])], now: Option<u64>) -> Result<Vec<Vec<u64>>, QuotaStoreError> {
        let group = &self.store.group;
        let mut pipe = redis::pipe();
        for (name, numbers) in asks {
            let mut invocation = self.store.ask.prepare_invoke();
            invocation
                .key(format!("{group}:quota:{name}"))
                .key(format!("{group}:gateways"))
                .key(format!("{group}:news"))
                .arg(self.gateway)
                .arg(*name)
                .arg(now.map(|now| now.to_string()).unwrap_or_default())
                .arg(*numbers);
            pipe.invoke_script(&invocation);
        }
        Ok(pipe.query_async(&mut self.connection).await?)
    }

    /// Says that this gateway lives, and hears of which counters there is news since then (milliseconds, by the server's clock).
    ///
    /// # Errors
    /// The server did not answer.
    pub async fn news(&mut self, since: u64) -> Result<News, QuotaStoreError> {
        let group = &self.store.group;
        let mut invocation = self.store.news.prepare_invoke();
        invocation
            .key(format!("{group}:gateways"))
            .key(format!("{group}:news"))
            .arg(self.gateway)
            .arg(since)
            .arg(NEWS_MAX);
        let (now, gateways, names) = invocation.invoke_async(&mut self.connection).await?;
        Ok(News { now, gateways, names })
    }

    /// Says that this gateway is gone.
    ///
    /// # Errors
    /// The server did not answer.
    pub async fn leave(&mut self) -> Result<(), QuotaStoreError> {
        let members = format!("{}:gateways", self.store.group);
        let _gone: u64 = redis::cmd("ZREM")
            .arg(members)
            .arg(self.gateway)
            .query_async(&mut self.connection)
            .await?;
        Ok(())
    }
}
