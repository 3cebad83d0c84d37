//! `fairlane serve`.

use std::{
    io::{self, IsTerminal as _},
    path::Path,
};

use fairlane_config::{
    Overrides,
    model::{Log, LogFormat, LogLevel},
};
use fairlane_gateway::{
    edge::Workers,
    gateway::{Cut, Gateway},
    telemetry::Exporter,
};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::oneshot,
};
use tracing_subscriber::filter::LevelFilter;

use super::{
    Exit,
    load::{Form, Refusal, find, load},
    output::{fail, say},
};

/// Runs the gateway until it is asked to stop.
pub(super) fn serve(given: Option<&Path>, overrides: Overrides) -> Exit {
    let config = match find(given).and_then(|path| load(&path, overrides)) {
        Ok(inspected) => inspected.into_config(),
        Err(refusal) => {
            refuse(&refusal);
            return Exit::Configuration;
        }
    };
    start_log(&config.log);
    for warning in config.warnings().redacted() {
        tracing::warn!("{warning}");
    }
    let started = tokio::runtime::Runtime::new().and_then(|runtime| {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Ok((runtime, Workers::start(cores)?))
    });
    let (runtime, workers) = match started {
        Ok(started) => started,
        Err(error) => return fail(&error),
    };
    let served = runtime.block_on(async {
        let exporter = Exporter::install().map_err(|error| fail(&error))?;
        let gateway = Gateway::bind(&config, exporter).map_err(|error| fail(&error))?.served_by(workers);
        let mut signals = Signals::listen().map_err(|error| fail(&error))?;
        announce(&gateway);
        let (stop, stopped) = oneshot::channel::<()>();
        let serving = gateway.serve(async { stopped.await.unwrap_or(()) });
        let impatience = async {
            let name = signals.asked_to_stop().await;
            tracing::info!("{name}");
            _ = stop.send(());
            signals.asked_to_stop().await
        };
        tokio::select! {
            cut = serving => Ok(cut),
            name = impatience => {
                tracing::warn!("{name} again: stopping at once");
                Err(Exit::Failed)
            }
        }
    });
    match served {
        Ok(cut) => {
            tell_cut(cut);
            Exit::Done
        }
        Err(exit) => exit,
    }
}

/// Tells why there is no configuration: to a terminal all of it, to what becomes a log no word of the file, since no name of
/// a tenant belongs there.
fn refuse(refusal: &Refusal) {
    match refusal {
        Refusal::Report(report) if !io::stderr().is_terminal() => {
            report.redacted().for_each(say);
            say("`fairlane check` tells more");
        }
        refusal => refusal.tell(Form::Full),
    }
}

fn announce(gateway: &Gateway) {
    match (gateway.local_addr(), gateway.admin_addr()) {
        (Ok(listen), Ok(Some(admin))) => tracing::info!(%listen, %admin, "serving"),
        (Ok(listen), _) => tracing::info!(%listen, "serving, without an admin plane"),
        (Err(error), _) => tracing::info!(%error, "serving"),
    }
}

fn tell_cut(cut: Cut) {
    if cut == Cut::default() {
        tracing::info!("drained");
    } else {
        let Cut { held, running } = cut;
        tracing::warn!(held, running, "the drain timeout cut requests");
    }
}

/// The signals that mean something to a server.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

impl Signals {
    fn listen() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for one that asks to stop, and tells its name.
    async fn asked_to_stop(&mut self) -> &'static str {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return "SIGTERM",
                _ = self.interrupt.recv() => return "SIGINT",
                // Its default would end the process of an operator who means to reload.
                _ = self.hang_up.recv() => tracing::warn!("SIGHUP: reloading is not supported; restart instead"),
            }
        }
    }
}

fn start_log(log: &Log) {
    let level = match log.level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    let subscriber = tracing_subscriber::fmt().with_max_level(level).with_writer(io::stderr);
    match log.format {
        LogFormat::Json => subscriber.json().init(),
        _ => subscriber.with_ansi(io::stderr().is_terminal()).init(),
    }
}
