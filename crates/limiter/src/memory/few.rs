//! The short way: a few charges on buckets that all exist, which is nearly every decision.
//!
//! Does what a [`Transaction`](super::transaction::Transaction) does, with the same locks in the same order, but
//! with fixed arrays and without the cases that need more: a bucket that is not there, a bucket that is charged
//! twice, a pinned bucket whose key does not say so. Whoever meets one of these lets everything go and takes the
//! long way.

use std::hint::black_box;

use parking_lot::MutexGuard;

use super::Buckets;
use super::hash::shard_of;
use super::lock::lock;
use super::shard::Shard;
use super::slots::Slot;
use crate::bucket::Bucket;
use crate::decision::{PerCharge, USUAL_CHARGES};
use crate::{Charge, Decision, Timestamp};

/// A number to sort by, with the position of a charge in its lowest byte.
type Ordered = u64;

/// Where a charge's bucket is: in which of the locked shards and at which position, or in which of the locked slots.
#[derive(Clone, Copy)]
enum Place {
    Entry { shard: usize, index: usize },
    Slot { slot: usize },
}

/// The buckets of a few charges, locked.
///
/// Filled where it stands: it is large, and every copy would cost more than a lock.
struct Locked<'a> {
    shards: [Option<MutexGuard<'a, Shard>>; USUAL_CHARGES],
    /// How many of them there are.
    held: usize,
    slots: [Option<MutexGuard<'a, Option<Bucket>>>; USUAL_CHARGES],
    /// By charge.
    places: [Place; USUAL_CHARGES],
}

impl Buckets {
    /// Decides on at most [`USUAL_CHARGES`] charges the short way, if it can be.
    #[inline]
    pub(super) fn take_few(&self, charges: &[Charge], now: Timestamp) -> Decision {
        if charges.len() > USUAL_CHARGES || charges.iter().any(|charge| charge.cost > charge.quota.capacity())
        {
            return self.take_all(charges, now);
        }
        let mut locked = Locked {
            shards: [const { None }; USUAL_CHARGES],
            held: 0,
            slots: [const { None }; USUAL_CHARGES],
            places: [Place::Slot { slot: 0 }; USUAL_CHARGES],
        };
        let mut observed = PerCharge::new();
        if self.lock_few(charges, &mut locked).is_none()
            || locked.observe(charges, now, &mut observed).is_none()
        {
            drop(locked);
            return self.take_all(charges, now);
        }
        let decision = Decision::judge(now, observed, |at| charges[at].cost);
        match &decision {
            Decision::Granted(granted) => self.store(&mut locked, true, granted.balances().buckets()),
            Decision::Denied(denied) => self.store(&mut locked, false, denied.balances().buckets()),
            Decision::Impossible(_) => {}
        }
        for shard in locked.shards[..locked.held].iter_mut().flatten() {
            self.sweep_if_due(shard, now);
        }
        decision
    }

    /// Finds and locks the buckets, or nothing if that takes the long way.
    #[inline(always)]
    fn lock_few<'a>(&'a self, charges: &[Charge], locked: &mut Locked<'a>) -> Option<()> {
        let Locked { shards, held, slots, places } = locked;
        let mut hashes = [0_u64; USUAL_CHARGES];
        let mut shard_order = [0_u64; USUAL_CHARGES];
        let mut slot_order = [0_u64; USUAL_CHARGES];
        let mut claims: [Option<&Slot>; USUAL_CHARGES] = [None; USUAL_CHARGES];
        let (mut in_shards, mut in_slots) = (0, 0);
        for (at, charge) in charges.iter().enumerate() {
            if let Some((rank, slot)) = self.slots.claimed(&charge.key) {
                claims[at] = Some(slot);
                slot_order[in_slots] = ordered(rank as u64, at);
                in_slots += 1;
            } else {
                hashes[at] = self.hasher.hash(&charge.key);
                shard_order[in_shards] = ordered(u64::from(shard_of(hashes[at], self.shard_count)), at);
                in_shards += 1;
            }
        }
        let (shard_order, slot_order) = (&mut shard_order[..in_shards], &mut slot_order[..in_slots]);
        sort(shard_order);
        sort(slot_order);

        // All shards before the first look into one, and a touch of all places before the first search, so that the
        // processor waits for the memory of all buckets at once.
        let mut holders = [0_usize; USUAL_CHARGES];
        for (nth, &order) in shard_order.iter().enumerate() {
            if nth > 0 && number(shard_order[nth - 1]) == number(order) {
                let twins =
                    shard_order[..nth].iter().rev().take_while(|other| number(**other) == number(order));
                for &twin in twins {
                    if charges[position(twin)].key == charges[position(order)].key {
                        return None;
                    }
                }
            } else {
                shards[*held] = Some(lock(&self.shards[usize::try_from(number(order)).ok()?]));
                *held += 1;
            }
            holders[nth] = *held - 1;
        }
        let touched = shard_order.iter().zip(&holders).map(|(order, shard)| {
            shards[*shard].as_deref().map_or(0, |shard| shard.touch(hashes[position(*order)]))
        });
        black_box(touched.fold(0, |all, one| all ^ one));
        for (&order, &shard) in shard_order.iter().zip(&holders) {
            let at = position(order);
            let table = shards[shard].as_deref()?;
            let index = table.find(hashes[at], &charges[at].key)?;
            if table.get(index)?.pin.is_some() {
                return None;
            }
            places[at] = Place::Entry { shard, index };
        }
        for (nth, &order) in slot_order.iter().enumerate() {
            if nth > 0 && number(slot_order[nth - 1]) == number(order) {
                return None;
            }
            let at = position(order);
            slots[nth] = Some(lock(&claims[at]?.bucket));
            places[at] = Place::Slot { slot: nth };
        }
        Some(())
    }

    /// Writes back what buckets became; those from which nothing is taken only if their quota changed.
    #[inline(always)]
    fn store(&self, locked: &mut Locked<'_>, taken: bool, became: &[Bucket]) {
        let Locked { shards, slots, places, .. } = locked;
        for (place, bucket) in places.iter().zip(became) {
            match *place {
                Place::Entry { shard, index } => {
                    // Observed just before under the same locks: it is there.
                    let Some(shard) = shards[shard].as_deref_mut() else { continue };
                    let Some(entry) = shard.get_mut(index) else { continue };
                    let changed = entry.bucket.quota() != bucket.quota();
                    if taken || changed {
                        entry.bucket = *bucket;
                    }
                    if changed {
                        self.expect_full(shard, bucket);
                    }
                }
                Place::Slot { slot } => {
                    let Some(stored) = slots[slot].as_deref_mut() else { continue };
                    if taken || stored.is_some_and(|last| last.quota() != bucket.quota()) {
                        *stored = Some(*bucket);
                    }
                }
            }
        }
    }
}

impl Locked<'_> {
    #[inline(always)]
    fn observe(&self, charges: &[Charge], now: Timestamp, observed: &mut PerCharge<Bucket>) -> Option<()> {
        for (place, charge) in self.places.iter().zip(charges) {
            let last = match *place {
                Place::Entry { shard, index } => Some(self.shards[shard].as_deref()?.get(index)?.bucket),
                Place::Slot { slot } => *self.slots[slot].as_deref()?,
            };
            observed.push(Bucket::observe(last, charge.quota, now));
        }
        Some(())
    }
}

#[inline]
const fn ordered(number: u64, position: usize) -> Ordered {
    number << 8 | position as u64
}

#[inline]
const fn number(order: Ordered) -> u64 {
    order >> 8
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "three bits are left")]
const fn position(order: Ordered) -> usize {
    // Below `USUAL_CHARGES` as it is; the mask spares the bounds checks.
    (order & (USUAL_CHARGES as u64 - 1)) as usize
}

/// Insertion sort: the fastest there is for a handful.
#[inline]
fn sort(orders: &mut [Ordered]) {
    for end in 1..orders.len() {
        let mut at = end;
        while at > 0 && orders[at - 1] > orders[at] {
            orders.swap(at - 1, at);
            at -= 1;
        }
    }
}
