//! What is drilled: gateways, and the simulated endpoints behind them.

mod endpoint;
mod gateway;
mod given;
mod own;

use std::time::Duration;

use anyhow::bail;

pub(super) use self::endpoint::Endpoint;
pub(super) use self::gateway::{Gateway, Row};
use super::DrillArgs;
use crate::process::Process;

/// How long anything may take that is waited for.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often it is looked at: what is waited for happens in another process, which does not announce it.
const LOOK: Duration = Duration::from_millis(20);

/// What is drilled.
pub(super) struct Fleet {
    /// The gateway that is drilled, and others before the same endpoints with another policy for their ledger.
    pub(super) gateways: Vec<Gateway>,
    /// The endpoints of all pools; none if they are real ones.
    pub(super) endpoints: Vec<Endpoint>,
    /// What was started for the drills; ended with it, in this order.
    _processes: Vec<Process>,
    _folder: Option<tempfile::TempDir>,
}

impl Fleet {
    /// The fleet that the arguments say: one of its own, or what is behind a configuration.
    pub(super) async fn of(args: &DrillArgs) -> anyhow::Result<Self> {
        let fleet = match &args.config {
            Some(config) => given::fleet(args, config).await?,
            None => own::fleet().await?,
        };
        fleet.until_ready().await?;
        Ok(fleet)
    }

    /// The gateway that is drilled.
    pub(super) fn gateway(&self) -> &Gateway {
        &self.gateways[0]
    }

    /// The endpoints that serve the model that is asked for.
    pub(super) fn mates(&self) -> Vec<&Endpoint> {
        self.of_pool(self.gateway().pool.name.as_str()).collect()
    }

    /// The endpoints of a pool.
    pub(super) fn of_pool(&self, pool: &str) -> impl Iterator<Item = &Endpoint> {
        self.endpoints.iter().filter(move |endpoint| endpoint.pool == pool)
    }

    /// How long an endpoint that leaves must say so for the gateway to hear of it, as endpoints take it.
    pub(super) fn grace(&self) -> String {
        let grace = self.gateway().pool.probes.readiness.interval + Duration::from_millis(500);
        format!("{}ms", grace.as_millis())
    }

    /// How long an endpoint must be away for the gateway to be sure of it.
    pub(super) fn surely_gone(&self) -> Duration {
        let pool = &self.gateway().pool;
        let try_once = pool.probes.readiness.interval;
        try_once * pool.options.readiness.failed_probes + Duration::from_secs(2)
    }

    /// Takes back what drills have broken, as far as it can be reached.
    pub(super) async fn put_right(&self) {
        for endpoint in &self.endpoints {
            endpoint.heal().await;
        }
        for gateway in &self.gateways {
            gateway.put_right().await;
        }
    }

    /// Waits until all endpoints are ready.
    pub(super) async fn until_ready(&self) -> anyhow::Result<()> {
        for gateway in &self.gateways {
            until("every endpoint to be ready", async || {
                let lives = gateway.lives().await?;
                let is_ready = |endpoint: &Endpoint| {
                    let mut lives = lives.iter();
                    lives.any(|life| life.endpoint == endpoint.address && life.state == "ready")
                };
                Ok(self.endpoints.iter().all(is_ready).then_some(()))
            })
            .await?;
        }
        Ok(())
    }
}

/// Looks again and again until there is something. What cannot be looked at yet is looked at again, too.
///
/// # Errors
/// It took too long. Says what was waited for, and what was wrong at the last look.
pub(super) async fn until<T>(
    what: &str,
    mut look: impl AsyncFnMut() -> anyhow::Result<Option<T>>,
) -> anyhow::Result<T> {
    let mut wrong = None;
    let looking = async {
        loop {
            match look().await {
                Ok(Some(seen)) => return seen,
                Ok(None) => wrong = None,
                Err(error) => wrong = Some(error),
            }
            tokio::time::sleep(LOOK).await;
        }
    };
    if let Ok(seen) = tokio::time::timeout(PATIENCE, looking).await {
        return Ok(seen);
    }
    match wrong {
        Some(error) => Err(error.context(format!("waited {} s for {what}", PATIENCE.as_secs()))),
        None => bail!("waited {} s for {what} in vain", PATIENCE.as_secs()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_does_not_come_is_told_with_what_was_wrong() {
        let mut looks = 0;
        let seen = until("three looks", async || {
            looks += 1;
            if looks == 1 {
                bail!("not there yet");
            }
            Ok((looks == 3).then_some(looks))
        });
        assert_eq!(seen.await.ok(), Some(3));
        let never = until("nothing", async || Ok(None::<()>)).await.unwrap_err();
        assert_eq!(never.to_string(), "waited 60 s for nothing in vain");
        let wrong = until::<()>("a door", async || bail!("it is shut")).await.unwrap_err();
        assert_eq!(format!("{wrong:#}"), "waited 60 s for a door: it is shut");
    }
}
