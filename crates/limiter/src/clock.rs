//! Time as stores see it: whole microseconds.

use std::time::{Duration, Instant};

/// A point in time, in whole microseconds since an origin that belongs to the clock it was read from.
///
/// A tick of one microsecond is what a shared store's server can offer, so that every store can agree to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The clock's origin.
    pub const ZERO: Self = Self(0);

    /// The end of time.
    pub(crate) const NEVER: Self = Self(u64::MAX);

    /// The point this many microseconds after the origin.
    #[must_use]
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// Microseconds since the origin.
    #[must_use]
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// The point `duration` later; a fraction of a microsecond is dropped, and the end of time is the latest.
    #[must_use]
    pub fn saturating_add(self, duration: Duration) -> Self {
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(micros))
    }

    /// Time passed since `earlier`, in microseconds; zero if `earlier` is the later one.
    #[must_use]
    pub(crate) const fn micros_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// Tells the time.
///
/// A clock may stand still or step back: buckets then refill nothing until it has passed the latest time they have
/// seen. It must not run ahead and return, because what it lets flow in meanwhile is real.
pub trait Clock: Send + Sync {
    /// The present time.
    fn now(&self) -> Timestamp;
}

/// The operating system's monotonic clock, counted from when this value was made.
///
/// It never steps back. On Linux it stands still while the machine is suspended.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    origin: Instant,
}

impl SystemClock {
    /// A clock that starts now.
    #[must_use]
    #[expect(
        clippy::disallowed_methods,
        reason = "this is where the time that everybody else is given comes from"
    )]
    pub fn new() -> Self {
        Self { origin: Instant::now() }
    }
}

// === impl SystemClock ===

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    #[inline]
    #[expect(
        clippy::disallowed_methods,
        reason = "this is where the time that everybody else is given comes from"
    )]
    fn now(&self) -> Timestamp {
        let since = Instant::now().saturating_duration_since(self.origin);
        // Seconds since the process began: the product passes 64 bits after half a million years.
        Timestamp(since.as_secs().saturating_mul(1_000_000) + u64::from(since.subsec_micros()))
    }
}

#[cfg(any(test, feature = "test-util"))]
pub use manual::ManualClock;

#[cfg(any(test, feature = "test-util"))]
mod manual {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    use super::{Clock, Timestamp};

    /// A clock that stands still until it is told otherwise. Clones share the time.
    #[derive(Clone, Debug, Default)]
    pub struct ManualClock {
        micros: Arc<AtomicU64>,
    }

    impl ManualClock {
        /// A clock that shows `now`.
        #[must_use]
        pub fn new(now: Timestamp) -> Self {
            Self { micros: Arc::new(AtomicU64::new(now.as_micros())) }
        }

        /// Moves on by `duration`, in whole microseconds.
        pub fn advance(&self, duration: Duration) {
            self.set(self.now().saturating_add(duration));
        }

        /// Shows `now` from here on, which may be earlier than before.
        pub fn set(&self, now: Timestamp) {
            self.micros.store(now.as_micros(), Ordering::SeqCst);
        }
    }

    impl Clock for ManualClock {
        fn now(&self) -> Timestamp {
            Timestamp::from_micros(self.micros.load(Ordering::SeqCst))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_clock_starts_at_zero_and_never_steps_back() {
        let clock = SystemClock::new();
        let readings: Vec<_> = (0..1_000).map(|_| clock.now()).collect();
        assert!(readings[0] < Timestamp::from_micros(60_000_000));
        assert!(readings.is_sorted());
    }

    #[test]
    fn clones_of_a_manual_clock_share_the_time() {
        let clock = ManualClock::new(Timestamp::from_micros(5));
        let clone = clock.clone();
        clone.advance(Duration::from_micros(3));
        assert_eq!(clock.now(), Timestamp::from_micros(8));
        clock.set(Timestamp::ZERO);
        assert_eq!(clone.now(), Timestamp::ZERO);
    }

    #[test]
    fn the_end_of_time_is_the_latest() {
        assert_eq!(Timestamp::from_micros(1).saturating_add(Duration::MAX).as_micros(), u64::MAX);
    }
}
