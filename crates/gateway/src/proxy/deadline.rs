//! One timer per request that can be put off without touching the timer wheel.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

/// A moment that may move, and one timer that follows it lazily.
///
/// Putting the moment off only writes it down: when the timer fires too early it is set again, so that a
/// stream of ten thousand chunks costs a handful of timer operations rather than ten thousand.
pub(super) struct Deadline {
    at: Instant,
    sleep: Pin<Box<Sleep>>,
}

/// Stands for "never" where a sum of times is beyond what the clock can tell.
const FAR: Duration = Duration::from_secs(86_400 * 365 * 30);

/// `from` plus `after`, or a moment in the far future where that overflows.
pub(super) fn later(from: Instant, after: Duration) -> Instant {
    from.checked_add(after.min(FAR)).unwrap_or(from)
}

// === impl Deadline ===

impl Deadline {
    pub(super) fn new(at: Instant) -> Self {
        Self { at, sleep: Box::pin(sleep_until(at)) }
    }

    /// Moves the deadline.
    pub(super) fn set(&mut self, at: Instant) {
        self.at = at;
        if at < self.sleep.deadline() {
            self.sleep.as_mut().reset(at);
        }
    }

    /// Ready once the deadline has passed.
    pub(super) fn poll_passed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            ready!(self.sleep.as_mut().poll(cx));
            if self.at <= self.sleep.deadline() {
                return Poll::Ready(());
            }
            self.sleep.as_mut().reset(self.at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;

    #[tokio::test(start_paused = true)]
    async fn moving_the_deadline_either_way_moves_the_moment_it_passes() {
        let start = Instant::now();
        let mut deadline = Deadline::new(start + Duration::from_secs(10));
        deadline.set(start + Duration::from_secs(25));
        poll_fn(|cx| deadline.poll_passed(cx)).await;
        assert_eq!(start.elapsed().as_secs(), 25);

        let mut deadline = Deadline::new(start + Duration::from_secs(100));
        deadline.set(start + Duration::from_secs(30));
        poll_fn(|cx| deadline.poll_passed(cx)).await;
        assert_eq!(start.elapsed().as_secs(), 30);
    }

    #[tokio::test(start_paused = true)]
    async fn a_time_beyond_the_clock_is_far_and_not_a_panic() {
        assert!(later(Instant::now(), Duration::MAX) > Instant::now() + Duration::from_secs(86_400));
    }
}
