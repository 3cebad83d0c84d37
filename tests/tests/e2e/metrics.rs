//! What Prometheus scrapes: names, types and labels, and that no caller can make a series.

use std::collections::BTreeSet;

use fairlane_tests::{Backend, Call, Config, Gateway, Metrics, RawBackend, Reply, Wire};
use http::Method;
use serde_json::json;

use crate::support::{alice, bob, people};

/// Name, type and labels of everything that is there from the start or after one request of each kind.
const METRICS: [(&str, &str, &[&str]); 22] = [
    ("rate_limit_fair_queue_depth", "gauge", &[]),
    ("rate_limit_fair_queue_tenants", "gauge", &[]),
    ("rate_limit_fair_queue_wait_seconds", "histogram", &["tenant_dimension"]),
    ("rate_limit_fair_queue_grants_total", "counter", &["tenant_dimension"]),
    ("rate_limit_fair_queue_refused_total", "counter", &["tenant_dimension", "reason"]),
    ("rate_limit_decisions_total", "counter", &["limit_type", "class", "decision"]),
    ("rate_limit_store_seconds", "histogram", &["store"]),
    ("rate_limit_store_up", "gauge", &["store"]),
    ("rate_limit_store_errors_total", "counter", &["store", "kind"]),
    ("rate_limit_fail_open_total", "counter", &[]),
    ("rate_limit_settlements_lost_total", "counter", &[]),
    ("http_requests_total", "counter", &["method", "route", "status"]),
    ("http_request_duration_seconds", "histogram", &["route"]),
    ("http_first_byte_seconds", "histogram", &["route"]),
    ("http_connections", "gauge", &[]),
    ("http_connections_refused_total", "counter", &[]),
    ("backend_requests_total", "counter", &["backend", "status"]),
    ("backend_up", "gauge", &["backend"]),
    ("config_reloads_total", "counter", &["result"]),
    ("config_last_reload_successful", "gauge", &[]),
    ("config_last_reload_success_timestamp_seconds", "gauge", &[]),
    ("fairlane_build_info", "gauge", &["version"]),
];

async fn gateway(backend: &Backend) -> Gateway {
    let config = people(Config::with(backend))
        .limit("per_user: { requests_per_minute: 6, burst_capacity: 1 }")
        .fair_queuing("max_wait_ms: 100000")
        .fair_queuing("max_queue_depth_per_tenant: 1");
    Gateway::start(&config).await
}

#[tokio::test]
async fn every_metric_has_its_name_its_type_its_labels_and_a_help() {
    let backend = Backend::start().await;
    let gateway = gateway(&backend).await;
    assert_eq!(gateway.call(alice()).await.status, 200);
    let metrics = gateway.metrics().await;
    for (name, kind, labels) in METRICS {
        let family = metrics.families.get(name).unwrap_or_else(|| panic!("no {name}:\n{}", metrics.text));
        assert_eq!(family.kind.as_deref(), Some(kind), "{name}");
        assert!(!family.samples.is_empty(), "{name}");
        for sample in &family.samples {
            let shown: BTreeSet<_> =
                sample.labels.keys().map(String::as_str).filter(|label| *label != "le").collect();
            assert_eq!(shown, labels.iter().copied().collect(), "{sample:?}");
        }
    }
}

/// What `promtool check metrics` demands, and what our own names promise.
#[track_caller]
fn assert_sound(metrics: &Metrics) {
    for (name, family) in &metrics.families {
        assert!(family.help.as_deref().is_some_and(|help| !help.is_empty()), "no help: {name}");
        let kind = family.kind.as_deref().unwrap_or_default();
        assert_eq!(kind == "counter", name.ends_with("_total"), "{name} is a {kind}");
        let is_time = name.ends_with("_seconds") && !name.ends_with("_timestamp_seconds");
        assert_eq!(kind == "histogram", is_time, "{name} is a {kind}");
        let sign = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        assert!(name.bytes().all(sign) && !name.contains("__"), "{name}");
        for (at, sample) in family.samples.iter().enumerate() {
            let twice = family.samples[..at]
                .iter()
                .any(|other| other.name == sample.name && other.labels == sample.labels);
            assert!(!twice, "twice: {sample:?}");
        }
        if kind == "histogram" {
            let of = |suffix: &str, labels: &[(&str, &str)]| {
                metrics.samples(&format!("{name}{suffix}"), labels).len()
            };
            let (sums, counts) = (of("_sum", &[]), of("_count", &[]));
            let whole = of("_bucket", &[("le", "+Inf")]);
            assert_eq!((sums, whole), (counts, counts), "{name}");
        }
    }
}

#[tokio::test]
async fn the_scrape_is_sound_before_and_after_traffic() {
    let backend = Backend::start().await;
    let gateway = gateway(&backend).await;
    let answer = gateway.admin().call(Call::get("/metrics")).await;
    assert!(answer.header("content-type").starts_with("text/plain; version=0.0.4"), "{:?}", answer.headers);
    assert_sound(&gateway.metrics().await);
    for call in [alice(), Call::chat("m"), Call::get("/nowhere"), Call::get("/v1/models").key("key-of-bob")] {
        gateway.call(call).await;
    }
    let held = gateway.begin(alice());
    gateway.held(1).await;
    gateway.call(alice()).await;
    held.leave();
    gateway.held(0).await;
    assert_sound(&gateway.metrics().await);
}

#[tokio::test]
async fn every_reason_is_there_from_the_start_at_zero() {
    let backend = Backend::start().await;
    let metrics = gateway(&backend).await.metrics().await;
    for reason in
        ["queue_full", "tenant_queue_full", "tenant_table_full", "wait_exceeds_budget", "deadline_exceeded"]
    {
        let labels = [("reason", reason), ("tenant_dimension", "user")];
        assert_eq!(metrics.value("rate_limit_fair_queue_refused_total", &labels), Some(0.0), "{reason}");
    }
    assert_eq!(
        metrics.value("rate_limit_fair_queue_grants_total", &[("tenant_dimension", "user")]),
        Some(0.0)
    );
    assert_eq!(metrics.value("rate_limit_fair_queue_depth", &[]), Some(0.0));
    assert_eq!(metrics.value("backend_up", &[("backend", "primary")]), Some(1.0));
    assert_eq!(metrics.value("rate_limit_store_up", &[("store", "memory")]), Some(1.0));
}

#[tokio::test]
async fn what_happens_is_counted() {
    let backend = Backend::start().await;
    let config = people(Config::with(&backend))
        .limit("per_user: { requests_per_second: 2, burst_capacity: 1 }")
        .fair_queuing("max_queue_depth_per_tenant: 1");
    let gateway = Gateway::start(&config).await;
    assert_eq!(gateway.call(alice()).await.status, 200);
    let held = gateway.begin(alice());
    gateway.held(1).await;
    let metrics = gateway.metrics().await;
    assert_eq!(metrics.value("rate_limit_fair_queue_depth", &[]), Some(1.0));
    assert_eq!(metrics.value("rate_limit_fair_queue_tenants", &[]), Some(1.0));
    assert_eq!(gateway.call(alice()).await.status, 429);
    assert_eq!(held.answer().await.status, 200);
    assert_eq!(gateway.call(Call::get("/nowhere")).await.status, 404);

    // An answer's end is counted when its last byte has been taken, which its reader may see first.
    let route = ("route", "/v1/chat/completions");
    gateway.metric("http_request_duration_seconds_count", &[route], 3.0).await;
    let metrics = gateway.metrics().await;
    let value = |name: &str, labels: &[(&str, &str)]| metrics.value(name, labels).unwrap_or_default();
    let post = ("method", "POST");
    assert_eq!(value("http_requests_total", &[post, route, ("status", "200")]), 2.0);
    assert_eq!(value("http_requests_total", &[post, route, ("status", "429")]), 1.0);
    assert_eq!(value("http_requests_total", &[("method", "GET"), ("status", "404")]), 1.0);
    assert_eq!(value("http_requests_total", &[]), 4.0, "the admin plane's requests are none of them");
    assert_eq!(value("backend_requests_total", &[("backend", "primary"), ("status", "200")]), 2.0);
    let grants = value("rate_limit_fair_queue_grants_total", &[]);
    assert_eq!(grants, 1.0, "one admission from the queue, one attempt");
    assert_eq!(value("rate_limit_fair_queue_wait_seconds_count", &[]), 1.0);
    let waited = value("rate_limit_fair_queue_wait_seconds_sum", &[]);
    assert!((0.1..1.5).contains(&waited), "{waited}");
    assert_eq!(value("rate_limit_fair_queue_refused_total", &[("reason", "tenant_queue_full")]), 1.0);
    assert_eq!(value("rate_limit_fair_queue_refused_total", &[]), 1.0);
    let user = [("limit_type", "user"), ("class", "requests")];
    assert_eq!(value("rate_limit_decisions_total", &[user[0], user[1], ("decision", "granted")]), 2.0);
    assert_eq!(value("rate_limit_fair_queue_depth", &[]), 0.0);
}

/// Sends one of each kind of invention, the `n`th of its kind.
async fn invent(wire: &mut Wire, n: usize) {
    let name = format!("invented-{n}");
    let calls = [
        Call::chat(&name).key("key-of-the-operator"),
        Call::chat(&name),
        Call::chat("m").key(&name),
        Call::post(&format!("/v1/{name}"), &serde_json::json!({})),
        Call::get(&format!("/v1/models?{name}")),
        Call::new(Method::from_bytes(format!("X{n}").as_bytes()).unwrap(), "/v1/chat/completions"),
        Call::chat("m")
            .set("host", &format!("{name}.example"))
            .set("user-agent", &name)
            .set("x-request-id", &name),
    ];
    for call in calls {
        wire.call(call).await;
    }
}

#[tokio::test]
async fn thousands_of_invented_names_add_no_series() {
    let backend = Backend::start().await;
    let config = people(Config::with(&backend))
        .key("operator", "key-of-the-operator", "user: operator")
        .limit("per_model: { requests_per_second: 1000000 }")
        .limit("per_client: { requests_per_second: 1000000 }")
        .fair_queuing("");
    let gateway = Gateway::start(&config).await;
    let mut wire = gateway.client().connect(None).await;
    invent(&mut wire, 0).await;
    gateway.call(bob()).await;
    let before = gateway.metrics().await;
    for n in 1..=1_000 {
        invent(&mut wire, n).await;
    }
    let after = gateway.metrics().await;
    assert!(!after.text.contains("invented"), "{}", after.text);
    assert_eq!(after.series(), before.series(), "before:\n{}\nafter:\n{}", before.text, after.text);
    let sent = |metrics: &Metrics| metrics.value("http_requests_total", &[]).unwrap_or_default();
    assert_eq!(sent(&after) - sent(&before), 7_000.0);
}

#[tokio::test]
async fn the_answers_of_each_backend_are_counted() {
    let backend = Backend::start().await;
    let config = Config::new().permissive().backend("primary", &backend.url(), "models: [m]").backend(
        "gone",
        &RawBackend::nobody(),
        "models: [gone]",
    );
    let gateway = Gateway::start(&config).await;
    backend.next(Reply::json(429, &json!({})));
    for (model, status) in [("m", 429), ("m", 200), ("m", 200), ("gone", 502)] {
        assert_eq!(gateway.call(Call::chat(model)).await.status, status);
    }
    let metrics = gateway.metrics().await;
    let value =
        |status| metrics.value("backend_requests_total", &[("backend", "primary"), ("status", status)]);
    assert_eq!((value("200"), value("429")), (Some(2.0), Some(1.0)));
    assert_eq!(metrics.value("backend_requests_total", &[("backend", "gone")]), Some(1.0));
}
