//! The bound on the number of buckets, and what is counted about it.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crossbeam_utils::CachePadded;

use crate::Dimension;

/// Room for a bounded number of buckets. Touched only where a bucket is made or forgotten.
#[derive(Debug)]
pub(super) struct Room {
    live: CachePadded<AtomicUsize>,
    max: usize,
    forgotten: AtomicU64,
    overflowed: Box<[AtomicU64]>,
}

impl Room {
    pub(super) fn new(max: usize) -> Self {
        let overflowed = (0..=u8::MAX).map(|_| AtomicU64::new(0)).collect();
        Self { live: CachePadded::new(AtomicUsize::new(0)), max, forgotten: AtomicU64::new(0), overflowed }
    }

    /// Takes a place, if there is one. Exact: the bound is never passed, not even for a moment.
    pub(super) fn reserve(&self) -> bool {
        let more = |live| (live < self.max).then_some(live + 1);
        self.live.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    /// Gives back a reserved place that was not used.
    pub(super) fn release(&self) {
        self.live.fetch_sub(1, Ordering::Relaxed);
    }

    /// Gives back the places of buckets that were forgotten.
    pub(super) fn forget(&self, count: usize) {
        if count > 0 {
            self.live.fetch_sub(count, Ordering::Relaxed);
            self.forgotten.fetch_add(count as u64, Ordering::Relaxed);
        }
    }

    pub(super) fn count_overflow(&self, dimension: Dimension) {
        self.overflowed[usize::from(dimension.number())].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn has_place(&self) -> bool {
        self.live() < self.max
    }

    pub(super) fn live(&self) -> usize {
        self.live.load(Ordering::Relaxed)
    }

    pub(super) fn forgotten(&self) -> u64 {
        self.forgotten.load(Ordering::Relaxed)
    }

    pub(super) fn overflowed(&self, dimension: Dimension) -> u64 {
        self.overflowed[usize::from(dimension.number())].load(Ordering::Relaxed)
    }

    pub(super) fn overflowed_in_all(&self) -> u64 {
        self.overflowed.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }
}
