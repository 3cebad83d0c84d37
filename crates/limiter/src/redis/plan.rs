//! What a call asks of each bucket, every bucket once.

use crate::bucket::Bucket;
use crate::decision::{self, PerCharge};
use crate::{Balances, BucketKey, Charge, Decision, Impossible, Quota, Settlement, Timestamp};

/// The most that one settlement can move a bucket by: from the deepest debt to the largest capacity.
const FARTHEST: i128 = 2 * Quota::MAX_CAPACITY as i128;

/// What is asked of one bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) key: BucketKey,
    pub(super) quota: Quota,
    /// Units to take; to give back, if negative.
    pub(super) amount: i64,
}

/// The lines of a call, and which of them each of its items is part of.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) lines: PerCharge<Line>,
    places: PerCharge<usize>,
}

impl Plan {
    pub(super) fn charges(charges: &[Charge]) -> Result<Self, Impossible> {
        let totals = decision::totals(charges)?;
        let items = charges.iter().zip(totals);
        // A total is at most a capacity.
        Ok(Self::new(items.map(|(charge, total)| Line {
            key: charge.key,
            quota: charge.quota,
            amount: i64::try_from(total).unwrap_or(i64::MAX),
        })))
    }

    pub(super) fn settlements(settlements: &[Settlement]) -> Self {
        Self::new(settlements.iter().map(|one| {
            let sharing = settlements.iter().filter(|other| other.key == one.key);
            let sum: i128 = sharing.map(|other| i128::from(other.amount)).sum();
            let amount = i64::try_from(-sum.clamp(-FARTHEST, FARTHEST)).unwrap_or(0);
            Line { key: one.key, quota: one.quota, amount }
        }))
    }

    /// Lines that already are one for each bucket.
    pub(super) fn lines(lines: PerCharge<Line>) -> Self {
        Self { places: (0..lines.len()).collect(), lines }
    }

    fn new(items: impl Iterator<Item = Line>) -> Self {
        let (mut lines, mut places) = (PerCharge::<Line>::new(), PerCharge::new());
        for item in items {
            let known = lines.iter().position(|line| line.key == item.key);
            places.push(known.unwrap_or(lines.len()));
            if known.is_none() {
                lines.push(item);
            }
        }
        Self { lines, places }
    }

    /// The decision that was to be made on these buckets.
    pub(super) fn judge(&self, seen: &Seen) -> Decision {
        Decision::judge(seen.now, self.observe(seen), |index| self.cost(index))
    }

    /// The same for a look.
    pub(super) fn foresee(&self, seen: &Seen) -> Decision {
        Decision::foresee(seen.now, self.observe(seen), |index| self.cost(index))
    }

    /// What became of the buckets; `before`: whether a line had been settled before its bucket was seen.
    pub(super) fn settle(&self, seen: &Seen, before: impl Fn(usize) -> bool) -> Balances {
        let mut buckets = self.observe(seen);
        for (bucket, place) in buckets.iter_mut().zip(&self.places) {
            if !before(*place) {
                *bucket = bucket.settle_sum(-i128::from(self.lines[*place].amount));
            }
        }
        Balances::new(seen.now, buckets)
    }

    fn observe(&self, seen: &Seen) -> PerCharge<Bucket> {
        let bucket = |&place: &usize| Bucket::observe(seen.buckets[place], self.lines[place].quota, seen.now);
        self.places.iter().map(bucket).collect()
    }

    fn cost(&self, index: usize) -> u64 {
        u64::try_from(self.lines[self.places[index]].amount).unwrap_or(0)
    }
}

/// What was stored of each line's bucket, and when it was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) now: Timestamp,
    pub(super) buckets: PerCharge<Option<Bucket>>,
}
