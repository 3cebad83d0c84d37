//! One fault, from a healthy store through the outage to a healthy store.

use std::time::Duration;

use fairlane_limiter::{Charge, RedisStore};
use fairlane_redis_servers::{ChaosProxy, Fault, Server, wait::until};
use tokio::{
    task::JoinSet,
    time::{Instant, timeout},
};

use crate::support::{self, TIMEOUT, USUAL_MARGIN, fresh, median, recovered, remaining, standalone, take};

/// Callers at once during the outage.
const CALLERS: u64 = 4;

/// How long they call: long enough for timeouts, a breaker that opens, and its probes.
const OUTAGE: Duration = Duration::from_millis(600);

/// Room in the bucket that all callers share.
const CAPACITY: u64 = 1_000_000;

/// A server, a proxy before it, and a store that knows only the proxy.
pub(crate) struct Setup {
    pub(crate) server: Server,
    pub(crate) proxy: ChaosProxy,
    pub(crate) store: RedisStore,
}

impl Setup {
    pub(crate) async fn new() -> Self {
        Self::on(Server::start().await).await
    }

    pub(crate) async fn on(server: Server) -> Self {
        let proxy = ChaosProxy::start(server.addr()).await;
        let store = standalone(&proxy.url()).await;
        Self { server, proxy, store }
    }
}

/// What happened to the calls made during an outage.
#[derive(Debug, Default)]
pub(crate) struct Outage {
    pub(crate) granted: u64,
    pub(crate) refused: u64,
    /// How long those took that did not fail at once.
    waits: Vec<Duration>,
}

/// What may have been charged although nobody got a grant.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Lost {
    /// What the store says it could not give back.
    Counted,
    /// Nothing, and the store says so: it was told that nothing was executed.
    Nothing,
}

/// Has proxies before one server spoil everything, each with a fault of its own, and shows that nothing passes
/// meanwhile and everything afterwards.
pub(crate) async fn proxied(lost: Lost, faults: impl IntoIterator<Item = (String, Fault)>) {
    let server = Server::start().await;
    let mut trials = JoinSet::new();
    for (what, fault) in faults {
        let proxy = ChaosProxy::start(server.addr()).await;
        trials.spawn(async move { proxied_by(&proxy, &what, fault, lost).await });
    }
    while let Some(trial) = trials.join_next().await {
        trial.unwrap();
    }
}

async fn proxied_by(proxy: &ChaosProxy, what: &str, fault: Fault, lost: Lost) {
    let store = standalone(&proxy.url()).await;
    let charge = support::bucket(fresh(), CAPACITY, 1);
    assert!(take(&store, charge).await.is_granted());
    proxy.set(fault);
    let outage = call(&store, charge, what).await;
    assert_eq!(outage.granted, 0, "{what}: no bucket was charged for these");
    proxy.pass();
    recovered(&store, what).await;
    settled(&store, charge, 1, None, what).await;
    let counted = store.stats().grants_lost;
    match lost {
        Lost::Counted => assert!(counted <= outage.refused, "{what}: {counted} of {} lost", outage.refused),
        Lost::Nothing => assert_eq!(counted, 0, "{what}"),
    }
}

/// Calls for a while, and shows that every call is answered in time.
pub(crate) async fn call(store: &RedisStore, charge: Charge, what: &str) -> Outage {
    let end = Instant::now() + OUTAGE;
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS {
        let store = store.clone();
        let what = what.to_owned();
        callers.spawn(async move {
            let mut outage = Outage::default();
            while Instant::now() < end {
                let taken = take(&store, charge).await;
                taken.assert_in_time(&what);
                match &taken.result {
                    Ok(decision) => {
                        assert!(decision.is_granted(), "{what}: an outage is no denial: {decision:?}");
                        outage.granted += 1;
                    }
                    Err(_) => outage.refused += 1,
                }
                if taken.took > TIMEOUT / 4 {
                    outage.waits.push(taken.took);
                }
                // Refusals at once would leave no time for anything else.
                support::breathe().await;
            }
            outage
        });
    }
    let mut sum = Outage::default();
    while let Some(outage) = callers.join_next().await {
        let outage = outage.unwrap();
        sum.granted += outage.granted;
        sum.refused += outage.refused;
        sum.waits.extend(outage.waits);
    }
    if !sum.waits.is_empty() {
        let usual = median(sum.waits.clone());
        assert!(usual <= TIMEOUT + USUAL_MARGIN, "{what}: calls took {usual:?} (median)");
    }
    assert!(sum.refused > 0, "{what}: there was no outage");
    sum
}

/// Shows that the bucket has lost what was granted from it, and at most what may have been lost besides: what the store
/// counts as such, or `lost` calls.
pub(crate) async fn settled(store: &RedisStore, charge: Charge, granted: u64, lost: Option<u64>, what: &str) {
    let left = |lost: u64| {
        let capacity = i64::try_from(charge.quota.capacity()).unwrap();
        capacity - i64::try_from((granted + lost) * charge.cost).unwrap()
    };
    let seen = timeout(
        TIMEOUT * 20,
        until("the bucket to be settled", || async {
            let remaining = remaining(store, charge).await;
            assert!(remaining <= left(0), "{what}: {granted} grants, but {remaining} remain");
            let lost = lost.unwrap_or_else(|| store.stats().grants_lost);
            (remaining >= left(lost)).then_some(())
        }),
    )
    .await;
    let stats = store.stats();
    assert!(
        seen.is_ok(),
        "{what}: {granted} grants, {stats:?}, but {} remain",
        remaining(store, charge).await
    );
}
