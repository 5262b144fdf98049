//! From the text of a file to settings, or to everything that is wrong with it.

use maitred_types::UnixMillis;
use serde_json::Value;

use crate::check::scenario::{ScenarioNames, no_secrets};
use crate::check::{Checker, ReadSecret};
use crate::diagnostic::{Diagnostic, Region, Severity};
use crate::path::Path;
use crate::raw;
use crate::reference;
use crate::settings::Settings;
use crate::settings::scenario::Scenario;
use crate::tree::{Node, TreeError};
use crate::walk::{Finding, Walked, walk};

/// A file that is in order.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// What it says.
    pub settings: Settings,
    /// What its author may not have meant.
    pub warnings: Vec<Diagnostic>,
    /// Warnings that hold from a moment on.
    dated: Vec<(UnixMillis, Diagnostic)>,
    raw: raw::File,
}

impl Loaded {
    /// Adds the warnings of what is of no use any more at `now`, such as keys that have expired.
    pub fn warn_as_of(&mut self, now: UnixMillis) {
        let (past, later) = std::mem::take(&mut self.dated)
            .into_iter()
            .partition(|(until, _)| *until <= now);
        self.dated = later;
        let past: Vec<_> = past;
        self.warnings.extend(past.into_iter().map(|(_, diagnostic)| diagnostic));
        self.warnings
            .sort_by_key(|diagnostic| (diagnostic.line, diagnostic.column));
    }

    /// The file with every default filled in, as YAML. Secrets are references, as in the file. Loading it gives the same
    /// settings.
    #[must_use]
    pub fn effective(&self) -> String {
        crate::effective::print(&self.raw.with_built_in_profiles())
    }
}

/// Reads and checks the configuration in `text`, the content of the file called `name`. `secrets` reads what secret
/// references point at.
///
/// # Errors
/// Everything that is wrong, in the order of the file, warnings among it.
pub fn load(name: &str, text: &str, secrets: &ReadSecret<'_>) -> Result<Loaded, Vec<Diagnostic>> {
    let read: Read<raw::File> = read(name, text, reference::annotated_schema(), LEAST)?;
    let (raw, mut diagnostics) = (read.raw, read.diagnostics);
    let (settings, found, dated) = Checker::new(name, &read.tree, &read.walked, secrets).run(&raw);
    diagnostics.extend(found);
    let diagnostics = in_order(name, diagnostics)?;
    Ok(Loaded {
        settings,
        warnings: diagnostics,
        dated,
        raw,
    })
}

/// Reads and checks the laboratory's scenario in `text`, the content of the file called `name`. Warnings come with it.
///
/// # Errors
/// As [`load`].
pub fn load_scenario(
    name: &str,
    text: &str,
    names: ScenarioNames<'_>,
) -> Result<(Scenario, Vec<Diagnostic>), Vec<Diagnostic>> {
    let read: Read<raw::scenario::Scenario> = read(name, text, reference::scenario_schema(), SCENARIO)?;
    let mut diagnostics = read.diagnostics;
    let checker = Checker::new(name, &read.tree, &read.walked, &no_secrets);
    let (scenario, found) = checker.run_scenario(&read.raw, names);
    diagnostics.extend(found);
    Ok((scenario, in_order(name, diagnostics)?))
}

/// A file whose form is known: what could be decoded, and the mistakes so far.
struct Read<T> {
    tree: Node,
    walked: Walked,
    raw: T,
    diagnostics: Vec<Diagnostic>,
}

/// Parses and decodes a file of the given schema. `least` is shown for an empty one.
fn read<T: serde::de::DeserializeOwned>(
    name: &str,
    text: &str,
    schema: &Value,
    least: &str,
) -> Result<Read<T>, Vec<Diagnostic>> {
    let tree = match Node::parse(text) {
        Ok(Some(tree)) => tree,
        Ok(None) => return Err(vec![empty(name, least)]),
        Err(error) => return Err(vec![broken(name, error)]),
    };
    let walked = walk(schema, &tree);
    if let Some(version) = wrong_version(&walked) {
        return Err(vec![of_finding(name, version)]);
    }
    let diagnostics: Vec<_> = walked
        .findings
        .iter()
        .map(|finding| of_finding(name, finding))
        .collect();
    if diagnostics.len() > DIAGNOSTICS_MAX {
        return Err(cut(name, diagnostics));
    }
    let raw = match walked.rest.clone().map(serde_json::from_value) {
        Some(Ok(raw)) => raw,
        Some(Err(error)) if diagnostics.is_empty() => return Err(vec![undecodable(name, &error)]),
        Some(Err(_)) | None => return Err(diagnostics),
    };
    Ok(Read {
        tree,
        walked,
        raw,
        diagnostics,
    })
}

/// The diagnostics in the order of the file, as an error if one of them is.
fn in_order(name: &str, mut diagnostics: Vec<Diagnostic>) -> Result<Vec<Diagnostic>, Vec<Diagnostic>> {
    diagnostics.sort_by_key(|diagnostic| (diagnostic.line, diagnostic.column));
    let is_error = |diagnostic: &Diagnostic| diagnostic.severity == Severity::Error;
    if diagnostics.iter().any(is_error) {
        return Err(cut(name, diagnostics));
    }
    Ok(diagnostics)
}

/// Most diagnostics of one file; nobody reads more at one time.
const DIAGNOSTICS_MAX: usize = 100;

/// The first diagnostics, and how many there are beside them.
fn cut(name: &str, mut diagnostics: Vec<Diagnostic>) -> Vec<Diagnostic> {
    let more = diagnostics.len().saturating_sub(DIAGNOSTICS_MAX);
    if more > 0 {
        diagnostics.truncate(DIAGNOSTICS_MAX);
        diagnostics.push(at(name, FIRST, format!("{more} more mistakes are not shown")));
    }
    diagnostics
}

/// The mistake in `version`, if it is there and not 1: then nothing else about the file is known.
fn wrong_version(walked: &Walked) -> Option<&Finding> {
    let version = Path::top("version");
    let wrong = walked.findings.iter().find(|finding| finding.path == version)?;
    let is_missing = wrong.message.ends_with("is missing");
    (!is_missing).then_some(wrong)
}

fn of_finding(name: &str, finding: &Finding) -> Diagnostic {
    Diagnostic {
        blank_from: finding.blank_from,
        help: finding.help.clone(),
        path: finding.path.to_string(),
        ..at(name, finding.region, finding.message.clone())
    }
}

const LEAST: &str = "the least that works, with an endpoint on this machine and for callers on this machine:\n\
                     version: 1\n\
                     auth:\n  anonymous:\n    tenant: local\n\
                     pools:\n  - name: main\n    models:\n      - name: MODEL\n    endpoints:\n      - address: 127.0.0.1:8000";

const SCENARIO: &str = "a short scenario:\n\
                        version: 1\n\
                        name: short\n\
                        fleet:\n  - profile: h100-8b\n    count: 4\n\
                        workload:\n  kinds:\n    - prompt: {mean: 500}\n      answer: {mean: 200}\n\
                        load:\n  per_second: [50]\n\
                        policies: [default]\n\
                        calls: 10000";

fn empty(name: &str, least: &str) -> Diagnostic {
    Diagnostic {
        help: Some(least.to_owned()),
        ..at(name, FIRST, "the file is empty".to_owned())
    }
}

fn broken(name: &str, error: TreeError) -> Diagnostic {
    Diagnostic {
        help: error.help.map(str::to_owned),
        ..at(name, error.region, error.message)
    }
}

/// The schema and the types are made from one source, so this is a fault of maitred.
fn undecodable(name: &str, error: &serde_json::Error) -> Diagnostic {
    at(
        name,
        FIRST,
        format!("the file passes its schema and cannot be read: {error}; please report this"),
    )
}

const FIRST: Region = Region {
    line: 1,
    column: 1,
    width: 1,
};

fn at(name: &str, region: Region, message: String) -> Diagnostic {
    Diagnostic {
        severity: Severity::Error,
        file: name.to_owned(),
        path: String::new(),
        line: region.line,
        column: region.column,
        message,
        help: None,
        width: region.width,
        blank_from: None,
    }
}

#[cfg(test)]
mod tests;
