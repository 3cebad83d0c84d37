//! The gateway's clock, as its parts need it.

use fairlane_limiter::{Clock, Timestamp};
use tokio::time::Instant;

/// Tokio's clock as the limiter's, so that tests pause both at once.
#[derive(Clone, Copy, Debug)]
pub struct TokioClock {
    origin: Instant,
}

impl TokioClock {
    /// A clock that starts now.
    #[must_use]
    pub fn start() -> Self {
        Self { origin: Instant::now() }
    }

    /// The time as the scheduler counts it.
    #[must_use]
    pub fn schedule(&self, at: Instant) -> fairlane_fair_queue::Timestamp {
        let nanos = at.saturating_duration_since(self.origin).as_nanos();
        fairlane_fair_queue::Timestamp::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// A time of the scheduler's as an instant to sleep until.
    #[must_use]
    pub fn instant(&self, at: fairlane_fair_queue::Timestamp) -> Instant {
        self.origin + std::time::Duration::from_nanos(at.as_nanos())
    }
}

impl TokioClock {
    /// The time as the limiter counts it.
    #[must_use]
    pub fn limiter(&self, at: Instant) -> Timestamp {
        let since = at.saturating_duration_since(self.origin);
        Timestamp::from_micros(u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        self.limiter(Instant::now())
    }
}
