//! One shard of the map: a small table, and the hand that forgets full buckets.

use hashbrown::HashTable;

use super::hash::KeyHasher;
use crate::bucket::Bucket;
use crate::key::{BucketKey, Dimension, Pin};
use crate::{Quota, Timestamp};

/// Smallest table worth giving back memory from.
const SMALL: usize = 64;

/// Calls without an insertion between two sweeps.
const QUIET_CALLS: u32 = 64;

/// One bucket in the map: a cache line, so that finding it costs one.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Entry {
    digest: [u64; 2],
    pub(super) bucket: Bucket,
    dimension: Dimension,
    /// Set where the bucket lives in a slot of its own. Such an entry is never forgotten.
    pub(super) pin: Option<Pin>,
}

impl Entry {
    pub(super) const fn new(key: &BucketKey, bucket: Bucket) -> Self {
        Self { digest: key.words(), bucket, dimension: key.dimension(), pin: None }
    }

    /// What stands in the map for a bucket that lives in a slot.
    pub(super) const fn forwarding(key: &BucketKey, pin: Pin) -> Self {
        let unused = Bucket::full(Quota::LEAST, Timestamp::ZERO);
        Self { pin: Some(pin), ..Self::new(key, unused) }
    }

    #[inline]
    fn is(&self, key: &BucketKey) -> bool {
        self.digest == key.words() && self.dimension == key.dimension()
    }

    const fn key_parts(&self) -> ([u64; 2], Dimension) {
        (self.digest, self.dimension)
    }
}

/// A part of the map behind one lock.
#[derive(Debug, Default)]
pub(super) struct Shard {
    table: HashTable<Entry>,
    /// The next table position that the sweep looks at.
    hand: usize,
    /// Decisions since the last sweep that was not caused by an insertion.
    quiet: u32,
    /// The latest time at which a bucket was forgotten. New buckets start no earlier: else a clock that steps back
    /// would hand out a second time what had flowed into a forgotten one.
    horizon: Timestamp,
}

impl Shard {
    #[inline]
    pub(super) fn find(&self, hash: u64, key: &BucketKey) -> Option<usize> {
        self.table.find_bucket_index(hash, |entry| entry.is(key))
    }

    #[inline]
    pub(super) fn find_mut(&mut self, hash: u64, key: &BucketKey) -> Option<&mut Entry> {
        self.table.find_mut(hash, |entry| entry.is(key))
    }

    #[inline]
    pub(super) fn get(&self, index: usize) -> Option<&Entry> {
        self.table.get_bucket(index)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, index: usize) -> Option<&mut Entry> {
        self.table.get_bucket_mut(index)
    }

    /// What a bucket looks like that this shard does not know.
    pub(super) fn fresh(&self, quota: Quota, now: Timestamp) -> Bucket {
        Bucket::full(quota, now.max(self.horizon))
    }

    /// Adds an entry that is not there. Moves the others only when the table grows or has been worn out by
    /// removals; indices are void after it.
    pub(super) fn insert(&mut self, hash: u64, entry: Entry, hasher: &KeyHasher) {
        if self.table.len() == self.table.capacity() {
            self.renew(hasher);
        }
        let rehash = |entry: &Entry| hasher.hash_parts(entry.key_parts());
        self.table.insert_unique(hash, entry, rehash);
    }

    /// Removals leave marks which use up a table's room. One that is out of room for that reason alone is built
    /// anew at the same size, where it would else double.
    fn renew(&mut self, hasher: &KeyHasher) {
        let room = self.table.num_buckets() / 8 * 7;
        // A sixteenth of free room must come of it, or the next renewal would follow too soon.
        if self.table.len() > room / 16 * 15 {
            return;
        }
        self.rebuild(room, hasher);
    }

    fn rebuild(&mut self, capacity: usize, hasher: &KeyHasher) {
        let mut table = HashTable::with_capacity(capacity);
        for entry in self.table.drain() {
            let hash = hasher.hash_parts(entry.key_parts());
            table.insert_unique(hash, entry, |entry| hasher.hash_parts(entry.key_parts()));
        }
        self.table = table;
        self.hand = 0;
    }

    /// Looks at the next `steps` positions and forgets the full buckets among them, except those `in_use`, whose
    /// indices somebody holds. Returns how many.
    pub(super) fn sweep(&mut self, steps: usize, now: Timestamp, in_use: impl Fn(usize) -> bool) -> usize {
        let positions = self.table.num_buckets();
        let mut forgotten = 0;
        for _ in 0..steps.min(positions) {
            let index = self.hand;
            self.hand = if index + 1 >= positions { 0 } else { index + 1 };
            let idle = |entry: &Entry| entry.pin.is_none() && entry.bucket.is_full(now);
            if self.table.get_bucket(index).is_some_and(idle)
                && !in_use(index)
                && let Ok(entry) = self.table.get_bucket_entry(index)
            {
                entry.remove();
                forgotten += 1;
            }
        }
        if forgotten > 0 {
            self.horizon = self.horizon.max(now);
        }
        forgotten
    }

    /// Counts a call that inserted nothing; every so often one is due to do a little sweeping.
    #[inline]
    pub(super) const fn sweep_is_due(&mut self) -> bool {
        self.quiet += 1;
        let due = self.quiet == QUIET_CALLS;
        if due {
            self.quiet = 0;
        }
        due
    }

    /// Gives memory back after a flood, when the hand has come round and few buckets are left.
    pub(super) fn shrink(&mut self, hasher: &KeyHasher) {
        if self.hand == 0
            && self.table.num_buckets() > SMALL
            && self.table.len() < self.table.num_buckets() / 8
        {
            self.rebuild(self.table.len() * 2, hasher);
        }
    }

    /// Bytes of the table.
    pub(super) fn allocated(&self) -> usize {
        self.table.allocation_size()
    }
}
