//! Backends that do as a test says.

mod raw;
mod reply;
mod serve;

use std::{
    collections::{BTreeSet, VecDeque},
    fmt,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use http::{HeaderMap, Method};
use serde_json::Value;
use tokio::{net::TcpListener, sync::watch, task::AbortHandle};

pub use self::{
    raw::RawBackend,
    reply::{Chunks, Gate, Reply},
};
use crate::wait::within;

/// A request as it reached a backend.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The method.
    pub method: Method,
    /// Path and query.
    pub path: String,
    /// The header fields.
    pub headers: HeaderMap,
    /// The whole body.
    pub body: Bytes,
    /// The number of its connection, from 1.
    pub connection: usize,
}

impl Seen {
    /// A header's value; empty when it is absent.
    #[must_use]
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// The body as JSON; null when it is none.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// A server on loopback that records every request and answers by script, by default with a small completion.
#[derive(Debug)]
pub struct Backend {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: AbortHandle,
}

type Handler = Arc<dyn Fn(&Seen) -> Reply + Send + Sync>;

struct Shared {
    state: Mutex<State>,
    /// Changes with every request and every connection.
    events: watch::Sender<()>,
}

struct State {
    seen: Vec<Seen>,
    opened: usize,
    closed: BTreeSet<usize>,
    next: VecDeque<Reply>,
    otherwise: Handler,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

impl Backend {
    /// Starts one on a free port.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let state = State {
            seen: Vec::new(),
            opened: 0,
            closed: BTreeSet::new(),
            next: VecDeque::new(),
            otherwise: Arc::new(Reply::completion),
        };
        let shared = Arc::new(Shared { state: Mutex::new(state), events: watch::Sender::new(()) });
        let accepting = tokio::spawn(serve::accept(listener, Arc::clone(&shared))).abort_handle();
        Self { address, shared, accepting }
    }

    /// Its base URL.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Answers the next request that has no answer yet with this.
    pub fn next(&self, reply: Reply) {
        self.shared.lock().next.push_back(reply);
    }

    /// Answers every request for which [`Backend::next`] left nothing.
    pub fn always(&self, answer: impl Fn(&Seen) -> Reply + Send + Sync + 'static) {
        self.shared.lock().otherwise = Arc::new(answer);
    }

    /// All requests so far, in the order in which their bodies were complete.
    #[must_use]
    pub fn seen(&self) -> Vec<Seen> {
        self.shared.lock().seen.clone()
    }

    /// How many requests have come.
    #[must_use]
    pub fn count(&self) -> usize {
        self.shared.lock().seen.len()
    }

    /// Waits for the `n`th request, counted from 1 since the start.
    pub async fn request(&self, n: usize) -> Seen {
        let what = format!("request {n} to reach the backend");
        self.event(&what, |state| state.seen.get(n - 1).cloned()).await
    }

    /// How many connections are open.
    #[must_use]
    pub fn connections(&self) -> usize {
        let state = self.shared.lock();
        state.opened - state.closed.len()
    }

    /// Waits until the gateway has closed the connection of that number.
    pub async fn closed(&self, connection: usize) {
        let what = format!("connection {connection} to the backend to be closed");
        self.event(&what, |state| state.closed.contains(&connection).then_some(())).await;
    }

    async fn event<T>(&self, what: &str, look: impl Fn(&State) -> Option<T>) -> T {
        let mut events = self.shared.events.subscribe();
        within(what, async {
            loop {
                events.mark_unchanged();
                if let Some(found) = look(&self.shared.lock()) {
                    return found;
                }
                // The sender lives as long as the backend.
                _ = events.changed().await;
            }
        })
        .await
    }
}

impl Drop for Backend {
    /// Closes the listener and all connections.
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state, and tells whoever waits.
    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let result = change(&mut self.lock());
        self.events.send_replace(());
        result
    }
}
