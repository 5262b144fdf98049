//! Texts of calls: where `maitred serve` keeps them, and `maitred audit text`, which says what there is and forgets it.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use maitred_config::AuditSettings;
use maitred_obs::TextMeters;
use maitred_runtime::Runtime;
use maitred_store::texts::{TextOptions, Texts, forget, kept};

use crate::config_file::{self, beside};
use crate::ledger::{now, start};

/// How long the disk may take for the last texts.
const LAST: Duration = Duration::from_secs(5);

/// Options of `maitred audit text`.
#[derive(Args, Debug)]
pub(crate) struct TextArgs {
    #[command(subcommand)]
    command: TextCommand,
}

#[derive(Subcommand, Debug)]
enum TextCommand {
    /// Say of whom there are texts, and how much.
    List(ListArgs),
    /// Remove every text of a tenant, now and for good. A gateway may be running.
    Forget(ForgetArgs),
}

#[derive(Args, Debug)]
struct ListArgs {
    /// The configuration file that names the audit.
    #[arg(short, long, value_name = "FILE", default_value = "maitred.yaml")]
    config: PathBuf,
}

#[derive(Args, Debug)]
struct ForgetArgs {
    /// The configuration file that names the audit.
    #[arg(short, long, value_name = "FILE", default_value = "maitred.yaml")]
    config: PathBuf,
    /// The tenant.
    #[arg(long, value_name = "NAME")]
    tenant: String,
}

/// Runs one of the commands.
pub(crate) fn run(args: &TextArgs) -> anyhow::Result<ExitCode> {
    match &args.command {
        TextCommand::List(args) => {
            let folder = folder_of(&args.config)?;
            for kept in kept(&folder).with_context(|| format!("cannot read {}", folder.display()))? {
                println!("{}  {} files  {} bytes", kept.folder, kept.files, kept.bytes);
            }
        }
        TextCommand::Forget(args) => {
            let folder = folder_of(&args.config)?;
            let bytes = forget(&folder, &args.tenant)
                .with_context(|| format!("not everything could be removed in {}", folder.display()))?;
            println!("{bytes} bytes of text of `{}` are gone", args.tenant);
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn folder_of(config: &Path) -> anyhow::Result<PathBuf> {
    let (_, loaded) = config_file::read(config)?;
    match &loaded.settings.audit {
        Some(audit) => Ok(folder(config, audit)),
        None => bail!("{} has no audit, so no text is kept", config.display()),
    }
}

/// Beside the audit, which is often copied or handed on as a whole: texts are not to go along.
fn folder(config: &Path, audit: &AuditSettings) -> PathBuf {
    beside(config, &format!("{}-text", audit.folder.trim_end_matches('/')))
}

/// Opens what texts are kept in.
pub(crate) fn open(config: &Path, audit: &AuditSettings, meters: TextMeters) -> anyhow::Result<Texts> {
    let options = TextOptions {
        folder: folder(config, audit),
        start: start()?,
        now,
    };
    Texts::open(options, meters).context("the system refuses a thread for texts")
}

/// Writes the last texts. All calls are over by now.
pub(crate) async fn close(runtime: &Arc<Runtime>) {
    let Some(texts) = runtime.texts().map(Arc::clone) else {
        return;
    };
    let closed = tokio::task::spawn_blocking(move || texts.close(LAST));
    if !closed.await.unwrap_or(false) {
        tracing::warn!("the last texts could not be written in time");
    }
}
