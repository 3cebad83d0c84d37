//! All buckets of one call, locked together.
//!
//! Locks are taken in one order that is the same for all calls: shards by number, then slots by rank. So calls
//! cannot wait for each other in a circle; and because a call holds all of its locks until it has written, nobody
//! sees it half done.

use parking_lot::MutexGuard;

use super::Buckets;
use super::hash::shard_of;
use super::lock::lock;
use super::shard::Shard;
use super::slots::{Rank, Slot};
use super::table::Entry;
use crate::bucket::Bucket;
use crate::decision::PerCharge;
use crate::{BucketKey, Charge, Quota, Settlement, Timestamp};

/// Positions the sweep looks at with every bucket that is added, so that it outruns them.
const STEPS_PER_INSERTION: usize = 4;

/// Positions looked at for the sake of one bucket that finds no room: less than a millisecond. A store of some 20,000
/// buckets is looked through whole, so that it never misses its last full bucket.
const POSITIONS_WITHOUT_ROOM: usize = 65_536;

/// Something that names a bucket and the quota that holds for it.
pub(super) trait Item {
    fn key(&self) -> &BucketKey;
    fn quota(&self) -> Quota;
}

impl Item for Charge {
    fn key(&self) -> &BucketKey {
        &self.key
    }
    fn quota(&self) -> Quota {
        self.quota
    }
}

impl Item for Settlement {
    fn key(&self) -> &BucketKey {
        &self.key
    }
    fn quota(&self) -> Quota {
        self.quota
    }
}

/// Where an item's bucket is.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// In the map: which of the locked shards, and where in its table.
    Entry { shard: usize, index: usize },
    /// Nowhere yet; it would be in this one of the locked shards. `reserved`: there is room for it.
    Absent { shard: usize, hash: u64, reserved: bool },
    /// In this one of the locked slots.
    Slot { slot: usize, overflow: bool },
    /// Where an earlier item has it: one with the same key, or one that shares the same overflow.
    Same { lead: usize },
}

/// What a call means to do: only what may write needs room for new buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Intent {
    Look,
    Write,
}

/// A call that holds the locks of all of its buckets.
pub(super) struct Transaction<'a, T> {
    buckets: &'a Buckets,
    items: &'a [T],
    now: Timestamp,
    places: PerCharge<Place>,
    shards: PerCharge<MutexGuard<'a, Shard>>,
    slots: PerCharge<MutexGuard<'a, Option<Bucket>>>,
}

impl<'a, T: Item> Transaction<'a, T> {
    #[inline]
    pub(super) fn begin(buckets: &'a Buckets, items: &'a [T], now: Timestamp, intent: Intent) -> Self {
        let (places, shards, slots) = (PerCharge::new(), PerCharge::new(), PerCharge::new());
        let mut this = Self { buckets, items, now, places, shards, slots };
        let mut slots = this.lock_shards();
        for at in 0..this.places.len() {
            if let Place::Absent { shard, hash, .. } = this.places[at] {
                this.resolve_absent(at, shard, hash, intent, &mut slots);
            }
        }
        this.lock_slots(slots);
        this
    }

    /// The buckets of all items as they stand now.
    #[inline]
    pub(super) fn observe(&self) -> PerCharge<Bucket> {
        let mut observed = PerCharge::new();
        for (place, item) in self.places.iter().zip(self.items) {
            let quota = item.quota();
            let bucket = match *place {
                Place::Entry { shard, index } => {
                    let last = self.shards[shard].get(index).map(|entry| entry.bucket);
                    Bucket::observe(last, quota, self.now)
                }
                Place::Absent { shard, .. } => self.shards[shard].fresh(quota, self.now),
                Place::Slot { slot, overflow } => match *self.slots[slot] {
                    // Its sharers may have different quotas. One that it is full under must not refill it for one
                    // with a larger capacity.
                    Some(last) if overflow => last.keep(quota, self.now),
                    last => Bucket::observe(last, quota, self.now),
                },
                Place::Same { lead } => observed[lead],
            };
            observed.push(bucket);
        }
        observed
    }

    /// The sum of what all items bring to the bucket of this one.
    #[inline]
    pub(super) fn sum(&self, at: usize, amount: impl Fn(&T) -> i128) -> i128 {
        let shared = self.places.iter().any(|place| matches!(place, Place::Same { .. }));
        if !shared {
            return amount(&self.items[at]);
        }
        let bucket = self.lead(at);
        let sharing = self.items.iter().enumerate().filter(|(other, _)| self.lead(*other) == bucket);
        sharing.map(|(_, item)| amount(item)).sum()
    }

    /// The first item that has the bucket of this one.
    fn lead(&self, mut at: usize) -> usize {
        while let Place::Same { lead } = self.places[at] {
            at = lead;
        }
        at
    }

    /// Writes what has become of the buckets of all items.
    #[inline]
    pub(super) fn write(mut self, changed: &[Bucket]) {
        let mut inserts = false;
        for (place, bucket) in self.places.iter().zip(changed) {
            match *place {
                Place::Entry { shard, index } => {
                    self.buckets.room.expect_full(self.shards[shard].number(), bucket.full_at());
                    if let Some(entry) = self.shards[shard].get_mut(index) {
                        entry.bucket = *bucket;
                    }
                }
                Place::Slot { slot, .. } => *self.slots[slot] = Some(*bucket),
                Place::Absent { .. } => inserts = true,
                Place::Same { .. } => {}
            }
        }
        // Insertions move entries, so they come last.
        if inserts {
            self.insert(changed);
        } else {
            self.sweep_if_due();
        }
    }

    /// Takes nothing, but lets a changed quota hold from now on.
    #[inline]
    pub(super) fn leave(mut self, observed: &[Bucket]) {
        for (place, bucket) in self.places.iter().zip(observed) {
            match *place {
                Place::Entry { shard, index } => {
                    let number = self.shards[shard].number();
                    if let Some(entry) = self.shards[shard].get_mut(index)
                        && entry.bucket.quota() != bucket.quota()
                    {
                        entry.bucket = *bucket;
                        self.buckets.room.expect_full(number, bucket.full_at());
                    }
                }
                Place::Slot { slot, .. } => {
                    if self.slots[slot].is_some_and(|last| last.quota() != bucket.quota()) {
                        *self.slots[slot] = Some(*bucket);
                    }
                }
                Place::Absent { reserved: true, .. } => self.buckets.room.release(),
                Place::Absent { .. } | Place::Same { .. } => {}
            }
        }
        self.sweep_if_due();
    }

    /// Locks the shards of all items that are not pinned, finds them, and returns the slots that are to be locked.
    #[inline]
    fn lock_shards(&mut self) -> PerCharge<(Rank, usize, &'a Slot)> {
        let mut slots = PerCharge::new();
        let mut order = PerCharge::<(u32, usize, u64)>::new();
        for (at, item) in self.items.iter().enumerate() {
            let key = item.key();
            if let Some(lead) = self.items.iter().take(at).position(|earlier| earlier.key() == key) {
                self.places.push(Place::Same { lead });
                continue;
            }
            self.places.push(Place::Slot { slot: 0, overflow: false });
            if let Some((rank, slot)) = self.buckets.slots.claimed(key) {
                slots.push((rank, at, slot));
            } else {
                let hash = self.buckets.hasher.hash(key);
                order.push((shard_of(hash, self.buckets.shard_count), at, hash));
            }
        }
        if order.len() > 1 {
            order.sort_unstable();
        }
        let mut locked = None;
        for &(number, _, _) in &order {
            if locked != Some(number) {
                self.shards.push(lock(&self.buckets.shards[number as usize]));
                locked = Some(number);
            }
        }
        // All locks before the first look, so that the processor can wait for several buckets' memory at once.
        let mut shard = 0;
        let mut last = order.first().map(|&(number, ..)| number);
        for &(number, at, hash) in &order {
            if last != Some(number) {
                shard += 1;
                last = Some(number);
            }
            let index = self.shards[shard].find(hash, self.items[at].key());
            self.places[at] = match index {
                None => Place::Absent { shard, hash, reserved: false },
                Some(index) => {
                    let pin = self.shards[shard].get(index).and_then(|entry| entry.pin);
                    if let Some((rank, slot)) = pin.and_then(|pin| self.buckets.slots.pinned(pin)) {
                        slots.push((rank, at, slot));
                        continue;
                    }
                    Place::Entry { shard, index }
                }
            };
        }
        slots
    }

    #[inline]
    fn lock_slots(&mut self, mut slots: PerCharge<(Rank, usize, &'a Slot)>) {
        if slots.len() > 1 {
            slots.sort_unstable_by_key(|&(rank, at, _)| (rank, at));
        }
        let mut locked = None;
        for (rank, at, slot) in slots {
            if let Some((_, lead)) = locked.filter(|&(locked, _)| locked == rank) {
                self.places[at] = Place::Same { lead };
                continue;
            }
            self.slots.push(lock(&slot.bucket));
            locked = Some((rank, at));
            let overflow = self.buckets.slots.is_overflow(rank);
            self.places[at] = Place::Slot { slot: self.slots.len() - 1, overflow };
        }
    }

    /// Finds room for a bucket that is not in the map, or sends it to the overflow of its dimension.
    #[cold]
    fn resolve_absent(
        &mut self,
        at: usize,
        shard: usize,
        hash: u64,
        intent: Intent,
        slots: &mut PerCharge<(Rank, usize, &'a Slot)>,
    ) {
        let room = &self.buckets.room;
        let fits = || match intent {
            Intent::Write => room.reserve(),
            Intent::Look => room.has_place(),
        };
        if fits() || self.make_room(fits) {
            self.places[at] = Place::Absent { shard, hash, reserved: intent == Intent::Write };
            return;
        }
        let dimension = self.items[at].key().dimension();
        if intent == Intent::Write {
            self.buckets.room.count_overflow(dimension);
        }
        let (rank, slot) = self.buckets.slots.overflow(dimension);
        slots.push((rank, at, slot));
    }

    /// Looks for full buckets wherever there may be some, until `fits`. Whether it does.
    ///
    /// Finds one if there is one, except in shards that others hold, and unless it has been misled too often: a
    /// shard's bound may be out of date, which looking through it puts right.
    fn make_room(&mut self, fits: impl Fn() -> bool) -> bool {
        let (buckets, now) = (self.buckets, self.now);
        let mut positions = 0;
        for number in buckets.room.candidates(now) {
            let forgotten = if let Some(held) = self.shards.iter().position(|held| held.number() == number) {
                positions += self.shards[held].positions();
                let items = self.items;
                let ours = |entry: &Entry| items.iter().any(|item| entry.is(item.key()));
                let forgotten = buckets.sweep_all(&mut self.shards[held], now, ours);
                self.find_again(held);
                forgotten
            } else if let Some(mut other) = buckets.shards[number].try_lock() {
                positions += other.positions();
                buckets.sweep_all(&mut other, now, |_| false)
            } else {
                continue;
            };
            if forgotten > 0 && fits() {
                return true;
            }
            if positions >= POSITIONS_WITHOUT_ROOM {
                return false;
            }
        }
        false
    }

    /// Finds the buckets of a shard anew, whose positions have changed.
    fn find_again(&mut self, held: usize) {
        for (place, item) in self.places.iter_mut().zip(self.items) {
            if let Place::Entry { shard, index } = place
                && *shard == held
                && let Some(found) = self.shards[held].find(self.buckets.hasher.hash(item.key()), item.key())
            {
                *index = found;
            }
        }
    }

    #[cold]
    fn insert(&mut self, changed: &[Bucket]) {
        let Self { buckets, items, now, places, shards, .. } = self;
        for ((place, bucket), item) in places.iter().zip(changed).zip(*items) {
            let Place::Absent { shard, hash, .. } = *place else { continue };
            if bucket.is_full(*now) {
                buckets.room.release();
                continue;
            }
            let shard = &mut *shards[shard];
            buckets.room.expect_full(shard.number(), bucket.full_at());
            buckets.room.forget(shard.sweep(STEPS_PER_INSERTION, *now, |_| false));
            shard.insert(hash, Entry::new(item.key(), *bucket), &buckets.hasher);
        }
    }

    #[inline]
    fn sweep_if_due(&mut self) {
        for shard in &mut self.shards {
            self.buckets.sweep_if_due(shard, self.now);
        }
    }
}
