use std::time::Duration;

use fairlane_redis_servers::{
    ChaosProxy, Fault, Server,
    redis::{self, AsyncConnectionConfig, Client, RedisResult, aio::MultiplexedConnection, cmd},
    wait,
};

const TIMEOUT: Duration = Duration::from_millis(250);

async fn setup() -> (Server, ChaosProxy) {
    let server = Server::start().await;
    let proxy = ChaosProxy::start(server.addr()).await;
    (server, proxy)
}

async fn connect(proxy: &ChaosProxy) -> RedisResult<MultiplexedConnection> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(TIMEOUT))
        .set_response_timeout(Some(TIMEOUT));
    Client::open(proxy.url())?.get_multiplexed_async_connection_with_config(&config).await
}

async fn increment(connection: &mut MultiplexedConnection) -> RedisResult<u64> {
    cmd("INCR").arg("key").query_async(connection).await
}

#[tokio::test]
async fn commands_pass_and_are_counted() {
    let (server, proxy) = setup().await;
    let mut connection = connect(&proxy).await.unwrap();
    let before = proxy.requests();
    for number in 1..=5 {
        assert_eq!(increment(&mut connection).await.unwrap(), number);
    }
    assert_eq!(proxy.requests() - before, 5);
    assert_eq!(proxy.received("INCR"), 5);
    assert_eq!((proxy.connections(), proxy.connections_made()), (1, 1));
    drop(connection);
    wait::until("the connection to end", || async { (proxy.connections() == 0).then_some(()) }).await;
    server.stop();
    assert!(connect(&proxy).await.is_err());
}

#[tokio::test]
async fn many_commands_at_once_keep_their_order() {
    let (_server, proxy) = setup().await;
    let connection = connect(&proxy).await.unwrap();
    let mut pipeline = redis::pipe();
    for number in 0..500_u64 {
        pipeline.cmd("ECHO").arg(number);
    }
    let answers: Vec<u64> = pipeline.query_async(&mut connection.clone()).await.unwrap();
    assert!(answers.into_iter().eq(0..500));
    proxy.set(Fault::script_error("OOM full"));
    let mut pipeline = redis::pipe();
    pipeline.cmd("ECHO").arg(1).cmd("EVAL").arg("return 1").arg(0).cmd("ECHO").arg(2).ignore_errors();
    let answers: Vec<RedisResult<u64>> = pipeline.query_async(&mut connection.clone()).await.unwrap();
    assert_eq!(answers[0], Ok(1));
    assert_eq!(answers[1].as_ref().unwrap_err().code(), Some("OOM"));
    assert_eq!(answers[2], Ok(2));
}

#[tokio::test]
async fn delayed_and_held_replies_come_late_but_were_executed() {
    let (server, proxy) = setup().await;
    let mut connection = connect(&proxy).await.unwrap();
    for (count, fault) in [(1, Fault::Delay(Duration::from_secs(60))), (2, Fault::Hold)] {
        proxy.set(fault);
        assert!(increment(&mut connection).await.unwrap_err().is_timeout());
        assert_eq!(server.query::<u64>(&["GET", "key"]).await, count);
    }
    let later = tokio::spawn({
        let mut connection = connection.clone();
        async move { increment(&mut connection).await }
    });
    wait::until("the third", || async { (proxy.received("INCR") == 3).then_some(()) }).await;
    proxy.pass();
    assert_eq!(later.await.unwrap().unwrap(), 3, "its own reply, not one of those that are late");
}

#[tokio::test]
async fn a_black_hole_swallows_for_good() {
    let (server, proxy) = setup().await;
    let (mut used, mut silent) = (connect(&proxy).await.unwrap(), connect(&proxy).await.unwrap());
    proxy.set(Fault::BlackHole);
    assert!(increment(&mut used).await.unwrap_err().is_timeout());
    let refused = connect(&proxy).await.is_err_and(|error| error.is_connection_refusal());
    assert_eq!((refused, proxy.connections_made()), (false, 3), "new ones are accepted, and swallow too");
    proxy.pass();
    assert_eq!(increment(&mut silent).await.unwrap(), 1);
    assert!(increment(&mut used).await.unwrap_err().is_timeout());
    assert_eq!(server.query::<u64>(&["GET", "key"]).await, 1);
}

#[tokio::test]
async fn connections_are_refused_and_cut() {
    let (_server, proxy) = setup().await;
    let mut connection = connect(&proxy).await.unwrap();
    proxy.set(Fault::Refuse);
    assert!(increment(&mut connection).await.unwrap_err().is_connection_dropped());
    wait::until("connections to be refused", || async {
        connect(&proxy).await.err().filter(redis::RedisError::is_connection_refusal)
    })
    .await;
    proxy.pass();
    let mut connection =
        wait::until("connections to be taken", || async { connect(&proxy).await.ok() }).await;
    assert_eq!(increment(&mut connection).await.unwrap(), 1);
    proxy.cut();
    assert!(increment(&mut connection).await.is_err());
    assert_eq!(increment(&mut connect(&proxy).await.unwrap()).await.unwrap(), 2);
}

#[tokio::test]
async fn replies_are_cut_and_replaced() {
    let (server, proxy) = setup().await;
    let mut connection = connect(&proxy).await.unwrap();
    proxy.set(Fault::error("LOADING wait"));
    assert_eq!(increment(&mut connection).await.unwrap_err().code(), Some("LOADING"));
    proxy.set(Fault::garbage());
    assert!(increment(&mut connection).await.is_err());
    assert!(server.query::<Option<u64>>(&["GET", "key"]).await.is_none(), "nothing was passed on");
    proxy.pass();
    let mut connection = connect(&proxy).await.unwrap();
    proxy.set(Fault::cut_script_reply(1));
    assert_eq!(increment(&mut connection).await.unwrap(), 1, "it is no script");
    proxy.set(Fault::cut_reply(1));
    assert!(increment(&mut connection).await.unwrap_err().is_connection_dropped());
    assert_eq!(server.query::<u64>(&["GET", "key"]).await, 2, "it was executed");
}
