//! Memory for bodies, which all requests share.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// So many bytes of bodies may be in memory at one time. Clones are the same room.
#[derive(Clone, Debug)]
pub struct Room(Arc<Counts>);

#[derive(Debug)]
struct Counts {
    most: AtomicUsize,
    used: AtomicUsize,
}

/// What one body takes of it. Dropping gives it back.
#[derive(Debug)]
pub(super) struct Taken {
    room: Room,
    bytes: usize,
}

impl Room {
    /// Room for `most` bytes.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self(Arc::new(Counts { most: AtomicUsize::new(most), used: AtomicUsize::new(0) }))
    }

    /// From now on there is room for `most` bytes. What is taken stays taken.
    pub fn resize(&self, most: usize) {
        self.0.most.store(most, Ordering::Relaxed);
    }

    /// How many bytes are taken now.
    #[must_use]
    pub fn used(&self) -> usize {
        self.0.used.load(Ordering::Relaxed)
    }

    /// Takes nothing yet.
    pub(super) fn none(&self) -> Taken {
        Taken { room: self.clone(), bytes: 0 }
    }
}

impl Taken {
    /// Takes `bytes` in all. False, and nothing more is taken, if there is no room for them.
    pub(super) fn grow(&mut self, bytes: usize) -> bool {
        let Counts { most, used } = &*self.room.0;
        let (more, most) = (bytes.saturating_sub(self.bytes), most.load(Ordering::Relaxed));
        let grown = used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
            used.checked_add(more).filter(|&used| used <= most)
        });
        if grown.is_ok() {
            self.bytes += more;
        }
        grown.is_ok()
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.room.0.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
