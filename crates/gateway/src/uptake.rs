//! Whether the caller takes its answer, as it is told across hyper.
//!
//! hyper asks an answer's body for more only where the caller has room for it. The body of a caller that stops reading is
//! not polled, so that no timer inside it is heard, however late it is; and who polls hyper does not see the body. So what
//! an answer does while it is polled is noted in a place of the thread, which whoever polls takes along from one poll to the
//! next. That costs neither an allocation nor a lock, which a shared place of each request would.

use std::{cell::Cell, time::Duration};

use tokio::time::Instant;

thread_local! {
    static CURRENT: Cell<Uptake> = const { Cell::new(Uptake::NONE) };
}

/// What is known of the answer that is given in one task, if there is one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Uptake {
    /// When it has to have ended.
    until: Option<Instant>,
    progress: Progress,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// There is no answer, or it has ended.
    None,
    /// Some of it was handed over in this poll, and no more was asked for yet.
    Moved,
    /// Nothing more has been asked for since.
    Stuck(Instant),
    /// The caller has room: the answer is waited for, and has its own timers.
    Awaited,
}

impl Uptake {
    const NONE: Self = Self { until: None, progress: Progress::None };

    /// Of a task that has not been polled yet.
    pub(crate) const fn new() -> Self {
        Self::NONE
    }

    /// Polls what gives the answer.
    pub(crate) fn watch<T>(&mut self, poll: impl FnOnce() -> T) -> T {
        CURRENT.set(*self);
        let polled = poll();
        *self = CURRENT.replace(Self::NONE);
        if self.progress == Progress::Moved {
            self.progress = Progress::Stuck(Instant::now());
        }
        polled
    }

    /// When the caller will have taken too long: at the answer's end in time, or before it when nothing was asked for in
    /// `progress`. `None` while it takes all there is.
    pub(crate) fn due(&self, progress: Option<Duration>) -> Option<Instant> {
        let Progress::Stuck(since) = self.progress else { return None };
        let stalled = progress.and_then(|progress| since.checked_add(progress));
        match (stalled, self.until) {
            (Some(stalled), Some(until)) => Some(stalled.min(until)),
            (stalled, until) => stalled.or(until),
        }
    }
}

/// The answer that is being made has to have ended by then.
pub(crate) fn ends_by(until: Instant) {
    CURRENT.set(Uptake { until: Some(until), ..CURRENT.get() });
}

/// The answer's head, or a piece of its body, was handed over.
pub(crate) fn moved() {
    CURRENT.set(Uptake { progress: Progress::Moved, ..CURRENT.get() });
}

/// More was asked for, and is not there yet.
pub(crate) fn awaited() {
    CURRENT.set(Uptake { progress: Progress::Awaited, ..CURRENT.get() });
}

/// The answer has ended, or was given up.
pub(crate) fn over() {
    CURRENT.set(Uptake::NONE);
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn only_an_answer_that_is_not_asked_for_is_due() {
        let start = Instant::now();
        let mut uptake = Uptake::new();
        uptake.watch(|| ends_by(start + 9 * SECOND));
        assert_eq!(uptake.due(Some(SECOND)), None, "it is not there yet");
        uptake.watch(moved);
        assert_eq!(uptake.due(Some(SECOND)), Some(start + SECOND));
        assert_eq!(uptake.due(Some(20 * SECOND)), Some(start + 9 * SECOND));
        assert_eq!(uptake.due(None), Some(start + 9 * SECOND));
        uptake.watch(awaited);
        assert_eq!(uptake.due(Some(SECOND)), None);
        uptake.watch(over);
        assert_eq!(uptake.due(Some(SECOND)), None);
        uptake.watch(moved);
        assert_eq!(uptake.due(None), None, "the next answer has no end yet");
    }

    #[tokio::test(start_paused = true)]
    async fn a_poll_without_progress_does_not_begin_the_time_anew() {
        let start = Instant::now();
        let mut uptake = Uptake::new();
        uptake.watch(moved);
        tokio::time::advance(SECOND).await;
        uptake.watch(|| ());
        assert_eq!(uptake.due(Some(2 * SECOND)), Some(start + 2 * SECOND));
        uptake.watch(moved);
        assert_eq!(uptake.due(Some(2 * SECOND)), Some(start + 3 * SECOND));
    }

    #[test]
    fn two_tasks_of_a_thread_know_nothing_of_each_other() {
        let (mut one, mut other) = (Uptake::new(), Uptake::new());
        one.watch(awaited);
        other.watch(over);
        assert_eq!((one.progress, other.progress), (Progress::Awaited, Progress::None));
        // What was said where nobody watches is not taken for the next one's.
        awaited();
        other.watch(|| ());
        assert_eq!(other.progress, Progress::None);
    }
}
