//! Buckets with a place and a lock of their own: pinned ones, and one for the overflow of each dimension.

use std::sync::OnceLock;

use crossbeam_utils::CachePadded;
use parking_lot::Mutex;

use crate::bucket::Bucket;
use crate::key::{BucketKey, Dimension, Pin};

/// Dimensions there can be.
const DIMENSIONS: usize = 256;

/// A bucket outside the map. Nothing if it has never been used, which means full.
#[derive(Debug)]
pub(super) struct Slot {
    key: BucketKey,
    pub(super) bucket: Mutex<Option<Bucket>>,
}

/// All slots. Never moved or removed, so that finding one takes no lock.
#[derive(Debug)]
pub(super) struct Slots {
    pinned: Box<[OnceLock<Box<CachePadded<Slot>>>]>,
    taken: Mutex<usize>,
    overflow: Box<[OnceLock<Box<CachePadded<Slot>>>]>,
}

/// A slot's place in the order in which slots are locked.
pub(super) type Rank = usize;

impl Slots {
    pub(super) fn new(max_pinned: usize) -> Self {
        let empty = |count| (0..count).map(|_| OnceLock::new()).collect();
        Self { pinned: empty(max_pinned), taken: Mutex::new(0), overflow: empty(DIMENSIONS) }
    }

    /// The slot that `key` claims to be pinned at, unless it was another store that said so.
    #[inline]
    pub(super) fn claimed(&self, key: &BucketKey) -> Option<(Rank, &Slot)> {
        let (rank, slot) = self.pinned(key.pin()?)?;
        (slot.key == *key).then_some((rank, slot))
    }

    #[inline]
    pub(super) fn pinned(&self, pin: Pin) -> Option<(Rank, &Slot)> {
        let rank = usize::try_from(pin.get()).ok()? - 1;
        let slot = self.pinned.get(rank)?.get()?;
        Some((rank, slot))
    }

    /// The slot shared by the identities of a dimension that found no room.
    pub(super) fn overflow(&self, dimension: Dimension) -> (Rank, &Slot) {
        let number = usize::from(dimension.number());
        let slot = self.overflow[number].get_or_init(|| Slot::boxed(BucketKey::new(dimension, 0), None));
        (self.pinned.len() + number, slot)
    }

    pub(super) const fn is_overflow(&self, rank: Rank) -> bool {
        rank >= self.pinned.len()
    }

    /// Makes a slot for `key`, holding `bucket`. Nothing if all are taken.
    pub(super) fn pin(&self, key: BucketKey, bucket: Option<Bucket>) -> Option<Pin> {
        let mut taken = self.taken.lock();
        let place = self.pinned.get(*taken)?;
        let pin = Pin::new(u32::try_from(*taken + 1).ok()?)?;
        place.set(Slot::boxed(key, bucket)).ok()?;
        *taken += 1;
        Some(pin)
    }

    pub(super) fn pinned_count(&self) -> usize {
        *self.taken.lock()
    }

    /// Bytes of all slots.
    pub(super) fn allocated(&self) -> usize {
        let overflow = self.overflow.iter().filter(|place| place.get().is_some()).count();
        size_of_val(&*self.pinned)
            + size_of_val(&*self.overflow)
            + (self.pinned_count() + overflow) * size_of::<CachePadded<Slot>>()
    }
}

impl Slot {
    fn boxed(key: BucketKey, bucket: Option<Bucket>) -> Box<CachePadded<Self>> {
        Box::new(CachePadded::new(Self { key, bucket: Mutex::new(bucket) }))
    }
}
