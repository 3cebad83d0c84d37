//! Whether a request has come as far as a backend.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

const SEEN: u8 = 1;
const ACCEPTED: u8 = 2;

/// Tells, also after the request's future was dropped, whether a backend may have seen a part of the request, and whether
/// one has accepted it. One that reached none is given its charges back.
#[derive(Debug, Clone, Default)]
pub struct Reached(Arc<AtomicU8>);

impl Reached {
    /// Whether it has. Once true it stays true.
    pub fn get(&self) -> bool {
        self.0.load(Ordering::Acquire) >= SEEN
    }

    /// A backend may see it from here on.
    pub fn note(&self) {
        // Asked several times per request, from another thread than the reader's.
        if self.0.load(Ordering::Relaxed) < SEEN {
            self.0.fetch_max(SEEN, Ordering::Release);
        }
    }

    /// Whether a backend has answered with a status of success, and so has worked for it.
    pub fn is_accepted(&self) -> bool {
        self.0.load(Ordering::Acquire) >= ACCEPTED
    }

    /// A backend has answered with a status of success.
    pub(crate) fn note_accepted(&self) {
        self.0.fetch_max(ACCEPTED, Ordering::Release);
    }
}
