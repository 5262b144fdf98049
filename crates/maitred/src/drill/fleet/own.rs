//! A fleet of one's own: simulated endpoints of two models, a gateway, and another one with a stricter ledger.

use std::path::Path;

use anyhow::Context;
use http::Uri;
use maitred_tenant::{KeyHasher, NewKey};

use super::Fleet;
use super::endpoint::Endpoint;
use super::gateway::{Door, Gateway};
use crate::admin::Credentials;
use crate::process::{self, Process, make_ledger};
use crate::{config_file, keys};

/// The model that is asked for.
const MODEL: &str = "llama-3.1-8b";
/// The one that stands in for it.
const SMALLER: &str = "llama-3.2-1b";
/// The name of the way from one to the other.
const ROUTE: &str = "assistant";
/// How many endpoints serve each, by their pools.
const POOLS: [(&str, &str, u16); 2] = [("main", MODEL, 3), ("smaller", SMALLER, 1)];
/// The file with the administrative token.
const TOKEN: &str = "token";
/// Endpoints that begin anew or have failed are seen soon: nobody wants to watch a drill wait.
const PROBES: &str =
    "    startup: { interval: 100ms }\n    readiness: { interval: 200ms }\n    ejection: { base: 500ms }\n";

/// Starts it.
pub(super) async fn fleet() -> anyhow::Result<Fleet> {
    // Waiting for processes to come up blocks, and Ctrl-C must not wait for that.
    let begun = tokio::task::spawn_blocking(begin).await??;
    let mut endpoints = Vec::new();
    for (pool, process) in &begun.endpoints {
        endpoints.push(Endpoint::find(pool, &process.address).await?);
    }
    let mut processes = begun.gateways;
    processes.extend(begun.endpoints.into_iter().map(|(_, process)| process));
    Ok(Fleet {
        gateways: begun.doors,
        endpoints,
        _processes: processes,
        _folder: Some(begun.folder),
    })
}

struct Begun {
    folder: tempfile::TempDir,
    /// Each with the name of its pool.
    endpoints: Vec<(&'static str, Process)>,
    gateways: Vec<Process>,
    doors: Vec<Gateway>,
}

fn begin() -> anyhow::Result<Begun> {
    let folder = tempfile::Builder::new()
        .prefix("maitred-drill-")
        .tempdir()
        .context("cannot make a folder")?;
    let program = process::program()?;
    let mut endpoints = Vec::new();
    for (pool, model, count) in POOLS {
        for seed in 0..count {
            let flags = ["--seed", &seed.to_string()];
            endpoints.push((pool, Process::endpoint(&program, model, &flags)?));
        }
    }
    let (key, token) = (keys::make()?, keys::make()?);
    std::fs::write(folder.path().join(TOKEN), token.expose()).context("cannot write the token")?;
    let mut begun = Begun {
        folder,
        endpoints,
        gateways: Vec::new(),
        doors: Vec::new(),
    };
    for policy in ["spool", "reject"] {
        let config = begun.folder.path().join(format!("{policy}.yaml"));
        let text = configuration(policy, &begun.endpoints, [&key, &token]);
        std::fs::write(&config, text).with_context(|| format!("cannot write {}", config.display()))?;
        make_ledger(&program, &config)?;
        let records = begun.folder.path().join(format!("{policy}.log"));
        let process = Process::gateway(&program, &config, Some(&records), drop)?;
        begun.doors.push(door(&config, &process, &key)?);
        begun.gateways.push(process);
    }
    Ok(begun)
}

fn door(config: &Path, process: &Process, key: &NewKey) -> anyhow::Result<Gateway> {
    let (_, loaded) = config_file::read(config)?;
    let uri = |address: &str| format!("http://{address}").parse::<Uri>();
    let token = config.with_file_name(TOKEN);
    let door = Door {
        calls: uri(&process.address)?,
        admin: uri(&process.admin)?,
        credentials: &Credentials::in_file(&token),
        key: Some(key.expose().to_owned()),
        model: Some(MODEL),
    };
    Gateway::new(config, loaded.settings, door, true)
}

/// The file of a gateway whose ledger has this policy.
fn configuration(policy: &str, endpoints: &[(&str, Process)], [key, token]: [&NewKey; 2]) -> String {
    let [key, token] = [key, token].map(|key| key.hash(&KeyHasher::new(None)).to_string());
    let mut text = format!(
        "version: 1\n\
         listeners:\n  - address: 127.0.0.1:0\n\
         admin:\n  address: 127.0.0.1:0\n  changes: {policy}.jsonl\n  access:\n    - name: drill\n      role: admin\n      hash: \"{token}\"\n\
         auth:\n  keys:\n    - hash: \"{key}\"\n      tenant: drill\n      user: drill\n\
         ledger:\n  sqlite: {policy}.db\n  policy: {policy}\n\
         prices:\n  - model: \"*\"\n    input: \"0.15\"\n    output: \"0.60\"\n\
         routes:\n  - model: {ROUTE}\n    targets:\n      - {{ pool: main, model: {MODEL}, within: 1s }}\n    \
         fallback:\n      - {{ pool: smaller, model: {SMALLER} }}\n\
         degradation:\n  objective: {{}}\n\
         pools:\n"
    );
    for (pool, model, _) in POOLS {
        text.push_str(&format!(
            "  - name: {pool}\n    models:\n      - name: {model}\n{PROBES}    endpoints:\n"
        ));
        for (_, endpoint) in endpoints.iter().filter(|(of, _)| *of == pool) {
            text.push_str(&format!("      - address: {}\n", endpoint.address));
        }
    }
    text
}
