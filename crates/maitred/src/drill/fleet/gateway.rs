//! A gateway, by what its listeners say.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, bail};
use http::{Method, StatusCode, Uri};
use maitred_config::{LedgerPolicy, LedgerSettings, LedgerStore, PoolSettings, Settings};
use maitred_obs::DecisionRecord;
use maitred_runtime::{Clock, Tasks};
use serde_json::{Value, json};

use super::until;
use crate::admin::{Credentials, Peer, in_path};
use crate::config_file::beside;
use crate::drill::calls::Caller;

/// The limit that drills make and take away.
const LIMIT: &str = "maitred-drill";

/// A gateway, and who calls it.
pub(in crate::drill) struct Gateway {
    pub(in crate::drill) caller: Caller,
    admin: Peer,
    settings: Settings,
    config: PathBuf,
    /// The pool that serves the model that is asked for.
    pub(in crate::drill) pool: Arc<PoolSettings>,
    /// Whether it has a limit of a drill.
    is_limited: AtomicBool,
}

/// Where a gateway is and how to get in.
pub(super) struct Door<'a> {
    /// Where it takes calls.
    pub(super) calls: Uri,
    /// Its administrative listener.
    pub(super) admin: Uri,
    /// What is shown there.
    pub(super) credentials: &'a Credentials,
    /// The key to call with.
    pub(super) key: Option<String>,
    /// The model to ask for.
    pub(super) model: Option<&'a str>,
}

/// One life of an endpoint, as the gateway sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::drill) struct Life {
    /// The endpoint's address.
    pub(in crate::drill) endpoint: String,
    /// Its place and how many lives came before: together they name a life.
    pub(in crate::drill) number: (u64, u64),
    pub(in crate::drill) state: String,
    /// Calls that were sent there.
    pub(in crate::drill) picks: u64,
    /// Calls that are there now.
    pub(in crate::drill) in_flight: u64,
}

/// What the ledger has of a call.
pub(in crate::drill) struct Row {
    pub(in crate::drill) fields: Value,
}

impl Row {
    /// A figure of it.
    pub(in crate::drill) fn count(&self, name: &str) -> u64 {
        self.fields[name].as_u64().unwrap_or_default()
    }

    /// A word of it.
    pub(in crate::drill) fn word(&self, name: &str) -> &str {
        self.fields[name].as_str().unwrap_or_default()
    }
}

impl Gateway {
    /// The gateway that a configuration is of.
    pub(super) fn new(config: &Path, settings: Settings, door: Door<'_>, is_simulated: bool) -> anyhow::Result<Self> {
        let (pool, model) = asked(&settings, door.model)?;
        let admin = door.credentials.peer(door.admin)?;
        let peer = Peer {
            uri: door.calls,
            ca: admin.ca.clone(),
            token: door.key,
        };
        let caller = Caller {
            peer,
            model,
            task_header: settings.quotas.task_header.clone(),
            prefix: format!("drill-{:x}", crate::ledger::start()?),
            header: None,
            filler: 0,
            is_exact: is_simulated,
            clock: Clock::start(),
            tasks: Tasks::new(),
            next: Arc::default(),
        };
        Ok(Self {
            caller,
            admin,
            settings,
            config: config.to_owned(),
            pool,
            is_limited: AtomicBool::new(false),
        })
    }

    /// What its administrative listener says at `path`.
    pub(in crate::drill) async fn page(&self, path: &str) -> anyhow::Result<(StatusCode, String)> {
        let (status, body) = self.admin.send(Method::GET, path, None).await?;
        Ok((status, String::from_utf8_lossy(&body).into_owned()))
    }

    /// All lives of endpoints that it knows of.
    pub(in crate::drill) async fn lives(&self) -> anyhow::Result<Vec<Life>> {
        let page = self.admin.ask(Method::GET, "/endpoints", None).await?;
        let Some(endpoints) = page["endpoints"].as_array() else {
            bail!("{} has no list of endpoints", self.admin.uri);
        };
        Ok(endpoints.iter().map(life).collect())
    }

    /// The pools and addresses of its endpoints, each once.
    pub(super) async fn endpoints(&self) -> anyhow::Result<Vec<(String, String)>> {
        let page = self.admin.ask(Method::GET, "/endpoints", None).await?;
        let endpoints = page["endpoints"].as_array().into_iter().flatten();
        let word = |endpoint: &Value, name: &str| endpoint[name].as_str().unwrap_or_default().to_owned();
        let mut all: Vec<_> = endpoints
            .map(|endpoint| (word(endpoint, "pool"), word(endpoint, "endpoint")))
            .collect();
        all.sort();
        all.dedup();
        Ok(all)
    }

    /// The newest life of an endpoint.
    pub(in crate::drill) async fn life(&self, address: &str) -> anyhow::Result<Life> {
        let lives = self.lives().await?.into_iter().filter(|life| life.endpoint == address);
        let newest = lives.max_by_key(|life| (life.state != "draining", life.number.1));
        newest.with_context(|| format!("the gateway knows nothing of {address}"))
    }

    /// Waits until an endpoint is ready in another life than `before`.
    pub(in crate::drill) async fn until_ready_anew(&self, before: &Life) -> anyhow::Result<Life> {
        let address = before.endpoint.as_str();
        until(&format!("{address} to be ready in a new life"), async || {
            let lives = self.lives().await?;
            let mut lives = lives.into_iter();
            Ok(lives.find(|life| life.endpoint == address && life.number != before.number && life.state == "ready"))
        })
        .await
    }

    /// Why a call went where it went, once it is over. Nothing if the gateway does not know.
    pub(in crate::drill) async fn decision(&self, id: &str) -> anyhow::Result<Option<DecisionRecord>> {
        let path = format!("/admin/v1/decisions/{}", in_path(id));
        let (status, body) = self.admin.send(Method::GET, &path, None).await?;
        match status {
            StatusCode::OK => Ok(Some(serde_json::from_slice(&body)?)),
            StatusCode::NOT_FOUND => Ok(None),
            other => bail!("GET {path}: {other}: {}", String::from_utf8_lossy(&body)),
        }
    }

    /// What the ledger has of calls by this drill's caller, a row for each: its task is its id.
    pub(in crate::drill) async fn rows(&self, by: &str) -> anyhow::Result<Vec<Row>> {
        let path = format!("/admin/v1/usage?by=task,{by}&since=1h");
        let report = self.admin.ask(Method::GET, &path, None).await?;
        let rows = report["lines"].as_array().into_iter().flatten().cloned();
        let rows = rows.map(|fields| Row { fields });
        Ok(rows
            .filter(|row| row.word("task").starts_with(&self.caller.prefix))
            .collect())
    }

    /// The sum of the series of a metric.
    pub(in crate::drill) async fn metric(&self, name: &str) -> anyhow::Result<f64> {
        let (_, page) = self.page("/metrics").await?;
        let series = page
            .lines()
            .filter_map(|line| line.strip_prefix(name)?.rsplit_once(' '));
        let of_name = series.filter(|(labels, _)| labels.is_empty() || labels.starts_with('{'));
        Ok(of_name.filter_map(|(_, value)| value.parse::<f64>().ok()).sum())
    }

    /// What its configuration says.
    pub(in crate::drill) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The ledger, if there is one.
    pub(in crate::drill) fn ledger(&self) -> Option<&LedgerSettings> {
        self.settings.ledger.as_ref()
    }

    /// The ledger's policy, if there is a ledger in a file that can be held on to.
    pub(in crate::drill) fn ledger_file(&self) -> Option<(LedgerPolicy, PathBuf)> {
        let ledger = self.ledger()?;
        match &ledger.store {
            LedgerStore::Sqlite(file) => Some((ledger.policy, beside(&self.config, file))),
            LedgerStore::Postgres(_) => None,
        }
    }

    /// Whether limits can be made at run time.
    pub(in crate::drill) fn takes_changes(&self) -> bool {
        self.settings.admin.changes.is_some()
    }

    /// Makes a limit of one call a second for this drill's caller alone, or for its tenant if it has no key.
    pub(in crate::drill) async fn limit(&self) -> anyhow::Result<()> {
        let mut limit = json!({ "name": LIMIT, "calls_per_second": 1, "burst": 1 });
        match self.caller.peer.token.as_deref().and_then(|key| key.split('-').nth(1)) {
            Some(id) => {
                limit["key"] = id.into();
                limit["per"] = json!(["key"]);
            }
            None => {
                let tenant = self.settings.auth.anonymous.as_ref();
                limit["tenant"] = tenant
                    .context("there is neither a key nor `auth.anonymous`")?
                    .as_str()
                    .into();
            }
        }
        self.is_limited.store(true, Ordering::Relaxed);
        self.admin.ask(Method::POST, "/admin/v1/limits", Some(&limit)).await?;
        Ok(())
    }

    /// Takes that limit away, if it was made.
    pub(super) async fn put_right(&self) {
        if self.is_limited.swap(false, Ordering::Relaxed) {
            let removed = self
                .admin
                .ask(Method::DELETE, &format!("/admin/v1/limits/{LIMIT}"), None)
                .await;
            if let Err(error) = removed {
                eprintln!("maitred: the limit `{LIMIT}` could not be taken away: {error:#}");
            }
        }
    }
}

/// The model to ask for, and the pool that serves it.
fn asked(settings: &Settings, wanted: Option<&str>) -> anyhow::Result<(Arc<PoolSettings>, String)> {
    for pool in &settings.pools {
        for model in &pool.models {
            let name = model.name.as_str();
            if wanted.map_or(model.adapter_of.is_none(), |wanted| wanted == name) {
                return Ok((Arc::clone(pool), name.to_owned()));
            }
        }
    }
    match wanted {
        Some(wanted) => bail!("no pool serves the model `{wanted}`; see --model"),
        None => bail!("no pool serves a model"),
    }
}

fn life(endpoint: &Value) -> Life {
    let count = |name: &str| endpoint[name].as_u64().unwrap_or_default();
    let word = |name: &str| endpoint[name].as_str().unwrap_or_default().to_owned();
    Life {
        endpoint: word("endpoint"),
        number: (count("slot"), count("incarnation")),
        state: word("state"),
        picks: count("picks"),
        in_flight: count("in_flight"),
    }
}
