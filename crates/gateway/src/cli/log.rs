//! The log of a gateway.

use std::io::{self, IsTerminal as _};

use fairlane_config::{
    Report,
    model::{Log, LogFormat, LogLevel},
};
use tracing_subscriber::{
    Layer as _, Registry, filter::LevelFilter, fmt, layer::SubscriberExt as _, reload,
    util::SubscriberInitExt as _,
};

/// Changes the level of the log while it is written.
pub(super) struct Level(reload::Handle<LevelFilter, Registry>);

impl Level {
    /// Writes from here on what is at this level or above.
    pub(super) fn set(&self, level: LogLevel) {
        // It fails only where the log is gone.
        _ = self.0.reload(filter(level));
    }
}

/// Starts the log of this process, on standard error.
pub(super) fn start(log: &Log) -> Level {
    let (level, handle) = reload::Layer::new(filter(log.level));
    let lines = fmt::layer().with_writer(io::stderr);
    let lines = match log.format {
        LogFormat::Json => lines.json().boxed(),
        _ => lines.with_ansi(io::stderr().is_terminal()).boxed(),
    };
    tracing_subscriber::registry().with(level).with(lines).init();
    Level(handle)
}

const fn filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    }
}

/// Logs the warnings of a configuration that is in force.
pub(super) fn warnings(report: &Report) {
    for warning in report.redacted() {
        tracing::warn!("{warning}");
    }
}
