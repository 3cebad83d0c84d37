//! What admission asks of a store that lives outside this process.

use std::{fmt, future::Future, pin::Pin};

use fairlane_limiter::{Charge, Decision, Settled, Settlement, StoreError};

/// An answer of a [`RemoteStore`] to come.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// What becomes of settlements with a [`RemoteStore`], to come.
pub type SettleFuture<'a> = Pin<Box<dyn Future<Output = Settled> + Send + 'a>>;

/// A store of buckets that has to be waited for, and may be out of reach.
///
/// The calls promise what those of [`fairlane_limiter::Store`] do, and more:
///
/// - **Every call ends in time**, by itself and whatever happens to the server: admission sets no deadline of its own.
/// - **What nobody waits for any more is given back**: if a decision's future is dropped, or fails because no answer came
///   in time, and the server grants it after that, the store gives the charges back.
/// - **A settlement is applied once or not at all**, and admission leaves it to the store to try again.
///
/// It is called through a pointer, so that any store can be put in; beside a round trip that costs nothing.
pub trait RemoteStore: fmt::Debug + Send + Sync {
    /// What it is called in metrics: a word such as `redis`.
    fn name(&self) -> &'static str;

    /// Whether it is known to answer whatever it is asked: false before the first contact, and during an outage of any
    /// part of it.
    fn is_up(&self) -> bool;

    /// Whether it is known to answer for the buckets of these charges. Asked on the way of requests: it has to be cheap,
    /// and to wait for nothing.
    ///
    /// While it is false no request with these charges joins a lane. Decisions are still asked for, and have to fail at
    /// once then.
    fn is_up_for(&self, charges: &[Charge]) -> bool {
        let _ = charges;
        self.is_up()
    }

    /// How many of its servers are known to answer.
    fn reach(&self) -> Reach {
        Reach { answering: usize::from(self.is_up()), known: 1 }
    }

    /// See [`Store::take`](fairlane_limiter::Store::take).
    fn take<'a>(&'a self, charges: &'a [Charge]) -> StoreFuture<'a, Decision>;

    /// See [`Store::peek`](fairlane_limiter::Store::peek).
    fn peek<'a>(&'a self, charges: &'a [Charge]) -> StoreFuture<'a, Decision>;

    /// Applies settlements as [`Store::settle`](fairlane_limiter::Store::settle) does, and tells of each whether it has
    /// happened: what is on one server may be settled while what is on another is not.
    fn settle<'a>(&'a self, settlements: &'a [Settlement]) -> SettleFuture<'a>;

    /// How many calls that may have been granted, and that nobody got a grant from, could not be given back so far.
    fn lost(&self) -> u64 {
        0
    }
}

/// How much of a store is known to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reach {
    /// Servers that answer.
    pub answering: usize,
    /// Servers that are known; none until the store has told which there are.
    pub known: usize,
}

/// What becomes of a request that the store cannot decide on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Outage {
    /// It is refused with 503: nothing passes unmetered.
    #[default]
    FailClosed,
    /// It passes without being charged, which is counted and logged.
    FailOpen,
}
