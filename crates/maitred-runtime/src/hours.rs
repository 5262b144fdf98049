//! In which minutes endpoints were ready whose hours have a price: what the ledger needs to tell what of it nobody used.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use maitred_obs::EndpointState;
use maitred_store::ledger::{Entry, Ledger, Ready};
use maitred_types::UnixMillis;

use crate::runtime::Runtime;

/// How often endpoints are looked at. A minute counts if an endpoint was seen ready in it once.
const LOOK: Duration = Duration::from_secs(15);
/// Entries that are written together.
const TOGETHER: usize = 64;

impl Runtime {
    /// From now on the ledger is told in which minutes endpoints are ready whose hours have a price.
    pub(crate) fn keep_hours(self: &Arc<Self>) {
        let Some(ledger) = self.ledger().map(Arc::clone) else {
            return;
        };
        let (runtime, tasks) = (Arc::downgrade(self), self.tasks().clone());
        self.tasks().spawn(async move {
            let mut seen = Seen::default();
            while !tasks.is_stopping() {
                look(&runtime, &ledger, &mut seen);
                tokio::select! {
                    () = tasks.stopping() => {}
                    () = tokio::time::sleep(LOOK) => {}
                }
            }
            // The last minute is not over, and counts.
            look(&runtime, &ledger, &mut seen);
            write(&ledger, seen.take());
        });
    }

    /// Endpoints that calls can be charged for by the hour, with the price.
    fn paid_for(&self, now: UnixMillis) -> Vec<Ready<Arc<str>>> {
        let snapshot = self.snapshot();
        let prices = &snapshot.settings().prices;
        let mut all = Vec::new();
        for host in self.hosts() {
            let Some((price, per_hour)) = prices.of_hours(host.name(), now) else {
                continue;
            };
            let pool: Arc<str> = host.name().as_str().into();
            let samples = host.samples(self.clock().now());
            // One that is ejected or drains has its share of the calls that run, and may have more again.
            for sample in samples
                .into_iter()
                .filter(|sample| sample.state != EndpointState::Loading)
            {
                let place = (Arc::clone(&pool), sample.endpoint.into());
                all.push(Ready::at(now, place, (Arc::clone(&price.version), per_hour)));
            }
        }
        all
    }
}

fn look(runtime: &Weak<Runtime>, ledger: &Ledger, seen: &mut Seen) {
    if let Some(runtime) = runtime.upgrade() {
        let paid_for = runtime.paid_for(runtime.clock().unix_now());
        write(ledger, seen.add(paid_for));
    }
}

fn write(ledger: &Ledger, over: Vec<Ready<Arc<str>>>) {
    let entries: Vec<_> = over.into_iter().map(Entry::Ready).collect();
    entries.chunks(TOGETHER).for_each(|entries| ledger.enter(entries));
}

/// What was seen in the present minute and is not written yet.
#[derive(Debug, Default)]
struct Seen {
    /// The hour, and its minute as [`Ready`] has it.
    minute: (u64, u64),
    endpoints: BTreeMap<[Arc<str>; 3], Ready<Arc<str>>>,
}

impl Seen {
    /// Adds what is ready now. What was seen in another minute comes out, to be written.
    fn add(&mut self, ready: Vec<Ready<Arc<str>>>) -> Vec<Ready<Arc<str>>> {
        let minute = ready.first().map_or((0, 0), |first| (first.hour, first.minutes));
        let over = if minute == self.minute { Vec::new() } else { self.take() };
        self.minute = minute;
        for one in ready {
            let name = [&one.pool, &one.endpoint, &one.price].map(Arc::clone);
            self.endpoints.insert(name, one);
        }
        over
    }

    fn take(&mut self) -> Vec<Ready<Arc<str>>> {
        std::mem::take(&mut self.endpoints).into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready(endpoint: &str, second: u64) -> Ready<Arc<str>> {
        let moment = UnixMillis::new(second * 1000);
        Ready::at(moment, ("chat".into(), endpoint.into()), ("price".into(), 60))
    }

    #[test]
    fn a_minute_comes_out_once_it_is_over_with_everybody_who_was_seen_in_it() {
        let mut seen = Seen::default();
        assert_eq!(seen.add(vec![ready("a", 0)]), []);
        assert_eq!(seen.add(vec![ready("a", 15), ready("b", 15)]), []);
        assert_eq!(seen.add(vec![ready("b", 45)]), []);
        assert_eq!(seen.add(vec![ready("b", 60)]), [ready("a", 15), ready("b", 45)]);
        // With nobody there the minute is over, too.
        assert_eq!(seen.add(Vec::new()), [ready("b", 60)]);
        assert_eq!(seen.add(vec![ready("a", 75)]), []);
        assert_eq!(seen.take(), [ready("a", 75)]);
        assert_eq!(seen.take(), []);
    }
}
