//! The store of buckets, as admission uses it.

use std::sync::Arc;

use fairlane_fair_queue::{GateKey, GateLevel};
use fairlane_limiter::{Balances, Charge, Decision, Denied, MemoryStore, Settlement, Store, StoreError};
use smallvec::SmallVec;
use tokio::time::Instant;

use crate::{
    clock::TokioClock,
    dimension::Dimension,
    limits::{Charges, USUAL_CHARGES},
    telemetry::{Telemetry, Verdict},
};

/// What a decision tells the gates, one level per charge.
pub(super) type Levels = SmallVec<[GateLevel; USUAL_CHARGES]>;

/// The store of buckets, with every decision counted and timed.
#[derive(Debug)]
pub struct Limiter {
    store: MemoryStore<TokioClock>,
    telemetry: Arc<Telemetry>,
}

impl Limiter {
    /// Puts a store to use.
    #[must_use]
    pub const fn new(store: MemoryStore<TokioClock>, telemetry: Arc<Telemetry>) -> Self {
        Self { store, telemetry }
    }

    /// Takes all charges or none. The store is in memory: there is nothing to wait for, and nothing that can fail.
    pub(super) fn take_now(&self, charges: &[Charge]) -> Decision {
        let before = Instant::now();
        let decision = self.store.take_now(charges);
        self.telemetry.store_seconds.record(before.elapsed());
        if let Some((dimension, verdict)) = judged(charges, &decision) {
            self.telemetry.decided(dimension, verdict);
        }
        decision
    }

    /// Looks without taking.
    pub(super) fn peek_now(&self, charges: &[Charge]) -> Decision {
        self.store.peek_now(charges)
    }

    /// The store itself, for what is no request's decision.
    #[must_use]
    pub const fn store(&self) -> &MemoryStore<TokioClock> {
        &self.store
    }
}

impl Store for Limiter {
    async fn take(&self, charges: &[Charge]) -> Result<Decision, StoreError> {
        Ok(self.take_now(charges))
    }

    async fn peek(&self, charges: &[Charge]) -> Result<Decision, StoreError> {
        Ok(self.store.peek_now(charges))
    }

    async fn settle(&self, settlements: &[Settlement]) -> Result<Balances, StoreError> {
        Ok(self.store.settle_now(settlements))
    }
}

/// The dimension that a decision is counted under, and how it came out.
///
/// A grant binds nothing: it counts under the last dimension, which is the narrowest that was asked.
fn judged(charges: &[Charge], decision: &Decision) -> Option<(Dimension, Verdict)> {
    let (at, verdict) = match decision {
        Decision::Granted(_) => (charges.len().checked_sub(1)?, Verdict::Granted),
        Decision::Denied(denied) => (longest(denied)?, Verdict::Denied),
        Decision::Impossible(impossible) => (*impossible.exceeding().first()?, Verdict::Impossible),
    };
    Some((Dimension::of(&charges.get(at)?.key)?, verdict))
}

fn longest(denied: &Denied) -> Option<usize> {
    denied.refusals().max_by_key(|refusal| refusal.retry_after).map(|refusal| refusal.index)
}

/// The dimension with the longest wait among the refusing charges.
pub(super) fn binding(charges: &Charges, denied: &Denied) -> Option<Dimension> {
    charges.dimension(longest(denied)?)
}

/// The gate of a charge's bucket.
///
/// The digest is keyed and separated by dimension, so it names the bucket alone.
pub(crate) fn gate_of(charge: &Charge) -> GateKey {
    GateKey(charge.key.digest())
}

/// What balances tell the gates of their buckets.
pub(super) fn levels(charges: &Charges, balances: &Balances) -> Levels {
    const DAY: std::time::Duration = std::time::Duration::from_secs(86_400);
    charges
        .as_slice()
        .iter()
        .zip(balances.iter())
        .map(|(charge, balance)| GateLevel {
            gate: gate_of(charge),
            level: balance.remaining,
            until_next: balance.until_next,
            capacity: charge.quota.capacity(),
            refill: charge.quota.refill_per_day(),
            period: DAY,
        })
        .collect()
}
