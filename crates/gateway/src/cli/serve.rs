//! `fairlane serve`.

use std::{
    io::{self, IsTerminal as _},
    path::Path,
};

use fairlane_config::Overrides;
use fairlane_gateway::{
    edge::Workers,
    gateway::{Cut, Gateway},
    telemetry::Exporter,
};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::oneshot,
    task::AbortHandle,
};

use super::{
    Exit,
    load::{Form, Refusal, find, load},
    log,
    output::{fail, say},
    reload::Reloading,
};

/// Runs the gateway until it is asked to stop.
pub(super) fn serve(given: Option<&Path>, overrides: Overrides) -> Exit {
    let loaded = match find(given).and_then(|path| load(&path, overrides.clone())) {
        Ok(inspected) => inspected,
        Err(refusal) => {
            refuse(&refusal);
            return Exit::Configuration;
        }
    };
    let level = log::start(&loaded.config().log);
    log::warnings(loaded.config().warnings());
    let started = tokio::runtime::Runtime::new().and_then(|runtime| {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Ok((runtime, Workers::start(cores)?))
    });
    let (runtime, workers) = match started {
        Ok(started) => started,
        Err(error) => return fail(&error),
    };
    let served = runtime.block_on(async move {
        let exporter = Exporter::install().map_err(|error| fail(&error))?;
        let gateway = Gateway::bind(loaded.config(), exporter, workers).map_err(|error| fail(&error))?;
        let hang_up = signal(SignalKind::hangup()).map_err(|error| fail(&error))?;
        let reloading = Reloading::new(&loaded, overrides, gateway.reloader(), level);
        // What was read is not needed to serve.
        drop(loaded);
        run(gateway, tokio::spawn(reloading.go_on(hang_up)).abort_handle()).await
    });
    match served {
        Ok(cut) => {
            tell_cut(cut);
            Exit::Done
        }
        Err(exit) => exit,
    }
}

/// Serves until a signal asks to stop; a second one does not wait for the drain.
async fn run(gateway: Gateway, reloading: AbortHandle) -> Result<Cut, Exit> {
    let mut signals = Signals::listen().map_err(|error| fail(&error))?;
    announce(&gateway);
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = gateway.serve(async { stopped.await.unwrap_or(()) });
    let impatience = async {
        let name = signals.asked_to_stop().await;
        tracing::info!("{name}");
        // A gateway that goes has no use for another configuration.
        reloading.abort();
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

/// The signals that end a server.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn listen() -> io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Waits for one that asks to stop, and tells its name.
    async fn asked_to_stop(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}
