//! One shard of the map: a small table, and the hand that forgets full buckets.

use hashbrown::HashTable;

use super::hash::KeyHasher;
use crate::bucket::Bucket;
use crate::key::{BucketKey, Dimension, Pin};
use crate::{Quota, Timestamp};

/// Smallest table worth giving back memory from.
const SMALL: usize = 16;

/// Calls without an insertion between two sweeps: seldom enough not to be felt, since a sweep reads memory that nobody
/// else has asked for.
const QUIET_CALLS: u32 = 512;

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
    /// Whether it has come round since that was last asked.
    round: bool,
    /// Decisions since the last sweep that was not caused by an insertion.
    quiet: u32,
    /// The latest time at which a bucket was forgotten. New buckets start no earlier: else a clock that steps back
    /// would hand out a second time what had flowed into a forgotten one.
    horizon: Timestamp,
    /// Its place among the shards.
    number: usize,
}

impl Shard {
    pub(super) fn new(number: usize) -> Self {
        Self { number, ..Self::default() }
    }

    pub(super) const fn number(&self) -> usize {
        self.number
    }

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
        // Some free room must come of it, or the next renewal would follow too soon.
        if self.table.len() > room - room / 32 {
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
            self.hand = index + 1;
            if self.hand >= positions {
                self.hand = 0;
                self.round = true;
            }
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

    /// Forgets all full buckets except those `in_use`. Returns how many, and when the next can be full.
    pub(super) fn sweep_all(&mut self, now: Timestamp, in_use: impl Fn(usize) -> bool) -> (usize, Timestamp) {
        let forgotten = self.sweep(self.table.num_buckets(), now, in_use);
        let left = self.table.iter().filter(|entry| entry.pin.is_none());
        let next = left.map(|entry| entry.bucket.full_at()).min();
        (forgotten, next.unwrap_or(Timestamp::NEVER))
    }

    /// How many positions a sweep of all of them looks at.
    pub(super) fn positions(&self) -> usize {
        self.table.num_buckets()
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
        let positions = self.table.num_buckets();
        if round && positions > SMALL && self.table.len() < positions / 8 {
            self.rebuild(self.table.len() * 2, hasher);
        }
    }

    /// Bytes of the table.
    pub(super) fn allocated(&self) -> usize {
        self.table.allocation_size()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spent(now: u64) -> Bucket {
        Bucket::full(Quota::LEAST, Timestamp::from_micros(now)).take(1)
    }

    fn key(digest: u128) -> BucketKey {
        BucketKey::new(Dimension::new(0), digest)
    }

    /// With as many removals as insertions a table keeps its size, where `hashbrown` by itself would double it.
    #[test]
    fn coming_and_going_does_not_grow_the_table() {
        let hasher = KeyHasher::new();
        let mut shard = Shard::new(0);
        let add = |shard: &mut Shard, digest| {
            let key = key(digest);
            shard.insert(hasher.hash(&key), Entry::new(&key, spent(0)), &hasher);
        };
        (0..800).for_each(|digest| add(&mut shard, digest));
        let allocated = shard.allocated();
        for digest in 800..40_000 {
            let gone = key(digest - 800);
            let index = shard.find(hasher.hash(&gone), &gone).unwrap();
            shard.table.get_bucket_entry(index).unwrap().remove();
            add(&mut shard, digest);
        }
        assert_eq!(shard.allocated(), allocated);
        assert!((39_200..40_000).all(|digest| shard.find(hasher.hash(&key(digest)), &key(digest)).is_some()));
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
        let used = shard.find(hasher.hash(&key(3)), &key(3)).unwrap();
        let (forgotten, next) = shard.sweep_all(Timestamp::from_micros(day), |index| index == used);
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
