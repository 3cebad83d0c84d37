//! What a backend's own limit is to the proxy: something to take from at dispatch, and to give back to.

use std::fmt;
use std::pin::Pin;
use std::time::Duration;

/// What [`BackendQuota`] answers with.
pub type QuotaFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A backend's own limit. The store behind it stays outside the proxy.
///
/// There is no look without taking: choosing a candidate by weight, trying to take, and choosing again among
/// the rest when it is empty gives the same shares as dropping the empty ones first, in one call to the store
/// rather than one per candidate, and with no race between the look and the taking.
pub trait BackendQuota: fmt::Debug + Send + Sync {
    /// Takes one request, and `tokens` reserved tokens where the limit counts those.
    ///
    /// # Errors
    ///
    /// When the store could not decide; the request is then refused, never let through.
    fn take(&self, tokens: u64) -> QuotaFuture<'_, Result<Taken, QuotaUnavailable>>;

    /// Gives back what a granted `take` took, because no connection could be made.
    fn give_back(&self, tokens: u64) -> QuotaFuture<'_, ()>;
}

/// What an attempt to take from a backend's limit came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// It was taken.
    Granted,
    /// Nothing was taken; it would pass after this time if nobody else asked.
    Exhausted {
        /// The time to wait.
        retry_after: Duration,
    },
}

/// The store that counts a backend's limit could not decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the store of the backend's limit could not decide")]
pub struct QuotaUnavailable;
