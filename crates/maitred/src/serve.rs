//! `maitred serve`: puts the gateway together, and takes it down in order.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use maitred_config::{RecordingSettings, Settings};
use maitred_console::{Console, Door};
use maitred_obs::{Level, Meters, RecordSink, Recording, RecordingOptions, start_log};
use maitred_proxy::{DataPlane, PlaneOptions};
use maitred_runtime::{ChangeOptions, Clock, Runtime, Tasks};
use rustix::process::{Resource, Rlimit, setrlimit};
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::archive;
use crate::audit;
use crate::config_file::{self, beside};
use crate::ledger;
use crate::reload::{self, Reloader};
use crate::texts;
use crate::tls::{self, Certificates};

/// Threads for everything that is not the data path: scraping, probes, administration.
const CONTROL_THREADS: usize = 1;

/// How long background work may take to end: an operator's half-finished request must not hold up the exit.
const LAST_TASKS: Duration = Duration::from_secs(2);
/// Tokens of a block in a recording of the traffic.
const RECORDED_BLOCK: u32 = 64;
/// How long writing what is known of prompts may take; a disk that hangs must not hold up the exit.
const LAST_SNAPSHOTS: Duration = Duration::from_secs(10);
/// How long the ledger's database may take for the last rows.
const LAST_ROWS: Duration = Duration::from_secs(10);
/// How long the disk may take for the last entries of the audit.
const LAST_ENTRIES: Duration = Duration::from_secs(10);
/// How long the reader of access records may take for the last of them.
const LAST_RECORDS: Duration = Duration::from_secs(5);

/// Options of `maitred serve`.
#[derive(Args, Debug)]
pub(crate) struct ServeArgs {
    /// The configuration file.
    #[arg(short, long, value_name = "FILE", default_value = "maitred.yaml")]
    config: PathBuf,
    /// Threads of the data path; as many as there are cores if not given.
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// How the log and the access records look, if not as the configuration says.
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<LogFormat>,
    /// Where access records go; standard output if not given.
    #[arg(long, value_name = "FILE")]
    access_log: Option<PathBuf>,
    /// Fixes every random choice, to replay a run.
    #[arg(long, value_name = "N", hide = true)]
    seed: Option<u64>,
}

/// `--log-format`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum LogFormat {
    Text,
    Json,
}

/// Serves until a signal ends it.
pub(crate) fn run(args: &ServeArgs) -> anyhow::Result<ExitCode> {
    let (text, loaded) = config_file::read(&args.config)?;
    let settings = loaded.settings;
    let format = log_format(args, &settings);
    start_log(format, level(&settings));
    for warning in &loaded.warnings {
        let (line, column) = (warning.line, warning.column);
        tracing::warn!(file = %args.config.display(), line, column, "{}", warning.message);
    }
    leave_no_image();
    tls::install_provider();
    let control = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(CONTROL_THREADS)
        .thread_name("control")
        .enable_all()
        .build()
        .context("cannot start the control threads")?;
    let served = control.block_on(Gateway::start_and_serve(args, text, settings, format));
    control.shutdown_background();
    served
}

/// Keys and prompts are in the memory of this process, and would be in the file that the kernel writes if it crashes.
fn leave_no_image() {
    let nothing = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    if let Err(error) = setrlimit(Resource::Core, nothing) {
        tracing::warn!(%error, "a crash may leave an image of the memory on the disk");
    }
}

fn log_format(args: &ServeArgs, settings: &Settings) -> maitred_obs::LogFormat {
    let from_file = match settings.log.format {
        maitred_config::LogFormat::Text => LogFormat::Text,
        maitred_config::LogFormat::Json => LogFormat::Json,
    };
    match args.log_format.unwrap_or(from_file) {
        LogFormat::Text => maitred_obs::LogFormat::Text,
        LogFormat::Json => maitred_obs::LogFormat::Json,
    }
}

fn level(settings: &Settings) -> Level {
    match settings.log.level {
        maitred_config::LogLevel::Error => Level::Error,
        maitred_config::LogLevel::Warn => Level::Warn,
        maitred_config::LogLevel::Info => Level::Info,
        maitred_config::LogLevel::Debug => Level::Debug,
        maitred_config::LogLevel::Trace => Level::Trace,
    }
}

/// Everything that runs.
struct Gateway {
    runtime: Arc<Runtime>,
    tasks: Tasks,
    plane: DataPlane,
    records: RecordSink,
    recording: Option<Recording>,
}

impl Gateway {
    async fn start_and_serve(
        args: &ServeArgs,
        text: String,
        settings: Settings,
        format: maitred_obs::LogFormat,
    ) -> anyhow::Result<ExitCode> {
        let mut signals = Signals::install()?;
        // What the start waits for may be long in coming, and whoever wants to end need not wait for it.
        let gateway = tokio::select! {
            started = Self::start(args, text, settings, format) => started?,
            () = signals.wait_for_end() => {
                tracing::info!("a signal during the start: ending");
                return Ok(ExitCode::SUCCESS);
            }
        };
        signals.wait_for_end().await;
        Ok(tokio::select! {
            code = gateway.drain() => code,
            () = signals.wait_for_end() => {
                tracing::warn!("a second signal: ending at once");
                ExitCode::FAILURE
            }
        })
    }

    async fn start(
        args: &ServeArgs,
        text: String,
        settings: Settings,
        format: maitred_obs::LogFormat,
    ) -> anyhow::Result<Self> {
        let (clock, tasks) = (Clock::start(), Tasks::new());
        let meters = Arc::new(Meters::new(env!("CARGO_PKG_VERSION")));
        let records = RecordSink::start(records_out(args)?, meters.records_dropped.clone())?;
        let recording = settings
            .recording
            .as_ref()
            .and_then(|wanted| record(wanted, clock, &meters));
        let certificates = Certificates::load(&settings, &args.config)?;
        let admin = settings.admin.address;
        let runtime = Runtime::start(
            settings,
            clock,
            tasks.clone(),
            Arc::clone(&meters),
            args.seed.unwrap_or_else(random),
        );
        if let Some(ledger) = &runtime.snapshot().settings().ledger {
            runtime.keep_ledger(ledger::open(&args.config, ledger, meters.ledger()).await?);
        }
        keep_audit(&runtime, &args.config, &text, &meters)?;
        if let Some(wanted) = &runtime.snapshot().settings().decisions.archive {
            let archive = archive::open(&args.config, wanted, meters.archive(), runtime.audit().cloned())?;
            runtime.decisions().archive_in(archive);
        }
        keep_changes(&runtime, &args.config).await?;
        runtime.meet_others().await;
        runtime.recall_quota().await;
        let listener = TcpListener::bind(admin)
            .await
            .with_context(|| format!("cannot listen on {admin} (admin)"))?;
        let admin = listener.local_addr()?;
        let console = Console {
            runtime: Arc::clone(&runtime),
            meters: Arc::clone(&meters),
        };
        let stop = tasks.clone();
        let door = Door::new(listener, certificates.admin());
        let serving = maitred_console::serve(door, console, async move { stop.stopping().await });
        tasks.spawn(async {
            if let Err(error) = serving.await {
                tracing::error!(%error, "the administrative listener failed");
            }
        });
        let options = PlaneOptions {
            threads: args.threads.unwrap_or_else(cores),
            records: records.clone(),
            record_format: format,
            recording: recording.clone(),
            tls: certificates.servers(),
            salt: random(),
        };
        let plane = DataPlane::start(&runtime, &meters, &options)?;
        let reloader = Reloader::new(args.config.clone(), text, certificates, (Arc::clone(&runtime), meters));
        tasks.spawn_until_stop(reloader.watch());
        for address in plane.addresses() {
            tracing::info!(%address, "listening");
        }
        tracing::info!(address = %admin, "administration");
        Ok(Self {
            runtime,
            tasks,
            plane,
            records,
            recording,
        })
    }

    /// Stops accepting, lets calls finish, and ends in order.
    async fn drain(self) -> ExitCode {
        let limit = self.runtime.snapshot().settings().timeouts.drain;
        tracing::info!(limit = ?limit, "draining: no new calls, running ones may finish; a second signal ends at once");
        self.runtime.begin_drain();
        let cut = self.plane.drain(limit).await;
        if cut > 0 {
            tracing::warn!(connections = cut, "the time to drain is over; connections were cut");
        }
        if tokio::time::timeout(LAST_SNAPSHOTS, self.runtime.remember())
            .await
            .is_err()
        {
            tracing::warn!("what is known of prompts could not be written in time");
        }
        self.tasks.stop();
        if tokio::time::timeout(LAST_TASKS, self.tasks.wait()).await.is_err() {
            tracing::warn!(tasks = self.tasks.running(), "some background work did not end in time");
        }
        close_ledger(&self.runtime).await;
        archive::close(&self.runtime).await;
        close_audit(&self.runtime).await;
        texts::close(&self.runtime).await;
        let (records, recording) = (self.records, self.recording);
        let closed = tokio::task::spawn_blocking(move || {
            records.close(LAST_RECORDS);
            if let Some(recording) = recording {
                recording.close(LAST_RECORDS);
            }
        });
        if closed.await.is_err() {
            tracing::error!("closing the access records failed");
        }
        tracing::info!("ended");
        ExitCode::SUCCESS
    }
}

/// Begins a recording of the traffic. That it cannot be had is no reason not to serve.
fn record(wanted: &RecordingSettings, clock: Clock, meters: &Meters) -> Option<Recording> {
    let started = File::create_new(&wanted.path).and_then(|file| {
        let mut key = [0; 32];
        getrandom::fill(&mut key).map_err(|error| io::Error::other(error.to_string()))?;
        let options = RecordingOptions {
            max_bytes: wanted.max_size.get(),
            block_tokens: RECORDED_BLOCK,
            key,
            since: clock.now(),
        };
        Recording::start(Box::new(file), options, meters.recording_dropped.clone())
    });
    match started {
        Ok(recording) => {
            tracing::info!(file = %wanted.path, "recording the traffic, without its text");
            Some(recording)
        }
        Err(error) => {
            tracing::error!(file = %wanted.path, %error, "the traffic is not recorded: the file must be a new one that can be written");
            None
        }
    }
}

/// Brings the last rows to the ledger's database. All calls are over by now.
async fn close_ledger(runtime: &Runtime) {
    let Some(ledger) = runtime.ledger().map(Arc::clone) else {
        return;
    };
    let closed = tokio::task::spawn_blocking(move || ledger.close(LAST_ROWS));
    if !closed.await.unwrap_or(false) {
        tracing::warn!("the ledger's last rows stay in its spool; the next start brings them to the database");
    }
}

/// Lets keys, tenants and limits be changed at run time, if the configuration says where changes are kept.
async fn keep_changes(runtime: &Arc<Runtime>, config: &Path) -> anyhow::Result<()> {
    let base = runtime.base();
    let Some(file) = &base.admin.changes else { return Ok(()) };
    let shared = base.sharing.as_ref();
    let options = ChangeOptions {
        journal: beside(config, file),
        shared: shared.map(|sharing| (sharing.url.clone(), format!("{}:changes", sharing.group))),
    };
    runtime.keep_changes(options).await?;
    Ok(())
}

/// Enters who does what, and keeps the text of those who want it, if the configuration says where.
fn keep_audit(runtime: &Arc<Runtime>, config: &Path, text: &str, meters: &Meters) -> anyhow::Result<()> {
    if let Some(settings) = &runtime.snapshot().settings().audit {
        runtime.keep_audit(audit::open(config, settings, meters.audit())?);
        runtime.keep_texts(texts::open(config, settings, meters.texts())?);
        reload::note_file(runtime, "load", config, reload::hash_of(text));
    }
    Ok(())
}

/// Writes out the last entries of the audit.
async fn close_audit(runtime: &Runtime) {
    let Some(audit) = runtime.audit().map(Arc::clone) else {
        return;
    };
    let closed = tokio::task::spawn_blocking(move || audit.close(LAST_ENTRIES));
    if !closed.await.unwrap_or(false) {
        tracing::error!("the last entries of the audit could not be written");
    }
}

fn records_out(args: &ServeArgs) -> anyhow::Result<Box<dyn io::Write + Send>> {
    match &args.access_log {
        None => Ok(Box::new(io::stdout())),
        Some(path) => Ok(Box::new(open_log(path)?)),
    }
}

fn open_log(path: &Path) -> anyhow::Result<File> {
    let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
    file.with_context(|| format!("cannot open the access log {}", path.display()))
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// A number that differs from process to process. Where the system has none, zero: everything works, but ids may repeat.
fn random() -> u64 {
    let mut bytes = [0; 8];
    match getrandom::fill(&mut bytes) {
        Ok(()) => u64::from_le_bytes(bytes),
        Err(_) => 0,
    }
}

/// The signals that end the gateway.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn install() -> anyhow::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn wait_for_end(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
