//! The charges of one decision.

use fairlane_fair_queue::Class;
use fairlane_identity::Digest;
use fairlane_limiter::{Balances, BucketKey, Charge};
use smallvec::SmallVec;

use super::PeriodQuota;
use crate::{
    answer::{Excess, QuotaStatus, Quotas, is_smaller_share},
    dimension::{Dimension, class_of},
};

/// A request meets a handful of buckets; more spill to the heap.
pub(crate) const USUAL_CHARGES: usize = 6;

/// What the name of a bucket of tokens differs by from that of a bucket of requests. Periods have smaller numbers.
const TOKENS: u128 = 1 << 3;

/// Charges of one decision, in the order in which they are told to the limiter: those that count requests, then those
/// that count tokens.
#[derive(Clone, Debug, Default)]
pub struct Charges(SmallVec<[Charge; USUAL_CHARGES]>);

impl Charges {
    /// One request charged to each of an identity's buckets in a dimension: one bucket per quota.
    #[must_use]
    pub fn of_identity(dimension: Dimension, identity: Digest, quotas: &[PeriodQuota]) -> Self {
        let mut charges = Self::default();
        charges.push_identity(dimension, identity, quotas);
        charges
    }

    /// One request charged to each of the buckets that everybody shares.
    #[must_use]
    pub fn of_everybody(quotas: &[PeriodQuota]) -> Self {
        let mut charges = Self::default();
        charges.push_buckets(Class::Requests, Dimension::Global, 0, quotas);
        charges
    }

    /// Adds one request for each of an identity's buckets in a dimension.
    pub fn push_identity(&mut self, dimension: Dimension, identity: Digest, quotas: &[PeriodQuota]) {
        self.push_buckets(Class::Requests, dimension, u128::from_be_bytes(identity.to_bytes()), quotas);
    }

    /// Adds each of an identity's buckets of tokens in a dimension. What they are charged is known only with a request:
    /// see [`reserve`](Self::reserve).
    pub fn push_tokens(&mut self, dimension: Dimension, identity: Digest, quotas: &[PeriodQuota]) {
        self.push_buckets(Class::Tokens, dimension, u128::from_be_bytes(identity.to_bytes()), quotas);
    }

    /// Digests are keyed and separated by dimension, so that flipping low bits can only meet another bucket by a collision
    /// of 128 bits. Flipped are those of the period's number and of what is counted: the latter tells apart where only the
    /// digest is looked at, as gates do.
    fn push_buckets(&mut self, class: Class, dimension: Dimension, identity: u128, quotas: &[PeriodQuota]) {
        let (kind, cost) = match class {
            Class::Requests => (0, 1),
            Class::Tokens => (TOKENS, 0),
        };
        for PeriodQuota { period, quota } in quotas {
            let key = BucketKey::new(dimension.in_limiter(class), identity ^ kind ^ period.number());
            self.0.push(Charge::new(key, *quota, cost));
        }
    }

    /// Adds a charge of `cost` to each of these buckets of tokens.
    pub fn reserve(&mut self, tokens: &Self, cost: u64) {
        self.0.extend(tokens.0.iter().map(|charge| Charge { cost, ..*charge }));
    }

    /// What the smallest of its buckets ever holds; `None` if there are none.
    #[must_use]
    pub fn smallest_capacity(&self) -> Option<u64> {
        self.0.iter().map(|charge| charge.quota.capacity()).min()
    }

    /// The first charge that is larger than its bucket ever is.
    #[must_use]
    pub fn exceeding(&self) -> Option<usize> {
        self.0.iter().position(|charge| charge.cost > charge.quota.capacity())
    }

    /// What the charge at this position asks, and what its bucket ever holds.
    #[must_use]
    pub fn excess(&self, at: usize) -> Option<Excess> {
        self.0.get(at).map(|charge| Excess { asked: charge.cost, most: charge.quota.capacity() })
    }

    /// What the smallest of its buckets of tokens ever holds, if tokens are charged.
    #[must_use]
    pub fn smallest_budget(&self) -> Option<u64> {
        self.tokens().map(|charge| charge.quota.capacity()).min()
    }

    /// Has each of the charges that count tokens be of `cost`.
    pub fn set_tokens(&mut self, cost: u64) {
        let tokens = self.0.iter_mut().filter(|charge| class_of(&charge.key) == Class::Tokens);
        tokens.for_each(|charge| charge.cost = cost);
    }

    fn tokens(&self) -> impl Iterator<Item = &Charge> {
        self.0.iter().filter(|charge| class_of(&charge.key) == Class::Tokens)
    }

    /// The same charges, at most `most` together.
    pub fn chunks(&self, most: usize) -> impl Iterator<Item = Self> {
        self.0.chunks(most).map(|charges| Self(charges.into()))
    }

    /// The charges at those positions that `wanted` names.
    #[must_use]
    pub fn at(&self, wanted: impl Fn(usize) -> bool) -> Self {
        let charges = self.0.iter().enumerate().filter(|(position, _)| wanted(*position));
        Self(charges.map(|(_, charge)| *charge).collect())
    }

    /// The charges of one class alone.
    #[must_use]
    pub fn of_class(&self, class: Class) -> Self {
        Self(self.0.iter().filter(|charge| class_of(&charge.key) == class).copied().collect())
    }

    /// Adds one charge.
    pub(super) fn push(&mut self, charge: Charge) {
        self.0.push(charge);
    }

    /// Keeps the charges that `keep` wants, as it leaves them.
    pub(super) fn retain(&mut self, keep: impl FnMut(&mut Charge) -> bool) {
        self.0.retain(keep);
    }

    /// Whether tokens are among what is charged.
    #[must_use]
    pub fn count_tokens(&self) -> bool {
        self.tokens().next().is_some()
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

    /// The dimensions in which tokens are charged, one for each bucket.
    pub fn token_dimensions(&self) -> impl Iterator<Item = Dimension> + '_ {
        self.tokens().filter_map(|charge| Dimension::of(&charge.key))
    }

    /// What the charge at `index` counts.
    #[must_use]
    pub fn class(&self, index: usize) -> Class {
        self.0.get(index).map_or(Class::Requests, |charge| class_of(&charge.key))
    }

    /// The tightest of the buckets of each class, given their balances in the same order: the first with the smallest share
    /// left.
    #[must_use]
    pub fn tightest(&self, balances: &Balances) -> Quotas {
        // Those of requests come first.
        let requests = self.0.iter().take_while(|charge| class_of(&charge.key) == Class::Requests).count();
        let tokens = self.tightest_among(requests..self.0.len(), balances);
        Quotas { requests: self.tightest_among(0..requests, balances), tokens: tokens.map(Box::new) }
    }

    fn tightest_among(&self, range: std::ops::Range<usize>, balances: &Balances) -> Option<QuotaStatus> {
        let start = range.start;
        let mut charges = self.0.get(range)?.iter().zip(start..).map(|(charge, index)| {
            let remaining = u64::try_from(balances.remaining(index).unwrap_or(0)).unwrap_or(0);
            (index, charge, remaining)
        });
        let first = charges.next()?;
        let (index, charge, remaining) = charges.fold(first, |tightest, other| {
            let share = |(_, charge, remaining): (usize, &Charge, u64)| (remaining, charge.quota.capacity());
            if is_smaller_share(share(other), share(tightest)) { other } else { tightest }
        });
        Some(QuotaStatus {
            dimension: Dimension::of(&charge.key)?,
            quota: charge.quota,
            remaining,
            reset: balances.until_full(index)?,
        })
    }
}
