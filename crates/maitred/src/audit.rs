//! `maitred audit`: whether the audit is as it was written, and what is in it; and how `maitred serve` opens it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use maitred_config::{AuditPolicy, AuditSettings, Durable};
use maitred_console::usage::{moment, quoted};
use maitred_obs::AuditMeters;
use maitred_store::archive;
use maitred_store::audit::{Audit, AuditOptions, OnFailure, Report, Retention, Verdict, archived, verify};
use maitred_store::chain::ChainHash;
use maitred_types::{ByteSize, UnixMillis};
use serde_json::Value;

use crate::config_file::{self, beside};
use crate::ledger::now;
use crate::texts;

/// The columns of a table of entries; what else an entry has stands in the last one, as JSON.
const COLUMNS: [&str; 17] = [
    "n",
    "at",
    "kind",
    "request_id",
    "tenant",
    "user",
    "key",
    "model",
    "served",
    "endpoint",
    "outcome",
    "fault",
    "status",
    "by",
    "action",
    "target",
    "hash",
];

/// Options of `maitred audit`.
#[derive(Args, Debug)]
pub(crate) struct AuditArgs {
    #[command(subcommand)]
    command: AuditCommand,
}

#[derive(Subcommand, Debug)]
enum AuditCommand {
    /// Say whether every entry is as it was written, and every decision record that is kept on disk; if not, which is the first that is not.
    Verify(VerifyArgs),
    /// Print the entries, as far as they are as they were written.
    Export(ExportArgs),
    /// Say of whose calls the text is kept, and forget it.
    Text(texts::TextArgs),
}

/// Where the audit is.
#[derive(Args, Debug)]
struct PlaceArgs {
    /// The configuration file that names the audit.
    #[arg(short, long, value_name = "FILE", default_value = "maitred.yaml")]
    config: PathBuf,
    /// The audit's folder, for one that is not in the configuration, such as a copy.
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
}

#[derive(Args, Debug)]
struct VerifyArgs {
    #[command(flatten)]
    place: PlaceArgs,
    /// The hash of an entry that must be there, kept from an earlier run of this command. Without one, entries that were cut off
    /// at the end are not noticed.
    #[arg(long, value_name = "HASH", value_parser = hash)]
    head: Option<ChainHash>,
    /// The folder of the archive of decision records, for one that is not in the configuration, such as a copy. With `--folder` and
    /// without this, only the audit is looked at.
    #[arg(long, value_name = "FOLDER")]
    decisions: Option<PathBuf>,
}

#[derive(Args, Debug)]
struct ExportArgs {
    #[command(flatten)]
    place: PlaceArgs,
    /// Entries from then on: a time ago such as `30d` or `12h`, or a date. All, if not given.
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,
    /// How the entries look.
    #[arg(long, value_name = "FORMAT", default_value = "json")]
    format: Format,
}

/// `--format`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// One object a line, just as it is in the audit.
    Json,
    /// For spreadsheets (RFC 4180).
    Csv,
}

fn hash(text: &str) -> Result<ChainHash, String> {
    ChainHash::parse(text).ok_or_else(|| "64 hexadecimal digits, as this command prints them".to_owned())
}

/// Runs one of the commands.
pub(crate) fn run(args: &AuditArgs) -> anyhow::Result<ExitCode> {
    match &args.command {
        AuditCommand::Verify(args) => check(args),
        AuditCommand::Export(args) => export(args),
        AuditCommand::Text(args) => texts::run(args),
    }
}

fn check(args: &VerifyArgs) -> anyhow::Result<ExitCode> {
    let mut finished = BTreeMap::new();
    let report = read(&args.place, args.head, |line| finished.extend(archived(line)))?;
    print!("{}", told(&report, args.head));
    let mut is_right = matches!(report.verdict, Verdict::Intact | Verdict::Torn { .. });
    if let Some(folder) = decisions(args)? {
        let report = archive::verify(&folder, &finished)
            .with_context(|| format!("cannot read the decision records in {}", folder.display()))?;
        print!("\n{}", archive_told(&report));
        is_right &= report.is_right();
    }
    Ok(if is_right { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Where decision records are, if they are to be looked at.
fn decisions(args: &VerifyArgs) -> anyhow::Result<Option<PathBuf>> {
    if args.decisions.is_some() || args.place.folder.is_some() {
        return Ok(args.decisions.clone());
    }
    let (_, loaded) = config_file::read(&args.place.config)?;
    let archive = loaded.settings.decisions.archive;
    Ok(archive.map(|archive| beside(&args.place.config, &archive.folder)))
}

/// What was found of the decision records, for people.
fn archive_told(report: &archive::Report) -> String {
    let mut text = String::new();
    for start in &report.starts {
        let what = match &start.verdict {
            archive::Verdict::Intact => continue,
            archive::Verdict::Torn { file, bytes } => format!(
                "the last record in {} is not whole: {bytes} bytes of it are written. A gateway is writing it, or died while it was",
                file.display()
            ),
            archive::Verdict::Broken { file, record, flaw } => format!(
                "BROKEN at {}, record {record}: {flaw}. Nothing of this start from there on proves anything",
                file.display()
            ),
            archive::Verdict::Differs { file } => format!(
                "BROKEN at {}: it does not end as the audit says. Records were cut off, or all were made anew",
                file.display()
            ),
            archive::Verdict::Index { file } => format!(
                "BROKEN at {}: its index is another's, so records are not found. Remove the file that ends in `.index` beside it",
                file.display()
            ),
        };
        // A string takes everything.
        let _never = writeln!(text, "start {}: {what}", start.start);
    }
    for file in &report.missing {
        let _never = writeln!(
            text,
            "MISSING: {file}, of which the audit says how it ended, and older files are there"
        );
    }
    let records = report
        .starts
        .iter()
        .map(|start| (start.head.number + 1).saturating_sub(start.first));
    let _never = writeln!(
        text,
        "decisions: {} records of {} starts as they were written{}",
        records.sum::<u64>(),
        report.starts.len(),
        if report.is_right() { "" } else { "; NOT ALL ARE" }
    );
    text
}

fn read(place: &PlaceArgs, anchor: Option<ChainHash>, take: impl FnMut(&[u8])) -> anyhow::Result<Report> {
    let folder = match &place.folder {
        Some(folder) => folder.clone(),
        None => {
            let (_, loaded) = config_file::read(&place.config)?;
            let Some(audit) = &loaded.settings.audit else {
                bail!(
                    "{} has no audit; add one:\naudit:\n  folder: audit",
                    place.config.display()
                );
            };
            beside(&place.config, &audit.folder)
        }
    };
    verify(&folder, anchor, take).with_context(|| format!("cannot read the audit in {}", folder.display()))
}

/// What was found, for people.
fn told(report: &Report, anchor: Option<ChainHash>) -> String {
    let head = &report.head;
    let count = (head.number + 1).saturating_sub(report.first);
    let mut text = match &report.verdict {
        Verdict::Intact => "intact\n".to_owned(),
        Verdict::Torn { file, bytes } => format!(
            "intact, but for the last entry in {}: {bytes} bytes of it are written and the rest is not. A gateway is writing it, or died \
             while it was; what was in it had not been confirmed to anybody\n",
            file.display()
        ),
        Verdict::Broken { file, line, flaw } => format!(
            "BROKEN at {}, line {line}: {flaw}. Nothing from there on proves anything\n",
            file.display()
        ),
        Verdict::Missing => {
            "MISSING: no entry has the given hash. Entries were cut off, or the chain was made anew\n".to_owned()
        }
    };
    // A string takes everything.
    let _never = writeln!(
        text,
        "{count} entries as they were written, {} to {}",
        report.first, head.number
    );
    if report.first > 1 {
        let why = match report.explained() {
            Some(removal) => format!(
                "were removed by `audit.keep` or `audit.max_size`, as entry {} says",
                removal.entry
            ),
            None => "are not here, and no entry says why".to_owned(),
        };
        let _never = writeln!(
            text,
            "those before {} {why}; the chain is whole from there on",
            report.first
        );
    }
    if let (Some(number), Some(anchor)) = (report.anchor, anchor) {
        let newer = head.number.saturating_sub(number);
        let _never = writeln!(text, "{anchor} is entry {number}; {newer} are newer");
    }
    let _never = writeln!(
        text,
        "head {}\nKeep the head elsewhere: `maitred audit verify --head HASH` then notices if entries are cut off.",
        head.hash
    );
    text
}

fn export(args: &ExportArgs) -> anyhow::Result<ExitCode> {
    let since = args.since.as_deref().map(|since| moment(since, now()));
    let since = since.transpose().map_err(anyhow::Error::msg)?;
    let since = since.map_or_else(String::new, maitred_obs::rfc3339);
    let mut out = BufWriter::new(io::stdout().lock());
    if args.format == Format::Csv {
        write!(out, "{}\r\n", COLUMNS.join(","))?;
    }
    let mut failed = Ok(());
    let report = read(&args.place, None, |line| {
        if failed.is_ok() {
            failed = print(&mut out, line, &since, args.format);
        }
    })?;
    failed?;
    out.flush()?;
    match report.verdict {
        Verdict::Intact | Verdict::Torn { .. } => Ok(ExitCode::SUCCESS),
        Verdict::Broken { .. } | Verdict::Missing => bail!("{}", told(&report, None).trim_end()),
    }
}

fn print(out: &mut impl io::Write, line: &[u8], since: &str, format: Format) -> io::Result<()> {
    let entry: Value = serde_json::from_slice(line).unwrap_or_default();
    // Times are all of one form, so they are ordered as text.
    if entry["at"].as_str().is_some_and(|at| at < since) {
        return Ok(());
    }
    match format {
        Format::Json => {
            out.write_all(line)?;
            out.write_all(b"\n")
        }
        Format::Csv => {
            let cells = COLUMNS.iter().map(|column| match &entry[*column] {
                Value::Null => String::new(),
                Value::String(text) => quoted(text),
                other => other.to_string(),
            });
            write!(out, "{}\r\n", cells.collect::<Vec<_>>().join(","))
        }
    }
}

/// Opens the audit that calls and acts are entered in.
pub(crate) fn open(config: &Path, settings: &AuditSettings, meters: AuditMeters) -> anyhow::Result<Audit> {
    let folder = beside(config, &settings.folder);
    let options = AuditOptions {
        folder: folder.clone(),
        on_failure: match settings.on_failure {
            AuditPolicy::Refuse => OnFailure::Refuse,
            AuditPolicy::Continue => OnFailure::Continue,
        },
        sync: settings.durable == Durable::Machine,
        segment: settings.file_size.get(),
        retention: Retention {
            keep: settings.keep,
            max_bytes: settings.max_size.map(ByteSize::get),
        },
        now: now as fn() -> UnixMillis,
    };
    Audit::open(&options, meters).with_context(|| {
        format!(
            "the audit in {} cannot be gone on with. `maitred audit verify` says more; to begin a new one, put the folder aside",
            folder.display()
        )
    })
}
