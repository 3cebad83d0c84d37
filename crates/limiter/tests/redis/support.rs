//! Stores on servers of a test's own.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use fairlane_limiter::redis::{Mode, RedisSettings, RedisStore};
use fairlane_limiter::{BucketKey, Charge, Dimension, ManualClock, Quota, Store, Timestamp};
use fairlane_redis_servers::{Server, wait};

/// Long enough for a busy machine.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(2);

/// A prefix that no other store has.
pub(crate) fn fresh_prefix() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("test{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

pub(crate) fn settings(url: &str, mode: Mode) -> RedisSettings {
    let mut settings = RedisSettings::parse(url, mode).unwrap();
    settings.key_prefix = fresh_prefix();
    settings.timeout = TIMEOUT;
    settings
}

/// A store that tells the time by the server, once it is connected.
pub(crate) async fn store(server: &Server) -> RedisStore {
    store_with(settings(&server.url(), Mode::Standalone)).await
}

pub(crate) async fn store_with(settings: RedisSettings) -> RedisStore {
    let store = RedisStore::new(settings).unwrap();
    up(&store, true).await;
    store
}

/// A store that tells the time by a clock.
pub(crate) fn store_at(server: &Server, clock: &ManualClock) -> RedisStore {
    RedisStore::with_clock(settings(&server.url(), Mode::Standalone), clock.clone()).unwrap()
}

pub(crate) fn clock() -> ManualClock {
    ManualClock::new(Timestamp::from_micros(1_700_000_000_000_000))
}

/// Waits until a store is up, or is not.
pub(crate) async fn up(store: &RedisStore, up: bool) {
    let mut health = store.health();
    wait::within("a store to be up or down", health.wait_for(|health| health.up == up)).await.unwrap();
}

pub(crate) fn key(dimension: u8, digest: u128) -> BucketKey {
    BucketKey::new(Dimension::new(dimension), digest)
}

pub(crate) fn charge(digest: u128, quota: Quota, cost: u64) -> Charge {
    Charge::new(key(0, digest), quota, cost)
}

/// A quota under which nothing flows in while a test runs.
pub(crate) fn slow(capacity: u64) -> Quota {
    Quota::per_day(1).unwrap().with_capacity(capacity).unwrap()
}

/// What is left in a bucket, by taking nothing from it.
pub(crate) async fn left(store: &RedisStore, digest: u128, quota: Quota) -> i64 {
    let decision = store.peek(&[charge(digest, quota, 0)]).await.unwrap();
    decision.granted().unwrap().balances().remaining(0).unwrap()
}
