use std::{
    io::{BufRead as _, BufReader},
    process::{Command, Stdio},
    time::Duration,
};

use fairlane_redis_servers::{Server, ServerOptions, redis::Value, wait};

/// Whether a process is there and not merely waiting to be waited for.
fn runs(pid: u32) -> bool {
    let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    state.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(" Z"))
}

#[tokio::test]
async fn a_server_starts_and_ends_with_its_value_even_while_paused() {
    let server = Server::start().await;
    let pid = server.pid();
    assert_eq!(server.command(&["PING"]).await, Value::SimpleString("PONG".to_owned()));
    assert!(runs(pid));
    server.pause();
    drop(server);
    assert!(!runs(pid), "dropping kills, and waits");
}

#[tokio::test]
async fn a_paused_server_answers_when_it_goes_on() {
    let server = Server::start().await;
    server.pause();
    let mut answer = Box::pin(server.query::<String>(&["PING"]));
    let early = tokio::time::timeout(Duration::from_millis(50), &mut answer).await;
    assert!(early.is_err(), "{early:?}");
    server.resume();
    assert_eq!(wait::within("the answer", answer).await, "PONG");
}

#[tokio::test]
async fn a_server_comes_back_on_its_port_without_anything() {
    let server = Server::start().await;
    let (pid, addr) = (server.pid(), server.addr());
    server.command(&["SET", "key", "value"]).await;
    server.stop();
    assert!(!runs(pid));
    assert!(server.try_query::<String>(&["PING"]).await.is_err());
    server.restart_empty().await;
    assert_eq!((server.addr(), server.query::<u64>(&["DBSIZE"]).await), (addr, 0));
    server.restart_empty().await;
    assert_ne!(server.pid(), pid, "a running server is replaced");
}

#[tokio::test]
async fn calls_are_counted() {
    let server = Server::start().await;
    assert_eq!(server.calls("eval").await, 0);
    for _ in 0..3 {
        server.command(&["EVAL", "return redis.call('INCR', KEYS[1])", "1", "key"]).await;
    }
    assert_eq!((server.calls("eval").await, server.calls("incr").await), (3, 3));
}

#[tokio::test]
async fn options_hold() {
    let options = ServerOptions::new()
        .password("secret")
        .line("user app on >app-secret ~* +@all -eval")
        .line("rename-command FLUSHALL \"\"")
        .max_memory(3_000_000);
    let server = Server::start_with(options).await;
    let client = |user: &str| {
        fairlane_redis_servers::redis::Client::open(format!("redis://{user}@{}", server.addr())).unwrap()
    };
    let eval = |client: fairlane_redis_servers::redis::Client| async move {
        let mut connection = client.get_multiplexed_async_connection().await?;
        let mut eval = fairlane_redis_servers::redis::cmd("EVAL");
        eval.arg("return 1").arg(0).query_async::<u64>(&mut connection).await
    };
    assert!(eval(client(":wrong")).await.is_err());
    assert_eq!(eval(client(":secret")).await.unwrap(), 1);
    assert_eq!(eval(client("app:app-secret")).await.unwrap_err().code(), Some("NOPERM"));
    assert!(server.try_query::<Value>(&["FLUSHALL"]).await.is_err());
    let policy: Vec<String> = server.query(&["CONFIG", "GET", "maxmemory-policy"]).await;
    assert_eq!(policy, ["maxmemory-policy", "noeviction"]);
}

#[tokio::test]
async fn a_replica_follows_its_master() {
    let master = Server::start().await;
    master.command(&["SET", "key", "value"]).await;
    let replica = Server::start_with(ServerOptions::new().replica_of(master.addr())).await;
    replica.synced().await;
    assert_eq!(replica.query::<String>(&["GET", "key"]).await, "value");
    assert_eq!(replica.info("replication", "role").await.as_deref(), Some("slave"));
}

/// Set in the process that is to be killed.
const TO_BE_KILLED: &str = "FAIRLANE_HARNESS_TO_BE_KILLED";

/// A test process that is killed cannot clean up. It is this test once more that plays it.
#[tokio::test]
async fn servers_end_even_if_the_test_process_is_killed() {
    if std::env::var_os(TO_BE_KILLED).is_some() {
        let server = Server::start().await;
        server.pause();
        println!("\nserver {}", server.pid());
        return std::future::pending().await;
    }
    let mut process = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "server::servers_end_even_if_the_test_process_is_killed", "--nocapture"])
        .env(TO_BE_KILLED, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(process.stdout.take().unwrap()).lines();
    let pid =
        lines.map_while(Result::ok).find_map(|line| line.strip_prefix("server ")?.parse().ok()).unwrap();
    assert!(runs(pid));
    process.kill().unwrap();
    process.wait().unwrap();
    wait::until("the watchdog to bite", || async { (!runs(pid)).then_some(()) }).await;
}

/// Tests may break servers from tasks of their own.
#[test]
fn what_servers_do_can_be_spawned() {
    fn spawnable(_: impl Send) {}
    let _ = |server: &'static Server, cluster: &'static fairlane_redis_servers::Cluster| {
        spawnable(Server::start());
        spawnable(server.restart_empty());
        spawnable(server.command(&[]));
        spawnable(cluster.move_slot(0, 0));
        spawnable(cluster.fail_over(0, Server::stop));
        spawnable(fairlane_redis_servers::Sentinels::start());
    };
}
