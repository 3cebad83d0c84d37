//! Grants that come when nobody waits for them any more are given back.

use std::time::Duration;

use fairlane_limiter::redis::Mode;
use fairlane_limiter::{Store, StoreError};
use fairlane_redis_servers::{ChaosProxy, Fault, Server, wait};

use crate::support::{charge, left, settings, slow, store_with, up};

#[tokio::test]
async fn a_grant_that_comes_too_late_is_given_back() {
    let server = Server::start().await;
    let proxy = ChaosProxy::start(server.addr()).await;
    let mut settings = settings(&proxy.url(), Mode::Standalone);
    settings.timeout = Duration::from_millis(150);
    let store = store_with(settings).await;
    let before = server.calls("evalsha").await;
    proxy.set(Fault::Hold);
    let error = store.take(&[charge(1, slow(10), 4), charge(2, slow(10), 3)]).await.unwrap_err();
    assert!(matches!(error, StoreError::Timeout), "{error:?}");
    wait::until("the charge", || async { (server.calls("evalsha").await > before).then_some(()) }).await;
    proxy.pass();
    wait::until("the grant to be given back", || async {
        (store.stats().late_grants_returned == 1).then_some(())
    })
    .await;
    up(&store, true).await;
    assert_eq!((left(&store, 1, slow(10)).await, left(&store, 2, slow(10)).await), (10, 10));
    assert_eq!(store.stats().grants_lost, 0);
}

#[tokio::test]
async fn a_grant_whose_caller_is_gone_is_given_back() {
    let server = Server::start().await;
    let proxy = ChaosProxy::start(server.addr()).await;
    let store = store_with(settings(&proxy.url(), Mode::Standalone)).await;
    let before = server.calls("evalsha").await;
    proxy.set(Fault::Hold);
    let charges = [charge(1, slow(10), 4)];
    {
        let mut taking = std::pin::pin!(store.take(&charges));
        let arrived =
            wait::until("the charge", || async { (server.calls("evalsha").await > before).then_some(()) });
        tokio::select! {
            _ = &mut taking => panic!("the answer is held"),
            () = arrived => {}
        }
    }
    proxy.pass();
    wait::until("the grant to be given back", || async {
        (store.stats().late_grants_returned == 1).then_some(())
    })
    .await;
    assert_eq!(left(&store, 1, slow(10)).await, 10);
}

#[tokio::test]
async fn a_late_denial_gives_back_nothing() {
    let server = Server::start().await;
    let proxy = ChaosProxy::start(server.addr()).await;
    let mut settings = settings(&proxy.url(), Mode::Standalone);
    settings.timeout = Duration::from_millis(150);
    let store = store_with(settings).await;
    assert!(store.take(&[charge(1, slow(10), 8)]).await.unwrap().is_granted());
    proxy.set(Fault::Hold);
    store.take(&[charge(1, slow(10), 4)]).await.unwrap_err();
    proxy.pass();
    up(&store, true).await;
    assert_eq!(left(&store, 1, slow(10)).await, 2);
    assert_eq!(store.stats(), fairlane_limiter::redis::RedisStats::default());
}

#[tokio::test]
async fn an_answer_that_never_comes_is_counted() {
    let server = Server::start().await;
    let proxy = ChaosProxy::start(server.addr()).await;
    let mut settings = settings(&proxy.url(), Mode::Standalone);
    settings.timeout = Duration::from_millis(150);
    let store = store_with(settings).await;
    proxy.set(Fault::BlackHole);
    store.take(&[charge(1, slow(10), 4)]).await.unwrap_err();
    proxy.set(Fault::Refuse);
    wait::until("the loss to be counted", || async { (store.stats().grants_lost == 1).then_some(()) }).await;
}

#[tokio::test]
async fn an_answer_that_is_lost_with_its_connection_is_counted() {
    let server = Server::start().await;
    let proxy = ChaosProxy::start(server.addr()).await;
    let store = store_with(settings(&proxy.url(), Mode::Standalone)).await;
    assert!(store.take(&[charge(1, slow(10), 1)]).await.unwrap().is_granted());
    proxy.set(Fault::cut_script_reply(3));
    store.take(&[charge(1, slow(10), 4)]).await.unwrap_err();
    assert_eq!(store.stats().grants_lost, 1);
    // While it is known to be out nothing is sent, and so nothing lost.
    proxy.set(Fault::Refuse);
    up(&store, false).await;
    for _ in 0..5 {
        store.take(&[charge(1, slow(10), 1)]).await.unwrap_err();
    }
    proxy.pass();
    up(&store, true).await;
    assert_eq!(left(&store, 1, slow(10)).await, 5, "it had been granted");
    assert_eq!((store.stats().grants_lost, store.stats().late_grants_returned), (1, 0));
}

#[tokio::test]
async fn only_what_may_have_happened_is_counted() {
    let server = Server::start().await;
    let proxy = ChaosProxy::start(server.addr()).await;
    let store = store_with(settings(&proxy.url(), Mode::Standalone)).await;
    assert!(store.take(&[charge(1, slow(10), 1)]).await.unwrap().is_granted());
    for (fault, lost) in [
        (Fault::script_error("READONLY You can't write against a read only replica."), 0),
        (Fault::script_error("LOADING Redis is loading the dataset in memory"), 0),
        (Fault::script_error("NOSCRIPT No matching script."), 0),
        (Fault::script_error("ERR something went wrong half-way"), 1),
        (Fault::script_answer("+OK\r\n"), 1),
    ] {
        let before = store.stats().grants_lost;
        proxy.set(fault.clone());
        store.take(&[charge(1, slow(10), 1)]).await.unwrap_err();
        // A look takes nothing.
        store.peek(&[charge(1, slow(10), 1)]).await.unwrap_err();
        assert_eq!(store.stats().grants_lost - before, lost, "{fault:?}");
        proxy.pass();
        wait::until("the store to serve", || async {
            store.take(&[charge(2, slow(1_000), 1)]).await.ok().map(drop)
        })
        .await;
    }
}

/// Its end of the connection is closed before anything is sent.
#[tokio::test]
async fn what_was_never_sent_is_not_counted() {
    let server = Server::start().await;
    let proxy = ChaosProxy::start(server.addr()).await;
    let store = store_with(settings(&proxy.url(), Mode::Standalone)).await;
    let mut granted = 0;
    for _ in 0..20 {
        proxy.cut();
        wait::until("the connection to be cut", || async { (proxy.connections() == 0).then_some(()) }).await;
        // Nobody tells when the store's end of it has heard of that.
        wait::pass(Duration::from_millis(20)).await;
        granted += i64::from(store.take(&[charge(1, slow(1_000), 1)]).await.is_ok());
        wait::until("the store to serve", || async {
            store.peek(&[charge(1, slow(1_000), 0)]).await.ok().map(drop)
        })
        .await;
    }
    assert_eq!(left(&store, 1, slow(1_000)).await, 1_000 - granted);
    assert_eq!(store.stats().grants_lost, 0);
}
