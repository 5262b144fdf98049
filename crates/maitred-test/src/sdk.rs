//! The official SDKs of OpenAI and Anthropic, as `make tools` installs them under `target/tools`.

use std::path::PathBuf;

use crate::Program;

/// Set by the Makefile: a missing tool is then a failure, not a skip.
const REQUIRE_TOOLS: &str = "MAITRED_REQUIRE_TOOLS";

/// A Python that can `import openai` and `import anthropic`. Nothing (and a printed skip) where `make tools` has not run.
#[must_use]
pub fn python() -> Option<Program> {
    let interpreter = tools().join("python/bin/python");
    installed("the Python SDK", &interpreter).then(|| Program::new(&interpreter).args(["-I"]))
}

/// A Node that can `import OpenAI from "openai"`. Nothing (and a printed skip) where `make tools` has not run.
///
/// Pass a script with `--input-type=module -e SCRIPT`; it is started in the folder from which imports are found.
#[must_use]
pub fn node() -> Option<Program> {
    let folder = tools().join("node");
    installed("the Node SDK", &folder.join("node_modules/openai")).then(|| Program::new("node").folder(&folder))
}

fn tools() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/tools"))
}

#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn installed(what: &str, marker: &std::path::Path) -> bool {
    let is_there = marker.try_exists().unwrap_or(false);
    if !is_there && std::env::var_os(REQUIRE_TOOLS).is_some() {
        panic!("{what} is missing: run `make tools`");
    }
    if !is_there {
        eprintln!("SKIPPED: {what} is not installed; `make tools` installs it");
    }
    is_there
}
