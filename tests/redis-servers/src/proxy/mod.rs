//! A proxy that spoils connections.

mod connection;
mod fault;

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use tokio::{net::TcpListener, sync::watch, task::JoinSet};

pub use self::fault::{Commands, Fault};
use crate::{port, wait::until};

/// Stands before one server, counts the commands that pass, and does to the connections what a test says.
///
/// It lives on the runtime that it was started on, and all its connections end with it.
#[derive(Debug)]
pub struct ChaosProxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    _tasks: JoinSet<()>,
}

#[derive(Debug)]
struct Shared {
    upstream: SocketAddr,
    fault: watch::Sender<Fault>,
    /// Changes when all connections are to be cut.
    cut: watch::Sender<()>,
    /// Commands that came in, by name.
    received: Mutex<HashMap<String, u64>>,
    forwarded: AtomicU64,
    open: AtomicUsize,
    made: AtomicU64,
}

impl ChaosProxy {
    /// Starts one before the server at an address, without a fault.
    pub async fn start(upstream: SocketAddr) -> Self {
        // A port that nobody else gets: `Fault::Refuse` gives it up for a while.
        let listener =
            until("a port for a proxy", async || TcpListener::bind(port::loopback(port::free())).await.ok())
                .await;
        let address = listener.local_addr().expect("a listener has an address");
        let shared = Arc::new(Shared {
            upstream,
            fault: watch::Sender::default(),
            cut: watch::Sender::default(),
            received: Mutex::default(),
            forwarded: AtomicU64::new(0),
            open: AtomicUsize::new(0),
            made: AtomicU64::new(0),
        });
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, Arc::clone(&shared)));
        Self { address, shared, _tasks: tasks }
    }

    /// Where it listens, on 127.0.0.1.
    #[must_use]
    pub const fn addr(&self) -> SocketAddr {
        self.address
    }

    /// `redis://127.0.0.1:<port>`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// Sets what is done from now on.
    pub fn set(&self, fault: Fault) {
        let refuse = fault == Fault::Refuse;
        self.shared.fault.send_replace(fault);
        if refuse {
            self.cut();
        }
    }

    /// Ends the fault.
    pub fn pass(&self) {
        self.set(Fault::Pass);
    }

    /// Cuts all open connections, in the middle of whatever goes on.
    pub fn cut(&self) {
        self.shared.cut.send_replace(());
    }

    /// How many commands have been passed on to the server, those that set up a connection included.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.shared.forwarded.load(Ordering::SeqCst)
    }

    /// How many commands of this name (in upper case) have come in, passed on or not.
    #[must_use]
    pub fn received(&self, command: &str) -> u64 {
        self.shared.received().get(command).copied().unwrap_or_default()
    }

    /// How many commands have come in, passed on or not.
    #[must_use]
    pub fn received_in_all(&self) -> u64 {
        self.shared.received().values().sum()
    }

    /// How many connections are open.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.shared.open.load(Ordering::SeqCst)
    }

    /// How many connections have been made in all.
    #[must_use]
    pub fn connections_made(&self) -> u64 {
        self.shared.made.load(Ordering::SeqCst)
    }
}

impl Shared {
    fn received(&self) -> MutexGuard<'_, HashMap<String, u64>> {
        self.received.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Accepts connections while there is no fault that refuses them.
async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let address = listener.local_addr().expect("a listener has an address");
    let mut listener = Some(listener);
    let mut fault = shared.fault.subscribe();
    let mut connections = JoinSet::new();
    loop {
        let refuse = *fault.borrow_and_update() == Fault::Refuse;
        if refuse {
            listener = None;
        } else if listener.is_none() {
            listener =
                Some(until("the proxy's own port", || async { TcpListener::bind(address).await.ok() }).await);
        }
        tokio::select! {
            changed = fault.changed() => changed.expect("this task shares the sender"),
            Some(_) = connections.join_next() => {}
            accepted = accepting(listener.as_ref()) => {
                // Whoever has gone again before being accepted is no concern of a test.
                if let Ok((client, _)) = accepted {
                    shared.made.fetch_add(1, Ordering::SeqCst);
                    connections.spawn(connection::serve(client, Arc::clone(&shared)));
                }
            }
        }
    }
}

async fn accepting(listener: Option<&TcpListener>) -> std::io::Result<(tokio::net::TcpStream, SocketAddr)> {
    match listener {
        Some(listener) => listener.accept().await,
        None => std::future::pending().await,
    }
}
