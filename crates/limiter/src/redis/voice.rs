//! What an operator is told: at most one line a second of each kind, whatever the load.

use std::borrow::Cow;
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

/// How much of what a server says is worth repeating, in characters.
const LONGEST_QUOTE: usize = 400;

/// Counts what is said.
#[derive(Debug)]
pub(super) struct Voice {
    origin: Instant,
    /// When each kind may speak again, in milliseconds.
    free: [AtomicU64; KINDS],
    /// How many lines of each kind were not written since it last spoke.
    unwritten: [AtomicU64; KINDS],
}

impl Voice {
    pub(super) fn new() -> Self {
        let zeros = || std::array::from_fn(|_| AtomicU64::new(0));
        Self { origin: Instant::now(), free: zeros(), unwritten: zeros() }
    }

    /// Writes a line, unless one of its kind was written less than a second ago. Nobody listens without the feature
    /// `tracing`.
    pub(super) fn say(&self, kind: Kind, line: fmt::Arguments<'_>) {
        let Some(unwritten) = self.may_speak(kind) else { return };
        #[cfg(feature = "tracing")]
        {
            // Where none are missing there is no such field.
            let not_logged_before = (unwritten > 0).then_some(unwritten);
            let line = line.to_string();
            let line = on_one_line(&line);
            match kind {
                Kind::Up => tracing::info!(not_logged_before, "{line}"),
                _ => tracing::warn!(not_logged_before, "{line}"),
            }
        }
        #[cfg(not(feature = "tracing"))]
        let _ = (unwritten, line);
    }

    /// If a line of this kind may be written now: how many were not since the last.
    fn may_speak(&self, kind: Kind) -> Option<u64> {
        let now = u64::try_from(self.origin.elapsed().as_millis()).unwrap_or(u64::MAX);
        let (free, unwritten) = (&self.free[kind as usize], &self.unwritten[kind as usize]);
        let until = free.load(Ordering::Relaxed);
        let next = now.saturating_add(PAUSE);
        if now >= until && free.compare_exchange(until, next, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            return Some(unwritten.swap(0, Ordering::Relaxed));
        }
        unwritten.fetch_add(1, Ordering::Relaxed);
        None
    }
}

/// What somebody else's words look like when they cannot break a line, end it, or fill a disk: control characters
/// escaped, and the end cut off where it is long.
pub(super) fn on_one_line(text: &str) -> Cow<'_, str> {
    if text.len() <= LONGEST_QUOTE && !text.contains(char::is_control) {
        return Cow::Borrowed(text);
    }
    let mut line = String::with_capacity(text.len().min(LONGEST_QUOTE) + 16);
    for (nth, letter) in text.chars().enumerate() {
        if nth == LONGEST_QUOTE {
            line.push('…');
            break;
        }
        if letter.is_control() {
            line.extend(letter.escape_default());
        } else {
            line.push(letter);
        }
    }
    Cow::Owned(line)
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

    #[test]
    fn what_a_server_says_stays_on_one_line() {
        assert_eq!(on_one_line("connection refused (é)"), "connection refused (é)");
        assert_eq!(
            on_one_line("HTTP/1.1 400\r\nserver: \u{1b}[31mx\u{85}"),
            r"HTTP/1.1 400\r\nserver: \u{1b}[31mx\u{85}"
        );
        let long = "é".repeat(LONGEST_QUOTE + 1);
        assert_eq!(on_one_line(&long).chars().count(), LONGEST_QUOTE + 1);
        assert!(on_one_line(&long).ends_with("é…"));
        assert!(matches!(on_one_line(&"x".repeat(LONGEST_QUOTE)), Cow::Borrowed(_)));
    }
}
