//! The log of the gateway's own life, to standard error. Access records go elsewhere: see [`crate::RecordSink`].

use tracing_subscriber::filter::LevelFilter;

use crate::LogFormat;

/// How much is said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Level {
    /// An operator must act.
    Error,
    /// Something went wrong and was made good.
    Warn,
    /// The life of the gateway and its endpoints.
    #[default]
    Info,
    /// Every call.
    Debug,
    /// Everything.
    Trace,
}

impl Level {
    const fn filter(self) -> LevelFilter {
        match self {
            Self::Error => LevelFilter::ERROR,
            Self::Warn => LevelFilter::WARN,
            Self::Info => LevelFilter::INFO,
            Self::Debug => LevelFilter::DEBUG,
            Self::Trace => LevelFilter::TRACE,
        }
    }
}

/// Sends the log of this process to standard error. Call it once, first thing; a second call changes nothing.
pub fn start_log(format: LogFormat, level: Level) {
    let log = tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_max_level(level.filter())
        .with_target(false);
    let started = match format {
        LogFormat::Json => log
            .json()
            .flatten_event(true)
            .with_current_span(false)
            .with_span_list(false)
            .try_init(),
        LogFormat::Text => log.try_init(),
    };
    if started.is_err() {
        tracing::debug!("the log was started before");
    }
}
