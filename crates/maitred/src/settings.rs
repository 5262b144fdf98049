//! `maitred check` and `maitred config`: looking at a configuration without running it.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{ArgGroup, Args};
use maitred_config::{reference_markdown, render, schema};

use crate::config_file;

/// Options of `maitred check`.
#[derive(Args, Debug)]
pub(crate) struct CheckArgs {
    /// The configuration file.
    #[arg(short, long, value_name = "FILE", default_value = "maitred.yaml")]
    config: PathBuf,
}

/// Options of `maitred config`.
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("what").required(true))]
pub(crate) struct ConfigArgs {
    /// The configuration file.
    #[arg(short, long, value_name = "FILE", default_value = "maitred.yaml")]
    config: PathBuf,
    /// Print the file with every default filled in.
    #[arg(long, group = "what")]
    effective: bool,
    /// Print the JSON schema of the file, for editors.
    #[arg(long, group = "what")]
    schema: bool,
    /// Print the reference of all options, in Markdown.
    #[arg(long, group = "what")]
    reference: bool,
}

/// Says everything that is wrong with a file, or that nothing is.
pub(crate) fn check(args: &CheckArgs) -> anyhow::Result<ExitCode> {
    let (text, loaded) = config_file::read(&args.config)?;
    if !loaded.warnings.is_empty() {
        eprint!("{}", render(&loaded.warnings, &text));
    }
    if loaded.settings.ledger.is_none() {
        eprintln!(
            "warning: there is no `ledger`, so what calls use is not kept: neither bills nor reports can be made of it\n  \
             = help: add `ledger: {{ sqlite: ledger.db }}` and run `maitred store migrate`\n"
        );
    }
    println!("{} is valid", args.config.display());
    Ok(ExitCode::SUCCESS)
}

/// Prints what was asked for.
pub(crate) fn config(args: &ConfigArgs) -> anyhow::Result<ExitCode> {
    if args.schema {
        println!("{:#}", schema());
    } else if args.reference {
        print!("{}", reference_markdown());
    } else {
        let (_, loaded) = config_file::read(&args.config)?;
        print!("{}", loaded.effective());
    }
    Ok(ExitCode::SUCCESS)
}
