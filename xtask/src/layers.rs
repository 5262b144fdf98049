//! Who may depend on whom.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use anyhow::bail;
use cargo_metadata::{DependencyKind, Metadata, MetadataCommand};

use crate::{Finding, project_root};

/// Crates without clock, socket, task, log or metric: the cores.
pub const PURE: &[&str] = &[
    "maitred-types",
    "maitred-sched",
    "maitred-engines",
    "maitred-tenant",
    "maitred-route",
    "maitred-llm",
    "maitred-config",
    "maitred-sim",
];

/// Every crate of the workspace and the crates of the workspace that it may depend on. A new crate gets a line here.
///
/// What is absent is the point: the data path (`maitred-proxy`) reaches scheduling and keys only through
/// `maitred-runtime`, the laboratory (`maitred-sim`) never sees the shell, and the console never sees the data path. The data
/// path does see `maitred-engines`: what an answer's bytes mean concerns one call, and no state that calls share.
pub const TABLE: &[(&str, &[&str])] = &[
    ("maitred-types", &[]),
    ("maitred-sched", &["maitred-types"]),
    ("maitred-engines", &["maitred-types"]),
    ("maitred-tenant", &["maitred-types"]),
    ("maitred-route", &["maitred-types"]),
    ("maitred-llm", &["maitred-types"]),
    (
        "maitred-config",
        &[
            "maitred-types",
            "maitred-sched",
            "maitred-engines",
            "maitred-tenant",
            "maitred-route",
            "maitred-llm",
        ],
    ),
    (
        "maitred-sim",
        &[
            "maitred-types",
            "maitred-sched",
            "maitred-engines",
            "maitred-tenant",
            "maitred-route",
            "maitred-llm",
            "maitred-config",
        ],
    ),
    ("maitred-obs", &["maitred-types"]),
    ("maitred-store", &["maitred-types", "maitred-obs"]),
    (
        "maitred-runtime",
        &[
            "maitred-types",
            "maitred-sched",
            "maitred-engines",
            "maitred-tenant",
            "maitred-route",
            "maitred-llm",
            "maitred-config",
            "maitred-obs",
            "maitred-store",
        ],
    ),
    (
        "maitred-proxy",
        &[
            "maitred-types",
            "maitred-engines",
            "maitred-llm",
            "maitred-config",
            "maitred-runtime",
            "maitred-obs",
        ],
    ),
    ("maitred-console", &["maitred-types", "maitred-runtime", "maitred-obs"]),
    (
        "maitred",
        &[
            "maitred-types",
            "maitred-sched",
            "maitred-engines",
            "maitred-tenant",
            "maitred-route",
            "maitred-llm",
            "maitred-config",
            "maitred-sim",
            "maitred-obs",
            "maitred-store",
            "maitred-runtime",
            "maitred-proxy",
            "maitred-console",
        ],
    ),
    ("maitred-test", &[]),
    ("maitred-bench", &["maitred-test"]),
    ("xtask", &["maitred-types"]),
];

/// Crates of tests and measurements. Nothing that serves may depend on them; any crate's tests may.
const TOOLS: &[&str] = &["maitred-test", "maitred-bench", "xtask"];

/// Packages that a PURE crate may not reach: runtimes, sockets, HTTP stacks, logs, metrics, and sources of randomness.
const IMPURE: &[&str] = &[
    "tokio",
    "tokio-util",
    "mio",
    "socket2",
    "hyper",
    "hyper-util",
    "axum",
    "tower",
    "rustls",
    "tracing",
    "tracing-core",
    "tracing-subscriber",
    "log",
    "metrics",
    "prometheus",
    "prometheus-client",
    "opentelemetry",
    "rand",
    "getrandom",
];

/// One crate of the workspace.
#[derive(Clone, Debug, Default)]
pub struct Member {
    /// Names of direct dependencies in ordinary and build code.
    pub normal: BTreeSet<String>,
    /// Names of direct dependencies of tests and benchmarks only.
    pub dev: BTreeSet<String>,
    /// Everything that ordinary code reaches, directly or not. Known of PURE crates only.
    pub closure: BTreeSet<String>,
}

/// The crates of the workspace and what they depend on.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// By name.
    pub members: BTreeMap<String, Member>,
}

impl Graph {
    /// Asks Cargo. The lock file must be current.
    ///
    /// # Errors
    ///
    /// When Cargo fails, for instance because the lock file is out of date.
    pub fn read() -> anyhow::Result<Self> {
        let manifest = project_root().join("Cargo.toml");
        let metadata = MetadataCommand::new()
            .manifest_path(&manifest)
            .no_deps()
            .other_options(["--locked".to_owned()])
            .exec()?;
        let mut graph = Self::direct(&metadata);
        for (name, reached) in closures(&cargo_tree(&manifest)?) {
            if let Some(member) = graph.members.get_mut(name) {
                member.closure = reached;
            }
        }
        Ok(graph)
    }

    fn direct(metadata: &Metadata) -> Self {
        let mut members = BTreeMap::new();
        for package in metadata.workspace_packages() {
            let mut member = Member::default();
            for dependency in &package.dependencies {
                let kinds = match dependency.kind {
                    DependencyKind::Development => &mut member.dev,
                    _ => &mut member.normal,
                };
                kinds.insert(dependency.name.clone());
            }
            members.insert(package.name.to_string(), member);
        }
        Self { members }
    }

    /// Direct dependencies of any kind that are not crates of this workspace.
    #[must_use]
    pub fn outside(&self) -> BTreeSet<&str> {
        let all = self
            .members
            .values()
            .flat_map(|member| member.normal.iter().chain(&member.dev));
        all.map(String::as_str)
            .filter(|name| !self.members.contains_key(*name))
            .collect()
    }
}

/// What the PURE crates reach, as `cargo tree` prints it. (`cargo metadata` would not do: it lists optional dependencies
/// that no feature turns on.)
fn cargo_tree(manifest: &Path) -> anyhow::Result<String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args([
        "tree",
        "--locked",
        "--edges",
        "normal,build",
        "--prefix",
        "depth",
        "--no-dedupe",
        "--manifest-path",
    ]);
    command.arg(manifest);
    for name in PURE {
        command.args(["--package", name]);
    }
    let output = command.output()?;
    if !output.status.success() {
        bail!("cargo tree failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// The packages under each root of a printed tree. A line is the depth, then the package's name, then its version.
fn closures(tree: &str) -> BTreeMap<&str, BTreeSet<String>> {
    let mut found: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    let mut root = "";
    for line in tree.lines() {
        let entry = line.trim_start_matches(|c: char| c.is_ascii_digit());
        let name = entry.split_whitespace().next().unwrap_or_default();
        let is_root = line.strip_suffix(entry) == Some("0");
        if is_root {
            root = name;
        } else if !name.is_empty() {
            found.entry(root).or_default().insert(name.to_owned());
        }
    }
    found
}

/// Edges between crates that the table does not allow, and crates that it does not know.
#[must_use]
pub fn layering(graph: &Graph, table: &[(&str, &[&str])]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, member) in &graph.members {
        let Some((_, allowed)) = table.iter().find(|(known, _)| known == name) else {
            findings.push(Finding::new(
                name,
                "is not in the table of layers: say what it may depend on",
            ));
            continue;
        };
        let own = |dependency: &&String| graph.members.contains_key(*dependency);
        for dependency in member
            .normal
            .iter()
            .filter(own)
            .filter(|dep| !allowed.contains(&dep.as_str()))
        {
            findings.push(Finding::new(name, format!("may not depend on {dependency}")));
        }
        let is_tool = |dep: &&String| TOOLS.contains(&dep.as_str());
        let dev = member.dev.iter().filter(own);
        for dependency in dev.filter(|dep| !is_tool(dep) && !allowed.contains(&dep.as_str())) {
            if PURE.contains(&name.as_str()) && !PURE.contains(&dependency.as_str()) {
                findings.push(Finding::new(
                    name,
                    format!("may not depend on {dependency}, not even in tests"),
                ));
            }
        }
    }
    let gone = table.iter().filter(|(name, _)| !graph.members.contains_key(*name));
    findings.extend(gone.map(|(name, _)| Finding::new(*name, "is in the table of layers, but does not exist")));
    findings
}

/// PURE crates that reach something with a clock, a socket, a log or a metric in it.
#[must_use]
pub fn purity(graph: &Graph, pure: &[&str]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for name in pure {
        let closure = graph.members.get(*name).map(|member| &member.closure);
        for reached in closure
            .into_iter()
            .flatten()
            .filter(|reached| IMPURE.contains(&reached.as_str()))
        {
            findings.push(Finding::new(*name, format!("is PURE, but reaches {reached}")));
        }
    }
    findings
}

#[cfg(test)]
mod tests;
