//! What a decision takes, and what a settlement corrects.

use crate::{BucketKey, Quota};

/// An amount to take from one bucket. A decision takes several charges, all or none.
///
/// # One bucket twice
///
/// Charges of one decision that name the same bucket are one charge of their total, under the quota of the first
/// of them: all of them pass or none does, and each is answered with the same balance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charge {
    /// The bucket.
    pub key: BucketKey,
    /// The capacity and refill that hold for it from this decision on.
    pub quota: Quota,
    /// The amount, in units. Zero takes nothing, and passes unless the bucket is in debt.
    pub cost: u64,
}

impl Charge {
    /// A charge of `cost` units.
    #[must_use]
    pub const fn new(key: BucketKey, quota: Quota, cost: u64) -> Self {
        Self { key, quota, cost }
    }
}

/// A signed correction of one bucket, made when the real cost is known.
///
/// It is applied whatever the bucket holds. Settlements of one bucket in one call are one settlement of their sum,
/// under the quota of the first of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settlement {
    /// The bucket.
    pub key: BucketKey,
    /// The capacity and refill that hold for it from this settlement on.
    pub quota: Quota,
    /// The amount in units: positive gives back (never above the capacity), negative takes more (down into debt).
    pub amount: i64,
}

impl Settlement {
    /// A settlement of `amount` units.
    #[must_use]
    pub const fn new(key: BucketKey, quota: Quota, amount: i64) -> Self {
        Self { key, quota, amount }
    }
}
