//! A simulated endpoint, by its own face and its admin path.

use anyhow::{Context, bail};
use http::{Method, Uri};
use serde_json::Value;

use crate::admin::Peer;

/// A simulated endpoint.
pub(in crate::drill) struct Endpoint {
    /// Its pool.
    pub(in crate::drill) pool: String,
    /// Where it listens, as the gateway names it.
    pub(in crate::drill) address: String,
    face: Peer,
    admin: Peer,
}

impl Endpoint {
    /// Looks whether what listens there is a simulated endpoint that can be made to fail.
    ///
    /// # Errors
    /// It is none. Nothing but loopback is asked, since simulated endpoints take commands nowhere else.
    pub(super) async fn find(pool: &str, address: &str) -> anyhow::Result<Self> {
        let face = peer(address)?;
        let host = face.uri.host().unwrap_or_default();
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let is_loopback = bare == "localhost" || bare.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback());
        if !is_loopback {
            bail!("{address} (pool {pool}) is not on this machine");
        }
        let told = face.send(Method::GET, "/sim", None).await;
        let (_, body) =
            told.with_context(|| format!("{address} (pool {pool}) does not say whether it is simulated"))?;
        let told: Value = serde_json::from_slice(&body).unwrap_or_default();
        if told["simulated"] != true {
            bail!("{address} (pool {pool}) is not a simulated endpoint");
        }
        let Some(admin) = told["admin"].as_str() else {
            bail!("{address} (pool {pool}) takes no commands; start it with `maitred engine --admin 127.0.0.1:0`");
        };
        Ok(Self {
            pool: pool.to_owned(),
            address: address.to_owned(),
            face,
            admin: peer(admin)?,
        })
    }

    /// What goes on in it.
    pub(in crate::drill) async fn state(&self) -> anyhow::Result<Value> {
        self.admin.ask(Method::GET, "/sim/state", None).await
    }

    /// Switches faults.
    pub(in crate::drill) async fn fault(&self, faults: Value) -> anyhow::Result<()> {
        self.admin
            .ask(Method::POST, "/sim/faults", Some(&faults))
            .await
            .map(drop)
    }

    /// Ends it, and has another one begin at its address.
    pub(in crate::drill) async fn restart(&self, how: Value) -> anyhow::Result<()> {
        self.admin.ask(Method::POST, "/sim/restart", Some(&how)).await.map(drop)
    }

    /// Switches faults off, if it can be reached.
    pub(super) async fn heal(&self) {
        // One that begins anew has none.
        drop(self.admin.ask(Method::DELETE, "/sim/faults", None).await);
    }

    /// How many chat calls it has refused or failed in its present life, as far as its engine counts them.
    pub(in crate::drill) async fn failed_chats(&self) -> anyhow::Result<u64> {
        let (_, page) = self.face.send(Method::GET, "/metrics", None).await?;
        let page = String::from_utf8_lossy(&page);
        let chats = page.lines().filter(|line| {
            line.starts_with("http_requests_total{")
                && line.contains("handler=\"/v1/chat/completions\"")
                && line.contains("status=\"5xx\"")
        });
        let counts = chats.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok());
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
        let count = counts.sum::<f64>() as u64;
        Ok(count)
    }

    /// How many prompt tokens it has been given in its present life.
    pub(in crate::drill) async fn prompt_tokens(&self) -> anyhow::Result<u64> {
        let state = self.state().await?;
        state["prompt_tokens"]
            .as_u64()
            .context("it does not count prompt tokens")
    }
}

fn peer(address: &str) -> anyhow::Result<Peer> {
    let uri: Uri = format!("http://{address}")
        .parse()
        .with_context(|| format!("`{address}` is no address"))?;
    Ok(Peer {
        uri,
        ca: None,
        token: None,
    })
}
