//! Owns the cores: clock, locks, settings snapshot, scraping, probes and discovery.
//!
//! The cores are pure state machines; this crate gives them time, feeds them what endpoints report, acts on what they say and
//! hands out what they decide. Both faces of maitred ask here, so both give the same pick for the same facts. It knows no
//! client protocol.

mod acts;
mod answers;
mod booking;
mod breakers;
mod certificate;
mod changes;
mod clock;
mod decision;
mod decisions;
mod dial;
mod fetch;
mod host;
mod hours;
mod issuers;
mod keeper;
mod kv_events;
mod ledger;
mod objectives;
#[cfg(test)]
mod parity;
mod pins;
mod quota;
mod quota_leases;
mod ratios;
mod recall;
mod remembered;
mod rollout;
mod runtime;
mod sample;
mod session;
mod shadows;
mod sharing;
mod snapshot;
mod target;
mod tasks;
#[cfg(test)]
mod testing;
mod texts;
mod tls;
mod upstream;
mod waiting;
mod watch;
mod zmtp;

pub use acts::Deed;
/// What a report over the ledger is asked and made of.
pub mod usage {
    pub use maitred_config::moment as civil_moment;
    pub use maitred_store::ledger::{By, Idle, Question, Report, Sums};
    pub use maitred_tenant::Money;
    pub use maitred_types::UnixMillis;
}

pub use answers::{AnswerCache, AnswerKey, Gathering, KeptAnswer};
pub use booking::{Ask, Booking, NoPlace};
pub use breakers::TargetBreaker;
pub use certificate::certificate_names;
pub use changes::{ChangeOptions, Changed, KeepError, Made, NotChanged};
pub use clock::Clock;
pub use decision::{AttemptEnd, Choice, Decision, HopEnd, LeftHop, QuotaUse, TargetNames};
pub use decisions::{DecisionRing, Decisions};
pub use dial::dial_endpoint;
pub use host::PoolHost;
pub use ledger::{CallFacts, Ended, Kept};
pub use maitred_config::{Change, ChangeRefusal};
pub use maitred_route::breaker::{Admission, CallEnd, Pass};
pub use maitred_route::objective::Served;
pub use maitred_route::{Degrade, Evidence, Facts, Hop, NoRoute, Plan, Planned, Says, Shape, TargetId};
pub use maitred_sched::Delivery;
pub use maitred_store::audit::{CallEnded, Caller, NotEntered, Refusal};
pub use maitred_store::ledger::{Expected, Unavailable};
pub use maitred_store::texts::{Said, Text};
pub use maitred_tenant::{
    Actor, Amount, CertificateName, CertificateNames, NewKey, Price, Principal, Role, Standing, Subject,
};
pub use objectives::RouteObjective;
pub use pins::Pins;
pub use quota::{NoQuota, QuotaHost, Reserved};
pub use ratios::Ratio;
pub use rollout::{RolloutHost, RolloutUnreadable};
pub use runtime::Runtime;
pub use session::{length_key, session_hash};
pub use snapshot::{NoEntry, Presented, Snapshot};
pub use target::Target;
pub use tasks::Tasks;
pub use upstream::{Connected, Provider, Upstream};
pub use zmtp::ZmtpPeer;
