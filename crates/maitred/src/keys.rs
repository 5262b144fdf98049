//! `maitred keys`: making keys.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use maitred_tenant::{KeyHasher, NEW_KEY_RANDOM_BYTES, NewKey};

/// Options of `maitred keys`.
#[derive(Args, Debug)]
pub(crate) struct KeysArgs {
    #[command(subcommand)]
    command: KeysCommand,
}

#[derive(Subcommand, Debug)]
enum KeysCommand {
    /// Make a key. It is printed once; the configuration gets only its hash.
    New(NewArgs),
}

#[derive(Args, Debug)]
struct NewArgs {
    /// Who is to own the key, for the lines to add to the configuration.
    #[arg(long, default_value = "default")]
    tenant: String,
    /// The environment variable with the pepper, where the configuration has `auth.pepper`.
    #[arg(long, value_name = "VARIABLE", conflicts_with = "pepper_file")]
    pepper_env: Option<String>,
    /// The file with the pepper, where the configuration has `auth.pepper`.
    #[arg(long, value_name = "FILE")]
    pepper_file: Option<PathBuf>,
}

/// Runs the command.
pub(crate) fn run(args: &KeysArgs) -> anyhow::Result<ExitCode> {
    let KeysCommand::New(new) = &args.command;
    let pepper = pepper(new)?;
    let key = make()?;
    let hash = key.hash(&KeyHasher::new(pepper.as_deref().map(str::as_bytes)));
    println!("key:  {}", key.expose());
    println!("hash: {hash}");
    println!();
    println!("The key is shown this once. To let it in, add to the configuration:");
    println!();
    println!("auth:");
    println!("  keys:");
    println!("    - hash: \"{hash}\"");
    // As a JSON string, which YAML reads whatever is in it.
    println!("      tenant: {}", serde_json::Value::from(new.tenant.as_str()));
    Ok(ExitCode::SUCCESS)
}

/// A key from the system's randomness.
pub(crate) fn make() -> anyhow::Result<NewKey> {
    let mut random = [0; NEW_KEY_RANDOM_BYTES];
    if let Err(error) = getrandom::fill(&mut random) {
        bail!("the system gives no random bytes: {error}");
    }
    Ok(NewKey::make(&random))
}

fn pepper(args: &NewArgs) -> anyhow::Result<Option<String>> {
    if let Some(name) = &args.pepper_env {
        #[expect(
            clippy::disallowed_methods,
            reason = "the caller names the variable; this is the edge"
        )]
        let pepper = std::env::var(name).with_context(|| format!("the environment variable `{name}`"))?;
        return Ok(Some(pepper));
    }
    let Some(path) = &args.pepper_file else { return Ok(None) };
    let pepper = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(Some(pepper.trim_end().to_owned()))
}
