//! `maitred keys`: making keys.

use std::path::PathBuf;
use std::process::ExitCode;

use crate::roster::{self, CreateArgs, ListArgs, RevokeArgs, RotateArgs};
use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use maitred_tenant::{KeyHasher, NEW_KEY_RANDOM_BYTES, NewKey, Role};

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
    /// Make a key in a running gateway. It is printed once.
    Create(CreateArgs),
    /// List the keys of a running gateway.
    List(ListArgs),
    /// Refuse a key from now on, on all gateways that share their changes.
    Revoke(RevokeArgs),
    /// Make a key in the place of another, which stays good for a while.
    Rotate(RotateArgs),
}

#[derive(Args, Debug)]
struct NewArgs {
    /// Who is to own the key, for the lines to add to the configuration.
    #[arg(long, default_value = "default")]
    tenant: String,
    /// The user of the tenant on whose behalf the key is used; several share it, if not given.
    #[arg(long, value_name = "NAME", conflicts_with = "admin")]
    user: Option<String>,
    /// Make an administrative token instead: the name of who is to have it.
    #[arg(long, value_name = "NAME", conflicts_with = "tenant")]
    admin: Option<String>,
    /// What the token allows.
    #[arg(long, value_name = "ROLE", default_value = "admin", requires = "admin", value_parser = role)]
    role: Role,
    /// The environment variable with the pepper, where the configuration has `auth.pepper`.
    #[arg(long, value_name = "VARIABLE", conflicts_with = "pepper_file")]
    pepper_env: Option<String>,
    /// The file with the pepper, where the configuration has `auth.pepper`.
    #[arg(long, value_name = "FILE")]
    pepper_file: Option<PathBuf>,
}

fn role(word: &str) -> Result<Role, String> {
    let found = Role::ALL.iter().copied().find(|role| role.name() == word);
    found.ok_or_else(|| {
        let names: Vec<_> = Role::ALL.iter().map(|role| role.name()).collect();
        format!("one of {}", names.join(", "))
    })
}

/// Runs the command.
pub(crate) fn run(args: &KeysArgs) -> anyhow::Result<ExitCode> {
    let new = match &args.command {
        KeysCommand::New(new) => new,
        KeysCommand::Create(args) => return roster::create(args),
        KeysCommand::List(args) => return roster::keys(args),
        KeysCommand::Revoke(args) => return roster::revoke(args),
        KeysCommand::Rotate(args) => return roster::rotate(args),
    };
    let pepper = pepper(new)?;
    let key = make()?;
    let hash = key.hash(&KeyHasher::new(pepper.as_deref().map(str::as_bytes)));
    // As JSON strings, which YAML reads whatever is in them.
    let text = |name: &str| serde_json::Value::from(name);
    println!("key:  {}", key.expose());
    println!("hash: {hash}");
    println!();
    println!("The key is shown this once. To let it in, add to the configuration:");
    println!();
    if let Some(name) = &new.admin {
        println!("admin:");
        println!("  access:");
        println!("    - name: {}", text(name));
        println!("      role: {}", new.role);
        println!("      hash: \"{hash}\"");
        return Ok(ExitCode::SUCCESS);
    }
    println!("auth:");
    println!("  keys:");
    println!("    - hash: \"{hash}\"");
    println!("      tenant: {}", text(&new.tenant));
    match &new.user {
        Some(user) => println!("      user: {}", text(user)),
        None => println!("      shared: true # or, if one user has it: `user: NAME`"),
    }
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
