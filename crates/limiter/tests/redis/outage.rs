//! A server that is away, and comes back.

use std::time::Duration;

use fairlane_limiter::redis::{Mode, RedisSettings, RedisStore, SettingsError};
use fairlane_limiter::{Store, StoreError};
use fairlane_redis_servers::{ChaosProxy, Fault, Server, ServerOptions, wait};
use tokio::time::Instant;

use crate::support::{TIMEOUT, charge, left, settings, slow, store, store_with, up};

#[tokio::test]
async fn a_store_begins_without_its_server() {
    let server = Server::start().await;
    server.stop();
    let store = RedisStore::new(settings(&server.url(), Mode::Standalone)).unwrap();
    let error = store.take(&[charge(1, slow(10), 1)]).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable(Some(_))), "{error:?}");
    assert!(!store.is_up());
    server.restart_empty().await;
    up(&store, true).await;
    assert!(store.take(&[charge(1, slow(10), 1)]).await.unwrap().is_granted());
}

#[tokio::test]
async fn the_first_call_waits_for_the_first_connection() {
    let server = Server::start().await;
    let store = RedisStore::new(settings(&server.url(), Mode::Standalone)).unwrap();
    assert!(store.take(&[charge(1, slow(10), 1)]).await.unwrap().is_granted());
}

#[tokio::test]
async fn a_server_that_never_speaks_is_waited_for_no_longer_than_a_call_may_take() {
    let server = Server::start().await;
    let proxy = ChaosProxy::start(server.addr()).await;
    proxy.set(Fault::BlackHole);
    let mut settings = settings(&proxy.url(), Mode::Standalone);
    settings.timeout = Duration::from_millis(100);
    let store = RedisStore::new(settings).unwrap();
    let begin = Instant::now();
    store.take(&[charge(1, slow(10), 1)]).await.unwrap_err();
    assert!(begin.elapsed() < Duration::from_millis(600), "{:?}", begin.elapsed());
    proxy.pass();
    let back = Instant::now();
    up(&store, true).await;
    assert!(back.elapsed() < Duration::from_secs(1), "{:?}", back.elapsed());
}

/// What a store sends into a black hole is lost, so one that is patient with its calls must not be as patient with that.
#[tokio::test]
async fn a_store_with_a_long_timeout_is_back_as_soon() {
    let server = Server::start().await;
    let proxy = ChaosProxy::start(server.addr()).await;
    proxy.set(Fault::BlackHole);
    let mut settings = settings(&proxy.url(), Mode::Standalone);
    settings.timeout = Duration::from_secs(5);
    let store = RedisStore::new(settings).unwrap();
    let taking = tokio::spawn({
        let store = store.clone();
        async move { store.take(&[charge(1, slow(10), 1)]).await }
    });
    for attempts in 1..=3 {
        let made = || async { (proxy.connections_made() >= attempts).then_some(()) };
        wait::until("an attempt to connect", made).await;
    }
    assert!(proxy.connections() <= 3, "{} attempts at once", proxy.connections());
    proxy.pass();
    let back = Instant::now();
    up(&store, true).await;
    assert!(back.elapsed() < Duration::from_secs(1), "{:?}", back.elapsed());
    assert!(taking.await.unwrap().unwrap().is_granted(), "there was time enough left");
}

#[tokio::test]
async fn an_outage_is_answered_at_once_and_ends_by_itself() {
    let server = Server::start().await;
    let mut settings = settings(&server.url(), Mode::Standalone);
    settings.timeout = Duration::from_millis(100);
    let store = store_with(settings).await;
    let watched = store.health();
    server.pause();
    for _ in 0..3 {
        let begin = Instant::now();
        let error = store.take(&[charge(1, slow(10), 1)]).await.unwrap_err();
        assert!(matches!(error, StoreError::Timeout), "{error:?}");
        assert!(begin.elapsed() < Duration::from_millis(300), "{:?}", begin.elapsed());
    }
    assert!(!store.is_up() && watched.has_changed().unwrap());
    let mut slowest = Duration::ZERO;
    for _ in 0..1_000 {
        let begin = Instant::now();
        let error = store.take(&[charge(1, slow(10), 1)]).await.unwrap_err();
        slowest = slowest.max(begin.elapsed());
        assert!(matches!(error, StoreError::Unavailable(Some(_))), "{error:?}");
    }
    assert!(slowest < Duration::from_millis(20), "{slowest:?} for a refusal without I/O on a busy machine");
    server.resume();
    let back = Instant::now();
    up(&store, true).await;
    assert!(back.elapsed() < Duration::from_secs(1), "{:?}", back.elapsed());
    wait::until("late grants to be given back", || async {
        (left(&store, 1, slow(10)).await == 10).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_killed_server_is_found_again() {
    let server = Server::start().await;
    let store = store(&server).await;
    for _ in 0..3 {
        assert!(store.take(&[charge(1, slow(10), 10)]).await.unwrap().is_granted(), "it comes back empty");
        server.stop();
        up(&store, false).await;
        let error = store.take(&[charge(1, slow(10), 1)]).await.unwrap_err();
        assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
        server.restart_empty().await;
        let back = Instant::now();
        up(&store, true).await;
        assert!(back.elapsed() < Duration::from_secs(1), "{:?}", back.elapsed());
    }
}

#[tokio::test]
async fn connections_are_made_no_faster_than_ten_a_second() {
    let server = Server::start().await;
    let proxy = ChaosProxy::start(server.addr()).await;
    let mut settings = settings(&proxy.url(), Mode::Standalone);
    settings.timeout = Duration::from_millis(100);
    let store = store_with(settings).await;
    let before = proxy.connections_made();
    // Connects, and then refuses everything that writes.
    proxy.set(Fault::script_error("READONLY You can't write against a read only replica."));
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(1) {
        let error = store.take(&[charge(1, slow(10), 1)]).await.unwrap_err();
        assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
        tokio::task::yield_now().await;
    }
    let made = proxy.connections_made() - before;
    assert!((1..=11).contains(&made), "{made} connections in a second");
    proxy.pass();
    up(&store, true).await;
}

#[tokio::test]
async fn an_idle_connection_is_kept_alive() {
    let server = Server::start().await;
    server.command(&["CONFIG", "SET", "timeout", "1"]).await;
    let proxy = ChaosProxy::start(server.addr()).await;
    let store = store_with(settings(&proxy.url(), Mode::Standalone)).await;
    wait::pass(Duration::from_millis(3_500)).await;
    assert!(store.take(&[charge(1, slow(10), 1)]).await.unwrap().is_granted());
    assert_eq!(proxy.connections_made(), 1);
}

#[tokio::test]
async fn an_answer_to_another_request_is_no_answer() {
    let server = Server::start().await;
    let proxy = ChaosProxy::start(server.addr()).await;
    let store = store_with(settings(&proxy.url(), Mode::Standalone)).await;
    for answer in [
        &b"+OK\r\n"[..],
        b":1\r\n",
        b"$-1\r\n",
        b"$1\r\ng\r\n",
        b"*1\r\n:1\r\n",
        b"$57\r\ngt\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\r\n",
        b"hello\r\n",
    ] {
        proxy.set(Fault::script_answer(answer));
        let outcome = store.take(&[charge(1, slow(10), 1)]).await;
        let error = outcome.expect_err("no decision");
        assert!(matches!(error, StoreError::Protocol(_) | StoreError::Unavailable(_)), "{error:?}");
        proxy.pass();
        up(&store, false).await;
        up(&store, true).await;
    }
    assert!(store.take(&[charge(1, slow(10), 1)]).await.unwrap().is_granted());
}

#[tokio::test]
async fn a_replica_is_not_asked_until_it_is_a_master() {
    let master = Server::start().await;
    let replica = Server::start_with(ServerOptions::new().replica_of(master.addr())).await;
    let mut settings = settings(&replica.url(), Mode::Standalone);
    settings.timeout = Duration::from_millis(200);
    let store = RedisStore::new(settings).unwrap();
    let error = store.take(&[charge(1, slow(10), 1)]).await.unwrap_err();
    let StoreError::Unavailable(Some(cause)) = &error else { panic!("{error:?}") };
    assert!(cause.to_string().contains("not a master"), "{cause}");
    assert_eq!(replica.calls("evalsha").await + replica.calls("eval").await, 0);
    replica.command(&["REPLICAOF", "NO", "ONE"]).await;
    let back = Instant::now();
    up(&store, true).await;
    assert!(back.elapsed() < Duration::from_secs(1), "{:?}", back.elapsed());
    assert!(store.take(&[charge(1, slow(10), 1)]).await.unwrap().is_granted());
}

#[tokio::test]
async fn what_a_server_says_is_told_on_one_line() {
    let server = Server::start().await;
    let proxy = ChaosProxy::start(server.addr()).await;
    let store = store_with(settings(&proxy.url(), Mode::Standalone)).await;
    for fault in [
        Fault::script_error("OOM first\nsecond\u{1b}[31m"),
        Fault::script_error(&format!("OOM {}", "x".repeat(10_000))),
        Fault::garbage(),
    ] {
        proxy.set(fault);
        let error = store.take(&[charge(1, slow(10), 1)]).await.unwrap_err();
        let cause = std::error::Error::source(&error).unwrap().to_string();
        assert!(!cause.contains(char::is_control) && cause.chars().count() <= 401, "{cause:?}");
        proxy.pass();
        up(&store, true).await;
    }
}

#[tokio::test]
async fn the_last_clone_ends_the_work_in_the_background() {
    let server = Server::start().await;
    let proxy = ChaosProxy::start(server.addr()).await;
    let store = store_with(settings(&proxy.url(), Mode::Standalone)).await;
    let clone = store.clone();
    drop(store);
    assert!(clone.take(&[charge(1, slow(10), 1)]).await.unwrap().is_granted());
    let mut health = clone.health();
    drop(clone);
    wait::within("nobody to tell of changes", health.wait_for(|_| false)).await.unwrap_err();
    wait::until("the connection to end", || async { (proxy.connections() == 0).then_some(()) }).await;
}

#[test]
fn a_store_needs_a_runtime() {
    let settings = RedisSettings::parse("redis://localhost", Mode::Standalone).unwrap();
    assert_eq!(RedisStore::new(settings).unwrap_err(), SettingsError::NoRuntime);
}

#[tokio::test]
async fn settings_that_cannot_be_meant_are_refused() {
    let good = settings("redis://localhost", Mode::Standalone);
    for (prefix, timeout, expected) in [
        ("", TIMEOUT, SettingsError::KeyPrefix),
        ("a{b}", TIMEOUT, SettingsError::KeyPrefix),
        ("a b", TIMEOUT, SettingsError::KeyPrefix),
        ("a", Duration::ZERO, SettingsError::Timeout),
    ] {
        let mut settings = good.clone();
        (settings.key_prefix, settings.timeout) = (prefix.to_owned(), timeout);
        assert_eq!(RedisStore::new(settings).unwrap_err(), expected);
    }
}
