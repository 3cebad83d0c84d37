//! The bound on the number of buckets, and what is counted about it.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crossbeam_utils::CachePadded;

use crate::{Dimension, Timestamp};

/// Room for a bounded number of buckets. Touched only where a bucket is made or forgotten.
#[derive(Debug)]
pub(super) struct Room {
    live: CachePadded<AtomicUsize>,
    max: usize,
    forgotten: AtomicU64,
    overflowed: Box<[AtomicU64]>,
    /// For each shard, a time before which none of its buckets is full. Taking from a bucket only makes that later,
    /// so most calls need not touch it. In one array, because all of them are looked through for a shard with room.
    earliest: Box<[AtomicU64]>,
    /// Whose turn is next.
    hand: CachePadded<AtomicUsize>,
}

impl Room {
    pub(super) fn new(max: usize, shards: usize) -> Self {
        Self {
            live: CachePadded::new(AtomicUsize::new(0)),
            max,
            forgotten: AtomicU64::new(0),
            overflowed: (0..=u8::MAX).map(|_| AtomicU64::new(0)).collect(),
            earliest: (0..shards).map(|_| AtomicU64::new(u64::MAX)).collect(),
            hand: CachePadded::new(AtomicUsize::new(0)),
        }
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

    /// Records when a bucket that was added to a shard, or may be full earlier than before, will be.
    pub(super) fn expect_full(&self, shard: usize, at: Timestamp) {
        self.earliest[shard].fetch_min(at.as_micros(), Ordering::Relaxed);
    }

    /// Records, under the lock of a shard that has just been looked through, when the next of its buckets is full.
    pub(super) fn expect_next(&self, shard: usize, at: Timestamp) {
        self.earliest[shard].store(at.as_micros(), Ordering::Relaxed);
    }

    /// The shard whose turn it is to be looked at, one after the other.
    pub(super) fn turn(&self) -> usize {
        self.hand.fetch_add(1, Ordering::Relaxed) % self.earliest.len()
    }

    /// The shards in which a bucket may be full at `now`, each search beginning elsewhere.
    pub(super) fn candidates(&self, now: Timestamp) -> impl Iterator<Item = usize> + '_ {
        let start = self.turn();
        let shards = (start..self.earliest.len()).chain(0..start);
        shards.filter(move |shard| self.earliest[*shard].load(Ordering::Relaxed) <= now.as_micros())
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
