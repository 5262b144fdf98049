//! `maitred changes`: what was changed in a running gateway, and back.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use http::Method;
use serde_json::{Value, json};

use crate::admin::AdminArgs;
use crate::roster::{ListArgs, print_table};

const CHANGES: &str = "/admin/v1/changes";

/// Options of `maitred changes`.
#[derive(Args, Debug)]
pub(crate) struct ChangesArgs {
    #[command(subcommand)]
    command: ChangesCommand,
}

#[derive(Subcommand, Debug)]
enum ChangesCommand {
    /// List what was changed at run time, newest first.
    List(OlderArgs),
    /// Make tenants, keys and limits what they were after an earlier change. Keys that were revoked since stay revoked.
    Restore(RestoreArgs),
}

#[derive(Args, Debug)]
struct OlderArgs {
    /// Only changes before this version; 200 are listed at once.
    #[arg(long, value_name = "VERSION")]
    before: Option<u64>,
    #[command(flatten)]
    list: ListArgs,
}

#[derive(Args, Debug)]
struct RestoreArgs {
    /// The number of the change after which things were as they are to be again; 0 for before the first.
    #[arg(value_name = "VERSION")]
    version: u64,
    /// Say what would change, and change nothing.
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    gateway: AdminArgs,
}

/// `maitred changes`.
pub(crate) fn run(args: &ChangesArgs) -> anyhow::Result<ExitCode> {
    match &args.command {
        ChangesCommand::List(args) => list(args),
        ChangesCommand::Restore(args) => restore(args),
    }
}

fn list(args: &OlderArgs) -> anyhow::Result<ExitCode> {
    let path = match args.before {
        Some(before) => format!("{CHANGES}?before={before}"),
        None => CHANGES.to_owned(),
    };
    let answer = args.list.gateway.ask(Method::GET, &path, None)?;
    if args.list.json {
        println!("{}", serde_json::to_string_pretty(&answer)?);
    } else {
        print_table(&answer["changes"], &["version", "at", "by", "role", "action", "target"]);
    }
    Ok(ExitCode::SUCCESS)
}

fn restore(args: &RestoreArgs) -> anyhow::Result<ExitCode> {
    let path = format!("{CHANGES}/{}/restoration", args.version);
    let answer = if args.check {
        args.gateway.ask(Method::GET, &path, None)?
    } else {
        args.gateway.ask(Method::POST, &path, Some(&json!({})))?
    };
    println!("{}", serde_json::to_string_pretty(&answer["diff"])?);
    let stays = &answer["diff"]["stays"];
    for (sort, what) in [
        ("revoked", "stay revoked"),
        ("rotated", "were rotated, and are good no longer than they were"),
        ("successors", "took the place of rotated ones, and stay good"),
    ] {
        let ids: Vec<&str> = stays[sort]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        if !ids.is_empty() {
            println!("Keys that {what}: {}.", ids.join(", "));
        }
    }
    match &answer["version"] {
        Value::Null => println!("Nothing is changed yet."),
        new => println!(
            "Everything else is as it was after version {} (version {new}).",
            args.version
        ),
    }
    Ok(ExitCode::SUCCESS)
}
