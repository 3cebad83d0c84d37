//! The answer to a set of charges.

use std::time::Duration;

use smallvec::SmallVec;

use crate::bucket::{Balance, Bucket};
use crate::{Charge, Timestamp};

/// How many charges a decision answers without allocating.
pub(crate) const USUAL_CHARGES: usize = 8;

/// A value for each charge of a decision.
pub(crate) type PerCharge<T> = SmallVec<[T; USUAL_CHARGES]>;

/// What became of a set of charges.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a decision that nobody looks at limits nothing"]
pub enum Decision {
    /// All buckets held their charges.
    Granted(Granted),
    /// Some bucket did not hold its charge now, but will.
    Denied(Denied),
    /// Some charge is larger than its bucket can ever hold: trying again is useless.
    Impossible(Impossible),
}

/// All charges passed.
///
/// Only the arithmetic on buckets makes one, so holding one proves that somebody was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Granted {
    balances: Balances,
}

/// At least one charge was refused, and nothing was taken.
#[derive(Clone, Debug)]
pub struct Denied {
    balances: Balances,
    totals: PerCharge<u64>,
}

/// At least one charge exceeds the capacity of its bucket. Nothing was taken, and no bucket looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Impossible {
    exceeding: PerCharge<usize>,
}

/// A charge that its bucket did not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The position of the charge in the decision.
    pub index: usize,
    /// The exact time after which this charge would pass if nobody else took from the bucket, rounded up to a
    /// microsecond.
    pub retry_after: Duration,
}

/// What buckets hold, one balance for each charge or settlement and in the same order.
///
/// Balances are worked out when they are asked for.
#[derive(Clone, Debug, Default)]
pub struct Balances {
    now: Timestamp,
    buckets: PerCharge<Bucket>,
}

impl Decision {
    /// Judges charges whose totals are possible by the buckets observed for them: the one place where a grant is
    /// made. The balances are those after the charges.
    // Always inlined: a call would copy the buckets in and the decision out, which costs more than judging them.
    #[inline(always)]
    pub(crate) fn judge(
        now: Timestamp,
        mut buckets: PerCharge<Bucket>,
        total: impl Fn(usize) -> u64,
    ) -> Self {
        if !buckets.iter().enumerate().all(|(index, bucket)| bucket.holds(total(index))) {
            return Self::deny(now, buckets, total);
        }
        for (index, bucket) in buckets.iter_mut().enumerate() {
            *bucket = bucket.take(total(index));
        }
        Self::Granted(Granted { balances: Balances { now, buckets } })
    }

    /// The same judgement for a look: the balances are those before the charges.
    pub(crate) fn foresee(now: Timestamp, buckets: PerCharge<Bucket>, total: impl Fn(usize) -> u64) -> Self {
        if buckets.iter().enumerate().all(|(index, bucket)| bucket.holds(total(index))) {
            Self::Granted(Granted { balances: Balances { now, buckets } })
        } else {
            Self::deny(now, buckets, total)
        }
    }

    #[inline(always)]
    fn deny(now: Timestamp, buckets: PerCharge<Bucket>, total: impl Fn(usize) -> u64) -> Self {
        let mut totals = PerCharge::new();
        for index in 0..buckets.len() {
            totals.push(total(index));
        }
        Self::Denied(Denied { balances: Balances { now, buckets }, totals })
    }

    /// The grant, if it is one.
    #[must_use]
    pub const fn granted(&self) -> Option<&Granted> {
        if let Self::Granted(granted) = self { Some(granted) } else { None }
    }

    /// The denial, if it is one.
    #[must_use]
    pub const fn denied(&self) -> Option<&Denied> {
        if let Self::Denied(denied) = self { Some(denied) } else { None }
    }

    /// Whether all charges passed.
    #[must_use]
    pub const fn is_granted(&self) -> bool {
        matches!(self, Self::Granted(_))
    }
}

impl Granted {
    /// What is left in each bucket, in the order of the charges.
    #[must_use]
    pub const fn balances(&self) -> &Balances {
        &self.balances
    }
}

impl Denied {
    /// What each bucket holds, untouched, in the order of the charges; also those that would have passed.
    #[must_use]
    pub const fn balances(&self) -> &Balances {
        &self.balances
    }

    /// The charges that were refused, in their order; at least one.
    pub fn refusals(&self) -> impl Iterator<Item = Refusal> + '_ {
        let Balances { now, buckets } = &self.balances;
        buckets.iter().zip(&self.totals).enumerate().filter_map(|(index, (bucket, total))| {
            let refused = !bucket.holds(*total);
            refused.then(|| Refusal { index, retry_after: bucket.wait_for(*total, *now) })
        })
    }

    /// The time after which the decision as a whole would pass if nobody else took from the buckets: the latest of
    /// the refusals, exact, rounded up to a microsecond, never zero.
    #[must_use]
    pub fn retry_after(&self) -> Duration {
        self.refusals().map(|refusal| refusal.retry_after).max().unwrap_or_default()
    }
}

impl Impossible {
    /// The charges that exceed the capacity of their buckets, by position and in ascending order; at least one.
    #[must_use]
    pub fn exceeding(&self) -> &[usize] {
        &self.exceeding
    }
}

impl Balances {
    #[inline]
    pub(crate) const fn new(now: Timestamp, buckets: PerCharge<Bucket>) -> Self {
        Self { now, buckets }
    }

    #[inline]
    pub(crate) fn buckets(&self) -> &[Bucket] {
        &self.buckets
    }

    /// Those at other positions than these.
    #[cfg(feature = "redis")]
    pub(crate) fn without(self, positions: &[usize]) -> Self {
        let buckets = self.buckets.into_iter().enumerate();
        let buckets = buckets.filter(|(index, _)| !positions.contains(index)).map(|(_, bucket)| bucket);
        Self { now: self.now, buckets: buckets.collect() }
    }

    /// How many there are: as many as there were charges or settlements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.buckets.len()
    }

    /// Whether nothing was asked for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.buckets.is_empty()
    }

    /// The balance for the charge at this position.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<Balance> {
        self.buckets.get(index).map(|bucket| bucket.balance(self.now))
    }

    /// What remains for the charge at this position: the one part of its balance that costs next to nothing.
    #[must_use]
    pub fn remaining(&self, index: usize) -> Option<i64> {
        self.buckets.get(index).map(Bucket::remaining)
    }

    /// The time until the bucket of the charge at this position is full: as much of its balance as is told to callers
    /// beside what remains.
    #[must_use]
    pub fn until_full(&self, index: usize) -> Option<Duration> {
        self.buckets.get(index).map(|bucket| bucket.until_full(self.now))
    }

    /// All balances in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Balance> + '_ {
        self.buckets.iter().map(|bucket| bucket.balance(self.now))
    }
}

// === impl PartialEq ===

// Two answers are the same if they tell the same: how a store came to them does not count.

impl PartialEq for Balances {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Balances {}

impl PartialEq for Denied {
    fn eq(&self, other: &Self) -> bool {
        self.balances == other.balances && self.refusals().eq(other.refusals())
    }
}

impl Eq for Denied {}

// === the totals of charges ===

/// The total that is charged to the bucket of each charge, counting the charges that share it.
///
/// # Errors
///
/// Some total is beyond the capacity.
#[inline]
pub(crate) fn totals(charges: &[Charge]) -> Result<PerCharge<u64>, Impossible> {
    let mut totals = PerCharge::new();
    let mut possible = true;
    for (index, charge) in charges.iter().enumerate() {
        let lead = charges.iter().take(index).position(|earlier| earlier.key == charge.key);
        let Some(lead) = lead else {
            possible &= charge.cost <= charge.quota.capacity();
            totals.push(charge.cost);
            continue;
        };
        shared(charges, &mut totals, lead, charge.cost);
        possible &= totals.last().is_some_and(|total| *total <= charges[lead].quota.capacity());
    }
    if possible { Ok(totals) } else { Err(exceeding(charges, &totals)) }
}

/// Adds `cost` to the total of all charges on the bucket of `lead`, and the total for one more such charge.
#[cold]
fn shared(charges: &[Charge], totals: &mut PerCharge<u64>, lead: usize, cost: u64) {
    let total = totals[lead].saturating_add(cost);
    for (earlier, slot) in charges.iter().zip(totals.iter_mut()) {
        if earlier.key == charges[lead].key {
            *slot = total;
        }
    }
    totals.push(total);
}

#[cold]
fn exceeding(charges: &[Charge], totals: &[u64]) -> Impossible {
    let capacity_of = |key| charges.iter().find(|charge| charge.key == key).map(|lead| lead.quota.capacity());
    let exceeding = charges
        .iter()
        .zip(totals)
        .enumerate()
        .filter(|(_, (charge, total))| Some(**total) > capacity_of(charge.key))
        .map(|(index, _)| index)
        .collect();
    Impossible { exceeding }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BucketKey, Dimension, Quota};

    fn charge(digest: u128, capacity: u64, cost: u64) -> Charge {
        let quota = Quota::per_second(1).unwrap().with_capacity(capacity).unwrap();
        Charge::new(BucketKey::new(Dimension::new(0), digest), quota, cost)
    }

    fn check(charges: &[Charge], expected: Result<&[u64], &[usize]>) {
        let totals = totals(charges);
        assert_eq!(totals.as_deref().map_err(Impossible::exceeding), expected, "{charges:?}");
    }

    #[test]
    fn charges_on_one_bucket_have_their_total() {
        check(&[], Ok(&[]));
        check(&[charge(1, 9, 2), charge(2, 9, 3)], Ok(&[2, 3]));
        check(&[charge(1, 9, 2), charge(2, 9, 3), charge(1, 9, 4)], Ok(&[6, 3, 6]));
        check(&[charge(1, 9, 1), charge(1, 9, 2), charge(1, 9, 3)], Ok(&[6, 6, 6]));
    }

    #[test]
    fn a_total_beyond_the_capacity_of_the_first_is_impossible() {
        check(&[charge(1, 9, 10), charge(2, 9, 9)], Err(&[0]));
        check(&[charge(1, 9, 5), charge(2, 9, 9), charge(1, 9, 5)], Err(&[0, 2]));
        check(&[charge(1, 9, 5), charge(1, 100, 5)], Err(&[0, 1]));
        check(&[charge(1, 100, 5), charge(1, 9, 5)], Ok(&[10, 10]));
        check(&[charge(1, 9, u64::MAX), charge(1, 9, u64::MAX)], Err(&[0, 1]));
    }

    #[test]
    fn a_denial_tells_all_levels_and_the_latest_wait() {
        let buckets = |left: [u64; 3]| -> PerCharge<Bucket> {
            let full = Bucket::full(charge(1, 9, 0).quota, Timestamp::ZERO);
            left.iter().map(|left| full.take(9 - left)).collect()
        };
        let costs = [3, 2, 9];
        let decision = Decision::judge(Timestamp::ZERO, buckets([1, 2, 3]), |index| costs[index]);
        let denied = decision.denied().unwrap();
        let refusals: Vec<_> = denied.refusals().map(|one| (one.index, one.retry_after.as_secs())).collect();
        assert_eq!(refusals, [(0, 2), (2, 6)]);
        assert_eq!(denied.retry_after().as_secs(), 6);
        assert_eq!(denied.balances().iter().map(|one| one.remaining).collect::<Vec<_>>(), [1, 2, 3]);
        assert!(Decision::judge(Timestamp::ZERO, buckets([3, 2, 9]), |index| costs[index]).is_granted());
    }
}
