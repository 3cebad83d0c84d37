//! Polling again at once what wakes itself while it is polled.
//!
//! hyper's server wakes its own task whenever a handler asks for a body: the task is put back into the runtime's queue, and
//! an idle worker is woken to steal it, for every request with a body. Seen from here it is one more turn of a loop.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use parking_lot::Mutex;

/// Turns of the loop before others get theirs.
const TURNS: usize = 8;

/// The waker that a future is polled with, and what became of it.
#[derive(Debug)]
pub(crate) struct Rewake {
    shared: Arc<Shared>,
    /// The same, as the future sees it.
    waker: Waker,
    /// The task's own waker, as it was last told.
    task: Option<Waker>,
}

/// The wakes of one future that is polled in turns.
#[derive(Clone, Debug)]
pub(crate) struct Wakes(Arc<Shared>);

impl Wakes {
    /// Says, in the middle of a turn, that no wake until now needs another one.
    pub(crate) fn answered(&self) {
        // A swap rather than a store: what is polled next must see what was done before such a wake.
        self.0.again.swap(false, Ordering::SeqCst);
    }
}

#[derive(Debug, Default)]
struct Shared {
    polling: AtomicBool,
    again: AtomicBool,
    task: Mutex<Option<Waker>>,
}

impl Rewake {
    pub(crate) fn new() -> Self {
        let shared = Arc::new(Shared::default());
        Self { waker: Waker::from(Arc::clone(&shared)), shared, task: None }
    }

    /// What wakes it, for somebody who is polled in its turns.
    pub(crate) fn wakes(&self) -> Wakes {
        Wakes(Arc::clone(&self.shared))
    }

    /// Forgets the task that was last polled with, and lets go of it. It will not be woken any more.
    pub(crate) fn forget(&mut self) {
        self.task = None;
        *self.shared.task.lock() = None;
    }

    /// Polls until the future is ready, or waits for somebody else.
    pub(crate) fn poll<F: Future>(
        &mut self,
        mut future: Pin<&mut F>,
        context: &mut Context<'_>,
    ) -> Poll<F::Output> {
        self.poll_turns(context, |context| future.as_mut().poll(context))
    }

    /// The same with a closure for each turn.
    pub(crate) fn poll_turns<T>(
        &mut self,
        context: &mut Context<'_>,
        mut turn: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        if !self.task.as_ref().is_some_and(|task| task.will_wake(context.waker())) {
            self.task = Some(context.waker().clone());
            *self.shared.task.lock() = Some(context.waker().clone());
        }
        for _ in 0..TURNS {
            // In this order, one fence for both is enough: who woke before the swap is seen by what is polled after it, and
            // who wakes later finds a turn under way, or wakes the task in vain.
            self.shared.polling.store(true, Ordering::Relaxed);
            self.shared.again.swap(false, Ordering::SeqCst);
            let polled = turn(&mut Context::from_waker(&self.waker));
            // Whoever woke before this store is seen below; whoever does after it wakes the task.
            self.shared.polling.store(false, Ordering::SeqCst);
            if polled.is_ready() || !self.shared.again.load(Ordering::SeqCst) {
                return polled;
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Wake for Shared {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.again.store(true, Ordering::SeqCst);
        if !self.polling.load(Ordering::SeqCst) {
            let task = self.task.lock().clone();
            if let Some(task) = task {
                task.wake();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{future::poll_fn, pin::pin, sync::atomic::AtomicUsize};

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Polls once a future that wakes itself so many times, and tells how often the task was woken.
    fn woken(times: usize) -> (bool, usize, Waker) {
        let count = Arc::new(Count::default());
        let task = Waker::from(Arc::clone(&count));
        let mut left = times;
        let mut kept = None;
        let mut future = pin!(poll_fn(|context| {
            kept = Some(context.waker().clone());
            if left == 0 {
                return Poll::Ready(());
            }
            left -= 1;
            context.waker().wake_by_ref();
            Poll::Pending
        }));
        let ready = Rewake::new().poll(future.as_mut(), &mut Context::from_waker(&task)).is_ready();
        (ready, count.0.load(Ordering::SeqCst), kept.unwrap())
    }

    #[test]
    fn a_future_that_wakes_itself_is_polled_again_at_once() {
        let (ready, woken, _) = woken(TURNS - 1);
        assert!(ready);
        assert_eq!(woken, 0);
    }

    #[test]
    fn one_that_never_stops_lets_others_run() {
        let (ready, woken, _) = woken(usize::MAX);
        assert!(!ready);
        assert_eq!(woken, 1);
    }

    #[test]
    fn what_has_been_answered_needs_no_other_turn() {
        let task = Waker::from(Arc::<Count>::default());
        for (answers, expected) in [(true, 1), (false, 2)] {
            let mut rewake = Rewake::new();
            let (wakes, mut turns) = (rewake.wakes(), 0);
            let polled = rewake.poll_turns(&mut Context::from_waker(&task), |context| {
                turns += 1;
                if turns == 1 {
                    context.waker().wake_by_ref();
                    if answers {
                        wakes.answered();
                    }
                }
                Poll::<()>::Pending
            });
            assert!(polled.is_pending());
            assert_eq!(turns, expected);
        }
    }

    #[test]
    fn a_wake_after_the_answer_is_not_lost() {
        let task = Waker::from(Arc::<Count>::default());
        let mut rewake = Rewake::new();
        let (wakes, mut turns) = (rewake.wakes(), 0);
        _ = rewake.poll_turns(&mut Context::from_waker(&task), |context| {
            turns += 1;
            if turns == 1 {
                wakes.answered();
                context.waker().wake_by_ref();
            }
            Poll::<()>::Pending
        });
        assert_eq!(turns, 2);
    }

    #[test]
    fn a_wake_from_outside_wakes_the_task() {
        let count = Arc::new(Count::default());
        let task = Waker::from(Arc::clone(&count));
        let kept = std::cell::Cell::new(None);
        let mut future = pin!(poll_fn(|context| {
            kept.set(Some(context.waker().clone()));
            Poll::<()>::Pending
        }));
        assert!(Rewake::new().poll(future.as_mut(), &mut Context::from_waker(&task)).is_pending());
        assert_eq!(count.0.load(Ordering::SeqCst), 0);
        kept.take().unwrap().wake();
        assert_eq!(count.0.load(Ordering::SeqCst), 1);
    }
}
