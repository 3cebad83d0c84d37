//! The memory store passes the suite for all stores.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use fairlane_limiter::conformance::{self, Harness};
use fairlane_limiter::{
    BucketKey, Charge, Clock, Dimension, ManualClock, MemoryLimits, MemoryStore, Timestamp,
};

struct Memory {
    clock: ManualClock,
    pins: bool,
}

impl Memory {
    fn new(pins: bool) -> Self {
        Self { clock: ManualClock::new(Timestamp::from_micros(1_700_000_000_000_000)), pins }
    }
}

impl Harness for Memory {
    type Store = MemoryStore<ManualClock>;

    async fn empty_store(&self) -> Self::Store {
        let store = MemoryStore::new(MemoryLimits::default(), self.clock.clone());
        if self.pins {
            // The suite does not know, and its plain keys must find the same buckets.
            for digest in [0, 1, 2, 7, 1 << 70 | 7, 2 << 70 | 7] {
                for dimension in 0..2 {
                    let key = BucketKey::new(Dimension::new(dimension), digest);
                    assert_eq!(store.pin(key), key);
                }
            }
        }
        store
    }

    async fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    async fn step_back(&self, by: Duration) -> bool {
        let micros = self.clock.now().as_micros() - u64::try_from(by.as_micros()).unwrap();
        self.clock.set(Timestamp::from_micros(micros));
        true
    }
}

#[tokio::test]
async fn the_memory_store_conforms() {
    conformance::run(&Memory::new(false)).await;
}

#[tokio::test]
async fn the_memory_store_conforms_with_pinned_buckets() {
    conformance::run(&Memory::new(true)).await;
}

#[tokio::test]
async fn the_memory_store_agrees_with_the_model_for_long() {
    let calls = std::env::var("FAIRLANE_CONFORMANCE_CALLS").map_or(20_000, |calls| calls.parse().unwrap());
    conformance::run_random(&Memory::new(false), calls).await;
    conformance::run_random(&Memory::new(true), calls).await;
}

/// The suite must be able to fail: it is shown a store that forgets what it has taken.
mod negative_control {
    use std::panic::AssertUnwindSafe;

    use fairlane_limiter::{Balances, Decision, Settlement, Store, StoreError};

    use super::{Charge, Duration, Harness, ManualClock, Memory, MemoryStore, conformance};

    struct Forgetful(MemoryStore<ManualClock>);

    impl Store for Forgetful {
        async fn take(&self, charges: &[Charge]) -> Result<Decision, StoreError> {
            self.0.peek(charges).await
        }

        async fn peek(&self, charges: &[Charge]) -> Result<Decision, StoreError> {
            self.0.peek(charges).await
        }

        async fn settle(&self, settlements: &[Settlement]) -> Result<Balances, StoreError> {
            self.0.settle(settlements).await
        }
    }

    struct Broken(Memory);

    impl Harness for Broken {
        type Store = Forgetful;

        async fn empty_store(&self) -> Forgetful {
            Forgetful(self.0.empty_store().await)
        }

        async fn advance(&self, by: Duration) {
            self.0.advance(by).await;
        }

        async fn step_back(&self, by: Duration) -> bool {
            self.0.step_back(by).await
        }
    }

    #[test]
    fn a_store_that_takes_nothing_does_not_conform() {
        let broken = Broken(Memory::new(false));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let whole =
            std::panic::catch_unwind(AssertUnwindSafe(|| runtime.block_on(conformance::run(&broken))));
        assert!(whole.is_err());
        let random = std::panic::catch_unwind(AssertUnwindSafe(|| {
            runtime.block_on(conformance::run_random(&broken, 100))
        }));
        assert!(random.is_err());
    }
}
