//! The limiter alone, in a plain tokio program: tenants share a service that has a limit of its own.
//!
//! ```console
//! $ cargo run -p fairlane-limiter --example limit
//! ```
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::collections::hash_map::RandomState;
use std::error::Error;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::time::Duration;

use fairlane_limiter::{
    BucketKey, Charge, Decision, Dimension, MemoryLimits, MemoryStore, Quota, Settlement, Store, SystemClock,
};

/// What limits are counted per. The numbers mean something to this program only.
const SERVICE: Dimension = Dimension::new(0);
const REQUESTS: Dimension = Dimension::new(1);
const TOKENS: Dimension = Dimension::new(2);

/// Everything a request needs to know to be limited.
struct Limits {
    store: MemoryStore<SystemClock>,
    hasher: (RandomState, RandomState),
    service: BucketKey,
    service_quota: Quota,
    request_quota: Quota,
    token_quota: Quota,
}

impl Limits {
    fn new() -> Result<Self, Box<dyn Error>> {
        let store = MemoryStore::new(MemoryLimits::default(), SystemClock::new());
        // Every request charges this one, so it gets a place of its own.
        let service = store.pin(BucketKey::new(SERVICE, 0));
        Ok(Self {
            store,
            hasher: (RandomState::new(), RandomState::new()),
            service,
            service_quota: Quota::per_second(50)?,
            request_quota: Quota::per_second(20)?.with_capacity(5)?,
            token_quota: Quota::new(1_000, 500, Duration::from_secs(1))?,
        })
    }

    /// Names are hashed with a key that nobody outside knows, so that nobody can choose a bucket.
    fn digest(&self, tenant: &str) -> u128 {
        let (high, low) = (self.hasher.0.hash_one(tenant), self.hasher.1.hash_one(tenant));
        u128::from(high) << 64 | u128::from(low)
    }

    /// One request: all three buckets are charged, or none.
    async fn serve(&self, tenant: &str, estimate: u64) -> Result<String, Box<dyn Error + Send + Sync>> {
        let digest = self.digest(tenant);
        let tokens = BucketKey::new(TOKENS, digest);
        let charges = [
            Charge::new(self.service, self.service_quota, 1),
            Charge::new(BucketKey::new(REQUESTS, digest), self.request_quota, 1),
            Charge::new(tokens, self.token_quota, estimate),
        ];
        let names = ["the service", "requests", "tokens"];
        Ok(match self.store.take(&charges).await? {
            Decision::Granted(_) => {
                // The work would be here. It turns out to have cost more than was thought.
                let real = estimate + 50;
                let more = i64::try_from(estimate)? - i64::try_from(real)?;
                let balances = self.store.settle(&[Settlement::new(tokens, self.token_quota, more)]).await?;
                let left = balances.get(0).map_or(0, |balance| balance.remaining);
                format!("{tenant}: served for {real} tokens, {left} left")
            }
            Decision::Denied(denied) => {
                let refused: Vec<_> = denied.refusals().map(|refusal| names[refusal.index]).collect();
                format!(
                    "{tenant}: refused by {}, would pass in {:?}",
                    refused.join(" and "),
                    denied.retry_after()
                )
            }
            Decision::Impossible(_) => format!("{tenant}: {estimate} tokens will never fit"),
        })
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let limits = Arc::new(Limits::new()?);
    let mut requests = tokio::task::JoinSet::new();
    for (tenant, estimate) in
        [("ada", 300), ("ada", 300), ("ada", 300), ("ada", 300), ("bob", 100), ("bob", 2_000), ("bob", 100)]
    {
        let limits = Arc::clone(&limits);
        requests.spawn(async move { limits.serve(tenant, estimate).await });
    }
    while let Some(answer) = requests.join_next().await {
        println!("{}", answer?.unwrap_or_else(|error| format!("the store failed: {error}")));
    }
    println!("{:?}", limits.store.stats());
    Ok(())
}
