//! Names and ids. Each is a type of its own, so that one cannot be passed for another.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

/// A cheap-to-clone name type over shared text.
macro_rules! names {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// The name as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl From<&str> for $name {
            fn from(name: &str) -> Self {
                Self(Arc::from(name))
            }
        }

        impl From<String> for $name {
            fn from(name: String) -> Self {
                Self(Arc::from(name))
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    )*};
}

names! {
    /// A model (or adapter) as a client or an endpoint names it.
    ModelName;
    /// A pool: the endpoints that serve the same models.
    PoolName;
    /// A tenant: who owns keys, users and quotas.
    TenantId;
    /// The public part of a key; safe to log.
    KeyId;
    /// Where an endpoint listens: `host:port`, an IPv6 host in brackets.
    Address;
    /// One client request, kept from `x-request-id` or made at the door.
    RequestId;
}

/// The place of an endpoint in its pool's columns. A slot is used again after its endpoint has gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(u32);

impl Slot {
    /// The slot at `index`.
    #[must_use]
    pub const fn new(index: u32) -> Self {
        Self(index)
    }

    /// The index into the pool's columns.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Which life of an endpoint is meant. A recreated endpoint has another incarnation, so it inherits neither counters nor
/// cache from the one that had its address before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Incarnation(u32);

impl Incarnation {
    /// The first life.
    pub const FIRST: Self = Self(0);

    /// The life after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }

    /// The bare number.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }
}

/// One life of one endpoint of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EndpointId {
    /// Its place.
    pub slot: Slot,
    /// Its life.
    pub incarnation: Incarnation,
}

/// A booked place on an endpoint. Never used twice within a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseId(u64);

impl LeaseId {
    /// The lease numbered `number`.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The bare number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}
