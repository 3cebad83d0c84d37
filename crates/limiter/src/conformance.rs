//! The suite that every [`Store`] must pass.
//!
//! A store is measured against [`Model`], which keeps buckets in a plain map and does nothing but the pure
//! arithmetic, and against cases that are written out by hand.
//!
//! # Examples
//!
//! ```
//! use std::time::Duration;
//! use fairlane_limiter::conformance::{self, Harness};
//! use fairlane_limiter::{ManualClock, MemoryLimits, MemoryStore, Timestamp};
//!
//! struct Memory(ManualClock);
//!
//! impl Harness for Memory {
//!     type Store = MemoryStore<ManualClock>;
//!
//!     async fn empty_store(&self) -> Self::Store {
//!         MemoryStore::new(MemoryLimits::default(), self.0.clone())
//!     }
//!
//!     async fn advance(&self, by: Duration) {
//!         self.0.advance(by);
//!     }
//!
//!     async fn step_back(&self, by: Duration) -> bool {
//!         use fairlane_limiter::Clock;
//!         let earlier = self.0.now().as_micros() - by.as_micros() as u64;
//!         self.0.set(Timestamp::from_micros(earlier));
//!         true
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let clock = ManualClock::new(Timestamp::from_micros(1_700_000_000_000_000));
//! conformance::run(&Memory(clock)).await;
//! # }
//! ```

#[expect(clippy::expect_used, reason = "a suite says by a panic what is wrong")]
mod cases;
#[expect(clippy::expect_used, reason = "a suite says by a panic what is wrong")]
mod concurrent;
mod model;
#[expect(clippy::expect_used, reason = "a suite says by a panic what is wrong")]
mod random;

use std::future::Future;
use std::time::Duration;

pub use self::model::Model;
use crate::Store;

/// Makes stores to be tested, and moves their time.
pub trait Harness {
    /// The store.
    type Store: Store;

    /// A store in which nobody has touched a bucket. Several may be alive at once.
    fn empty_store(&self) -> impl Future<Output = Self::Store>;

    /// Moves the clock of all stores on, to the microsecond. It must stand still otherwise.
    fn advance(&self, by: Duration) -> impl Future<Output = ()>;

    /// Sets the clock of all stores back. Returns `false` if that cannot be done to this clock, which leaves the
    /// case out.
    fn step_back(&self, by: Duration) -> impl Future<Output = bool>;
}

/// Runs the whole suite.
///
/// # Panics
///
/// The store does not conform; the message says in which case.
pub async fn run<H: Harness>(harness: &H) {
    cases::run(harness).await;
    concurrent::run(harness).await;
    random::run(harness, 600).await;
}

/// Runs only the part that compares the store with the [`Model`] over random calls, as many as asked for.
///
/// # Panics
///
/// The store differs from the model; the message tells the seed and the call.
pub async fn run_random<H: Harness>(harness: &H, calls: u64) {
    random::run(harness, calls).await;
}
