//! Servers that fail themselves.

use std::time::Duration;

use fairlane_limiter::{RedisStore, StoreError};
use fairlane_redis_servers::{
    Server, ServerOptions,
    redis::{Client, cmd},
    wait::{pass, until},
};

use crate::{
    support::{bucket, fresh, recovered, remaining, serving, settings, standalone, take},
    trial::{call, settled},
};

/// Room in a bucket that is not to run empty.
const ROOM: u64 = 1_000_000;

#[tokio::test]
async fn a_paused_server() {
    let server = Server::start().await;
    let store = standalone(&server.url()).await;
    let charge = bucket(fresh(), ROOM, 1);
    assert!(take(&store, charge).await.is_granted());
    server.pause();
    let outage = call(&store, charge, "a paused server").await;
    assert_eq!(outage.granted, 0);
    server.resume();
    recovered(&store, "a paused server").await;
    settled(&store, charge, 1, None, "a paused server").await;
}

#[tokio::test]
async fn a_killed_server_comes_back_empty() {
    let server = Server::start().await;
    let store = standalone(&server.url()).await;
    let charge = bucket(fresh(), ROOM, 1);
    assert!(take(&store, charge).await.is_granted());
    server.stop();
    let outage = call(&store, charge, "a killed server").await;
    assert_eq!(outage.granted, 0);
    server.restart_empty().await;
    recovered(&store, "a killed server that is back").await;
    settled(&store, charge, 0, None, "what Redis lost is all that is lost").await;
}

#[tokio::test]
async fn a_server_that_is_not_there_yet() {
    let server = Server::start().await;
    server.stop();
    let store = RedisStore::new(settings(&server.url(), fairlane_limiter::redis::Mode::Standalone)).unwrap();
    let charge = bucket(fresh(), 10, 1);
    assert_eq!(call(&store, charge, "no server yet").await.granted, 0);
    server.restart_empty().await;
    recovered(&store, "a server that came late").await;
    assert_eq!(remaining(&store, charge).await, 10);
}

/// The connection goes on, and so does the server, but not as the one to write to.
#[tokio::test]
async fn a_demoted_master() {
    let (master, server) = (Server::start().await, Server::start().await);
    let store = standalone(&server.url()).await;
    let charge = bucket(fresh(), ROOM, 1);
    assert!(take(&store, charge).await.is_granted());
    let (host, port) = (master.addr().ip().to_string(), master.addr().port().to_string());
    server.command(&["REPLICAOF", &host, &port]).await;
    let outage = call(&store, charge, "a demoted master").await;
    assert_eq!(outage.granted, 0);
    server.command(&["REPLICAOF", "NO", "ONE"]).await;
    recovered(&store, "a master again").await;
}

#[tokio::test]
async fn a_server_without_memory() {
    let server = Server::start_with(ServerOptions::new().max_memory(0)).await;
    let store = standalone(&server.url()).await;
    let charge = bucket(fresh(), ROOM, 1);
    assert!(take(&store, charge).await.is_granted());
    server.command(&["CONFIG", "SET", "maxmemory", "1"]).await;
    let outage = call(&store, charge, "no memory").await;
    assert_eq!(outage.granted, 0);
    server.command(&["CONFIG", "SET", "maxmemory", "0"]).await;
    recovered(&store, "memory again").await;
    settled(&store, charge, 1, None, "no memory").await;
}

/// Somebody else's script does not end.
#[tokio::test]
async fn a_busy_server() {
    let server = Server::start_with(ServerOptions::new().line("lua-time-limit 20")).await;
    let store = standalone(&server.url()).await;
    let charge = bucket(fresh(), ROOM, 1);
    assert!(take(&store, charge).await.is_granted());
    let client = Client::open(server.url()).unwrap();
    let endless = tokio::spawn(async move {
        let mut connection = client.get_multiplexed_async_connection().await?;
        cmd("EVAL").arg("while true do end").arg(0).query_async::<()>(&mut connection).await
    });
    until("the server to be busy", || async {
        let error = server.try_query::<String>(&["PING"]).await.err()?;
        (error.code() == Some("BUSY")).then_some(())
    })
    .await;
    let outage = call(&store, charge, "a busy server").await;
    assert_eq!(outage.granted, 0);
    server.command(&["SCRIPT", "KILL"]).await;
    recovered(&store, "a server with time again").await;
    settled(&store, charge, 1, None, "a busy server").await;
    drop(endless);
}

/// Short stalls are no outage: what comes in time is taken.
#[tokio::test]
async fn a_server_that_stalls_for_less_than_the_timeout() {
    let server = Server::start().await;
    let store = standalone(&server.url()).await;
    let charge = bucket(fresh(), ROOM, 1);
    server.pause();
    let mut call = Box::pin(take(&store, charge));
    assert!(tokio::time::timeout(Duration::from_millis(30), &mut call).await.is_err());
    server.resume();
    assert!(call.await.is_granted());
}

/// A password that is changed while connections are open, which keep their rights until they are made anew.
#[tokio::test]
async fn a_password_that_no_longer_fits() {
    let server = Server::start_with(ServerOptions::new().password("first")).await;
    let url = server.url().replace("redis://", "redis://:first@");
    let store = standalone(&url).await;
    let charge = bucket(fresh(), ROOM, 1);
    server.command(&["CONFIG", "SET", "requirepass", "second"]).await;
    server.command(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).await;
    let outage = call(&store, charge, "a wrong password").await;
    assert_eq!(outage.granted, 0);
    server.command(&["CONFIG", "SET", "requirepass", "first"]).await;
    recovered(&store, "the right password").await;
    assert!(!format!("{store:?}").contains("first"), "passwords are not shown");
}

/// The server answers whatever does not write, so that it looks healthy.
#[tokio::test]
async fn a_server_that_holds_writes() {
    let server = Server::start().await;
    let store = standalone(&server.url()).await;
    let charge = bucket(fresh(), ROOM, 1);
    assert!(take(&store, charge).await.is_granted());
    server.command(&["CLIENT", "PAUSE", "60000", "WRITE"]).await;
    let outage = call(&store, charge, "writes that are held").await;
    assert_eq!(outage.granted, 0);
    server.command(&["CLIENT", "UNPAUSE"]).await;
    recovered(&store, "writes that are let go").await;
    settled(&store, charge, 1, None, "writes that were held").await;
}

/// A server that closes connections on which nothing happens for a second refuses nobody.
#[tokio::test]
async fn idle_connections_are_closed() {
    let server = Server::start_with(ServerOptions::new().line("timeout 1")).await;
    let store = standalone(&server.url()).await;
    for _ in 0..2 {
        pass(Duration::from_millis(2_200)).await;
        let taken = take(&store, bucket(fresh(), 1, 1)).await;
        assert!(taken.is_granted(), "after a while without calls: {taken:?}");
    }
}

/// All connections are closed by the server.
#[tokio::test]
async fn connections_are_killed() {
    let server = Server::start().await;
    let store = standalone(&server.url()).await;
    server.command(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).await;
    recovered(&store, "killed connections").await;
}

/// Somebody has written to the store's own keys.
#[tokio::test]
async fn buckets_that_are_no_buckets() {
    let server = Server::start().await;
    let store = standalone(&server.url()).await;
    let charge = bucket(fresh(), 10, 1);
    assert!(take(&store, charge).await.is_granted());
    let digest = format!("{:032x}", charge.key.digest());
    let names: Vec<String> = server.query(&["KEYS", &format!("*{digest}*")]).await;
    let [name] = names.as_slice() else { panic!("{names:?}") };
    for (what, value) in [
        ("text", b"seven".to_vec()),
        ("nothing", Vec::new()),
        ("no numbers", vec![0xff; 40]),
        ("infinities", f64::INFINITY.to_le_bytes().repeat(5)),
        ("fractions", 0.5_f64.to_le_bytes().repeat(5)),
        ("too much", 1e15_f64.to_le_bytes().repeat(5)),
        ("too long", vec![0; 48]),
    ] {
        // The call before may have had the connection made anew.
        serving(&store).await;
        let mut set = cmd("SET");
        set.arg(name).arg(&value);
        let mut connection =
            Client::open(server.url()).unwrap().get_multiplexed_async_connection().await.unwrap();
        set.query_async::<()>(&mut connection).await.unwrap();
        let taken = take(&store, charge).await;
        assert!(matches!(taken.result, Err(StoreError::Protocol(_))), "{what}: {taken:?}");
        taken.assert_in_time(what);
    }
    server.command(&["DEL", name]).await;
    recovered(&store, "a bucket again").await;
    assert_eq!(remaining(&store, charge).await, 10);
}
