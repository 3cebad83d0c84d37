//! One shard of the map: a small table, and the hand that forgets full buckets.

use super::hash::KeyHasher;
use super::table::{Entry, Table};
use crate::bucket::Bucket;
use crate::key::BucketKey;
use crate::{Quota, Timestamp};

/// Positions of a table too small to give memory back from.
const SMALL: usize = 16;

/// Calls without an insertion between two sweeps: seldom enough not to be felt, since a sweep reads memory that nobody
/// else has asked for.
const QUIET_CALLS: u16 = 512;

/// A part of the map behind one lock.
#[derive(Debug, Default)]
pub(super) struct Shard {
    table: Table,
    /// The next position that the sweep looks at.
    hand: usize,
    /// The latest time at which a bucket was forgotten. New buckets start no earlier: else a clock that steps back
    /// would hand out a second time what had flowed into a forgotten one.
    horizon: Timestamp,
    /// Its place among the shards.
    number: u32,
    /// Calls since the last sweep that was not caused by an insertion.
    quiet: u16,
    /// Whether the hand has come round since that was last asked.
    round: bool,
}

impl Shard {
    pub(super) fn new(number: u32) -> Self {
        Self { number, ..Self::default() }
    }

    pub(super) const fn number(&self) -> usize {
        self.number as usize
    }

    #[inline]
    pub(super) fn find(&self, hash: u64, key: &BucketKey) -> Option<usize> {
        self.table.find(hash, key)
    }

    #[inline]
    pub(super) fn touch(&self, hash: u64) -> u16 {
        self.table.touch(hash)
    }

    #[inline]
    pub(super) fn get(&self, position: usize) -> Option<&Entry> {
        self.table.get(position)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, position: usize) -> Option<&mut Entry> {
        self.table.get_mut(position)
    }

    /// What a bucket looks like that this shard does not know.
    pub(super) fn fresh(&self, quota: Quota, now: Timestamp) -> Bucket {
        Bucket::full(quota, now.max(self.horizon))
    }

    /// Adds an entry that is not there. Positions are void after it.
    pub(super) fn insert(&mut self, hash: u64, entry: Entry, hasher: &KeyHasher) {
        self.table.insert(hash, entry, hasher);
    }

    /// Looks at the next `steps` positions and forgets the full buckets it finds, except pinned ones and those to
    /// `keep`. Returns how many; if any, positions are void.
    pub(super) fn sweep(&mut self, steps: usize, now: Timestamp, keep: impl Fn(&Entry) -> bool) -> usize {
        let mut forgotten = 0;
        for _ in 0..steps {
            if self.hand >= self.table.positions() {
                self.hand = 0;
                self.round = true;
            }
            let idle = |entry: &Entry| entry.pin.is_none() && entry.bucket.is_full(now) && !keep(entry);
            if self.table.get(self.hand).is_some_and(idle) {
                // Another entry may have moved up to this position, and is looked at next.
                self.table.remove(self.hand);
                forgotten += 1;
            } else {
                self.hand += 1;
            }
        }
        if forgotten > 0 {
            self.horizon = self.horizon.max(now);
        }
        forgotten
    }

    /// Forgets all full buckets, with the same exceptions. Returns how many, and when the next can be full.
    pub(super) fn sweep_all(&mut self, now: Timestamp, keep: impl Fn(&Entry) -> bool) -> (usize, Timestamp) {
        // Twice as many steps as entries and positions, together, can take: also what wraps around is met.
        let steps = 2 * self.table.positions() + self.table.len();
        let forgotten = self.sweep(steps, now, keep);
        let left = self.table.iter().filter(|entry| entry.pin.is_none());
        let next = left.map(|entry| entry.bucket.full_at()).min();
        (forgotten, next.unwrap_or(Timestamp::NEVER))
    }

    /// How many positions a sweep of all of them looks at.
    pub(super) const fn positions(&self) -> usize {
        self.table.positions()
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

    /// Gives memory back after a flood, if the hand has come round and few buckets are left.
    pub(super) fn shrink(&mut self, hasher: &KeyHasher) {
        let round = std::mem::take(&mut self.round);
        let positions = self.table.positions();
        if round && positions > SMALL && self.table.len() < positions / 8 {
            self.table.resize(self.table.len() * 2 + 1, hasher);
            self.hand = 0;
        }
    }

    /// Bytes of the table.
    pub(super) const fn allocated(&self) -> usize {
        self.table.allocated()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Dimension;
    use crate::key::Pin;

    fn spent(now: u64) -> Bucket {
        Bucket::full(Quota::LEAST, Timestamp::from_micros(now)).take(1)
    }

    fn key(digest: u128) -> BucketKey {
        BucketKey::new(Dimension::new(0), digest)
    }

    #[test]
    fn a_sweep_spares_what_is_not_full_what_is_pinned_and_what_is_in_use() {
        let hasher = KeyHasher::new();
        let mut shard = Shard::new(3);
        let day = 86_400_000_000;
        for (digest, bucket) in [(1, spent(0)), (2, spent(5)), (3, spent(0))] {
            shard.insert(hasher.hash(&key(digest)), Entry::new(&key(digest), bucket), &hasher);
        }
        shard.insert(hasher.hash(&key(4)), Entry::forwarding(&key(4), Pin::MIN), &hasher);
        let (forgotten, next) = shard.sweep_all(Timestamp::from_micros(day), |entry| entry.is(&key(3)));
        assert_eq!(
            (forgotten, next),
            (1, Timestamp::from_micros(day)),
            "the one in use is full, and so the next"
        );
        assert!(shard.find(hasher.hash(&key(1)), &key(1)).is_none());
        assert_eq!(
            shard.sweep_all(Timestamp::from_micros(day), |_| false),
            (1, Timestamp::from_micros(day + 5))
        );
        assert_eq!(shard.sweep_all(Timestamp::from_micros(day + 5), |_| false), (1, Timestamp::NEVER));
        assert!(shard.find(hasher.hash(&key(4)), &key(4)).is_some());
        assert_eq!(shard.fresh(Quota::LEAST, Timestamp::ZERO).at(), Timestamp::from_micros(day + 5));
    }
}
