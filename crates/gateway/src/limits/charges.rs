//! The charges of one decision.

use std::time::Duration;

use fairlane_identity::Digest;
use fairlane_limiter::{Balances, BucketKey, Charge, Quota, Settlement};
use smallvec::SmallVec;

use crate::{
    answer::{QuotaStatus, is_smaller_share},
    dimension::Dimension,
};

/// A request meets a handful of buckets; more spill to the heap.
pub(crate) const USUAL_CHARGES: usize = 6;

/// Charges of one decision, in the order in which they are told to the limiter.
#[derive(Clone, Debug, Default)]
pub struct Charges(SmallVec<[Charge; USUAL_CHARGES]>);

impl Charges {
    /// One request charged to each of an identity's buckets in a dimension: one bucket per quota.
    #[must_use]
    pub fn of_identity(dimension: Dimension, identity: Digest, quotas: &[Quota]) -> Self {
        let mut charges = Self::default();
        charges.push_identity(dimension, identity, quotas);
        charges
    }

    /// One request charged to each of the buckets that everybody shares.
    #[must_use]
    pub fn of_everybody(quotas: &[Quota]) -> Self {
        let mut charges = Self::default();
        charges.push_buckets(Dimension::Global, 0, quotas);
        charges
    }

    /// Adds one request for each of an identity's buckets in a dimension.
    pub fn push_identity(&mut self, dimension: Dimension, identity: Digest, quotas: &[Quota]) {
        self.push_buckets(dimension, u128::from_be_bytes(identity.to_bytes()), quotas);
    }

    /// Digests are keyed and separated by dimension, so that flipping low bits by the period's number can only meet
    /// another bucket by a collision of 128 bits.
    fn push_buckets(&mut self, dimension: Dimension, identity: u128, quotas: &[Quota]) {
        for (period, quota) in (0..).zip(quotas) {
            let key = BucketKey::new(dimension.in_limiter(), identity ^ period);
            self.0.push(Charge::new(key, *quota, 1));
        }
    }

    /// Adds all charges of `others`.
    pub fn extend(&mut self, others: &Self) {
        self.0.extend_from_slice(&others.0);
    }

    /// Whether there is nothing to charge.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The charges.
    #[must_use]
    pub fn as_slice(&self) -> &[Charge] {
        &self.0
    }

    /// The charges, to change where their buckets are found.
    pub fn as_mut_slice(&mut self) -> &mut [Charge] {
        &mut self.0
    }

    /// The dimension of the charge at `index`.
    #[must_use]
    pub fn dimension(&self, index: usize) -> Option<Dimension> {
        Dimension::of(&self.0.get(index)?.key)
    }

    /// What undoes them.
    pub fn reversed(&self) -> impl Iterator<Item = Settlement> {
        self.0.iter().map(|charge| {
            Settlement::new(charge.key, charge.quota, i64::try_from(charge.cost).unwrap_or(i64::MAX))
        })
    }

    /// The tightest of the buckets, given their balances in the same order: the first with the smallest share left.
    #[must_use]
    pub fn tightest(&self, balances: &Balances) -> Option<QuotaStatus> {
        let left = |index| u64::try_from(balances.remaining(index).unwrap_or(0)).unwrap_or(0);
        let mut charges = self.0.iter().enumerate();
        let first = charges.next()?;
        let (index, charge) = charges.fold(first, |tightest, other| {
            let of = |(index, charge): (usize, &Charge)| (left(index), charge.quota.capacity());
            if is_smaller_share(of(other), of(tightest)) { other } else { tightest }
        });
        let balance = balances.get(index)?;
        Some(QuotaStatus {
            dimension: Dimension::of(&charge.key)?,
            limit: charge.quota.capacity(),
            remaining: left(index),
            reset: balance.until_full,
            window: fill_time(charge.quota),
        })
    }
}

/// From empty to full.
fn fill_time(quota: Quota) -> Duration {
    const NANOS_PER_DAY: u128 = 86_400 * 1_000_000_000;
    let nanos = u128::from(quota.capacity()) * NANOS_PER_DAY / u128::from(quota.refill_per_day());
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}
