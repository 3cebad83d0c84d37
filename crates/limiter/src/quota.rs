//! What a bucket may hold and how fast it refills.

use std::num::NonZeroU64;
use std::time::Duration;

/// Microseconds in one day: the denominator of every refill.
pub(crate) const MICROS_PER_DAY: u64 = 86_400_000_000;

/// Capacity and refill of a token bucket, from values that cannot be impossible.
///
/// The refill is kept as whole units *per day*, whatever period it was given for. With time in whole
/// microseconds that makes every bucket's content a whole number of one fixed grain (see
/// [`Bucket`](crate::Bucket)), so that nothing is ever rounded and a changed quota keeps the content as it is. It
/// also makes quotas that behave alike equal: 60 per minute is 1 per second, if the capacities agree.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use fairlane_limiter::Quota;
///
/// # fn main() -> Result<(), fairlane_limiter::QuotaError> {
/// let requests = Quota::per_second(5)?.with_capacity(10)?;
/// assert_eq!(requests.capacity(), 10);
/// assert_eq!(requests.refill_per_day(), 5 * 86_400);
///
/// let tokens = Quota::new(40_000, 1_000, Duration::from_secs(15))?;
/// assert_eq!(tokens, Quota::per_minute(4_000)?.with_capacity(40_000)?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Quota {
    capacity: NonZeroU64,
    refill_per_day: NonZeroU64,
}

impl Quota {
    /// The fastest refill accepted, in units per day: 10^12 per minute.
    ///
    /// Small enough that every intermediate of the exact arithmetic fits 128 bits, and that the number itself is
    /// exact in the 53-bit arithmetic of a scripting language.
    pub const MAX_REFILL_PER_DAY: u64 = 1_440_000_000_000_000;

    /// The largest capacity accepted, in units: what the fastest refill brings in one day.
    pub const MAX_CAPACITY: u64 = Self::MAX_REFILL_PER_DAY;

    /// One unit, and one more per day.
    pub(crate) const LEAST: Self = Self { capacity: NonZeroU64::MIN, refill_per_day: NonZeroU64::MIN };

    /// A bucket of `capacity` units into which `refill` units flow evenly in every `period`.
    ///
    /// # Errors
    ///
    /// Zero anywhere, a capacity or a rate above the largest accepted, and a refill that is not a whole number
    /// of units per day, which could not be kept exactly (1 per week is 1/7 per day; 7 per week is fine).
    pub fn new(capacity: u64, refill: u64, period: Duration) -> Result<Self, QuotaError> {
        let capacity = checked_capacity(capacity)?;
        if refill == 0 {
            return Err(QuotaError::ZeroRefill);
        }
        if period.is_zero() {
            return Err(QuotaError::ZeroPeriod);
        }
        let per_day = u128::from(refill)
            .checked_mul(u128::from(MICROS_PER_DAY) * 1_000)
            .ok_or(QuotaError::RefillTooFast)?;
        let period = period.as_nanos();
        let refill_per_day = per_day / period;
        if refill_per_day > u128::from(Self::MAX_REFILL_PER_DAY) {
            return Err(QuotaError::RefillTooFast);
        }
        if !per_day.is_multiple_of(period) {
            return Err(QuotaError::Inexact);
        }
        let refill_per_day =
            u64::try_from(refill_per_day).ok().and_then(NonZeroU64::new).ok_or(QuotaError::Inexact)?;
        Ok(Self { capacity, refill_per_day })
    }

    /// `amount` units per second, and room for one second's amount.
    ///
    /// # Errors
    ///
    /// See [`Quota::new`].
    pub fn per_second(amount: u64) -> Result<Self, QuotaError> {
        Self::new(amount, amount, Duration::from_secs(1))
    }

    /// `amount` units per minute, and room for one minute's amount.
    ///
    /// # Errors
    ///
    /// See [`Quota::new`].
    pub fn per_minute(amount: u64) -> Result<Self, QuotaError> {
        Self::new(amount, amount, Duration::from_secs(60))
    }

    /// `amount` units per hour, and room for one hour's amount.
    ///
    /// # Errors
    ///
    /// See [`Quota::new`].
    pub fn per_hour(amount: u64) -> Result<Self, QuotaError> {
        Self::new(amount, amount, Duration::from_secs(3_600))
    }

    /// `amount` units per day (of 24 hours), and room for one day's amount.
    ///
    /// # Errors
    ///
    /// See [`Quota::new`].
    pub fn per_day(amount: u64) -> Result<Self, QuotaError> {
        Self::new(amount, amount, Duration::from_secs(86_400))
    }

    /// The same refill into a bucket of another size, in units.
    ///
    /// # Errors
    ///
    /// Zero, or more than [`Quota::MAX_CAPACITY`].
    pub fn with_capacity(self, capacity: u64) -> Result<Self, QuotaError> {
        Ok(Self { capacity: checked_capacity(capacity)?, ..self })
    }

    /// The quota with these values; `None` if there is none.
    #[cfg(feature = "redis")]
    pub(crate) fn from_parts(capacity: u64, refill_per_day: u64) -> Option<Self> {
        let capacity = checked_capacity(capacity).ok()?;
        let refill_per_day =
            NonZeroU64::new(refill_per_day).filter(|rate| rate.get() <= Self::MAX_REFILL_PER_DAY)?;
        Some(Self { capacity, refill_per_day })
    }

    /// The most the bucket holds, in units; at least 1.
    #[must_use]
    pub const fn capacity(self) -> u64 {
        self.capacity.get()
    }

    /// How much flows in, in units per day; at least 1.
    #[must_use]
    pub const fn refill_per_day(self) -> u64 {
        self.refill_per_day.get()
    }

    /// The time in which one unit flows in, rounded up to a whole microsecond.
    #[must_use]
    pub const fn unit_interval(self) -> Duration {
        Duration::from_micros(MICROS_PER_DAY.div_ceil(self.refill_per_day.get()))
    }
}

fn checked_capacity(capacity: u64) -> Result<NonZeroU64, QuotaError> {
    let capacity = NonZeroU64::new(capacity).ok_or(QuotaError::ZeroCapacity)?;
    if capacity.get() > Quota::MAX_CAPACITY { Err(QuotaError::CapacityTooLarge) } else { Ok(capacity) }
}

/// Why a [`Quota`] cannot be made from these values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QuotaError {
    /// A bucket that holds nothing would refuse everything; say so by not asking it.
    #[error("the capacity is zero")]
    ZeroCapacity,
    /// A bucket that never refills would refuse for ever once it is empty.
    #[error("the refill is zero")]
    ZeroRefill,
    /// Nothing can flow in no time.
    #[error("the refill period is zero")]
    ZeroPeriod,
    /// Above [`Quota::MAX_CAPACITY`].
    #[error("the capacity is above {} units", Quota::MAX_CAPACITY)]
    CapacityTooLarge,
    /// Above [`Quota::MAX_REFILL_PER_DAY`].
    #[error("the refill is above {} units per day", Quota::MAX_REFILL_PER_DAY)]
    RefillTooFast,
    /// Not a whole number of units per day.
    #[error("the refill is not a whole number of units per day")]
    Inexact,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotas_that_behave_alike_are_equal() {
        assert_eq!(Quota::per_minute(60).unwrap().with_capacity(1), Quota::per_second(1));
        assert_eq!(Quota::per_day(24).unwrap().with_capacity(1), Quota::per_hour(1));
    }

    #[test]
    fn the_slowest_and_the_fastest_are_accepted() {
        assert_eq!(Quota::per_day(1).unwrap().refill_per_day(), 1);
        let fastest = Quota::per_minute(1_000_000_000_000).unwrap();
        assert_eq!(fastest.refill_per_day(), Quota::MAX_REFILL_PER_DAY);
        assert_eq!(fastest.unit_interval(), Duration::from_micros(1));
        assert!(Quota::per_day(Quota::MAX_REFILL_PER_DAY).is_ok());
    }

    #[test]
    fn impossible_values_are_errors_and_never_unlimited() {
        let second = Duration::from_secs(1);
        assert_eq!(Quota::new(0, 1, second), Err(QuotaError::ZeroCapacity));
        assert_eq!(Quota::new(1, 0, second), Err(QuotaError::ZeroRefill));
        assert_eq!(Quota::new(1, 1, Duration::ZERO), Err(QuotaError::ZeroPeriod));
        assert_eq!(Quota::new(u64::MAX, 1, second), Err(QuotaError::CapacityTooLarge));
        assert_eq!(Quota::new(1, u64::MAX, Duration::from_nanos(1)), Err(QuotaError::RefillTooFast));
        assert_eq!(Quota::per_minute(1_000_000_000_001), Err(QuotaError::RefillTooFast));
        assert_eq!(Quota::new(1, 1, Duration::MAX), Err(QuotaError::Inexact));
    }

    #[test]
    fn only_a_refill_that_is_whole_per_day_is_accepted() {
        let week = Duration::from_secs(7 * 86_400);
        assert_eq!(Quota::new(1, 1, week), Err(QuotaError::Inexact));
        assert_eq!(Quota::new(1, 7, week).unwrap().refill_per_day(), 1);
        assert_eq!(Quota::new(1, 1, Duration::from_secs(7)), Err(QuotaError::Inexact));
        assert_eq!(Quota::new(5, 14, Duration::from_secs(7)), Quota::per_second(2).unwrap().with_capacity(5));
    }
}
