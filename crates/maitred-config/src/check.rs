//! From the file as written to settings that make sense. Everything that does not is reported, not only the first.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;

use maitred_types::UnixMillis;

use crate::diagnostic::{Diagnostic, Severity};
use crate::path::Path;
use crate::raw::{self, SecretRef};
use crate::secret::Secret;
use crate::settings::Settings;
use crate::tree::Node;
use crate::walk::Walked;

mod access;
mod answers;
mod audit;
mod degradation;
mod engine;
mod issuers;
mod ledger;
mod listeners;
mod pools;
mod prefix;
mod prices;
mod process;
mod profiles;
mod providers;
mod quotas;
mod release;
mod routes;
mod rules;
pub(crate) mod scenario;
mod shadows;
mod sharing;
mod waiting;

pub(crate) use access::grant;
pub(crate) use quotas::limits_of;

/// Reads a secret from where the configuration says, or says why it cannot.
pub type ReadSecret<'a> = dyn Fn(&SecretRef) -> Result<String, String> + 'a;

/// Collects what makes no sense.
pub(crate) struct Checker<'a> {
    file: &'a str,
    tree: &'a Node,
    walked: &'a Walked,
    secrets: &'a ReadSecret<'a>,
    diagnostics: Vec<Diagnostic>,
    /// Warnings that hold from a moment on.
    dated: Vec<(UnixMillis, Diagnostic)>,
}

/// What a check has found: the settings, what is wrong with them, and what will be, each from a moment on.
pub(crate) type Checked = (Settings, Vec<Diagnostic>, Vec<(UnixMillis, Diagnostic)>);

impl<'a> Checker<'a> {
    /// A checker of what is left of `tree` after a walk.
    pub(crate) fn new(file: &'a str, tree: &'a Node, walked: &'a Walked, secrets: &'a ReadSecret<'a>) -> Self {
        Self {
            file,
            tree,
            walked,
            secrets,
            diagnostics: Vec::new(),
            dated: Vec::new(),
        }
    }

    /// The settings that `raw` describes, and all that is wrong with them. With an error among it the settings are of no use.
    pub(crate) fn run(mut self, raw: &raw::File) -> Checked {
        let hasher = self.hasher(raw.auth.pepper.as_ref());
        let auth = self.auth(raw, &hasher);
        self.exposure(raw);
        let profiles = self.profiles(&raw.profiles);
        let classes = self.classes(raw);
        let routing = Arc::new(self.routing(raw));
        let settings = Settings {
            listeners: self.listeners(&raw.listeners),
            admin: self.admin(raw, hasher),
            auth,
            pools: self.pools(raw, &profiles, &classes),
            degradation: self.degradation(raw),
            answers: self.answers(raw, &routing),
            routing,
            classes,
            quotas: self.quotas(raw),
            sharing: self.sharing(raw.sharing.as_ref()),
            ledger: self.ledger(raw.ledger.as_ref()),
            audit: self.audit(raw.audit.as_ref()),
            texts: self.texts(raw),
            prices: self.prices(raw),
            timeouts: self.timeouts(&raw.timeouts),
            limits: self.limits(&raw.limits),
            decisions: self.decisions(&raw.decisions),
            log: process::log(raw.log),
            recording: self.recording(raw.recording.as_ref()),
        };
        (settings, self.diagnostics, self.dated)
    }

    fn error(&mut self, path: &Path, message: impl Into<String>, help: impl Into<String>) {
        self.report(Severity::Error, path, message.into(), help.into());
    }

    fn warn(&mut self, path: &Path, message: impl Into<String>, help: impl Into<String>) {
        self.report(Severity::Warning, path, message.into(), help.into());
    }

    /// Reports, unless the walk has found a mistake there already: what follows from a mistake is not another one.
    fn report(&mut self, severity: Severity, path: &Path, message: String, help: String) {
        let diagnostic = self.diagnostic(severity, path, (message, help));
        self.diagnostics.extend(diagnostic);
    }

    /// Warns of what is of no use any more from `until` on. No clock is read here: whoever has one asks for what holds.
    fn warn_from(&mut self, until: UnixMillis, path: &Path, message: impl Into<String>, help: impl Into<String>) {
        let diagnostic = self.diagnostic(Severity::Warning, path, (message.into(), help.into()));
        self.dated.extend(diagnostic.map(|diagnostic| (until, diagnostic)));
    }

    fn diagnostic(&self, severity: Severity, path: &Path, (message, help): (String, String)) -> Option<Diagnostic> {
        if self.is_broken(path) {
            return None;
        }
        let path = self.walked.original(path);
        let region = self.tree.locate(&path);
        Some(Diagnostic {
            severity,
            file: self.file.to_owned(),
            path: path.to_string(),
            line: region.line,
            column: region.column,
            message,
            help: Some(help),
            width: region.width,
            blank_from: None,
        })
    }

    /// Whether the walk has found a mistake at `path`, above or below it.
    fn is_broken(&self, path: &Path) -> bool {
        let path = self.walked.original(path);
        self.walked.findings.iter().any(|finding| finding.path.meets(&path))
    }

    /// Names that the file gives, those in its broken parts included: what refers to one of them is not at fault.
    fn written(&self, keys: &[&str]) -> Vec<&'a str> {
        self.tree.texts(keys)
    }

    /// The models of pools and providers, those in broken parts of the file included.
    fn written_models(&self) -> Vec<&'a str> {
        let sources = ["pools", "providers"].into_iter();
        sources
            .flat_map(|source| self.written(&[source, "models", "name"]))
            .collect()
    }

    /// Reports every name that occurs a second time, with the line of the first.
    fn unique<N: Ord + Display>(&mut self, what: &str, names: impl IntoIterator<Item = (N, Path)>) {
        let mut seen: BTreeMap<N, Path> = BTreeMap::new();
        for (name, path) in names {
            if let Some(first) = seen.get(&name) {
                let line = self.tree.locate(&self.walked.original(first)).line;
                let message = format!("the {what} `{name}` is already in line {line}");
                self.error(&path, message, format!("each {what} may occur once"));
            } else {
                seen.insert(name, path);
            }
        }
    }

    /// The secret that `at` refers to, if it can be read.
    fn secret(&mut self, at: &SecretRef, path: &Path) -> Option<Secret> {
        match (self.secrets)(at) {
            Ok(text) if text.is_empty() => {
                self.error(path, format!("{at} is empty"), "it must hold the secret");
                None
            }
            Ok(text) => Some(Secret::new(text)),
            Err(reason) => {
                self.error(
                    path,
                    format!("{at} cannot be read: {reason}"),
                    "it must hold the secret",
                );
                None
            }
        }
    }
}
