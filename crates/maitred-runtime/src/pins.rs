//! Which endpoint a client's connection is bound to, where a pool balances by connection.

use maitred_types::{EndpointId, PoolName};
use parking_lot::Mutex;

/// The bindings of one connection, one per pool; almost always none or one.
#[derive(Debug, Default)]
pub struct Pins(Mutex<Vec<(PoolName, EndpointId)>>);

impl Pins {
    /// The endpoint bound for `pool`.
    #[must_use]
    pub fn get(&self, pool: &PoolName) -> Option<EndpointId> {
        self.0
            .lock()
            .iter()
            .find(|(name, _)| name == pool)
            .map(|(_, endpoint)| *endpoint)
    }

    /// Binds the connection's later calls to `endpoint`.
    pub fn set(&self, pool: &PoolName, endpoint: EndpointId) {
        let mut pins = self.0.lock();
        match pins.iter_mut().find(|(name, _)| name == pool) {
            Some(pin) => pin.1 = endpoint,
            None => pins.push((pool.clone(), endpoint)),
        }
    }
}
