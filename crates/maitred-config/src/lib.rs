//! From a YAML file to checked settings, with diagnostics that point.
//!
//! A file goes through four steps. It is parsed into a tree in which everything knows its place. The tree is compared with
//! the schema, and every mistake of form is noted. What is left is decoded into types that mirror the file (their comments
//! and defaults are the reference page), and those are checked for sense and turned into [`Settings`]. All mistakes of a
//! file come out together, each as a [`Diagnostic`].
//!
//! This crate is pure: the text of the file is an argument, and secrets are read by the caller's function.

mod check;
mod diagnostic;
mod effective;
mod forms;
mod kind;
mod load;
mod path;
mod raw;
mod reach;
mod reference;
mod roster;
mod secret;
mod settings;
mod tree;
mod walk;

pub use check::ReadSecret;
pub use check::scenario::ScenarioNames;
pub use diagnostic::{Diagnostic, Severity, render};
pub use forms::{BaseUrl, FilePath, Name, WebUrl, moment};
pub use load::{Loaded, load, load_scenario};
pub use raw::{
    AuditPolicy, Balance, Detail, Durable, KeptCalls, LedgerPolicy, LogFormat, LogLevel, OnBreach, SecretRef,
    StartupCheck,
};
pub use reach::Reach;
pub use reference::{reference_markdown, scenario_markdown, schema};
pub use roster::{Change, ChangeRefusal, Roster, Timeline};
pub use secret::Secret;
pub use settings::scenario;
pub use settings::{
    AdminSettings, AnswerSettings, ArchiveSettings, AuditSettings, AuthSettings, ClassSettings, DecisionSettings,
    DegradationSettings, Discovery, EndpointSettings, EngineSettings, IssuerSettings, JwksLocation, KeptModelSettings,
    KvEventSettings, LedgerSettings, LedgerStore, Limits, ListenerSettings, LogSettings, ModelSettings,
    ObjectiveSettings, PoolChange, PoolSettings, PrefixFile, Probes, ProviderSettings, QuotaSettings, ReadinessProbe,
    RecordingSettings, ScrapeSettings, Settings, ShadowSettings, SharingSettings, StartupProbe, TextSettings, Timeouts,
    TlsFiles,
};

/// The scheduler's profile that is there under this name without being written, if there is one.
#[must_use]
pub fn built_in_profile(name: &str) -> Option<maitred_sched::Profile> {
    let mut known = raw::built_in_profiles().into_iter();
    known.find(|(known, _)| *known == name).map(|(_, profile)| profile)
}
