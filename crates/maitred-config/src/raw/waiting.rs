//! `classes`, `tenants` and `pools[].waiting`.

use maitred_sched::{PoolOptions, WaitingOptions};
use maitred_types::ByteSize;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::forms::{Name, Share, Size, TimeSpan};

/// A class of calls. Where calls wait for an endpoint, those of a higher class go first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Class {
    /// Its name: in the header `x-maitred-class`, in `auth.keys` and in metrics.
    pub(crate) name: Name,
    /// A class with a larger number is higher.
    #[schemars(range(min = -1_000_000, max = 1_000_000))]
    pub(crate) priority: i32,
    /// Whether its calls are shed before those of others, and the more readily the longer the wait before them is.
    #[serde(default)]
    pub(crate) sheddable: bool,
    /// Longest wait, if not the pool's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) max_wait: Option<TimeSpan>,
}

pub(super) fn classes() -> Vec<Class> {
    let class = |name: &'static str, priority: i32| Class {
        name: Name::new(name),
        priority,
        sheddable: priority < 0,
        max_wait: None,
    };
    vec![class("high", 10), class("normal", 0), class("low", -10)]
}

pub(super) fn default_class() -> Name {
    Name::new("normal")
}

/// What holds for a tenant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Tenant {
    /// The tenant, as `auth` names it.
    pub(crate) name: Name,
    /// Its weight among the tenants of a class whose calls wait: one of weight 2 gets twice as many prompt tokens as one of weight 1.
    #[schemars(range(min = 1, max = 1_000))]
    pub(crate) weight: u32,
}

/// When calls wait in the gateway, how many may, and in which order they go.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Waiting {
    /// Most calls that wait at one time. With 0 none waits, and all go to an endpoint at once, however much waits there.
    #[schemars(range(max = 1_000_000))]
    pub(crate) calls: u32,
    /// Most bytes of requests that wait at one time.
    pub(crate) bytes: Size,
    /// Longest wait. Where more comes than can be served, those that are served have waited nearly this long, so it should not be
    /// longer than callers find useful.
    pub(crate) max_wait: TimeSpan,
    /// Calls wait while every endpoint has this many prompt tokens of this gateway's calls, those in its prefix cache not counted, of
    /// which no output has come yet. One chunk of the engine's prefill is a good value.
    #[schemars(range(min = 1))]
    pub(crate) prefill_tokens: u64,
    /// The same as a time, at each endpoint's own speed; both hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) prefill_time: Option<TimeSpan>,
    /// An endpoint whose calls would get their tokens this far apart with one call more, at its own speed, has no room; but twice what a
    /// small batch takes there is always allowed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) token_time: Option<TimeSpan>,
    /// An endpoint with this many requests in its own queue has no room.
    #[schemars(range(min = 1))]
    pub(crate) queue: u32,
    /// An endpoint with this share of its KV cache in use has no room.
    pub(crate) kv_cache: Share,
    /// By which share `queue` and `kv_cache` may be exceeded.
    pub(crate) headroom: Share,
    /// Inside a tenant small calls go first. The wait that makes up for one doubling of a call's prompt tokens.
    pub(crate) size_age: TimeSpan,
    /// The wait that makes up for one class.
    pub(crate) class_age: TimeSpan,
}

impl Default for Waiting {
    fn default() -> Self {
        let WaitingOptions {
            calls,
            bytes,
            max_wait,
            prefill_tokens,
            prefill_time,
            token_time,
            queued,
            size_age,
            class_age,
            ..
        } = PoolOptions::default().waiting;
        Self {
            calls,
            bytes: Size::new(ByteSize::new(bytes)),
            max_wait: TimeSpan::new(max_wait),
            prefill_tokens,
            prefill_time: prefill_time.map(TimeSpan::new),
            token_time: token_time.map(TimeSpan::new),
            queue: queued,
            kv_cache: Share::percent(80),
            headroom: Share::percent(0),
            size_age: TimeSpan::new(size_age),
            class_age: TimeSpan::new(class_age),
        }
    }
}
