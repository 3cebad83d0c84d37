//! Configurations that are not put in force, and the parts of others that are not.

use fairlane_tests::{Backend, Call, Config, Gateway};
use rustix::process::Signal;

use super::{HELD, all_answered, hold, of, ten_an_hour, users, waiting};

#[tokio::test]
async fn a_bad_file_changes_nothing_and_is_reported_without_a_word_of_it() {
    let backend = Backend::start().await;
    let gateway = Gateway::start(&ten_an_hour(&backend)).await;
    let pending = hold(&gateway).await;
    let before = gateway.admin().call(Call::get("/admin/config")).await.text();
    let good = ten_an_hour(&backend).yaml();
    let cases = [
        good.replace("requests_per_hour: 10", "requests_per_hour: 0"),
        good.replace("  fair_queuing:", "  fair_queueing:"),
        format!("{good}\n\tnot: yaml\n"),
        good.replace("user: user-0", "user: [canary-tenant]"),
        good.replace("key: \"key-0\"", "key: \"canary-secret\", sha256: 12"),
        String::new(),
    ];
    for (at, bad) in cases.iter().enumerate() {
        assert_ne!(*bad, good);
        gateway.reloaded("failure", async || gateway.rewrite("fairlane.yaml", bad)).await;
        let log = gateway.stderr().text();
        assert_eq!(log.matches("nothing has changed").count(), at + 1, "{log}");
        assert!(!log.contains("canary"), "{log}");
    }
    assert_eq!(gateway.metrics().await.value("config_last_reload_successful", &[]), Some(0.0));
    assert_eq!(gateway.admin().call(Call::get("/admin/config")).await.text(), before);
    assert_eq!(gateway.queues().await["held"], HELD as u64);
    // The report names places.
    let log = gateway.stderr().text();
    assert!(log.contains("fairlane.yaml:"), "{log}");

    gateway.reconfigure(&waiting(users(Config::with(&backend)))).await;
    assert_eq!(gateway.metrics().await.value("config_last_reload_successful", &[]), Some(1.0));
    all_answered(pending).await;
}

#[tokio::test]
async fn a_file_that_is_gone_changes_nothing_until_it_is_back() {
    let backend = Backend::start().await;
    let gateway = Gateway::start(&users(Config::with(&backend))).await;
    let file = gateway.folder().join("fairlane.yaml");
    let remove = async || std::fs::remove_file(&file).unwrap();
    gateway.reloaded("failure", remove).await;
    assert_eq!(gateway.call(of(0)).await.status, 200);
    gateway.reconfigure(&users(Config::with(&backend)).limit("per_user: { requests_per_hour: 1 }")).await;
    assert_eq!(gateway.call(of(0)).await.status, 200);
    assert_eq!(gateway.call(of(0)).await.status, 429);
}

#[tokio::test]
async fn what_only_a_restart_changes_is_named_and_the_rest_is_put_in_force() {
    let backend = Backend::start().await;
    let gateway = Gateway::start(&users(Config::with(&backend))).await;
    let yaml = users(Config::with(&backend))
        .limit("per_user: { requests_per_hour: 1 }")
        .rate_limiting("max_buckets: 12345")
        .section("identity: { hash_key: another-hash-key-that-is-long-enough }")
        .yaml()
        .replace("  listen: 127.0.0.1:0", "  listen: 127.0.0.1:1");
    gateway.reconfigure_yaml(&yaml).await;
    let log = gateway.stderr().text();
    for key in ["server.listen", "rate_limiting.max_buckets", "identity.hash_key"] {
        assert!(log.contains(key), "no word of {key}: {log}");
    }
    assert!(!log.contains("another-hash-key"), "{log}");
    assert_eq!(gateway.call(of(0)).await.status, 200);
    assert_eq!(gateway.call(of(0)).await.status, 429);
    let config = gateway.admin().call(Call::get("/admin/config")).await.json();
    assert_eq!(config["server"]["listen"], "127.0.0.1:0");
    assert_eq!(config["rate_limiting"]["max_buckets"], 1_000_000);
}

#[tokio::test]
async fn what_would_be_unsafe_with_the_listener_as_it_is_is_refused() {
    let backend = Backend::start().await;
    let config = |more: &str| users(Config::with(&backend)).section(more).yaml();
    let public = config("admin: { token: a-token-for-the-admin-plane }")
        .replace("admin_listen: 127.0.0.1:0", "admin_listen: 0.0.0.0:0");
    let gateway = Gateway::start_yaml(&public, |_| {}).await;
    let open = config("");
    let authorized = || Call::get("/metrics").header("authorization", "Bearer a-token-for-the-admin-plane");
    let failures = async || {
        let text = gateway.admin().call(authorized()).await.text();
        text.lines().any(|line| line.ends_with(r#"reloads_total{result="failure"} 1"#)).then_some(())
    };
    gateway.rewrite("fairlane.yaml", &open);
    fairlane_tests::wait::until("the reload to be refused", failures).await;
    assert_eq!(gateway.admin().call(Call::get("/metrics")).await.status, 401);
}

#[tokio::test]
async fn while_it_drains_it_takes_no_other() {
    let backend = Backend::start().await;
    let mut gateway = Gateway::start(&ten_an_hour(&backend).server("drain_timeout: 200ms")).await;
    assert_eq!(gateway.call(of(0)).await.status, 200);
    let held = gateway.begin(of(1));
    gateway.held(1).await;
    gateway.terminate();
    gateway.stderr().line("draining").await;
    gateway.signal(Signal::HUP);
    assert_eq!(held.answer().await.status, 503);
    assert_eq!(gateway.exited().await, 0);
    assert!(!gateway.stderr().whole().await.contains("reloading"), "{}", gateway.stderr().text());
}
