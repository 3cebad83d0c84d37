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
    charges: Charges,
    /// The limits that these charges are of.
    generation: Generation,
}

impl BackendCharges {
    /// A limit that each request is charged by. The charges are of the limits of `generation`.
    #[must_use]
    pub const fn new(limiter: Arc<Limiter>, charges: Charges, generation: Generation) -> Self {
        Self { limiter, charges, generation }
    }

    async fn ask(&self) -> Result<Option<Decision>, StoreError> {
        match self.limiter.take(&self.charges).await {
            Ok(decision) => Ok(Some(decision)),
            Err(Undecided::Unmetered) => Ok(None),
            Err(Undecided::Refused(error)) => Err(error),
        }
    }
}

impl BackendQuota for BackendCharges {
    fn take(&self) -> QuotaFuture<'_, Result<Option<Decision>, StoreError>> {
        Box::pin(self.ask())
    }

    fn take_now(&self) -> Option<Decision> {
        self.limiter.take_now(self.charges.as_slice())
    }

    // Nobody waits for a backend's bucket, so there is no gate to be told.
    fn give_back(&self) {
        let mut charges = self.charges.clone();
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
    async fn a_grant_takes_a_request_and_can_be_undone() {
        let telemetry = Arc::new(Telemetry::new("user", Reason::ALL.map(Reason::as_str), []));
        let store = MemoryStore::new(MemoryLimits::default(), TokioClock::start());
        let limiter = Arc::new(Limiter::new(store, telemetry));
        let hasher = Hasher::new(b"test").unwrap();
        let two = PeriodQuota::new(Period::Minute, Quota::new(2, 1, Duration::from_secs(60)).unwrap());
        let charges = Charges::of_identity(Dimension::Backend, hasher.backend("a"), &[two]);
        let generation = limiter.generation();
        let quota = BackendCharges::new(limiter, charges, generation);
        let remaining = |decision: Option<Decision>| {
            let granted = decision.and_then(|decision| decision.granted().cloned()).unwrap();
            granted.balances().iter().map(|balance| balance.remaining).collect::<Vec<_>>()
        };

        assert_eq!(remaining(quota.take().await.unwrap()), [1]);
        assert_eq!(remaining(quota.take().await.unwrap()), [0]);
        assert!(quota.take().await.unwrap().unwrap().denied().is_some());
        quota.give_back();
        assert_eq!(remaining(quota.take_now()), [0], "a store in memory need not be waited for");
    }
}
