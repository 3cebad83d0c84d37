//! A backend's own limit: taken from at dispatch, given back to when the backend was never reached.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use fairlane_limiter::{Charge, Decision, Settlement, Store, StoreError};
use smallvec::SmallVec;

/// What [`BackendQuota`] answers with.
pub type QuotaFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A backend's own limit. Which store counts it, and what an outage of that store means, stays outside the proxy.
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
    fn take(&self, tokens: u64) -> QuotaFuture<'_, Result<Decision, StoreError>>;

    /// Gives back what a granted `take` of as many tokens took.
    ///
    /// Asked when a request ends, also by being dropped. A future that is not ready at once is finished by a task of
    /// its own.
    ///
    /// # Errors
    ///
    /// When the store could not do it; what was taken may stay taken.
    fn give_back(&self, tokens: u64) -> QuotaFuture<'_, Result<(), StoreError>>;
}

/// A limit counted in a store of buckets.
pub struct BackendCharges<S> {
    store: Arc<S>,
    /// Their costs are taken as they are.
    requests: Vec<Charge>,
    /// Their costs are replaced by the tokens of each request.
    tokens: Vec<Charge>,
}

type Charges = SmallVec<[Charge; 4]>;

// === impl BackendCharges ===

impl<S: Store> BackendCharges<S> {
    /// A limit that takes `requests` as they are, and each of `tokens` at the cost of the request's tokens. A
    /// decision answers for `requests` first, then for `tokens`.
    pub fn new(store: Arc<S>, requests: Vec<Charge>, tokens: Vec<Charge>) -> Self {
        Self { store, requests, tokens }
    }

    fn charges(&self, cost: u64) -> Charges {
        let tokens = self.tokens.iter().map(|charge| Charge { cost, ..*charge });
        self.requests.iter().copied().chain(tokens).collect()
    }
}

impl<S: Store> BackendQuota for BackendCharges<S> {
    fn take(&self, tokens: u64) -> QuotaFuture<'_, Result<Decision, StoreError>> {
        // Most limits count requests alone: their charges are always the same.
        if self.tokens.is_empty() {
            return Box::pin(self.store.take(&self.requests));
        }
        let charges = self.charges(tokens);
        Box::pin(async move { self.store.take(&charges).await })
    }

    fn give_back(&self, tokens: u64) -> QuotaFuture<'_, Result<(), StoreError>> {
        let back: SmallVec<[Settlement; 4]> = self
            .charges(tokens)
            .into_iter()
            .map(|Charge { key, quota, cost }| {
                Settlement::new(key, quota, i64::try_from(cost).unwrap_or(i64::MAX))
            })
            .collect();
        Box::pin(async move { self.store.settle(&back).await.map(drop) })
    }
}

impl<S> fmt::Debug for BackendCharges<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BackendCharges")
            .field("requests", &self.requests)
            .field("tokens", &self.tokens)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use fairlane_limiter::{BucketKey, Dimension, ManualClock, MemoryLimits, MemoryStore, Quota};

    use super::*;

    #[tokio::test]
    async fn a_grant_takes_a_request_and_its_tokens_and_can_be_undone() {
        let store = Arc::new(MemoryStore::new(MemoryLimits::default(), ManualClock::default()));
        let charge = |digest, capacity| {
            let quota = Quota::new(capacity, 1, Duration::from_secs(60)).unwrap();
            Charge::new(BucketKey::new(Dimension::new(1), digest), quota, 1)
        };
        let quota = BackendCharges::new(store, vec![charge(1, 2)], vec![charge(2, 100)]);
        let remaining = |decision: Decision| {
            let granted = decision.granted().cloned().unwrap();
            granted.balances().iter().map(|balance| balance.remaining).collect::<Vec<_>>()
        };

        assert_eq!(remaining(quota.take(60).await.unwrap()), [1, 40]);
        assert!(quota.take(60).await.unwrap().denied().is_some());
        quota.give_back(60).await.unwrap();
        assert_eq!(remaining(quota.take(60).await.unwrap()), [1, 40]);
        assert!(matches!(quota.take(101).await, Ok(Decision::Impossible(_))));
    }
}
