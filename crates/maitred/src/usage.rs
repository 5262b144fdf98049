//! `maitred usage`: sums over the ledger, for people, spreadsheets and programs.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use maitred_console::usage::{Format, by, question, report};
use maitred_store::ledger::{Access, By, Database};

use crate::ledger::{blocking, now, place_of};
use crate::lengths::{self, LengthsArgs};

/// Options of `maitred usage`.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct UsageArgs {
    #[command(subcommand)]
    other: Option<OtherReport>,
    /// The configuration file that names the ledger.
    #[arg(short, long, value_name = "FILE", default_value = "maitred.yaml")]
    config: PathBuf,
    /// By what to sum, in that order: tenant, user, key, task, model, served_model, pool, endpoint, dialect, outcome, source, price, day,
    /// month.
    #[arg(long, value_name = "WHAT", value_delimiter = ',', default_value = "tenant,model", value_parser = by)]
    by: Vec<By>,
    /// Calls that arrived from then on: a time ago such as `30d` or `12h`, or a date.
    #[arg(long, value_name = "WHEN", default_value = "30d")]
    since: String,
    /// Calls that arrived before then; until now if not given.
    #[arg(long, value_name = "WHEN")]
    until: Option<String>,
    /// How the report looks.
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    format: ReportFormat,
}

/// Reports that are no sums.
#[derive(Subcommand, Debug)]
enum OtherReport {
    /// Say how long prompts were, model by model, and at which lengths rules of routes could part them.
    Lengths(LengthsArgs),
}

/// `--format`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum ReportFormat {
    /// For people.
    Table,
    /// For spreadsheets (RFC 4180).
    Csv,
    /// For programs: one object with a list of lines.
    Json,
}

/// Reads the ledger and prints.
pub(crate) fn run(args: &UsageArgs) -> anyhow::Result<ExitCode> {
    if let Some(OtherReport::Lengths(args)) = &args.other {
        return lengths::run(args);
    }
    let question =
        question(args.by.clone(), (&args.since, args.until.as_deref()), now()).map_err(anyhow::Error::msg)?;
    let place = place_of(&args.config)?;
    crate::tls::install_provider();
    let told = blocking(async {
        let mut database = Database::open(&place, Access::Read).await?;
        let told = database.report(&question).await?;
        database.close().await;
        Ok(told)
    })?;
    let format = match args.format {
        ReportFormat::Table => Format::Table,
        ReportFormat::Csv => Format::Csv,
        ReportFormat::Json => Format::Json,
    };
    if told.lines.is_empty() {
        eprintln!("no calls in that time; a call's row is there a moment after its end");
    }
    print!("{}", report(format, &question, &told));
    Ok(ExitCode::SUCCESS)
}
