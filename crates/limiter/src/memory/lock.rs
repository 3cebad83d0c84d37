//! How a lock is waited for that is held for some tens of nanoseconds.

use parking_lot::{Mutex, MutexGuard};

/// Attempts before waiting in earnest.
const ATTEMPTS: usize = 3;

/// Pauses of the processor before another attempt: some hundreds of nanoseconds to a few microseconds, by model.
const PAUSES: usize = 64;

/// Locks, and if another thread holds the lock, stays away for a while before trying again.
///
/// What makes a contended bucket dear is its memory going back and forth between two cores. A waiter that keeps
/// off lets the other do several decisions in a row, which costs everybody a fraction of what an eager one does;
/// the lock's own waiting is eager at first and then goes to the scheduler, which is slower still.
#[inline]
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.try_lock().unwrap_or_else(|| lock_contended(mutex))
}

#[cold]
fn lock_contended<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    for _ in 0..ATTEMPTS {
        for _ in 0..PAUSES {
            std::hint::spin_loop();
        }
        if let Some(guard) = mutex.try_lock() {
            return guard;
        }
    }
    mutex.lock()
}
