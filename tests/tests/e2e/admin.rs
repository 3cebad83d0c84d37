//! The admin plane.

use fairlane_tests::{Backend, Call, Config, Gateway};
use http::Method;
use serde_json::{Value, json};

use crate::support::{alice, bob, people};

#[tokio::test]
async fn health_and_readiness_are_told_without_a_token() {
    let backend = Backend::start().await;
    let gateway =
        Gateway::start(&Config::with(&backend).permissive().section("admin: { token: the-token }")).await;
    for path in ["/healthz", "/readyz"] {
        assert_eq!(gateway.admin().call(Call::get(path)).await.status, 200, "{path}");
    }
}

#[tokio::test]
async fn everything_else_needs_the_token_once_there_is_one() {
    let backend = Backend::start().await;
    let gateway =
        Gateway::start(&Config::with(&backend).permissive().section("admin: { token: the-token }")).await;
    for path in ["/metrics", "/admin/queues", "/admin/config"] {
        let wrong = [
            Call::get(path),
            Call::get(path).key("the-toke"),
            Call::get(path).key("the-token-"),
            Call::get(path).key("THE-TOKEN"),
            Call::get(path).set("authorization", "Basic the-token"),
            Call::get(path).set("x-api-key", "the-token"),
            Call::get(&format!("{path}?token=the-token")),
        ];
        for call in wrong {
            let answer = gateway.admin().call(call.clone()).await;
            assert_eq!((answer.status, answer.header("www-authenticate")), (401, "Bearer"), "{call:?}");
            assert!(answer.text().len() < 200, "nothing of the page: {}", answer.text());
        }
        assert_eq!(gateway.admin().call(Call::get(path).key("the-token")).await.status, 200, "{path}");
    }
    let answer = gateway.admin().call(Call::get("/admin/anything-else")).await;
    assert!([401, 404].contains(&answer.status), "{}", answer.printed());
}

#[tokio::test]
async fn the_token_may_come_from_the_environment() {
    let backend = Backend::start().await;
    let yaml = Config::with(&backend).permissive().yaml();
    let gateway = Gateway::start_yaml(&yaml, |command| {
        command.env("FAIRLANE_ADMIN_TOKEN", "from-outside");
    })
    .await;
    assert_eq!(gateway.admin().call(Call::get("/metrics")).await.status, 401);
    assert_eq!(gateway.admin().call(Call::get("/metrics").key("from-outside")).await.status, 200);
}

#[tokio::test]
async fn the_two_planes_do_not_serve_each_other() {
    let backend = Backend::start().await;
    let gateway = Gateway::start(&Config::with(&backend).permissive()).await;
    assert_eq!(gateway.admin().call(Call::chat("m")).await.status, 404);
    assert_eq!(gateway.admin().call(Call::get("/v1/models")).await.status, 404);
    assert_eq!(gateway.admin().call(Call::new(Method::POST, "/metrics")).await.status, 405);
    for path in ["/metrics", "/healthz", "/readyz", "/admin/queues", "/admin/config"] {
        assert_eq!(gateway.call(Call::get(path)).await.status, 404, "{path}");
    }
    assert_eq!(backend.count(), 0);
}

#[tokio::test]
async fn the_admin_plane_can_be_switched_off() {
    let backend = Backend::start().await;
    let yaml =
        Config::with(&backend).permissive().yaml().replace("admin_listen: 127.0.0.1:0", "admin_listen: null");
    let gateway = Gateway::start_yaml(&yaml, |_| {}).await;
    assert_eq!(gateway.admin_listen(), None);
    assert_eq!(gateway.call(Call::chat("m")).await.status, 200);
}

fn is_hash(value: &Value) -> bool {
    value.as_str().is_some_and(|text| text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

#[tokio::test]
async fn the_page_of_queues_shows_each_gate_and_each_hashed_tenant() {
    let backend = Backend::start().await;
    let config = people(Config::with(&backend))
        .limit("per_model: { requests_per_minute: 6, burst_capacity: 1 }")
        .fair_queuing("max_wait_ms: 100000")
        .fair_queuing("weights: [ { tenant: alice, weight: 3 } ]");
    let gateway = Gateway::start(&config).await;
    let page = gateway.queues().await;
    assert_eq!((&page["enabled"], &page["held"], &page["in_flight"]), (&json!(true), &json!(0), &json!(0)));

    assert_eq!(gateway.call(alice()).await.status, 200);
    let held = [gateway.begin(alice()), gateway.begin(alice()), gateway.begin(bob())];
    gateway.held(3).await;
    let page = gateway.queues().await;
    assert_eq!((&page["held"], &page["tenants"]), (&json!(3), &json!(2)));
    let gates = page["gates"].as_array().expect("gates");
    let waited_at: Vec<_> = gates.iter().filter(|gate| gate["waiting"] != 0).collect();
    let [gate] = waited_at[..] else { panic!("one gate: {page}") };
    assert!(is_hash(&gate["gate"]), "{gate}");
    assert_eq!(
        (&gate["limit_type"], &gate["waiting"], &gate["in_flight"]),
        (&json!("model"), &json!(3), &json!(0))
    );
    let mut lanes = gate["lanes"].as_array().expect("lanes").clone();
    lanes.sort_by_key(|lane| lane["weight"].as_u64());
    let [bobs, alices] = &lanes[..] else { panic!("two lanes: {page}") };
    assert_eq!((&bobs["weight"], &bobs["waiting"]), (&json!(1), &json!(1)));
    assert_eq!((&alices["weight"], &alices["waiting"]), (&json!(3), &json!(2)));
    for lane in [bobs, alices] {
        assert!(is_hash(&lane["tenant"]) && lane["tenant"] != gate["gate"], "{lane}");
        assert_eq!(lane["in_flight"], 0);
        assert!(lane["share"].as_f64().is_some_and(|share| (0.0..=1.0).contains(&share)), "{lane}");
        assert!(lane["oldest_wait_ms"].is_u64(), "{lane}");
    }
    assert_ne!(bobs["tenant"], alices["tenant"]);
    drop(held);
    gateway.held(0).await;
}

#[tokio::test]
async fn without_queuing_the_page_says_so() {
    let backend = Backend::start().await;
    let gateway = Gateway::start(&Config::with(&backend).permissive()).await;
    assert_eq!(gateway.queues().await, json!({"enabled": false, "gates": []}));
}

#[tokio::test]
async fn the_configuration_is_shown_whole_and_masked() {
    let backend = Backend::start().await;
    let config = people(Config::new())
        .backend("primary", &backend.url(), "api_key: backend-key")
        .limit("per_user: { requests_per_hour: 9, overrides: { alice: { requests_per_hour: 8 } } }")
        .section("identity: { hash_key: a-long-and-secret-hash-key }");
    let gateway = Gateway::start(&config).await;
    let answer = gateway.admin().call(Call::get("/admin/config")).await;
    assert_eq!((answer.status, answer.header("content-type")), (200, "application/json"));
    let shown = answer.json();
    assert_eq!(shown["server"]["max_body_bytes"], 10_485_760, "defaults are shown");
    assert_eq!(shown["backends"][0]["name"], "primary");
    assert_eq!(shown["rate_limiting"]["limits"]["per_user"]["requests_per_hour"], 9);
    assert_eq!(shown["api_keys"]["keys"].as_array().map(Vec::len), Some(3));
    for secret in ["backend-key", "key-of-", "second-key", "alice\"", "research", "secret-hash"] {
        assert!(!answer.text().contains(secret), "{secret}: {}", answer.text());
    }
}
