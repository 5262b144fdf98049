//! Keeping one pool: letting its core's time pass, acting on what it says, and matching its endpoints to what is wanted.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use maitred_config::{Discovery, EngineSettings, PoolSettings, Reach};
use maitred_sched::{DrainCause, PoolEvent};
use maitred_types::{Address, EndpointId};
use parking_lot::Mutex;

use crate::clock::Clock;
use crate::fetch::Fetcher;
use crate::host::PoolHost;
use crate::kv_events::Follower;
use crate::tasks::Tasks;
use crate::watch::Watch;

/// How long the keeper rests when the core has no wake-up planned.
const IDLE: Duration = Duration::from_secs(1);

/// One pool's keeper. Clones keep the same pool.
#[derive(Clone, Debug)]
pub(crate) struct Keeper {
    pub(crate) host: Arc<PoolHost>,
    pub(crate) clock: Clock,
    pub(crate) tasks: Tasks,
    pub(crate) fetcher: Fetcher,
    /// What the last look-up that succeeded found, if it was for the name that the settings have now. The lock is held while
    /// endpoints are matched, so that a task with older settings never matches after one with newer ones.
    pub(crate) found: Arc<Mutex<Option<Found>>>,
}

/// The answer of a name server.
#[derive(Debug)]
pub(crate) struct Found {
    name: String,
    port: u16,
    /// Each is an endpoint.
    addresses: Vec<SocketAddr>,
}

impl Found {
    fn is_of(&self, discovery: &Discovery) -> bool {
        self.name == discovery.name && self.port == discovery.port
    }
}

impl Keeper {
    /// Lets time pass in the core whenever it asks for it, and acts on its events, until the pool is closed and empty.
    pub(crate) async fn keep(self) {
        loop {
            let now = self.clock.now();
            let (events, wakeup) = self.host.advance(now);
            for event in &events {
                self.act(event);
            }
            if self.host.is_over() {
                return;
            }
            let rest = wakeup.map_or(IDLE, |at| at.since(now).max(Duration::from_millis(1)));
            tokio::select! {
                () = tokio::time::sleep(rest) => {}
                () = self.host.bell.notified() => {}
            }
        }
    }

    fn act(&self, event: &PoolEvent) {
        self.host.meters().event(event.label());
        let pool = self.host.name();
        match event {
            PoolEvent::Ready { endpoint } => {
                tracing::info!(%pool, endpoint = self.name(*endpoint), "the endpoint is ready");
            }
            PoolEvent::NotReady { endpoint } => {
                tracing::warn!(%pool, endpoint = self.name(*endpoint), "the endpoint is not ready any more");
            }
            PoolEvent::Ejected { endpoint, until } => {
                let seconds = until.since(self.clock.now()).as_secs_f64();
                tracing::warn!(%pool, endpoint = self.name(*endpoint), seconds, "the endpoint failed too often; it rests");
                self.host.probe_now(*endpoint);
            }
            PoolEvent::Returned { endpoint, .. } => {
                tracing::info!(%pool, endpoint = self.name(*endpoint), "the endpoint gets calls again");
            }
            PoolEvent::Draining { endpoint, cause } => {
                tracing::info!(%pool, endpoint = self.name(*endpoint), cause = cause.label(), "the endpoint gets no new calls");
                self.host.probe_now(*endpoint);
            }
            PoolEvent::Drained { endpoint } => {
                tracing::info!(%pool, endpoint = self.name(*endpoint), "the endpoint has no calls left");
            }
            PoolEvent::DrainCutShort { endpoint } => {
                tracing::warn!(%pool, endpoint = self.name(*endpoint), "the endpoint's time to drain is over");
            }
            PoolEvent::Gone { address, fenced, .. } => {
                tracing::info!(%pool, endpoint = %address, calls_left = fenced.len(), "the endpoint has left the pool");
            }
            PoolEvent::Restarted { next, .. } => {
                tracing::info!(%pool, endpoint = self.name(*next), "the endpoint begins another life");
            }
            PoolEvent::RestartSeen { endpoint } => {
                self.host.restarted(*endpoint, self.clock.now());
            }
            PoolEvent::Frozen { endpoint } => {
                tracing::warn!(%pool, endpoint = self.name(*endpoint), "the endpoint's metrics stand still under load");
            }
            PoolEvent::Thawed { endpoint } => {
                tracing::info!(%pool, endpoint = self.name(*endpoint), "the endpoint's metrics move again");
            }
            PoolEvent::PanicEntered => {
                tracing::error!(%pool, "every endpoint has failed; calls go to them all the same");
            }
            PoolEvent::PanicLeft => tracing::info!(%pool, "at least one endpoint works again"),
            PoolEvent::PrefixOff => {
                tracing::info!(%pool, "calls share too little of their prompts: prefixes are looked up for a sample of calls");
            }
            PoolEvent::PrefixOn => {
                tracing::info!(%pool, "calls share their prompts again: prefixes are looked up for all calls");
            }
        }
    }

    fn name(&self, endpoint: EndpointId) -> String {
        self.host.address(endpoint).map_or_else(
            || format!("slot {}", endpoint.slot.index()),
            |address| address.to_string(),
        )
    }

    /// Takes in what is wanted and new, and lets go what is not wanted any more: what the settings name, and what was found when
    /// the name was last looked up with success.
    pub(crate) fn match_endpoints(&self) {
        self.match_with(&mut self.found.lock());
    }

    fn match_with(&self, found: &mut Option<Found>) {
        let settings = self.host.settings();
        let discovery = settings.discovery.as_ref();
        // What was found under another name says nothing about this one.
        found.take_if(|found| !discovery.is_some_and(|discovery| found.is_of(discovery)));
        let wanted = wanted(&settings, found.as_ref());
        let now = self.clock.now();
        for address in self.host.addresses() {
            if !wanted.contains_key(&address) {
                self.host.drain(&address, DrainCause::Unlisted, now);
            }
        }
        for (address, engine) in &wanted {
            if let Some(probe_now) = self.host.add(address, engine, now) {
                let watch = Watch {
                    host: Arc::clone(&self.host),
                    address: address.clone(),
                    probe_now,
                    fetcher: self.fetcher.clone(),
                    clock: self.clock,
                };
                // A provider has no page, and tells nobody of its cache.
                if settings.provider.is_none() {
                    self.tasks.spawn_until_stop(watch.clone().scrape());
                    self.tasks.spawn_until_stop(Follower::new(watch.clone()).follow());
                }
                self.tasks.spawn_until_stop(watch.probe());
            }
        }
    }

    /// Looks endpoints up by name again and again, for as long as the settings say where.
    pub(crate) async fn discover(self) {
        loop {
            let settings = self.host.settings();
            let Some(discovery) = &settings.discovery else { return };
            let answer = tokio::net::lookup_host((discovery.name.as_str(), discovery.port)).await;
            self.looked_up(discovery, answer.map(Iterator::collect));
            tokio::time::sleep(discovery.refresh).await;
        }
    }

    /// Takes the answer to a look-up, unless the settings have asked for another name meanwhile.
    pub(crate) fn looked_up(&self, asked: &Discovery, answer: io::Result<Vec<SocketAddr>>) {
        let Discovery { name, port, .. } = asked;
        match answer {
            Ok(addresses) => {
                let answer = Found {
                    name: name.clone(),
                    port: *port,
                    addresses,
                };
                let mut found = self.found.lock();
                if self
                    .host
                    .settings()
                    .discovery
                    .as_ref()
                    .is_some_and(|discovery| answer.is_of(discovery))
                {
                    *found = Some(answer);
                    self.match_with(&mut found);
                }
            }
            Err(error) => {
                // Whoever was found before stays: a name server that is down does not take endpoints down. The system's resolver
                // does not tell reliably whether there is no such name or nobody to ask, so both are treated alike.
                tracing::warn!(pool = %self.host.name(), name, %error, "the look-up failed");
            }
        }
    }
}

/// The endpoints that the file names, and those that were found.
fn wanted(settings: &PoolSettings, found: Option<&Found>) -> BTreeMap<Address, EngineSettings> {
    let named = settings
        .endpoints
        .iter()
        .map(|endpoint| (endpoint.address.clone(), endpoint.engine.clone()));
    let found = settings.discovery.iter().zip(found).flat_map(|(discovery, found)| {
        // A name server decides which endpoints there are, but not that the gateway calls what is no endpoint anywhere.
        let addresses = found
            .addresses
            .iter()
            .filter(|address| Reach::Private.allows(address.ip()));
        addresses.map(|address| (Address::from(address.to_string()), discovery.engine.clone()))
    });
    // What the file says of an endpoint by name holds before what holds for all that are found.
    found.chain(named).collect()
}

#[cfg(test)]
mod tests;
