//! What every store of buckets can do.

use std::future::Future;

use crate::{Balances, Charge, Decision, Settlement};

/// A place where buckets live, and which decides on them.
///
/// All stores agree with the pure arithmetic of [`Bucket`](crate::Bucket) to the unit and the microsecond.
///
/// The rules, for every store:
///
/// - A decision takes all its charges or none, and no other decision sees it half done.
/// - A bucket that nobody has touched is full. So is one that has had the time to fill up, under the quota it was
///   last seen with.
/// - A quota that differs from the last one holds from this call on: what flowed in until now is counted at the
///   old rate, what is in the bucket stays (up to the new capacity), and so does a debt. All calls record the new
///   quota, even those that take nothing.
/// - A call that names one bucket several times adds the amounts up; see [`Charge`].
///
/// The futures are `Send`, and do nothing until polled.
pub trait Store: Send + Sync {
    /// Takes all charges if every bucket holds its charge, else none.
    ///
    /// # Errors
    ///
    /// The store could not answer. Nothing may be concluded from that about the buckets, least of all that the
    /// charges would have passed. A denial is not an error but an `Ok`.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future before it is ready may leave the charges taken, if they had been sent to a server. It
    /// never leaves a part of them taken, except where a store says so.
    fn take(&self, charges: &[Charge]) -> impl Future<Output = Result<Decision, StoreError>> + Send;

    /// Decides as [`take`](Store::take) would, and takes nothing.
    ///
    /// The balances of a grant are then those before the charges.
    ///
    /// # Errors
    ///
    /// The store could not answer.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    fn peek(&self, charges: &[Charge]) -> impl Future<Output = Result<Decision, StoreError>> + Send;

    /// Applies all settlements and tells the balances after them, in their order.
    ///
    /// # Errors
    ///
    /// The store could not answer; the settlements may or may not have been applied.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future may leave the settlements applied or not.
    fn settle(&self, settlements: &[Settlement])
    -> impl Future<Output = Result<Balances, StoreError>> + Send;
}

/// Why a store could not answer. Never a denial: the buckets were not asked, or their answer was lost.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// No answer came in time. What was asked may have happened.
    #[error("the store did not answer in time")]
    Timeout,
    /// The store cannot be reached, or says that it cannot serve.
    #[error("the store is unavailable")]
    Unavailable(#[source] Option<Box<dyn std::error::Error + Send + Sync>>),
    /// The store answered what it never should.
    #[error("the store gave an answer that cannot be understood")]
    Protocol(#[source] Option<Box<dyn std::error::Error + Send + Sync>>),
}

impl StoreError {
    /// Whether the same call may succeed later without anybody changing anything.
    #[must_use]
    pub const fn is_transient(&self) -> bool {
        match self {
            Self::Timeout | Self::Unavailable(_) => true,
            Self::Protocol(_) => false,
        }
    }
}
