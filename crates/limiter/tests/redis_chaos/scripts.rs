//! The scripts that decisions are made with get lost, or are not allowed.

use std::time::Duration;

use fairlane_limiter::{RedisStore, redis::Mode};
use fairlane_redis_servers::{Server, ServerOptions, wait::pass};
use tokio::task::JoinSet;

use crate::{
    support::{bucket, fresh, remaining, settings, standalone, take},
    trial::call,
};

/// Nobody notices that the server forgets its scripts again and again.
#[tokio::test]
async fn scripts_are_flushed_under_load() {
    const CALLERS: u64 = 8;
    const CALLS: u64 = 150;
    let server = Server::start().await;
    let store = standalone(&server.url()).await;
    let charge = bucket(fresh(), CALLERS * CALLS + 5, 1);
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS {
        let store = store.clone();
        callers.spawn(async move {
            for _ in 0..CALLS {
                let taken = take(&store, charge).await;
                assert!(taken.is_granted(), "{taken:?}");
            }
        });
    }
    let mut flushes = 0;
    while !callers.is_empty() {
        server.command(&["SCRIPT", "FLUSH"]).await;
        flushes += 1;
        tokio::select! {
            Some(caller) = callers.join_next() => caller.unwrap(),
            () = pass(Duration::from_millis(3)) => {}
        }
    }
    assert!(flushes > 5, "only {flushes} flushes");
    assert_eq!(remaining(&store, charge).await, 5, "each call was charged once, replayed or not");
}

/// Where scripts cannot be stored, each is sent whole.
#[tokio::test]
async fn scripts_may_not_be_loaded() {
    for rule in ["-script", "-script -evalsha"] {
        let options = ServerOptions::new().line(format!("user default on nopass ~* &* +@all {rule}"));
        let server = Server::start_with(options).await;
        let store = standalone(&server.url()).await;
        let charge = bucket(fresh(), 100, 1);
        for _ in 0..100 {
            let taken = take(&store, charge).await;
            assert!(taken.is_granted(), "{rule}: {taken:?}");
        }
        assert!(take(&store, charge).await.result.unwrap().denied().is_some(), "{rule}");
        assert!(server.calls("eval").await > 0, "{rule}: by EVAL");
    }
}

#[tokio::test]
async fn no_script_may_run() {
    for rule in ["-eval -evalsha -script", "-@scripting", "-eval -script"] {
        let options = ServerOptions::new().line(format!("user default on nopass ~* &* +@all {rule}"));
        let server = Server::start_with(options).await;
        let store = RedisStore::new(settings(&server.url(), Mode::Standalone)).unwrap();
        let outage = call(&store, bucket(fresh(), 100, 1), rule).await;
        assert_eq!(outage.granted, 0, "{rule}");
        server.command(&["ACL", "SETUSER", "default", "+@all"]).await;
        crate::support::recovered(&store, rule).await;
    }
}

/// Commands that are renamed away are unknown rather than forbidden.
#[tokio::test]
async fn commands_are_renamed_away() {
    let server = Server::start_with(ServerOptions::new().line("rename-command SCRIPT \"\"")).await;
    let store = standalone(&server.url()).await;
    assert!(take(&store, bucket(fresh(), 1, 1)).await.is_granted());

    let options = ServerOptions::new().line("rename-command EVAL \"\"").line("rename-command SCRIPT \"\"");
    let server = Server::start_with(options).await;
    let store = RedisStore::new(settings(&server.url(), Mode::Standalone)).unwrap();
    assert_eq!(call(&store, bucket(fresh(), 1, 1), "no EVAL").await.granted, 0);
}
