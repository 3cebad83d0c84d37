//! How often the server is asked, and what is done if it does not know the script or may not run it.

use fairlane_limiter::redis::{Mode, RedisStore};
use fairlane_limiter::{Settlement, Store, StoreError};
use fairlane_redis_servers::{Server, ServerOptions, wait};

use crate::support::{charge, key, left, settings, slow, store, up};

#[tokio::test]
async fn a_decision_is_one_round_trip_and_a_settlement_is_another() {
    let server = Server::start().await;
    let store = store(&server).await;
    let scripts = || async {
        server.calls("evalsha").await + server.calls("eval").await + server.calls("script|load").await
    };
    let before = scripts().await;
    for n in 0..100 {
        let charges = [charge(n, slow(100), 1), charge(1_000, slow(1_000), 1), charge(1_001, slow(1_000), 1)];
        assert!(store.take(&charges).await.unwrap().is_granted());
    }
    assert_eq!(scripts().await - before, 100, "for 100 decisions over three buckets");
    store
        .settle(&[Settlement::new(key(0, 1), slow(100), 1), Settlement::new(key(0, 2), slow(100), 1)])
        .await
        .unwrap();
    assert_eq!(scripts().await - before, 101, "and a settlement of two");
    for _ in 0..10 {
        let none = [charge(1, slow(1), 2)];
        assert!(!store.take(&none).await.unwrap().is_granted());
        assert!(store.take(&[]).await.unwrap().is_granted());
    }
    assert_eq!(scripts().await - before, 101, "the impossible and nothing are known without asking");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flushed_script_is_loaded_again_once() {
    let server = Server::start().await;
    let store = store(&server).await;
    let before = server.calls("script|load").await;
    server.command(&["SCRIPT", "FLUSH"]).await;
    let mut calls = tokio::task::JoinSet::new();
    for n in 0..200 {
        let store = store.clone();
        calls.spawn(async move { store.take(&[charge(n, slow(10), 1), charge(999, slow(1_000), 1)]).await });
    }
    for outcome in calls.join_all().await {
        assert!(outcome.unwrap().is_granted());
    }
    assert_eq!(left(&store, 999, slow(1_000)).await, 800, "each of them once");
    assert_eq!(server.calls("script|load").await - before, 1, "loads for 200 calls that found it missing");
}

/// A store on a server whose user may do some things only.
async fn restricted(rules: &str) -> (Server, RedisStore) {
    let line = format!("user app on >secret ~* {rules}");
    let server = Server::start_with(ServerOptions::new().line(line)).await;
    let url = format!("redis://app:secret@{}", server.addr());
    let store = RedisStore::new(settings(&url, Mode::Standalone)).unwrap();
    (server, store)
}

#[tokio::test]
async fn where_scripts_cannot_be_loaded_eval_serves() {
    for rules in ["+@all -script", "+@all -evalsha", "+@all -evalsha -script"] {
        let (server, store) = restricted(rules).await;
        for nth in 1..=3 {
            assert!(store.take(&[charge(1, slow(10), 1)]).await.unwrap().is_granted(), "{rules}");
            assert_eq!(left(&store, 1, slow(10)).await, 10 - nth, "{rules}");
            server.command(&["SCRIPT", "FLUSH"]).await;
        }
    }
}

#[tokio::test]
async fn where_eval_is_forbidden_loading_serves() {
    let (server, store) = restricted("+@all -eval").await;
    assert!(store.take(&[charge(1, slow(10), 1)]).await.unwrap().is_granted());
    server.command(&["SCRIPT", "FLUSH"]).await;
    assert!(store.take(&[charge(1, slow(10), 1)]).await.unwrap().is_granted());
}

#[tokio::test]
async fn few_commands_are_needed() {
    let rules = "-@all +evalsha +script|load +time +mget +set +del +ping +unwatch";
    let (_server, store) = restricted(rules).await;
    assert!(store.take(&[charge(1, slow(10), 4)]).await.unwrap().is_granted());
    store.settle(&[Settlement::new(key(0, 1), slow(10), 4)]).await.unwrap();
    assert_eq!(left(&store, 1, slow(10)).await, 10);
}

#[tokio::test]
async fn where_no_script_may_run_nothing_is_granted() {
    let (server, store) = restricted("+@all -eval -evalsha").await;
    up(&store, false).await;
    for _ in 0..10 {
        let error = store.take(&[charge(1, slow(10), 1)]).await.unwrap_err();
        assert!(matches!(error, StoreError::Unavailable(Some(_))), "{error:?}");
    }
    server.command(&["ACL", "SETUSER", "app", "+eval"]).await;
    wait::within("the store to notice that it may", up(&store, true)).await;
    assert!(store.take(&[charge(1, slow(10), 1)]).await.unwrap().is_granted());
}
