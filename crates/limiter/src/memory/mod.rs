//! Buckets in this process's memory: sharded, bounded, without an await.

mod few;
mod hash;
mod lock;
mod one;
mod room;
mod shard;
mod slots;
mod table;
mod transaction;

use std::fmt;

use parking_lot::Mutex;

use self::hash::{KeyHasher, shard_of};
use self::lock::lock;
use self::room::Room;
use self::shard::Shard;
use self::slots::Slots;
use self::table::Entry;
use self::transaction::{Intent, Transaction};
use crate::bucket::Bucket;
use crate::decision;
use crate::{
    Balances, BucketKey, Charge, Clock, Decision, Dimension, Settlement, Store, StoreError, SystemClock,
    Timestamp,
};

/// Table positions in a shard of a store that is at its bound. Small enough that growing one, the longest thing a
/// decision ever does, takes a fraction of a millisecond.
const SHARD_POSITIONS: usize = 4_096;

/// Positions looked at by a sweep that no insertion causes.
const STEPS_WHEN_QUIET: usize = 8;

/// Fewer shards than this are not enough for many threads.
const MIN_SHARDS: usize = 64;

/// How much a [`MemoryStore`] may keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryLimits {
    /// Buckets that are not full and so cannot be forgotten; at least 1. Default 1,000,000, which takes some
    /// 82 MB. Beyond it, new identities share one overflow bucket per dimension.
    pub max_buckets: usize,
    /// Buckets that can be [pinned](MemoryStore::pin), for as long as the store lives. Default 1,024. They count
    /// as buckets, too.
    pub max_pinned: usize,
}

impl Default for MemoryLimits {
    fn default() -> Self {
        Self { max_buckets: 1_000_000, max_pinned: 1_024 }
    }
}

/// What a [`MemoryStore`] keeps and has done, for metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryStats {
    /// Buckets in the store; some of them may have filled up and not been forgotten yet.
    pub buckets: usize,
    /// Buckets among them with a place of their own.
    pub pinned: usize,
    /// Buckets forgotten because they were full, since the store was made.
    pub forgotten: u64,
    /// Charges and settlements served by an overflow bucket, since the store was made.
    pub overflowed: u64,
    /// Bytes allocated for the buckets.
    pub allocated_bytes: usize,
}

/// A store in this process's memory.
///
/// - A decision locks the shards of its buckets in a fixed order, so it is atomic for everybody else and cannot
///   deadlock. It allocates nothing if its buckets exist and it has no more than eight charges.
/// - Storage is bounded by [`MemoryLimits::max_buckets`]. Full buckets are forgotten a few at a time, by the calls
///   that add others; a bucket that is not full never is. When all room is taken by such buckets, identities not
///   yet known share one overflow bucket per dimension until there is room again.
/// - No call does more work at once than moving one shard, some three thousand buckets.
///
/// # Examples
///
/// ```
/// use fairlane_limiter::{
///     BucketKey, Charge, Decision, Dimension, MemoryLimits, MemoryStore, Quota, SystemClock,
/// };
///
/// # fn main() -> Result<(), fairlane_limiter::QuotaError> {
/// const USER: Dimension = Dimension::new(0);
/// const MODEL: Dimension = Dimension::new(1);
///
/// let store = MemoryStore::new(MemoryLimits::default(), SystemClock::new());
/// let model = store.pin(BucketKey::new(MODEL, 1));
/// let user = BucketKey::new(USER, 0x5eed);
///
/// let charges = [
///     Charge::new(user, Quota::per_minute(1)?, 1),
///     Charge::new(model, Quota::per_second(50)?, 1),
/// ];
/// assert!(store.take_now(&charges).is_granted());
///
/// let Decision::Denied(denied) = store.take_now(&charges) else { panic!("the user had one") };
/// assert_eq!(denied.refusals().map(|refusal| refusal.index).collect::<Vec<_>>(), [0]);
/// assert_eq!(denied.retry_after().as_secs_f64().ceil(), 60.0);
/// # Ok(())
/// # }
/// ```
pub struct MemoryStore<C = SystemClock> {
    buckets: Buckets,
    clock: C,
}

/// A shard in a cache line of its own. (Two lines, as `crossbeam` pads for the sake of a prefetcher that fetches them in
/// pairs, would crowd the nearest cache when there are hundreds of shards.)
#[derive(Debug)]
#[repr(align(64))]
struct Padded<T>(T);

impl<T> std::ops::Deref for Padded<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// Everything but the clock.
struct Buckets {
    hasher: KeyHasher,
    shard_count: u32,
    shards: Box<[Padded<Mutex<Shard>>]>,
    slots: Slots,
    room: Room,
}

impl<C: Clock> MemoryStore<C> {
    /// An empty store, in which every bucket is full.
    #[must_use]
    pub fn new(limits: MemoryLimits, clock: C) -> Self {
        Self { buckets: Buckets::new(limits), clock }
    }

    /// Takes all charges if every bucket holds its charge, else none; see [`Store::take`].
    #[inline]
    pub fn take_now(&self, charges: &[Charge]) -> Decision {
        self.buckets.take(charges, self.clock.now())
    }

    /// Takes as [`take_now`](Self::take_now) does, at a time that the caller has just read from the same clock.
    #[inline]
    pub fn take_at(&self, charges: &[Charge], now: Timestamp) -> Decision {
        self.buckets.take(charges, now)
    }

    /// Decides as [`take_now`](Self::take_now) would and takes nothing; see [`Store::peek`].
    pub fn peek_now(&self, charges: &[Charge]) -> Decision {
        self.buckets.peek(charges, self.clock.now())
    }

    /// Applies all settlements and tells the balances after them; see [`Store::settle`].
    pub fn settle_now(&self, settlements: &[Settlement]) -> Balances {
        self.buckets.settle(settlements, self.clock.now())
    }

    /// Gives the bucket a place of its own, and returns its key with that place in it.
    ///
    /// For buckets that nearly every decision charges (one for everybody, one per model): with the returned key
    /// there is no table to search and no lock shared with other buckets. The key as it was still finds the same
    /// bucket, with its content. Pinning a key again returns the same place.
    ///
    /// A place is never given back. When there are no more ([`MemoryLimits::max_pinned`]) or the store is full,
    /// the key is returned as it was, and works as it did.
    #[must_use = "the returned key is the fast one"]
    pub fn pin(&self, key: BucketKey) -> BucketKey {
        self.buckets.pin(key)
    }

    /// How many buckets the store keeps; some may have filled up and not been forgotten yet.
    #[must_use]
    pub fn len(&self) -> usize {
        self.buckets.room.live()
    }

    /// Whether it keeps none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many charges and settlements were served by an overflow bucket since the store was made.
    #[must_use]
    pub fn overflowed(&self) -> u64 {
        self.buckets.room.overflowed_in_all()
    }

    /// How many of them in this dimension.
    #[must_use]
    pub fn overflowed_in(&self, dimension: Dimension) -> u64 {
        self.buckets.room.overflowed(dimension)
    }

    /// Everything countable. Locks every shard for a moment, one after the other: for a metrics scrape, not for
    /// every decision.
    #[must_use]
    pub fn stats(&self) -> MemoryStats {
        let Buckets { shards, slots, room, .. } = &self.buckets;
        MemoryStats {
            buckets: room.live(),
            pinned: slots.pinned_count(),
            forgotten: room.forgotten(),
            overflowed: room.overflowed_in_all(),
            allocated_bytes: slots.allocated()
                + shards.iter().map(|shard| size_of_val(shard) + shard.lock().allocated()).sum::<usize>(),
        }
    }

    /// The clock it was made with.
    pub const fn clock(&self) -> &C {
        &self.clock
    }
}

impl Buckets {
    fn new(limits: MemoryLimits) -> Self {
        let max_buckets = limits.max_buckets.max(1);
        let shard_count = shard_count(max_buckets);
        Self {
            hasher: KeyHasher::new(),
            shard_count,
            shards: (0..shard_count).map(|number| Padded(Mutex::new(Shard::new(number)))).collect(),
            slots: Slots::new(limits.max_pinned),
            room: Room::new(max_buckets, shard_count as usize),
        }
    }

    // The time of a call is read once, before it locks anything: that keeps the clock out of the time for which
    // others wait. Two calls may so meet in the other order than they read their times. The later time has then
    // been recorded, and the earlier one adds nothing to a bucket, as with any clock that steps back.

    fn take(&self, charges: &[Charge], now: Timestamp) -> Decision {
        match charges {
            [charge] => self.take_one(charge, now),
            _ => self.take_few(charges, now),
        }
    }

    /// The long way, for everything.
    #[inline(never)]
    fn take_all(&self, charges: &[Charge], now: Timestamp) -> Decision {
        if let Err(impossible) = decision::totals(charges) {
            return Decision::Impossible(impossible);
        }
        let transaction = Transaction::begin(self, charges, now, Intent::Write);
        let decision = Decision::judge(now, transaction.observe(), |at| total(&transaction, at));
        match &decision {
            Decision::Granted(granted) => transaction.write(granted.balances().buckets()),
            Decision::Denied(denied) => transaction.leave(denied.balances().buckets()),
            Decision::Impossible(_) => {}
        }
        decision
    }

    fn peek(&self, charges: &[Charge], now: Timestamp) -> Decision {
        if let Err(impossible) = decision::totals(charges) {
            return Decision::Impossible(impossible);
        }
        let transaction = Transaction::begin(self, charges, now, Intent::Look);
        let observed = transaction.observe();
        let decision = Decision::foresee(now, observed.clone(), |at| total(&transaction, at));
        transaction.leave(&observed);
        decision
    }

    fn settle(&self, settlements: &[Settlement], now: Timestamp) -> Balances {
        let transaction = Transaction::begin(self, settlements, now, Intent::Write);
        let mut buckets = transaction.observe();
        for (at, bucket) in buckets.iter_mut().enumerate() {
            *bucket = bucket.settle_sum(transaction.sum(at, |settlement| i128::from(settlement.amount)));
        }
        transaction.write(&buckets);
        Balances::new(now, buckets)
    }

    /// Records that a stored bucket may be full at another time than was expected of it.
    #[cold]
    fn expect_full(&self, shard: &Shard, bucket: &Bucket) {
        self.room.expect_full(shard.number(), bucket.full_at());
    }

    /// Keeps forgetting full buckets when no new ones come.
    #[inline]
    fn sweep_if_due(&self, shard: &mut Shard, now: Timestamp) {
        if shard.sweep_is_due() {
            self.sweep(shard, now);
        }
    }

    #[cold]
    fn sweep(&self, shard: &mut Shard, now: Timestamp) {
        self.sweep_a_little(shard, now);
        // A shard that nobody asks has its turn, too. Whoever holds it can do it himself.
        if let Some(mut other) = self.shards[self.room.turn()].try_lock() {
            self.sweep_a_little(&mut other, now);
        }
    }

    fn sweep_a_little(&self, shard: &mut Shard, now: Timestamp) {
        self.room.forget(shard.sweep(STEPS_WHEN_QUIET, now, |_| false));
        shard.shrink(&self.hasher);
    }

    /// Forgets all full buckets of a shard, and learns when to come again. Returns how many.
    fn sweep_all(&self, shard: &mut Shard, now: Timestamp, keep: impl Fn(&Entry) -> bool) -> usize {
        let (forgotten, next) = shard.sweep_all(now, keep);
        self.room.expect_next(shard.number(), next);
        self.room.forget(forgotten);
        forgotten
    }

    fn pin(&self, key: BucketKey) -> BucketKey {
        let hash = self.hasher.hash(&key);
        let mut shard = lock(&self.shards[shard_of(hash, self.shard_count) as usize]);
        let found = shard.find(hash, &key);
        if let Some(entry) = found.and_then(|index| shard.get_mut(index)) {
            // An unpinned bucket moves, with what it holds. Only its place stays behind.
            let pin = entry.pin.or_else(|| self.slots.pin(key, Some(entry.bucket)));
            entry.pin = pin;
            return pin.map_or(key, |pin| key.pinned_at(pin));
        }
        if !self.room.reserve() {
            return key;
        }
        let Some(pin) = self.slots.pin(key, None) else {
            self.room.release();
            return key;
        };
        shard.insert(hash, Entry::forwarding(&key, pin), &self.hasher);
        key.pinned_at(pin)
    }
}

/// What a decision charges to the bucket of the charge at this position.
fn total(transaction: &Transaction<'_, Charge>, at: usize) -> u64 {
    u64::try_from(transaction.sum(at, |charge| charge.cost.into())).unwrap_or(u64::MAX)
}

/// How many shards make the table of each nearly, but not quite, full when the store is at its bound: then a
/// bucket costs some 82 bytes, and few tables are forced by chance to double.
fn shard_count(max_buckets: usize) -> u32 {
    let mut positions = SHARD_POSITIONS;
    let count = |positions: usize| max_buckets.div_ceil(positions / 32 * 25);
    while count(positions) < MIN_SHARDS && positions > 32 {
        positions /= 2;
    }
    u32::try_from(count(positions)).unwrap_or(u32::MAX)
}

impl<C: Clock> Store for MemoryStore<C> {
    async fn take(&self, charges: &[Charge]) -> Result<Decision, StoreError> {
        Ok(self.take_now(charges))
    }

    async fn peek(&self, charges: &[Charge]) -> Result<Decision, StoreError> {
        Ok(self.peek_now(charges))
    }

    async fn settle(&self, settlements: &[Settlement]) -> Result<Balances, StoreError> {
        Ok(self.settle_now(settlements))
    }
}

impl<C> fmt::Debug for MemoryStore<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let live = self.buckets.room.live();
        f.debug_struct("MemoryStore").field("buckets", &live).finish_non_exhaustive()
    }
}
