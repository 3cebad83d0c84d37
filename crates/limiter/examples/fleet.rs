//! Three stores, as three processes would have, share one limit in Redis.
//!
//! ```console
//! $ cargo run -p fairlane-limiter --features redis --example fleet -- redis://127.0.0.1:6379
//! ```
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::time::Duration;

use fairlane_limiter::redis::{Mode, RedisSettings, RedisStore};
use fairlane_limiter::{BucketKey, Charge, Decision, Dimension, Quota, Settlement, Store};

/// What limits are counted per. The number means something to this program only.
const TOKENS: Dimension = Dimension::new(0);

/// What a request is thought to need, and what it turns out to have needed.
const ESTIMATE: u64 = 100;
const REAL: u64 = 60;

/// One process: asks for more than there is, and tells what it got.
async fn work(name: &str, store: RedisStore, tenant: BucketKey, quota: Quota) -> (u64, String) {
    let mut served = 0;
    loop {
        match store.take(&[Charge::new(tenant, quota, ESTIMATE)]).await {
            Ok(Decision::Granted(_)) => {
                served += REAL;
                let unused = i64::try_from(ESTIMATE - REAL).unwrap_or(0);
                if let Err(error) = store.settle(&[Settlement::new(tenant, quota, unused)]).await {
                    return (served, format!("{name}: could not settle: {error}"));
                }
            }
            Ok(Decision::Denied(denied)) => {
                return (served, format!("{name}: {served} tokens, more in {:?}", denied.retry_after()));
            }
            Ok(Decision::Impossible(_)) => return (served, format!("{name}: that will never fit")),
            // Not a refusal: nobody knows what the bucket holds.
            Err(error) => return (served, format!("{name}: unavailable: {error} ({:?})", error.source())),
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "redis://127.0.0.1:6379".to_owned());
    let mut settings = RedisSettings::parse(&url, Mode::Standalone)?;
    settings.key_prefix = "fleet-example".to_owned();
    settings.timeout = Duration::from_millis(500);

    // A tenant of its own for each run, which begins with a full bucket.
    let tenant = BucketKey::new(TOKENS, u128::from(std::process::id()));
    let quota = Quota::per_hour(3_600)?.with_capacity(10_000)?;
    let mut processes = tokio::task::JoinSet::new();
    for name in ["first", "second", "third"] {
        let store = RedisStore::new(settings.clone())?;
        processes.spawn(async move { work(name, store, tenant, quota).await });
    }
    let mut total = 0;
    while let Some(outcome) = processes.join_next().await {
        let (served, line) = outcome?;
        total += served;
        println!("{line}");
    }
    println!("together {total} of the 10000 tokens, less what a last request would need");
    Ok(())
}
