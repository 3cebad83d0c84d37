//! `fairlane check --connect`.

use fairlane_redis_servers::{Server, ServerOptions};
use fairlane_tests::{Backend, Config, Finished, command, run};

use super::{PATIENT, people};

async fn check(config: &Config, arguments: &[&str]) -> Finished {
    check_text(&config.yaml(), arguments).await
}

async fn check_text(yaml: &str, arguments: &[&str]) -> Finished {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("fairlane.yaml");
    std::fs::write(&file, yaml).expect("the folder is writable");
    let mut command = command(&["check"]);
    command.arg(&file).args(arguments);
    run(command).await
}

async fn config(url: &str) -> Config {
    let backend = Backend::start().await;
    people(&backend, url, PATIENT).limit("per_user: { requests_per_day: 1 }")
}

#[tokio::test]
async fn a_server_that_answers_is_told_of() {
    let server = Server::start_with(ServerOptions::new().password("open/sesame")).await;
    let url = format!("redis://:open%2Fsesame@127.0.0.1:{}", server.addr().port());
    let finished = check(&config(&url).await, &["--connect"]).await;
    assert_eq!(finished.code, 0, "{}", finished.printed());
    let version = server.info("server", "redis_version").await.expect("a version");
    let parts =
        ["good", "reachable", &version, "role master", "maxmemory-policy noeviction", "scripts allowed"];
    for part in parts {
        assert!(finished.stdout.contains(part), "no {part}: {}", finished.printed());
    }
    assert!(!finished.printed().contains("sesame"), "{}", finished.printed());
}

#[tokio::test]
async fn one_that_does_not_is_1_and_the_configuration_is_good_all_the_same() {
    let server = Server::start().await;
    server.stop();
    let config = config(&server.url()).await;
    let finished = check(&config, &["--connect"]).await;
    assert_eq!(finished.code, 1, "{}", finished.printed());
    assert!(finished.stdout.contains("good"), "{}", finished.printed());
    assert!(finished.stderr.contains("cannot be reached"), "{}", finished.printed());
    let errors = finished.stderr.lines().filter(|line| line.starts_with("error: "));
    assert!(errors.count() <= 2, "a clear line: {}", finished.stderr);
    // Nobody asked.
    assert_eq!(check(&config, &[]).await.code, 0);
    // And what is not good is not tried.
    let finished =
        check_text(&config.yaml().replace("storage: redis", "storage: rodis"), &["--connect"]).await;
    assert_eq!(finished.code, 78, "{}", finished.printed());
}

#[tokio::test]
async fn a_wrong_password_is_1_and_not_shown() {
    let server = Server::start_with(ServerOptions::new().password("right")).await;
    let url = format!("redis://:wrong-one@127.0.0.1:{}", server.addr().port());
    let finished = check(&config(&url).await, &["--connect"]).await;
    assert_eq!(finished.code, 1, "{}", finished.printed());
    assert!(!finished.printed().contains("wrong-one"), "{}", finished.printed());
}

#[tokio::test]
async fn what_cannot_decide_is_1() {
    let master = Server::start().await;
    let replica = Server::start_with(ServerOptions::new().replica_of(master.addr())).await;
    let finished = check(&config(&replica.url()).await, &["--connect"]).await;
    assert_eq!(finished.code, 1, "{}", finished.printed());
    assert!(
        finished.stderr.contains("replica") || finished.stderr.contains("master"),
        "{}",
        finished.printed()
    );

    let options = ServerOptions::new().line("user limiter on >secret ~* +@all -eval -evalsha -script");
    let server = Server::start_with(options).await;
    let url = format!("redis://limiter:secret@127.0.0.1:{}", server.addr().port());
    let finished = check(&config(&url).await, &["--connect"]).await;
    assert_eq!(finished.code, 1, "{}", finished.printed());
    assert!(finished.stderr.contains("script"), "{}", finished.printed());
}

#[tokio::test]
async fn a_server_that_evicts_is_warned_of() {
    let options = ServerOptions::new().max_memory(50_000_000).line("maxmemory-policy allkeys-lru");
    let server = Server::start_with(options).await;
    let finished = check(&config(&server.url()).await, &["--connect"]).await;
    assert_eq!(finished.code, 0, "{}", finished.printed());
    assert!(finished.stdout.contains("maxmemory-policy allkeys-lru"), "{}", finished.printed());
    assert!(
        finished.stderr.contains("warning") && finished.stderr.contains("evict"),
        "{}",
        finished.printed()
    );
}

#[tokio::test]
async fn limits_in_memory_have_nothing_to_connect_to() {
    let backend = Backend::start().await;
    let finished = check(&Config::with(&backend).permissive(), &["--connect"]).await;
    assert_eq!(finished.code, 0, "{}", finished.printed());
    assert!(finished.stdout.contains("memory"), "{}", finished.printed());
}
