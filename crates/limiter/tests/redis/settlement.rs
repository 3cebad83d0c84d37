//! Settlements happen once, whatever happens to their answers.

use std::time::Duration;

use fairlane_limiter::redis::Mode;
use fairlane_limiter::{Settlement, Store};
use fairlane_redis_servers::{ChaosProxy, Fault, Server, wait};

use crate::support::{charge, key, left, settings, slow, store_with, up};

#[tokio::test]
async fn a_settlement_whose_answer_is_lost_is_repeated_without_effect() {
    let server = Server::start().await;
    let proxy = ChaosProxy::start(server.addr()).await;
    let store = store_with(settings(&proxy.url(), Mode::Standalone)).await;
    assert!(store.take(&[charge(1, slow(100), 50)]).await.unwrap().is_granted());
    for (nth, amount) in [(1, 10), (2, -5), (3, 10)] {
        let before = server.calls("evalsha").await;
        // The server settles it, and then the connection breaks in the middle of the answer.
        proxy.set(Fault::cut_script_reply(3));
        let settling = tokio::spawn({
            let store = store.clone();
            async move { store.settle(&[Settlement::new(key(0, 1), slow(100), amount)]).await }
        });
        wait::until("the settlement to arrive", || async {
            (server.calls("evalsha").await > before).then_some(())
        })
        .await;
        proxy.pass();
        let told = wait::within("the settlement", settling).await.unwrap().unwrap();
        let expected = [60, 55, 65][nth - 1];
        assert_eq!(told.remaining(0), Some(expected), "after settlement {nth}");
        up(&store, true).await;
        assert_eq!(left(&store, 1, slow(100)).await, expected, "after settlement {nth}");
        assert!(server.calls("evalsha").await >= before + 2, "it was sent twice");
    }
}

#[tokio::test]
async fn a_settlement_outlives_a_short_outage() {
    let server = Server::start().await;
    let proxy = ChaosProxy::start(server.addr()).await;
    let store = store_with(settings(&proxy.url(), Mode::Standalone)).await;
    assert!(store.take(&[charge(1, slow(100), 50)]).await.unwrap().is_granted());
    proxy.set(Fault::Refuse);
    up(&store, false).await;
    let settling = tokio::spawn({
        let store = store.clone();
        async move { store.settle(&[Settlement::new(key(0, 1), slow(100), 7)]).await }
    });
    wait::pass(Duration::from_millis(300)).await;
    assert!(!settling.is_finished());
    proxy.pass();
    let told = wait::within("the settlement", settling).await.unwrap().unwrap();
    assert_eq!(told.remaining(0), Some(57));
}

#[tokio::test]
async fn a_settlement_that_cannot_be_made_is_given_up_in_time() {
    let server = Server::start().await;
    let mut settings = settings(&server.url(), Mode::Standalone);
    settings.timeout = Duration::from_millis(50);
    settings.settle_within = Duration::from_millis(400);
    let store = store_with(settings).await;
    server.stop();
    let begin = tokio::time::Instant::now();
    store.settle(&[Settlement::new(key(0, 1), slow(100), 7)]).await.unwrap_err();
    let took = begin.elapsed();
    assert!((Duration::from_millis(100)..Duration::from_millis(900)).contains(&took), "{took:?}");
}

#[tokio::test]
async fn an_attempt_that_was_stuck_for_long_does_nothing() {
    let server = Server::start().await;
    let proxy = ChaosProxy::start(server.addr()).await;
    let mut settings = settings(&proxy.url(), Mode::Standalone);
    settings.timeout = Duration::from_millis(200);
    settings.settle_within = Duration::from_millis(300);
    let store = store_with(settings.clone()).await;
    assert!(store.take(&[charge(1, slow(100), 50)]).await.unwrap().is_granted());
    server.pause();
    // All attempts are in the server's socket now, and nobody waits for them.
    store.settle(&[Settlement::new(key(0, 1), slow(100), 7)]).await.unwrap_err();
    // Longer than a settlement may be under way, the error of the clocks included.
    wait::pass(Duration::from_millis(2_700)).await;
    server.resume();
    up(&store, true).await;
    assert_eq!(left(&store, 1, slow(100)).await, 50, "a settlement that came too late");
}
