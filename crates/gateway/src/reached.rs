//! Whether a request has come as far as a backend.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Tells, also after the request's future was dropped, whether a backend may have seen a part of the request. One
/// that reached none is given its charges back.
#[derive(Debug, Clone, Default)]
pub struct Reached(Arc<AtomicBool>);

impl Reached {
    /// Whether it has. Once true it stays true.
    pub fn get(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// A backend may see it from here on.
    pub fn note(&self) {
        // Asked several times per request, from another thread than the reader's.
        if !self.0.load(Ordering::Relaxed) {
            self.0.store(true, Ordering::Release);
        }
    }
}
