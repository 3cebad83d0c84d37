//! Threads that serve connections, each with a runtime of its own.
//!
//! A connection stays with one thread for its life, and so do the requests on it: nothing is stolen, no other thread is
//! woken, timers and sockets are nobody else's. In exchange, one connection cannot use more than one core, which matters
//! only to an HTTP/2 client that sends everything on a single connection. New connections go to the thread that has
//! the fewest.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{fmt, io, thread};

use crossbeam_utils::CachePadded;
use tokio::runtime::{Builder, Handle};
use tokio_util::sync::CancellationToken;

/// Where connections are served. Clones are the same threads.
///
/// The default is no threads at all: connections then run on the runtime that accepts them.
#[derive(Clone, Debug, Default)]
pub struct Workers(Option<Arc<Threads>>);

struct Threads {
    workers: Vec<Worker>,
    stop: CancellationToken,
    joins: Vec<thread::JoinHandle<()>>,
}

struct Worker {
    runtime: Handle,
    connections: Arc<CachePadded<AtomicUsize>>,
}

/// A connection's place on a worker. It counts there until this is dropped.
pub(super) struct Seat {
    runtime: Handle,
    connections: Option<Arc<CachePadded<AtomicUsize>>>,
}

// === impl Workers ===

impl Workers {
    /// Starts so many threads, at least one. They end when the last clone is dropped, and with them what they still serve.
    ///
    /// # Errors
    ///
    /// When the system has no thread, or no descriptor, left.
    pub fn start(count: usize) -> io::Result<Self> {
        let stop = CancellationToken::new();
        // What has been started by then ends with it, should a later one fail.
        let mut threads = Threads { workers: Vec::new(), stop, joins: Vec::new() };
        for number in 0..count.max(1) {
            let runtime = Builder::new_current_thread().enable_all().build()?;
            let connections = Arc::default();
            threads.workers.push(Worker { runtime: runtime.handle().clone(), connections });
            let stopped = threads.stop.clone().cancelled_owned();
            let thread = thread::Builder::new().name(format!("worker-{number}"));
            threads.joins.push(thread.spawn(move || runtime.block_on(stopped))?);
        }
        Ok(Self(Some(Arc::new(threads))))
    }

    /// A place for one more connection, on the worker with the fewest.
    ///
    /// # Panics
    ///
    /// Outside a Tokio runtime, if there are no threads.
    pub(super) fn seat(&self) -> Seat {
        let fewest = |worker: &&Worker| worker.connections.load(Ordering::Relaxed);
        match self.0.as_ref().and_then(|threads| threads.workers.iter().min_by_key(fewest)) {
            Some(worker) => {
                worker.connections.fetch_add(1, Ordering::Relaxed);
                Seat { runtime: worker.runtime.clone(), connections: Some(Arc::clone(&worker.connections)) }
            }
            None => Seat { runtime: Handle::current(), connections: None },
        }
    }
}

// === impl Seat ===

impl Seat {
    /// The runtime of the place: sockets are to be made, and tasks to be spawned there.
    pub(super) fn runtime(&self) -> &Handle {
        &self.runtime
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if let Some(connections) = &self.connections {
            connections.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

// === impl Threads ===

impl fmt::Debug for Threads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Threads").field("count", &self.workers.len()).finish_non_exhaustive()
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.stop.cancel();
        let this = thread::current().id();
        for join in self.joins.drain(..) {
            // The last clone may be dropped by what a worker served.
            if join.thread().id() != this {
                // A worker's panic has been told already.
                drop(join.join());
            }
        }
    }
}
