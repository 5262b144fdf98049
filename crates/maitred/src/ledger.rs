//! The ledger as commands use it: opened by `maitred serve`, its tables made by `maitred store migrate`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::bail;
use clap::{Args, Subcommand};
use maitred_config::{Durable, LedgerPolicy, LedgerSettings, LedgerStore};
use maitred_obs::LedgerMeters;
use maitred_store::ledger::{Access, Database, Durability, Ledger, LedgerOptions, Place, Policy, SCHEMA_VERSION};
use maitred_types::UnixMillis;

use crate::config_file::{self, beside};

/// How long the database may take to be opened.
const PATIENCE: Duration = Duration::from_secs(30);

/// Options of `maitred store`.
#[derive(Args, Debug)]
pub(crate) struct StoreArgs {
    #[command(subcommand)]
    command: StoreCommand,
}

#[derive(Subcommand, Debug)]
enum StoreCommand {
    /// Make the ledger's tables, or bring them to the version that this maitred needs.
    Migrate(MigrateArgs),
}

/// Options of `maitred store migrate`.
#[derive(Args, Debug)]
struct MigrateArgs {
    /// The configuration file.
    #[arg(short, long, value_name = "FILE", default_value = "maitred.yaml")]
    config: PathBuf,
}

/// Runs one of the store's commands.
pub(crate) fn run(args: &StoreArgs) -> anyhow::Result<ExitCode> {
    let StoreCommand::Migrate(args) = &args.command;
    let place = place_of(&args.config)?;
    crate::tls::install_provider();
    let found = blocking(async {
        let mut database = Database::connect(&place, Access::Create).await?;
        let found = database.migrate().await?;
        database.close().await;
        anyhow::Ok(found)
    })?;
    match found {
        Some(SCHEMA_VERSION) => println!("{place}: the tables are of version {SCHEMA_VERSION} already"),
        Some(found) => println!("{place}: the tables were of version {found} and are of version {SCHEMA_VERSION} now"),
        None => println!("{place}: the tables are made, version {SCHEMA_VERSION}"),
    }
    Ok(ExitCode::SUCCESS)
}

/// Where the ledger of a configuration is.
pub(crate) fn place_of(config: &Path) -> anyhow::Result<Place> {
    let (_, loaded) = config_file::read(config)?;
    match &loaded.settings.ledger {
        Some(ledger) => Ok(place(config, ledger)),
        None => bail!(
            "{} has no ledger; add one:\nledger:\n  sqlite: ledger.db",
            config.display()
        ),
    }
}

fn place(config: &Path, settings: &LedgerSettings) -> Place {
    match &settings.store {
        LedgerStore::Sqlite(file) => Place::Sqlite(beside(config, file)),
        LedgerStore::Postgres(url) => Place::Postgres(url.expose().to_owned()),
    }
}

/// Opens the ledger that calls are entered in.
pub(crate) async fn open(config: &Path, settings: &LedgerSettings, meters: LedgerMeters) -> anyhow::Result<Ledger> {
    let spool = match (&settings.spool, &settings.store) {
        (Some(folder), _) => beside(config, folder),
        (None, LedgerStore::Sqlite(file)) => beside(config, &format!("{file}.spool")),
        (None, LedgerStore::Postgres(_)) => bail!("the ledger needs a folder for its spool; add `ledger.spool`"),
    };
    let options = LedgerOptions {
        place: place(config, settings),
        spool,
        spool_max: settings.spool_max.get(),
        policy: match settings.policy {
            LedgerPolicy::Spool => Policy::Spool,
            LedgerPolicy::Reject => Policy::Reject,
        },
        wait: settings.wait,
        durability: match settings.durable {
            Durable::Process => Durability::Process,
            Durable::Machine => Durability::Machine,
        },
        keep_months: settings.keep_months,
        start: start()?,
        now,
    };
    Ok(Ledger::open(options, meters).await?)
}

/// A number that no other start has. It names rows and files, so it is never made up from less than chance.
pub(crate) fn start() -> anyhow::Result<u64> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes)
        .map_err(|error| anyhow::anyhow!("the system gives no random number to name what it keeps with: {error}"))?;
    Ok(u64::from_le_bytes(bytes))
}

/// The civil clock, for what has no clock of the gateway at hand.
pub(crate) fn now() -> UnixMillis {
    #[expect(clippy::disallowed_methods, reason = "the edge: commands and the ledger's calendar")]
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    UnixMillis::new(u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX))
}

/// Runs a command's work to its end, but not for ever.
pub(crate) fn blocking<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match runtime.block_on(async { tokio::time::timeout(PATIENCE, work).await }) {
        Ok(done) => done,
        Err(_elapsed) => bail!("the ledger's database does not answer within {} s", PATIENCE.as_secs()),
    }
}
