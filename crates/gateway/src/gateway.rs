//! The gateway as a whole: listeners, both planes, and the drain.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use fairlane_config::Validated;
use tokio::{net::TcpListener, sync::watch};
use tokio_util::sync::CancellationToken;

use crate::{
    admin::{Admin, AdminState},
    assemble::{AssembleError, Foundation, assemble, edge_settings},
    edge::{self, Activity, EdgeSettings, Workers},
    reload::Reloader,
    stack::Stack,
    telemetry::Exporter,
};

/// How often histograms are folded; what they collect in between is memory.
const UPKEEP: Duration = Duration::from_secs(1);
/// How long the answers to those who were held to the end of the drain may take to be written.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// A gateway that listens, and does not serve yet.
#[derive(Debug)]
pub struct Gateway {
    stack: Stack,
    reloader: Reloader,
    edge: watch::Receiver<EdgeSettings>,
    listener: TcpListener,
    admin: Option<(TcpListener, Admin)>,
    state: Arc<AdminState>,
    activity: Activity,
}

/// Why a gateway cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The parts do not fit.
    #[error(transparent)]
    Assemble(#[from] AssembleError),
    /// An address cannot be listened on.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// What a drain had to cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cut {
    /// Requests that were still held, and were answered 503.
    pub held: usize,
    /// Requests that were still running.
    pub running: usize,
}

impl Gateway {
    /// Builds a gateway whose metrics are those of `exporter`, and binds its listeners. Requests are served by `workers`. Must be
    /// called on a Tokio runtime.
    ///
    /// # Errors
    ///
    /// See [`StartError`].
    pub fn bind(config: &Validated, exporter: Exporter, workers: Workers) -> Result<Self, StartError> {
        let foundation = Foundation::lay(config)?;
        let stack = Stack::new(assemble(config, &foundation, None)?);
        let activity = Activity::new();
        let state = Arc::new(AdminState::new(stack.clone(), activity.clone(), exporter, config));
        let listen = |address| edge::bind(address).map_err(|source| StartError::Listen { address, source });
        let admin = match config.server.admin_listen {
            Some(address) => Some((listen(address)?, Admin::new(Arc::clone(&state)))),
            None => None,
        };
        let listener = listen(config.server.listen)?;
        let (changes, edge) = watch::channel(EdgeSettings { workers, ..edge_settings(config) });
        let reloader = Reloader::new(foundation, stack.clone(), Arc::clone(&state), changes);
        Ok(Self { stack, reloader, edge, listener, admin, state, activity })
    }

    /// What puts other configurations in force while the gateway serves.
    #[must_use]
    pub fn reloader(&self) -> Reloader {
        self.reloader.clone()
    }

    /// Where requests are taken.
    ///
    /// # Errors
    ///
    /// When the system does not know any more.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Where the admin plane is, if it is on.
    ///
    /// # Errors
    ///
    /// When the system does not know any more.
    pub fn admin_addr(&self) -> io::Result<Option<SocketAddr>> {
        self.admin.as_ref().map(|(listener, _)| listener.local_addr()).transpose()
    }

    /// Serves until `shutdown`, then drains: no new connections, and those who are held or running have the drain
    /// timeout to finish. Whoever is held after that is answered 503, and what still runs is cut.
    pub async fn serve(self, shutdown: impl Future<Output = ()>) -> Cut {
        let Self { stack, reloader, edge, listener, admin, state, activity } = self;
        let drain = CancellationToken::new();
        let end = CancellationToken::new();
        reloader.watch_health();
        let upkeep = tokio::spawn(keep_up(Arc::clone(&state), end.clone()));
        // The admin plane outlives the data plane: a drain is to be watched.
        let admin = admin.map(|(listener, admin)| {
            let settings = EdgeSettings::default().for_ever();
            tokio::spawn(edge::serve(listener, settings, admin, end.clone(), Activity::new()))
        });
        let serving = edge::serve(listener, edge, stack.clone(), drain.clone(), activity.clone());
        let mut serving = Box::pin(serving);
        let cut = tokio::select! {
            () = &mut serving => Cut::default(),
            () = shutdown => {
                state.draining();
                let drain_timeout = stack.parts().drain_timeout;
                let bound = fairlane_config::format_duration(drain_timeout);
                tracing::info!("draining for at most {bound}");
                drain.cancel();
                if tokio::time::timeout(drain_timeout, &mut serving).await.is_ok() {
                    Cut::default()
                } else {
                    let held = stack.parts().admission.close();
                    // Those who are answered now still have to be written to.
                    let last_words = if held > 0 { LAST_WORDS } else { Duration::ZERO };
                    let finished = tokio::time::timeout(last_words, &mut serving).await.is_ok();
                    Cut { held, running: if finished { 0 } else { activity.requests() } }
                }
            }
        };
        drop(serving);
        // What was given back last is still on its way to the store.
        let admission = Arc::clone(&stack.parts().admission);
        let settled = async {
            all_gone(&activity).await;
            admission.settled().await;
        };
        if tokio::time::timeout(LAST_WORDS, settled).await.is_err() {
            tracing::warn!(
                charges = admission.unsettled(),
                "the limit store did not take back what was left"
            );
        }
        end.cancel();
        if let Some(mut admin) = admin
            && tokio::time::timeout(LAST_WORDS, &mut admin).await.is_err()
        {
            admin.abort();
        }
        upkeep.abort();
        reloader.rest();
        cut
    }
}

/// Waits for those who were cut: each gives back what it was charged when it goes, which takes a moment.
async fn all_gone(activity: &Activity) {
    let mut ticks = tokio::time::interval(Duration::from_millis(1));
    while activity.requests() > 0 {
        ticks.tick().await;
    }
    // The last one may be going at this moment.
    ticks.tick().await;
}

/// Keeps the metrics' memory small and their gauges fresh.
async fn keep_up(state: Arc<AdminState>, end: CancellationToken) {
    let mut ticks = tokio::time::interval(UPKEEP);
    loop {
        tokio::select! {
            _ = ticks.tick() => state.upkeep(),
            () = end.cancelled() => return,
        }
    }
}
