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

impl Buckets {
    /// Decides on at most [`USUAL_CHARGES`] charges, or leaves it to the long way.
    #[inline]
    pub(super) fn take_few(&self, charges: &[Charge], now: Timestamp) -> Option<Decision> {
        if charges.len() > USUAL_CHARGES || charges.iter().any(|charge| charge.cost > charge.quota.capacity())
        {
            return None;
        }

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
        let mut shards: [Option<MutexGuard<'_, Shard>>; USUAL_CHARGES] = [const { None }; USUAL_CHARGES];
        let mut holders = [0_usize; USUAL_CHARGES];
        let mut held = 0;
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
                shards[held] = Some(lock(&self.shards[usize::try_from(number(order)).ok()?]));
                held += 1;
            }
            holders[nth] = held - 1;
        }
        let touched = shard_order.iter().zip(&holders).map(|(order, shard)| {
            shards[*shard].as_deref().map_or(0, |shard| shard.touch(hashes[position(*order)]))
        });
        black_box(touched.fold(0, |all, one| all ^ one));
        let mut places = [Place::Slot { slot: 0 }; USUAL_CHARGES];
        for (&order, &shard) in shard_order.iter().zip(&holders) {
            let at = position(order);
            let table = shards[shard].as_deref()?;
            let index = table.find(hashes[at], &charges[at].key)?;
            if table.get(index)?.pin.is_some() {
                return None;
            }
            places[at] = Place::Entry { shard, index };
        }
        let mut slots: [Option<MutexGuard<'_, Option<Bucket>>>; USUAL_CHARGES] =
            [const { None }; USUAL_CHARGES];
        for (nth, &order) in slot_order.iter().enumerate() {
            if nth > 0 && number(slot_order[nth - 1]) == number(order) {
                return None;
            }
            let at = position(order);
            slots[nth] = Some(lock(&claims[at]?.bucket));
            places[at] = Place::Slot { slot: nth };
        }

        let mut observed = PerCharge::new();
        for (place, charge) in places.iter().zip(charges) {
            let last = match *place {
                Place::Entry { shard, index } => Some(shards[shard].as_deref()?.get(index)?.bucket),
                Place::Slot { slot } => *slots[slot].as_deref()?,
            };
            observed.push(Bucket::observe(last, charge.quota, now));
        }
        let decision = Decision::judge(now, observed, |at| charges[at].cost);

        let (taken, became) = match &decision {
            Decision::Granted(granted) => (true, granted.balances().buckets()),
            Decision::Denied(denied) => (false, denied.balances().buckets()),
            Decision::Impossible(_) => return None,
        };
        for (place, bucket) in places.iter().zip(became) {
            match *place {
                Place::Entry { shard, index } => {
                    let shard = shards[shard].as_deref_mut()?;
                    let entry = shard.get_mut(index)?;
                    let changed = entry.bucket.quota() != bucket.quota();
                    if taken || changed {
                        entry.bucket = *bucket;
                    }
                    if changed {
                        self.expect_full(shard, bucket);
                    }
                }
                Place::Slot { slot } => {
                    let stored = slots[slot].as_deref_mut()?;
                    if taken || stored.is_some_and(|last| last.quota() != bucket.quota()) {
                        *stored = Some(*bucket);
                    }
                }
            }
        }
        for shard in shards[..held].iter_mut().flatten() {
            self.sweep_if_due(shard, now);
        }
        Some(decision)
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
