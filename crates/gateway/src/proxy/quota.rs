//! A backend's own limit: taken from at dispatch, given back to when the backend was never reached.

use std::fmt;
use std::pin::Pin;

use fairlane_limiter::{Decision, StoreError};

/// What [`BackendQuota`] answers with.
pub type QuotaFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A backend's own limit. Which store counts it, and what an outage of that store means, stays outside the proxy.
///
/// There is no look without taking: choosing a candidate by weight, trying to take, and choosing again among
/// the rest when it is empty gives the same shares as dropping the empty ones first, in one call to the store
/// rather than one per candidate, and with no race between the look and the taking.
pub trait BackendQuota: fmt::Debug + Send + Sync {
    /// Takes one request. `None`: it may go on without having been charged, and is not to be given back.
    ///
    /// # Errors
    ///
    /// When the store could not decide; the request is then refused, never let through.
    ///
    /// # Cancel safety
    ///
    /// Dropped before it is ready, the future takes nothing, or gives back what it took.
    fn take(&self) -> QuotaFuture<'_, Result<Option<Decision>, StoreError>>;

    /// Does what [`take`](Self::take) does where nothing has to be waited for; `None`, and nothing taken, where something
    /// has.
    fn take_now(&self) -> Option<Decision> {
        None
    }

    /// Gives back what a granted `take` took.
    ///
    /// Asked when a request ends, also by being dropped, where nothing can be waited for: a store that has to be is given
    /// back to behind the scenes.
    fn give_back(&self);
}
