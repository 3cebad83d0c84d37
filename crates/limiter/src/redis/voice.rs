//! What an operator is told: at most one line a second of each kind, whatever the load.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::time::Instant;

/// The kinds of lines.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Up,
    Down,
    Evicting,
    LateGrant,
    Settlement,
    Script,
}

const KINDS: usize = 6;

/// The shortest time between two lines of a kind, in milliseconds.
const PAUSE: u64 = 1_000;

/// Counts what is said.
#[derive(Debug)]
pub(super) struct Voice {
    origin: Instant,
    /// When each kind may speak again, in milliseconds.
    free: [AtomicU64; KINDS],
    /// How many lines of each kind were swallowed since it last spoke.
    swallowed: [AtomicU64; KINDS],
}

impl Voice {
    pub(super) fn new() -> Self {
        let zeros = || std::array::from_fn(|_| AtomicU64::new(0));
        Self { origin: Instant::now(), free: zeros(), swallowed: zeros() }
    }

    /// Writes a line, unless one of its kind was written less than a second ago. Nobody listens without the feature
    /// `tracing`.
    pub(super) fn say(&self, kind: Kind, line: fmt::Arguments<'_>) {
        let Some(swallowed) = self.may_speak(kind) else { return };
        #[cfg(feature = "tracing")]
        match kind {
            Kind::Up => tracing::info!(swallowed, "{line}"),
            _ => tracing::warn!(swallowed, "{line}"),
        }
        #[cfg(not(feature = "tracing"))]
        let _ = (swallowed, line);
    }

    /// If a line of this kind may be written now: how many were not since the last.
    fn may_speak(&self, kind: Kind) -> Option<u64> {
        let now = u64::try_from(self.origin.elapsed().as_millis()).unwrap_or(u64::MAX);
        let (free, swallowed) = (&self.free[kind as usize], &self.swallowed[kind as usize]);
        let until = free.load(Ordering::Relaxed);
        let next = now.saturating_add(PAUSE);
        if now >= until && free.compare_exchange(until, next, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            return Some(swallowed.swap(0, Ordering::Relaxed));
        }
        swallowed.fetch_add(1, Ordering::Relaxed);
        None
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_line_a_second_of_each_kind() {
        let voice = Voice::new();
        assert_eq!(voice.may_speak(Kind::Down), Some(0));
        for _ in 0..100 {
            assert_eq!(voice.may_speak(Kind::Down), None);
        }
        assert_eq!(voice.may_speak(Kind::Up), Some(0));
        tokio::time::advance(Duration::from_millis(1_001)).await;
        assert_eq!(voice.may_speak(Kind::Down), Some(100));
        assert_eq!(voice.may_speak(Kind::Down), None);
    }
}
