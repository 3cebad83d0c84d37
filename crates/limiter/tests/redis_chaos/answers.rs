//! Answers that come late, or for nobody.

use std::time::Duration;

use fairlane_limiter::Store as _;
use fairlane_redis_servers::{
    Fault,
    wait::{until, within},
};
use tokio::task::JoinSet;

use crate::{
    support::{bucket, fresh, remaining, serving, take},
    trial::{Setup, settled},
};

/// Calls at once, few enough not to be held back.
const CALLS: u64 = 40;

/// Each call names a bucket of a size of its own, so that an answer to another would show.
#[tokio::test]
async fn a_late_answer_reaches_nobody_else() {
    let Setup { proxy, store, server: _server } = Setup::new().await;
    for round in 0..3 {
        proxy.set(Fault::Hold);
        let mut late = JoinSet::new();
        for number in 0..CALLS {
            let store = store.clone();
            late.spawn(async move { take(&store, bucket(fresh(), 1_000 + number, 1)).await });
        }
        while let Some(call) = late.join_next().await {
            call.unwrap().assert_refused("held replies");
        }
        // The late answers arrive while the next calls are on their way.
        proxy.pass();
        let mut next = JoinSet::new();
        for number in 0..CALLS {
            let store = store.clone();
            next.spawn(async move {
                let charge = bucket(fresh(), 5_000 + number, 3);
                (charge, take(&store, charge).await)
            });
        }
        while let Some(call) = next.join_next().await {
            let (charge, taken) = call.unwrap();
            if let Ok(decision) = taken.result {
                let left = decision.granted().unwrap().balances().remaining(0);
                assert_eq!(left, i64::try_from(charge.quota.capacity() - 3).ok(), "round {round}");
            }
        }
        serving(&store).await;
    }
}

/// Replies that are late, but come: what they grant goes back.
#[tokio::test]
async fn late_grants_are_given_back() {
    let Setup { proxy, store, server } = Setup::new().await;
    let charge = bucket(fresh(), 1_000, 7);
    assert!(take(&store, charge).await.is_granted());
    proxy.set(Fault::Hold);
    take(&store, charge).await.assert_refused("a held reply");
    proxy.pass();
    serving(&store).await;
    settled(&store, charge, 1, None, "a late grant").await;
    let stats = store.stats();
    assert_eq!(stats.late_grants_returned + stats.grants_lost, 1, "{stats:?}");
    assert_eq!(stats.late_grants_returned, 1, "it came on a connection that was still there: {stats:?}");
    assert_eq!(remaining(&store, charge).await, 993);
    assert!(server.calls("evalsha").await > 0);
}

/// A caller that leaves takes nothing with it.
#[tokio::test]
async fn grants_of_callers_that_left_are_given_back() {
    let Setup { proxy, store, server: _server } = Setup::new().await;
    let charge = bucket(fresh(), 1_000, 1);
    assert!(take(&store, charge).await.is_granted());
    let sent = || proxy.received("EVALSHA") + proxy.received("EVAL");
    let before = sent();
    proxy.set(Fault::Hold);
    let mut calls: Vec<_> = (0..20)
        .map(|_| {
            let store = store.clone();
            Box::pin(async move { store.take(&[charge]).await })
        })
        .collect();
    for call in &mut calls {
        // Polled once: it is on its way.
        assert!(tokio::time::timeout(Duration::ZERO, call).await.is_err());
    }
    within("the calls to be sent", until("them", || async { (sent() >= before + 20).then_some(()) })).await;
    drop(calls);
    proxy.pass();
    serving(&store).await;
    settled(&store, charge, 1, None, "callers that left").await;
    assert_eq!(remaining(&store, charge).await, 999 - i64::try_from(store.stats().grants_lost).unwrap());
}

/// Denials that come late took nothing, so nothing goes back.
#[tokio::test]
async fn late_denials_give_nothing_back() {
    let Setup { proxy, store, server: _server } = Setup::new().await;
    let charge = bucket(fresh(), 10, 4);
    for _ in 0..2 {
        assert!(take(&store, charge).await.is_granted());
    }
    proxy.set(Fault::Hold);
    take(&store, charge).await.assert_refused("a held reply");
    proxy.pass();
    serving(&store).await;
    // What a give-back would have raised it to, if there was one, would be seen from the next ones on.
    for _ in 0..20 {
        assert!(take(&store, charge).await.result.unwrap().denied().is_some());
        assert_eq!(remaining(&store, charge).await, 2);
    }
    assert_eq!(store.stats().late_grants_returned, 0);
}

/// Nor do errors.
#[tokio::test]
async fn late_errors_give_nothing_back() {
    let Setup { proxy, store, server } = Setup::new().await;
    let charge = bucket(fresh(), 10, 4);
    assert!(take(&store, charge).await.is_granted());
    server.command(&["CONFIG", "SET", "maxmemory", "1"]).await;
    proxy.set(Fault::Hold);
    take(&store, charge).await.assert_refused("a held reply");
    proxy.pass();
    server.command(&["CONFIG", "SET", "maxmemory", "0"]).await;
    serving(&store).await;
    for _ in 0..20 {
        assert_eq!(remaining(&store, charge).await, 6);
    }
    assert_eq!(store.stats().late_grants_returned, 0);
}
