//! Who a request counts for: what its key says, and nothing else that the caller says.

use fairlane_tests::{Backend, Call, Config, Gateway};
use serde_json::json;

use crate::support::{alice, assert_limited, bob, exhaust, people};

#[tokio::test]
async fn keys_of_one_user_share_a_bucket_and_two_users_do_not() {
    let backend = Backend::start().await;
    let gateway =
        Gateway::start(&people(Config::with(&backend)).limit("per_user: { requests_per_hour: 4 }")).await;
    assert_eq!(gateway.call(alice()).await.status, 200);
    let second = Call::chat("gpt-x").key("second-key-of-alice");
    assert_eq!(exhaust(&gateway, &second, 9).await.0, 3);
    assert_limited(&gateway.call(alice()).await, "user");
    assert_eq!(exhaust(&gateway, &bob(), 9).await.0, 4);
}

#[tokio::test]
async fn one_tenant_over_two_paths_is_one_bucket() {
    let backend = Backend::start().await;
    let gateway =
        Gateway::start(&people(Config::with(&backend)).limit("per_user: { requests_per_hour: 2 }")).await;
    let embeddings = Call::post("/v1/embeddings", &json!({"model": "e", "input": "x"})).key("key-of-alice");
    let message = Call::message("claude-x").set("x-api-key", "key-of-alice");
    assert_eq!(gateway.call(alice()).await.status, 200);
    assert_eq!(gateway.call(embeddings.clone()).await.status, 200);
    for call in [alice(), embeddings, message] {
        assert_eq!(gateway.call(call).await.limit_type(), "user");
    }
}

#[tokio::test]
async fn all_users_of_a_team_share_the_teams_bucket() {
    let backend = Backend::start().await;
    let config = people(Config::with(&backend))
        .key("carol", "key-of-carol", "user: carol, team: sales")
        .limit("per_team: { requests_per_hour: 2 }");
    let gateway = Gateway::start(&config).await;
    assert_eq!(gateway.call(alice()).await.status, 200);
    assert_eq!(gateway.call(bob()).await.status, 200);
    assert_limited(&gateway.call(alice()).await, "team");
    assert_eq!(gateway.call(Call::chat("gpt-x").key("key-of-carol")).await.status, 200);
}

#[tokio::test]
async fn nothing_in_the_body_or_the_headers_changes_whom_a_request_counts_for() {
    let backend = Backend::start().await;
    let gateway =
        Gateway::start(&people(Config::with(&backend)).limit("per_user: { requests_per_hour: 2 }")).await;
    assert_eq!(exhaust(&gateway, &alice(), 9).await.0, 2);
    let messages = json!([{"role": "user", "content": "hello"}]);
    for field in ["user", "user_id", "team", "tenant", "api_key", "safety_identifier"] {
        let body =
            json!({"model": "gpt-x", "messages": messages, field: "bob", "metadata": {"user_id": "bob"}});
        let call = Call::post("/v1/chat/completions", &body).key("key-of-alice");
        assert_limited(&gateway.call(call).await, "user");
    }
    let headers =
        ["x-user", "x-user-id", "x-forwarded-user", "x-tenant", "openai-organization", "x-consumer-username"];
    for header in headers {
        assert_limited(&gateway.call(alice().set(header, "bob")).await, "user");
    }
    // And nobody has spent what is Bob's.
    assert_eq!(exhaust(&gateway, &bob(), 9).await.0, 2);
}

#[tokio::test]
async fn identity_limits_leave_alone_whom_they_bypass() {
    let backend = Backend::start().await;
    let config = people(Config::with(&backend))
        .key("operator", "key-of-the-operator", "user: alice, team: research")
        .rate_limiting("bypass_keys: [operator]")
        .limit("per_client: { requests_per_hour: 20 }")
        .limit("per_api_key: { requests_per_hour: 1 }")
        .limit("per_user: { requests_per_hour: 2 }")
        .limit("per_team: { requests_per_hour: 3 }")
        .limit("per_model: { requests_per_hour: 4 }");
    let gateway = Gateway::start(&config).await;
    let operator = Call::chat("gpt-x").key("key-of-the-operator");
    for _ in 0..10 {
        assert_eq!(gateway.call(operator.clone()).await.status, 200);
    }
    // What bypasses takes nothing from others either.
    assert_eq!(gateway.call(alice()).await.status, 200);
    assert_limited(&gateway.call(alice()).await, "api_key");
    let (passed, answer) = exhaust(&gateway, &operator, 20).await;
    assert_eq!((passed, answer.limit_type().as_str()), (8, "client"), "it bypasses the identity limits only");
}

#[tokio::test]
async fn without_a_key_only_the_models_bucket_and_the_edge_count() {
    let backend = Backend::start().await;
    let config = people(Config::with(&backend))
        .permissive()
        .limit("per_user: { requests_per_hour: 1 }")
        .limit("per_api_key: { requests_per_hour: 1 }")
        .limit("per_model: { requests_per_hour: 5 }");
    let gateway = Gateway::start(&config).await;
    let (passed, answer) = exhaust(&gateway, &Call::chat("gpt-x"), 9).await;
    assert_eq!(passed, 5);
    assert_limited(&answer, "model");
}

#[tokio::test]
async fn without_a_key_a_request_is_never_held() {
    let backend = Backend::start().await;
    let config = people(Config::with(&backend))
        .permissive()
        .limit("per_model: { requests_per_second: 2, burst_capacity: 1 }")
        .fair_queuing("");
    let gateway = Gateway::start(&config).await;
    let (_, answer) = exhaust(&gateway, &Call::chat("gpt-x"), 9).await;
    assert_limited(&answer, "model");
}

#[tokio::test]
async fn a_key_may_be_given_by_its_digest() {
    let backend = Backend::start().await;
    // printf %s digested-key | sha256sum
    let digest = "070dba558f5f4bd4d25f236d1299d5e5f3f0c47ed0ec5af5fca0509edd7b7782";
    let yaml = Config::with(&backend).key("plain", "plain-key", "").yaml();
    let keys = format!("    - {{ id: digested, sha256: {digest} }}\n");
    let at = yaml.find("    - { id: plain").expect("the list of keys");
    let (before, after) = yaml.split_at(at);
    let gateway = Gateway::start_yaml(&format!("{before}{keys}{after}"), |_| {}).await;
    assert_eq!(gateway.call(Call::chat("m").key("digested-key")).await.status, 200);
    assert_eq!(gateway.call(Call::chat("m").key(digest)).await.status, 401, "a digest is no key");
}
