//! How much is going on at the edge, for a drain's report and for metrics.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crossbeam_utils::CachePadded;

/// Live counts of one edge. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Activity(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    // The only thing all connections write on every request: on a cache line of its own.
    requests: CachePadded<AtomicUsize>,
    connections: AtomicUsize,
    accepted: AtomicU64,
    refused: AtomicU64,
}

impl Activity {
    /// Makes counts that start at zero.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Requests in flight: handed to the service, and their answer's body not yet at its end.
    #[must_use]
    pub fn requests(&self) -> usize {
        self.0.requests.load(Ordering::Relaxed)
    }

    /// Connections open.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.0.connections.load(Ordering::Relaxed)
    }

    /// Connections accepted so far, those closed at once included.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.0.accepted.load(Ordering::Relaxed)
    }

    /// Connections closed at once because their client had too many.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.0.refused.load(Ordering::Relaxed)
    }

    pub(super) fn request_began(&self) {
        self.0.requests.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn request_ended(&self) {
        self.0.requests.fetch_sub(1, Ordering::Relaxed);
    }

    pub(super) fn accepted_one(&self) {
        self.0.accepted.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn refused_one(&self) {
        self.0.refused.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn connection_opened(&self) {
        self.0.connections.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn connection_closed(&self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}
