//! Each further kind of change, and that it holds for the next request.

use std::time::Duration;

use fairlane_tests::{Backend, Call, Config, Gate, Gateway, Reply, wait};
use rustix::process::Signal;
use serde_json::json;

use super::{of, users};

async fn gateway(backend: &Backend) -> Gateway {
    Gateway::start(&users(Config::with(backend))).await
}

#[tokio::test]
async fn keys_are_added_disabled_and_given_models() {
    let backend = Backend::start().await;
    let gateway = gateway(&backend).await;
    let status = async |key: &str, model: &str| gateway.call(Call::chat(model).key(key)).await.status;
    assert_eq!(status("key-new", "m").await, 401);
    let with = |more: &str| users(Config::with(&backend)).key("new", "key-new", more);
    gateway.reconfigure(&with("user: newcomer")).await;
    assert_eq!(status("key-new", "m").await, 200);
    gateway.reconfigure(&with("user: newcomer, models: [other]")).await;
    assert_eq!((status("key-new", "m").await, status("key-new", "other").await), (403, 200));
    gateway.reconfigure(&with("user: newcomer, enabled: false")).await;
    assert_eq!(status("key-new", "other").await, 401);
}

#[tokio::test]
async fn a_mode_that_wants_no_key() {
    let backend = Backend::start().await;
    let gateway = gateway(&backend).await;
    assert_eq!(gateway.call(Call::chat("m")).await.status, 401);
    gateway.reconfigure(&users(Config::with(&backend)).permissive()).await;
    assert_eq!(gateway.call(Call::chat("m")).await.status, 200);
}

#[tokio::test]
async fn limits_on_the_wire() {
    let backend = Backend::start().await;
    let gateway = gateway(&backend).await;
    assert_eq!(gateway.call(of(0)).await.status, 200);
    let limit = "per_client: { requests_per_hour: 1 }";
    gateway.reconfigure(&users(Config::with(&backend)).limit(limit)).await;
    assert_eq!(gateway.call(of(0)).await.status, 200);
    assert_eq!(gateway.call(of(0)).await.limit_type(), "client");
    let free = users(Config::with(&backend)).limit(limit).rate_limiting("whitelist: [127.0.0.0/8]");
    gateway.reconfigure(&free).await;
    assert_eq!(gateway.call(of(0)).await.status, 200);
}

#[tokio::test]
async fn the_limit_of_a_backend() {
    let backend = Backend::start().await;
    let gateway = gateway(&backend).await;
    let limited = users(Config::with(&backend)).limit("per_backend: { requests_per_hour: 1 }");
    gateway.reconfigure(&limited).await;
    assert_eq!(gateway.call(of(0)).await.status, 200);
    let refused = gateway.call(of(0)).await;
    assert_eq!((refused.status, refused.limit_type().as_str()), (429, "backend"));
    gateway.reconfigure(&users(Config::with(&backend))).await;
    assert_eq!(gateway.call(of(0)).await.status, 200);
}

#[tokio::test]
async fn the_bound_on_a_body() {
    let backend = Backend::start().await;
    let gateway = gateway(&backend).await;
    let long = || {
        Call::post("/v1/chat/completions", &json!({"model": "m", "messages": [], "x": "y".repeat(4_000)}))
            .key("key-0")
    };
    assert_eq!(gateway.call(long()).await.status, 200);
    gateway.reconfigure(&users(Config::with(&backend)).server("max_body_bytes: 1024")).await;
    assert_eq!(gateway.call(long()).await.status, 413);
}

#[tokio::test]
async fn the_time_that_a_request_may_take() {
    let backend = Backend::start().await;
    let gateway = gateway(&backend).await;
    let hasty =
        users(Config::with(&backend)).section("timeouts: { request: { standard: { total: 200ms } } }");
    gateway.reconfigure(&hasty).await;
    let never = Gate::new();
    backend.next(Reply::json(200, &json!({})).after(&never));
    let answer = gateway.call(of(0)).await;
    assert_eq!((answer.status, answer.code().as_str()), (504, "backend_timeout"));
}

#[tokio::test]
async fn a_further_path_and_its_name_in_metrics() {
    let backend = Backend::start().await;
    let gateway = gateway(&backend).await;
    let call = || Call::post("/v1/special", &json!({"model": "m"})).key("key-0");
    assert_eq!(gateway.call(call()).await.status, 404);
    gateway.reconfigure(&users(Config::with(&backend)).server("paths: [/v1/special]")).await;
    assert_eq!(gateway.call(call()).await.status, 200);
    let labels = [("method", "POST"), ("route", "/v1/special"), ("status", "200")];
    gateway.metric("http_requests_total", &labels, 1.0).await;
}

#[tokio::test]
async fn the_tenants_dimension_and_its_name_in_metrics() {
    let backend = Backend::start().await;
    let limit = "per_team: { requests_per_hour: 10, burst_capacity: 1 }";
    let by = |dimension: &str| {
        users(Config::with(&backend)).limit(limit).fair_queuing(&format!("tenant_dimension: {dimension}"))
    };
    let gateway = Gateway::start(&by("user")).await;
    assert_eq!(gateway.call(of(0)).await.status, 200);
    gateway.reconfigure(&by("api_key")).await;
    let refused = gateway.call(of(0)).await;
    assert_eq!(refused.details()["fair_queue"]["tenant_dimension"], "api_key", "{}", refused.printed());
    let labels = [("tenant_dimension", "api_key"), ("reason", "wait_exceeds_budget")];
    gateway.metric("rate_limit_fair_queue_refused_total", &labels, 1.0).await;
}

#[tokio::test]
async fn the_admin_token_and_what_the_page_shows() {
    let backend = Backend::start().await;
    let gateway = gateway(&backend).await;
    let config = async |token: &str| {
        gateway
            .admin()
            .call(Call::get("/admin/config").header("authorization", &format!("Bearer {token}")))
            .await
    };
    assert_eq!(config("").await.status, 200);
    let closed =
        users(Config::with(&backend)).server("max_connections: 77").section("admin: { token: a-new-token }");
    gateway.rewrite("fairlane.yaml", &closed.yaml());
    wait::until("the token to be demanded", async || (config("").await.status == 401).then_some(())).await;
    let shown = config("a-new-token").await;
    assert_eq!(shown.json()["server"]["max_connections"], 77);
    assert!(!shown.text().contains("a-new-token"));
}

#[tokio::test]
async fn the_level_of_the_log() {
    let backend = Backend::start().await;
    let gateway = gateway(&backend).await;
    assert_eq!(gateway.call(of(0)).await.status, 200);
    assert!(!gateway.stderr().text().contains("DEBUG"));
    gateway.reconfigure(&users(Config::with(&backend)).section("log: { level: debug }")).await;
    assert_eq!(gateway.call(of(0)).await.status, 200);
    gateway.stderr().line("answered").await;
}

#[tokio::test]
async fn health_checks_begin_and_end() {
    let (sick, well) = (Backend::start().await, Backend::start().await);
    sick.always(|seen| Reply::json(if seen.path == "/health" { 500 } else { 200 }, &json!({})));
    let gateway = Gateway::start(&users(Config::with(&sick))).await;
    let checked = |name: &str| {
        let more = "health: { path: /health, interval: 20ms, failures: 1 }";
        users(Config::new().backend(name, &sick.url(), more).backend("second", &well.url(), ""))
    };
    gateway.reconfigure(&checked("primary")).await;
    gateway.metric("backend_up", &[("backend", "primary")], 0.0).await;
    for _ in 0..4 {
        assert_eq!(gateway.call(of(0)).await.status, 200);
    }
    assert_eq!(well.count(), 4);
    // Another change leaves it as it is known to be.
    gateway.reconfigure(&checked("primary").limit("per_user: { requests_per_second: 100 }")).await;
    assert_eq!(gateway.metrics().await.value("backend_up", &[("backend", "primary")]), Some(0.0));
    gateway.reconfigure(&users(Config::new().backend("second", &well.url(), ""))).await;
    let asked = sick.count();
    tokio::time::timeout(Duration::from_secs(10), gateway.call(of(0))).await.unwrap();
    assert!(sick.count() <= asked + 1, "a check that was under way may end");
}

/// A backend that answers well but for its health check.
async fn sick() -> Backend {
    let sick = Backend::start().await;
    sick.always(|seen| Reply::json(if seen.path == "/health" { 500 } else { 200 }, &json!({})));
    sick
}

const UP: &str = "backend_up";
const PRIMARY: [(&str, &str); 1] = [("backend", "primary")];

#[tokio::test]
async fn a_health_check_that_is_gone_has_no_say_any_more() {
    let sick = sick().await;
    let with = |more: &str| users(Config::new().backend("primary", &sick.url(), more));
    let gateway = Gateway::start(&with("health: { path: /health, interval: 20ms, failures: 1 }")).await;
    gateway.metric(UP, &PRIMARY, 0.0).await;
    assert_eq!(gateway.call(of(0)).await.code(), "no_healthy_backend");
    gateway.reconfigure(&with("")).await;
    assert_eq!(gateway.call(of(0)).await.status, 200);
    gateway.metric(UP, &PRIMARY, 1.0).await;
}

#[tokio::test]
async fn failed_health_checks_count_on() {
    let sick = sick().await;
    let more = "health: { path: /health, interval: 1h, failures: 3 }";
    let gateway = Gateway::start(&users(Config::new().backend("primary", &sick.url(), more))).await;
    for checks in 1..3 {
        wait::until("a check", async || (sick.count() >= checks).then_some(())).await;
        assert_eq!(gateway.metrics().await.value(UP, &PRIMARY), Some(1.0));
        gateway.reloaded("success", async || gateway.signal(Signal::HUP)).await;
    }
    gateway.metric(UP, &PRIMARY, 0.0).await;
}

#[tokio::test]
async fn what_fails_while_it_is_set_up_leaves_no_trace_in_metrics() {
    let (sick, well) = (sick().await, Backend::start().await);
    let check = "health: { path: /health, interval: 20ms, failures: 1 }";
    let gateway = Gateway::start(&users(Config::new().backend("primary", &sick.url(), check))).await;
    gateway.metric(UP, &PRIMARY, 0.0).await;
    gateway.rewrite("ca.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    let bad = Config::new().backend("primary", &well.url(), "").backend(
        "secure",
        "https://localhost:1",
        "ca_file: ca.pem",
    );
    gateway.reloaded("failure", async || gateway.rewrite("fairlane.yaml", &users(bad).yaml())).await;
    let metrics = gateway.metrics().await;
    assert_eq!(metrics.value(UP, &PRIMARY), Some(0.0));
    assert_eq!(metrics.value(UP, &[("backend", "secure")]), None);
    assert!(gateway.stderr().text().contains("ca.pem"), "{}", gateway.stderr().text());
}

#[tokio::test]
async fn a_backend_whose_name_is_anothers_now_is_no_news() {
    let (old, new) = (Backend::start().await, Backend::start().await);
    let at = |url: &str| users(Config::new().backend("primary", url, ""));
    // Whoever is under way to the earlier one fails to connect, again and again, while the later one has the name.
    let gateway = Gateway::start(&at("http://127.0.0.1:1")).await;
    for _ in 0..3 {
        assert_eq!(gateway.call(of(0)).await.status, 502);
    }
    gateway.metric(UP, &PRIMARY, 0.0).await;
    for url in [new.url(), old.url()] {
        gateway.reconfigure(&at(&url)).await;
        assert_eq!(gateway.metrics().await.value(UP, &PRIMARY), Some(1.0));
        assert_eq!(gateway.call(of(0)).await.status, 200);
    }
    assert_eq!((new.count(), old.count()), (1, 1));
}

#[tokio::test]
async fn reloads_send_no_backend_more_than_its_share() {
    let (one, other) = (Backend::start().await, Backend::start().await);
    let config = Config::new().backend("one", &one.url(), "").backend("other", &other.url(), "");
    let gateway = Gateway::start(&users(config)).await;
    for _ in 0..10 {
        assert_eq!(gateway.call(of(0)).await.status, 200);
        gateway.reloaded("success", async || gateway.signal(Signal::HUP)).await;
    }
    assert!((4..=6).contains(&one.count()), "{} of 10", one.count());
}
