use std::fmt;
use std::ops::{Add, Sub};
use std::time::Duration;

/// A moment, in whole nanoseconds since an origin of the caller's choosing.
///
/// The queue never reads a clock. The caller takes the time from whatever monotonic clock it has, counts
/// from any fixed origin (the start of the process does), and passes it in. 64 bits of nanoseconds last for
/// 584 years, so the arithmetic saturates instead of failing.
///
/// # Examples
///
/// ```
/// use fairlane_fair_queue::Timestamp;
/// use std::time::Duration;
///
/// let start = Timestamp::from_nanos(5);
/// let later = start + Duration::from_nanos(7);
/// assert_eq!(later.as_nanos(), 12);
/// assert_eq!(later.saturating_duration_since(start), Duration::from_nanos(7));
/// assert_eq!(start.saturating_duration_since(later), Duration::ZERO);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(u64);

// === impl Timestamp ===

impl Timestamp {
    /// The origin.
    pub const ZERO: Self = Self(0);
    /// The last moment that can be told; "never", where a moment is asked for.
    pub const MAX: Self = Self(u64::MAX);

    /// The moment `nanos` nanoseconds after the origin.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the origin.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// How long after `earlier` this is; zero if it is not after it.
    #[must_use]
    pub const fn saturating_duration_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.nanos_since(earlier))
    }

    pub(crate) const fn nanos_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    pub(crate) const fn after_nanos(self, nanos: u64) -> Self {
        Self(self.0.saturating_add(nanos))
    }
}

impl Add<Duration> for Timestamp {
    type Output = Self;

    /// Saturates at [`Timestamp::MAX`].
    fn add(self, duration: Duration) -> Self {
        self.after_nanos(nanos(duration))
    }
}

impl Sub<Duration> for Timestamp {
    type Output = Self;

    /// Saturates at [`Timestamp::ZERO`].
    fn sub(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(duration)))
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", Duration::from_nanos(self.0))
    }
}

/// Whole nanoseconds of a duration; what does not fit in 64 bits is as good as for ever.
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates_at_both_ends() {
        assert_eq!(Timestamp::MAX + Duration::from_secs(1), Timestamp::MAX);
        assert_eq!(Timestamp::from_nanos(1) - Duration::from_secs(1), Timestamp::ZERO);
        assert_eq!(Timestamp::ZERO + Duration::MAX, Timestamp::MAX);
    }
}
