//! What the trials share: a store with a short timeout, charges that tell their answers apart, and a stopwatch.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use fairlane_limiter::{
    BucketKey, Charge, Decision, Dimension, Quota, RedisSettings, RedisStore, Store as _, StoreError,
    redis::Mode,
};
use fairlane_redis_servers::wait::until;
use tokio::time::{Instant, timeout};

/// How long a call may take in these tests.
pub(crate) const TIMEOUT: Duration = Duration::from_millis(150);

/// What a busy machine may add to anything.
pub(crate) const MARGIN: Duration = Duration::from_millis(500);

/// What it may add in half of all cases.
pub(crate) const USUAL_MARGIN: Duration = Duration::from_millis(60);

/// How long after the end of a fault a store serves again.
pub(crate) const RECOVERY: Duration = Duration::from_secs(1);

/// A call that takes longer hangs.
const HANG: Duration = Duration::from_secs(10);

/// Settings of every store here.
pub(crate) fn settings(url: &str, mode: Mode) -> RedisSettings {
    let mut settings = RedisSettings::parse(url, mode).unwrap();
    settings.timeout = TIMEOUT;
    settings
}

/// A store that has begun to serve.
pub(crate) async fn store(url: &str, mode: Mode) -> RedisStore {
    let store = RedisStore::new(settings(url, mode)).unwrap();
    serving(&store).await;
    store
}

/// A store on one server that has begun to serve.
pub(crate) async fn standalone(url: &str) -> RedisStore {
    store(url, Mode::Standalone).await
}

/// Waits until the store serves.
pub(crate) async fn serving(store: &RedisStore) {
    until("the store to serve", || async { take(store, charge(1, 1)).await.result.is_ok().then_some(()) })
        .await;
}

/// A bucket of this capacity that refills by a unit a day: not at all, as far as a test lasts.
pub(crate) fn bucket(key: BucketKey, capacity: u64, cost: u64) -> Charge {
    Charge::new(key, Quota::per_day(1).unwrap().with_capacity(capacity).unwrap(), cost)
}

/// A charge on a bucket that no other call here names.
pub(crate) fn charge(capacity: u64, cost: u64) -> Charge {
    bucket(fresh(), capacity, cost)
}

/// A key that no other bucket has.
pub(crate) fn fresh() -> BucketKey {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    BucketKey::new(Dimension::new(3), u128::from(number) << 64 | u128::from(std::process::id()))
}

/// What became of a call, and how long it took.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) result: Result<Decision, StoreError>,
    pub(crate) took: Duration,
}

/// Takes one charge; panics when the call hangs.
pub(crate) async fn take(store: &RedisStore, charge: Charge) -> Taken {
    let start = Instant::now();
    let result = timeout(HANG, store.take(&[charge])).await;
    let took = start.elapsed();
    Taken { result: result.unwrap_or_else(|_| panic!("a call hangs: {charge:?}")), took }
}

impl Taken {
    /// Whether it was granted.
    pub(crate) fn is_granted(&self) -> bool {
        self.result.as_ref().is_ok_and(Decision::is_granted)
    }

    /// Asserts that the store could not answer, and said so in time.
    pub(crate) fn assert_refused(&self, what: &str) {
        assert!(self.result.is_err(), "{what}: {:?}", self.result);
        self.assert_in_time(what);
    }

    /// Asserts that there was an answer of some kind in time.
    pub(crate) fn assert_in_time(&self, what: &str) {
        assert!(self.took <= TIMEOUT + MARGIN, "{what}: took {:?}: {:?}", self.took, self.result);
    }
}

/// What remains in a bucket, looked at without a charge.
pub(crate) async fn remaining(store: &RedisStore, charge: Charge) -> i64 {
    let look = Charge { cost: 0, ..charge };
    until("a look at a bucket", || async {
        match store.peek(&[look]).await.ok()? {
            Decision::Granted(granted) => granted.balances().remaining(0),
            Decision::Denied(denied) => denied.balances().remaining(0),
            Decision::Impossible(_) => panic!("nothing is always possible"),
        }
    })
    .await
}

/// Waits until the store serves again; panics when that takes too long from now on. Returns how long it took.
pub(crate) async fn recovered(store: &RedisStore, what: &str) -> Duration {
    let start = Instant::now();
    serving(store).await;
    let took = start.elapsed();
    println!("{what}: served again after {took:?}");
    assert!(took <= RECOVERY + MARGIN, "{what}: served again after {took:?} only");
    took
}

/// The middle of some measurements.
pub(crate) fn median(mut measured: Vec<Duration>) -> Duration {
    measured.sort_unstable();
    measured[measured.len() / 2]
}

/// A pause between calls that fail at once.
pub(crate) async fn breathe() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}
