//! One source of time for both, so that neither is measured by its clock.

use std::time::Instant;

use fairlane_limiter::{Clock, SystemClock, Timestamp};
use governor::clock::Reference;
use governor::nanos::Nanos;
use rustix::time::{ClockId, clock_gettime};

/// The operating system's monotonic clock for either limiter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SharedClock {
    ours: SystemClock,
    origin: Instant,
}

impl SharedClock {
    #[expect(clippy::disallowed_methods, reason = "a benchmark runs in real time")]
    pub(crate) fn new() -> Self {
        Self { ours: SystemClock::new(), origin: Instant::now() }
    }
}

impl Clock for SharedClock {
    #[inline]
    fn now(&self) -> Timestamp {
        self.ours.now()
    }
}

impl governor::clock::Clock for SharedClock {
    type Instant = Tick;

    #[inline]
    #[expect(clippy::disallowed_methods, reason = "a benchmark runs in real time")]
    fn now(&self) -> Tick {
        let since = Instant::now().saturating_duration_since(self.origin);
        Tick(since.as_secs() * 1_000_000_000 + u64::from(since.subsec_nanos()))
    }
}

/// Nanoseconds since the clock was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Tick(u64);

impl Reference for Tick {
    fn duration_since(&self, earlier: Self) -> Nanos {
        Nanos::new(self.0.saturating_sub(earlier.0))
    }

    fn saturating_sub(&self, duration: Nanos) -> Self {
        Self(self.0.saturating_sub(duration.as_u64()))
    }
}

impl std::ops::Add<Nanos> for Tick {
    type Output = Self;

    fn add(self, duration: Nanos) -> Self {
        Self(self.0 + duration.as_u64())
    }
}

/// CPU time of the calling thread, in nanoseconds.
pub(crate) fn thread_cpu_nanos() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    u64::try_from(time.tv_sec * 1_000_000_000 + time.tv_nsec).unwrap_or(0)
}

/// Real time, in nanoseconds.
pub(crate) fn wall_nanos() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    u64::try_from(time.tv_sec * 1_000_000_000 + time.tv_nsec).unwrap_or(0)
}
