//! The short way: one charge on a bucket that exists.

use super::Buckets;
use super::hash::shard_of;
use super::lock::lock;
use super::slots::Slot;
use crate::bucket::Bucket;
use crate::decision::PerCharge;
use crate::{Charge, Decision, Timestamp};

// Decisions are returned as they are made: wrapped in an `Option`, they would be copied once more, which is a fifth
// of the whole cost.

impl Buckets {
    #[inline]
    pub(super) fn take_one(&self, charge: &Charge, now: Timestamp) -> Decision {
        let Charge { key, quota, cost } = charge;
        if *cost > quota.capacity() {
            return self.take_all(std::slice::from_ref(charge), now);
        }
        if key.pin().is_some()
            && let Some((_, slot)) = self.slots.claimed(key)
        {
            return take_pinned(slot, charge, now);
        }
        let hash = self.hasher.hash(key);
        let mut shard = lock(&self.shards[shard_of(hash, self.shard_count) as usize]);
        let found = shard.find(hash, key).and_then(|position| shard.get_mut(position));
        let Some(entry) = found.filter(|entry| entry.pin.is_none()) else {
            drop(shard);
            return self.take_all(std::slice::from_ref(charge), now);
        };
        let bucket = Bucket::observe(Some(entry.bucket), *quota, now);
        let changed = entry.bucket.quota() != *quota;
        if bucket.holds(*cost) {
            entry.bucket = bucket.take(*cost);
        } else if changed {
            entry.bucket = bucket;
        }
        if changed {
            self.expect_full(&shard, &bucket);
        }
        self.sweep_if_due(&mut shard, now);
        drop(shard);
        judge(now, bucket, *cost)
    }
}

#[inline(never)]
fn take_pinned(slot: &Slot, Charge { quota, cost, .. }: &Charge, now: Timestamp) -> Decision {
    let mut stored = lock(&slot.bucket);
    let bucket = Bucket::observe(*stored, *quota, now);
    if bucket.holds(*cost) {
        *stored = Some(bucket.take(*cost));
    } else if stored.is_some_and(|last| last.quota() != *quota) {
        *stored = Some(bucket);
    }
    drop(stored);
    judge(now, bucket, *cost)
}

#[inline(always)]
fn judge(now: Timestamp, bucket: Bucket, cost: u64) -> Decision {
    Decision::judge(now, PerCharge::from_elem(bucket, 1), |_| cost)
}
