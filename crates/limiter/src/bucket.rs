//! The pure arithmetic of one token bucket: what every store has to agree with.
//!
//! A bucket's content is a whole number of *grains*. One unit is 86,400,000,000 grains, as many as a day has
//! microseconds, so a refill of `r` units per day is exactly `r` grains per microsecond: refilling is one integer
//! multiplication, nothing is rounded, and a sum over any number of steps is what one long step gives. Divisions
//! occur only where a content is told to somebody, and those are rounded so that the telling is never too
//! optimistic.
//!
//! The usual encoding, the time at which the bucket would be full (the generic cell rate algorithm, ITU-T I.371),
//! is smaller but keeps a debt as time: it would turn into another amount with every change of the refill.

use std::time::Duration;

use crate::Timestamp;
use crate::quota::{MICROS_PER_DAY, Quota};

/// Grains in one unit.
const GRAINS: i128 = MICROS_PER_DAY as i128;

/// The deepest debt, in units. Settlements beyond it stop there.
const MAX_DEBT: i128 = Quota::MAX_CAPACITY as i128;

/// The longest wait that is told: some 142 years, which leaves room for it beside a date in 53 bits.
const LONGEST_WAIT_MICROS: u64 = 1 << 52;

/// One bucket at one time: content, time and the quota that held then.
///
/// Plain data, changed by nothing but its methods; `now` is always given.
///
/// # Examples
///
/// ```
/// use fairlane_limiter::{Bucket, Quota, Timestamp};
///
/// # fn main() -> Result<(), fairlane_limiter::QuotaError> {
/// let quota = Quota::per_second(10)?;
/// let start = Timestamp::ZERO;
/// let bucket = Bucket::observe(None, quota, start);
/// assert!(bucket.holds(10));
///
/// let empty = bucket.take(10);
/// assert_eq!(empty.wait_for(1, start).as_millis(), 100);
/// let later = Bucket::observe(Some(empty), quota, Timestamp::from_micros(100_000));
/// assert!(later.holds(1));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    // The halves of an `i128`, which would align (and so pad) every stored bucket to 16 bytes.
    grains_low: u64,
    grains_high: i64,
    at: Timestamp,
    quota: Quota,
}

/// What a bucket holds, as callers are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Balance {
    /// Whole units in the bucket, rounded down; negative when it is in debt.
    pub remaining: i64,
    /// Time until `remaining` is one more, rounded up to a microsecond; zero when the bucket is full.
    pub until_next: Duration,
    /// Time until the bucket is full, rounded up to a microsecond; zero when it is.
    pub until_full: Duration,
}

impl Bucket {
    /// A full bucket.
    #[must_use]
    pub const fn full(quota: Quota, now: Timestamp) -> Self {
        Self::of(capacity_grains(quota), now, quota)
    }

    /// The bucket as it stands at `now`, from what was last stored (nothing, if it was forgotten), with `quota`
    /// holding from now on.
    ///
    /// A bucket that has had the time to fill up carries no information, and is full under any quota: a store may
    /// forget it at any moment from then on without anybody noticing.
    #[must_use]
    #[inline]
    pub fn observe(last: Option<Self>, quota: Quota, now: Timestamp) -> Self {
        match last {
            None => Self::full(quota, now),
            Some(last) if last.is_full(now) => Self::full(quota, later(last.at, now)),
            Some(last) => last.keep(quota, now),
        }
    }

    /// As [`observe`](Self::observe), for a bucket that is never forgotten: even a full one keeps its content when
    /// the quota changes.
    #[must_use]
    #[inline]
    pub(crate) fn keep(self, quota: Quota, now: Timestamp) -> Self {
        let grains = self.grains_at(now).min(capacity_grains(quota));
        Self::of(grains, later(self.at, now), quota)
    }

    /// A bucket that was stored elsewhere, as whole units and grains beyond them; `None` if no bucket can be so.
    #[cfg(feature = "redis")]
    pub(crate) fn restore(units: i64, grains: u64, at: Timestamp, quota: Quota) -> Option<Self> {
        let content = i128::from(units) * GRAINS + i128::from(grains);
        let possible =
            grains < MICROS_PER_DAY && (-MAX_DEBT * GRAINS..=capacity_grains(quota)).contains(&content);
        possible.then(|| Self::of(content, at, quota))
    }

    /// The same bucket by another clock: what was `now` by the one is `then` by the other.
    #[cfg(feature = "redis")]
    pub(crate) fn by_another_clock(self, now: Timestamp, then: Timestamp) -> Self {
        let ahead = self.at.micros_since(now);
        let behind = now.micros_since(self.at);
        let at = then.as_micros().saturating_add(ahead).saturating_sub(behind);
        Self { at: Timestamp::from_micros(at), ..self }
    }

    /// Whether `cost` can be taken at the bucket's own time. Nothing can be taken from a debt, not even zero.
    #[must_use]
    #[inline]
    pub const fn holds(&self, cost: u64) -> bool {
        self.grains() >= units(cost)
    }

    /// The bucket without `cost` units, which it should [hold](Self::holds).
    #[must_use]
    #[inline]
    pub fn take(self, cost: u64) -> Self {
        self.with_grains((self.grains() - units(cost)).max(-MAX_DEBT * GRAINS))
    }

    /// The bucket after a signed correction: up to its capacity, down to the deepest debt that is kept.
    #[must_use]
    #[inline]
    pub fn settle(self, amount: i64) -> Self {
        self.settle_sum(i128::from(amount))
    }

    /// [`settle`](Self::settle) by a sum of amounts, which may be beyond what one amount can be.
    #[must_use]
    #[inline]
    pub(crate) fn settle_sum(self, amount: i128) -> Self {
        let most = MAX_DEBT + i128::from(Quota::MAX_CAPACITY);
        let grains = self.grains() + amount.clamp(-most, most) * GRAINS;
        self.with_grains(grains.clamp(-MAX_DEBT * GRAINS, capacity_grains(self.quota)))
    }

    /// Whether it has filled up by `now`.
    #[must_use]
    #[inline]
    pub fn is_full(&self, now: Timestamp) -> bool {
        self.grains_at(now) >= capacity_grains(self.quota)
    }

    /// When it will be full, if nobody takes from it.
    #[must_use]
    pub fn full_at(&self) -> Timestamp {
        self.at.saturating_add(self.wait_until(capacity_grains(self.quota), self.at))
    }

    /// The time after `now` from which on it [holds](Self::holds) `cost`, if nobody else takes from it: zero if it
    /// does, else exact, rounded up to a microsecond. Beyond some 142 years it is cut off.
    ///
    /// Meaningless for a cost above the capacity, which it never holds.
    #[must_use]
    pub fn wait_for(&self, cost: u64, now: Timestamp) -> Duration {
        self.wait_until(units(cost), now)
    }

    /// What callers are told of it at `now`.
    #[must_use]
    pub fn balance(&self, now: Timestamp) -> Balance {
        let full = capacity_grains(self.quota);
        let remaining = self.remaining();
        let next = ((i128::from(remaining) + 1) * GRAINS).min(full);
        Balance { remaining, until_next: self.wait_until(next, now), until_full: self.until_full(now) }
    }

    /// Whole units in it; negative in debt.
    #[must_use]
    pub fn remaining(&self) -> i64 {
        whole_units(self.grains())
    }

    /// The time after `now` until it is full, rounded up to a microsecond; zero when it is.
    #[must_use]
    pub fn until_full(&self, now: Timestamp) -> Duration {
        self.wait_until(capacity_grains(self.quota), now)
    }

    /// The quota that holds since it was last observed.
    #[must_use]
    pub const fn quota(&self) -> Quota {
        self.quota
    }

    /// The latest time that it has seen.
    #[must_use]
    pub const fn at(&self) -> Timestamp {
        self.at
    }

    fn wait_until(&self, grains: i128, now: Timestamp) -> Duration {
        let Ok(missing @ 1..) = u128::try_from(grains - self.grains()) else {
            return Duration::ZERO;
        };
        let refill = self.quota.refill_per_day();
        // Divided in 64 bits where it fits, which is several times faster and nearly always does.
        let flow = match u64::try_from(missing) {
            Ok(missing) => missing.div_ceil(refill).into(),
            Err(_) => missing.div_ceil(refill.into()),
        };
        // A clock that has stepped back must first return: until then nothing flows.
        let lag = self.at.micros_since(now);
        let wait = u64::try_from(flow).unwrap_or(u64::MAX).saturating_add(lag);
        Duration::from_micros(wait.min(LONGEST_WAIT_MICROS))
    }

    #[inline]
    const fn grains(&self) -> i128 {
        (self.grains_high as i128) << 64 | self.grains_low as i128
    }

    /// Content at `now` under its own quota. A `now` that is earlier than the bucket adds nothing.
    #[inline]
    fn grains_at(&self, now: Timestamp) -> i128 {
        // 51 bits of refill times 64 bits of time, and a content of 88 bits: far from overflow.
        let flow = i128::from(self.quota.refill_per_day()) * i128::from(now.micros_since(self.at));
        (self.grains() + flow).min(capacity_grains(self.quota))
    }

    #[inline]
    const fn with_grains(self, grains: i128) -> Self {
        Self::of(grains, self.at, self.quota)
    }

    #[inline]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the two halves are what is wanted"
    )]
    const fn of(grains: i128, at: Timestamp, quota: Quota) -> Self {
        Self { grains_low: grains as u64, grains_high: (grains >> 64) as i64, at, quota }
    }
}

/// Grains as units, rounded down.
///
/// Every answer tells this of several buckets, and a division in 128 bits is dozens of instructions. This one is by a
/// constant, so its halves are divided by multiplying: with `d` for the odd part of the divisor and `high · 2^64 + low` for
/// the dividend, the quotient is `high · ⌊2^64/d⌋ + ⌊low/d⌋ + ⌊(high · (2^64 mod d) + low mod d) / d⌋`.
#[inline]
fn whole_units(grains: i128) -> i64 {
    const SHIFT: u32 = MICROS_PER_DAY.trailing_zeros();
    const ODD: u64 = MICROS_PER_DAY >> SHIFT;
    // 2^64 itself is one more than fits, and no multiple of an odd number.
    const QUOTIENT: u64 = u64::MAX / ODD;
    const REST: u64 = u64::MAX % ODD + 1;

    let Ok(grains) = u128::try_from(grains) else {
        // The content is between the deepest debt and the largest capacity, both far inside 64 bits.
        return i64::try_from(grains.div_euclid(GRAINS)).unwrap_or(i64::MIN);
    };
    let shifted = grains >> SHIFT;
    #[expect(clippy::cast_possible_truncation, reason = "the two halves are what is wanted")]
    let (high, low) = ((shifted >> 64) as u64, shifted as u64);
    // The largest capacity leaves `high` 11 bits; beside 41 bits of quotient and 24 of rest nothing overflows.
    let units = high * QUOTIENT + low / ODD + (high * REST + low % ODD) / ODD;
    i64::try_from(units).unwrap_or(i64::MAX)
}

#[inline]
const fn units(amount: u64) -> i128 {
    amount as i128 * GRAINS
}

#[inline]
const fn capacity_grains(quota: Quota) -> i128 {
    units(quota.capacity())
}

#[inline]
fn later(one: Timestamp, other: Timestamp) -> Timestamp {
    one.max(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn at(micros: u64) -> Timestamp {
        Timestamp::from_micros(micros)
    }

    fn quota(capacity: u64, refill: u64, period: Duration) -> Quota {
        Quota::new(capacity, refill, period).unwrap()
    }

    #[test]
    fn whole_units_are_the_quotient_rounded_down() {
        let edges = [0, 1, 2, 213_503_982, 213_503_983, 1 << 27, 1_000_000_000, 1 << 50, MAX_DEBT];
        for units in edges.into_iter().flat_map(|units| [-units, units]) {
            for grains in [-1, 0, 1, 8_191, 8_192, GRAINS / 2, GRAINS - 1] {
                let grains = units * GRAINS + grains;
                assert_eq!(i128::from(whole_units(grains)), grains.div_euclid(GRAINS), "{grains}");
            }
        }
        for power in 0..87 {
            for grains in [(1 << power) - 1, 1 << power, (1 << power) + 12_345] {
                assert_eq!(i128::from(whole_units(grains)), grains.div_euclid(GRAINS), "{grains}");
            }
        }
    }

    #[test]
    fn a_refill_of_three_per_second_is_exact_at_every_third() {
        let bucket = Bucket::full(quota(3, 3, SECOND), at(0)).take(3);
        for (micros, remaining, until_next) in
            [(0, 0, 333_334), (333_333, 0, 1), (333_334, 1, 333_333), (666_666, 1, 1), (666_667, 2, 333_333)]
        {
            let balance = Bucket::observe(Some(bucket), bucket.quota(), at(micros)).balance(at(micros));
            assert_eq!(
                (balance.remaining, balance.until_next.as_micros()),
                (remaining, until_next),
                "at {micros}"
            );
        }
        assert!(bucket.is_full(at(1_000_000)) && !bucket.is_full(at(999_999)));
        assert_eq!(bucket.full_at(), at(1_000_000));
    }

    #[test]
    fn a_full_bucket_waits_for_nothing() {
        let balance = Bucket::full(quota(7, 1, SECOND), at(5)).balance(at(5));
        assert_eq!(balance, Balance { remaining: 7, until_next: Duration::ZERO, until_full: Duration::ZERO });
    }

    #[test]
    fn a_debt_is_rounded_away_from_zero_and_told_to_the_next_unit() {
        let bucket = Bucket::full(quota(1, 1, SECOND), at(0)).settle(-3);
        let later = Bucket::observe(Some(bucket), bucket.quota(), at(250_000));
        let balance = later.balance(at(250_000));
        assert_eq!((balance.remaining, balance.until_next.as_micros()), (-2, 750_000));
        assert!(!later.holds(0), "nothing can be taken from a debt");
    }

    #[test]
    fn a_debt_has_a_floor_and_a_wait_an_end() {
        let bucket =
            Bucket::full(quota(1, 1, Duration::from_secs(86_400)), at(0)).settle(i64::MIN).settle(i64::MIN);
        let balance = bucket.balance(at(0));
        assert_eq!(i128::from(balance.remaining), -MAX_DEBT);
        assert_eq!(balance.until_full, Duration::from_micros(LONGEST_WAIT_MICROS));
    }

    #[test]
    fn a_clock_that_has_stepped_back_must_first_return() {
        let bucket = Bucket::full(quota(1, 1, SECOND), at(5_000_000)).take(1);
        assert_eq!(bucket.wait_for(1, at(3_000_000)), 3 * SECOND);
        assert_eq!(Bucket::observe(Some(bucket), bucket.quota(), at(3_000_000)), bucket);
    }

    #[test]
    fn a_changed_quota_keeps_the_content_and_an_unchanged_one_adds_nothing() {
        let (slow, fast) = (quota(10, 1, SECOND), quota(100, 50, SECOND));
        let bucket = Bucket::full(slow, at(0)).take(8);
        let raised = Bucket::observe(Some(bucket), fast, at(1_500_000));
        assert_eq!(raised.balance(at(1_500_000)).remaining, 3);
        assert_eq!(raised.balance(at(1_500_000)).until_next.as_micros(), 10_000, "half a unit is kept");
        assert_eq!(Bucket::observe(Some(raised), fast, at(1_500_000)), raised);
        let lowered = Bucket::observe(Some(raised), quota(2, 1, SECOND), at(1_500_000));
        assert_eq!(lowered.balance(at(1_500_000)).remaining, 2);
    }

    #[test]
    fn full_is_forgotten_unless_it_is_kept() {
        let (small, large) = (quota(1, 1, SECOND), quota(100, 1, SECOND));
        let bucket = Bucket::full(small, at(0)).take(1);
        assert_eq!(Bucket::observe(Some(bucket), large, at(1_000_000)).balance(at(1_000_000)).remaining, 100);
        assert_eq!(bucket.keep(large, at(1_000_000)).balance(at(1_000_000)).remaining, 1);
    }
}
