//! The limit of a backend, charged when a request is dispatched to it.

use std::sync::Arc;

use fairlane_limiter::{Decision, StoreError};

use super::{
    Generation,
    correction::Correction,
    limiter::{Limiter, Undecided},
};
use crate::{
    limits::Charges,
    proxy::{BackendQuota, QuotaFuture},
};

/// A backend's limit, counted by the limiter that everything else is counted by.
#[derive(Debug)]
pub struct BackendCharges {
    limiter: Arc<Limiter>,
    /// Their costs are taken as they are.
    requests: Charges,
    /// Their costs are replaced by the tokens of each request.
    tokens: Charges,
    /// The limits that these charges are of.
    generation: Generation,
}

impl BackendCharges {
    /// A limit that takes `requests` as they are, and each of `tokens` at the cost of the request's tokens. A
    /// decision answers for `requests` first, then for `tokens`. Both are of the limits of `generation`.
    #[must_use]
    pub const fn new(
        limiter: Arc<Limiter>,
        requests: Charges,
        tokens: Charges,
        generation: Generation,
    ) -> Self {
        Self { limiter, requests, tokens, generation }
    }

    fn charges(&self, cost: u64) -> Charges {
        let (mut charges, mut tokens) = (self.requests.clone(), self.tokens.clone());
        for charge in tokens.as_mut_slice() {
            charge.cost = cost;
        }
        charges.extend(&tokens);
        charges
    }

    /// One call to the store.
    async fn take_all(&self, charges: &Charges) -> Result<Option<Decision>, StoreError> {
        match self.limiter.take(charges).await {
            Ok(decision) => Ok(Some(decision)),
            Err(Undecided::Unmetered) => Ok(None),
            Err(Undecided::Refused(error)) => Err(error),
        }
    }
}

impl BackendQuota for BackendCharges {
    fn take(&self, tokens: u64) -> QuotaFuture<'_, Result<Option<Decision>, StoreError>> {
        // Most limits count requests alone: their charges are always the same.
        if self.tokens.is_empty() {
            return Box::pin(self.take_all(&self.requests));
        }
        let charges = self.charges(tokens);
        Box::pin(async move { self.take_all(&charges).await })
    }

    fn take_now(&self, tokens: u64) -> Option<Decision> {
        if self.tokens.is_empty() {
            return self.limiter.take_now(self.requests.as_slice());
        }
        self.limiter.take_now(self.charges(tokens).as_slice())
    }

    // Nobody waits for a backend's bucket, so there is no gate to be told.
    fn give_back(&self, tokens: u64) {
        let mut charges = self.charges(tokens);
        let by = self.limiter.refresh(&mut charges, self.generation);
        self.limiter.settle(Correction::undo(charges), by, None);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use fairlane_fair_queue::Reason;
    use fairlane_identity::Hasher;
    use fairlane_limiter::{MemoryLimits, MemoryStore, Quota};

    use super::*;
    use crate::{
        clock::TokioClock,
        dimension::Dimension,
        limits::{Period, PeriodQuota},
        telemetry::Telemetry,
    };

    #[tokio::test(start_paused = true)]
    async fn a_grant_takes_a_request_and_its_tokens_and_can_be_undone() {
        let telemetry = Arc::new(Telemetry::new("user", Reason::ALL.map(Reason::as_str), []));
        let store = MemoryStore::new(MemoryLimits::default(), TokioClock::start());
        let limiter = Arc::new(Limiter::new(store, telemetry));
        let hasher = Hasher::new(b"test").unwrap();
        let charge = |name, capacity| {
            let quota = Quota::new(capacity, 1, Duration::from_secs(60)).unwrap();
            Charges::of_identity(
                Dimension::Backend,
                hasher.backend(name),
                &[PeriodQuota::new(Period::Minute, quota)],
            )
        };
        let generation = limiter.generation();
        let quota = BackendCharges::new(limiter, charge("requests", 2), charge("tokens", 100), generation);
        let remaining = |decision: Option<Decision>| {
            let granted = decision.and_then(|decision| decision.granted().cloned()).unwrap();
            granted.balances().iter().map(|balance| balance.remaining).collect::<Vec<_>>()
        };

        assert_eq!(remaining(quota.take(60).await.unwrap()), [1, 40]);
        assert!(quota.take(60).await.unwrap().unwrap().denied().is_some());
        quota.give_back(60);
        assert_eq!(remaining(quota.take(60).await.unwrap()), [1, 40]);
        assert!(matches!(quota.take(101).await, Ok(Some(Decision::Impossible(_)))));
        quota.give_back(60);
        assert_eq!(remaining(quota.take_now(60)), [1, 40], "a store in memory need not be waited for");
    }
}
