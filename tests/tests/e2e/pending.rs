//! What the gateway does not do yet. Not part of the suite: a test moves to its place when it passes.

use fairlane_tests::{Backend, Call, Config, Gate, Gateway, Reply};
use serde_json::json;

use crate::support::{Told, exhaust};

/// Otherwise leaving before the first byte would be a way to use a backend without being charged for it.
#[tokio::test]
async fn a_request_whose_caller_leaves_while_the_backend_works_keeps_its_charges() {
    let backend = Backend::start().await;
    let config = Config::with(&backend).key("k", "key", "user: alice").limit("per_user: { requests_per_hour: 6 }");
    let gateway = Gateway::start(&config).await;
    let call = Call::chat("m").key("key");
    let never = Gate::new();
    backend.next(Reply::json(200, &json!({})).after(&never));
    let leaver = gateway.begin(call.clone());
    let seen = backend.request(1).await;
    leaver.leave();
    backend.closed(seen.connection).await;
    assert_eq!(exhaust(&gateway, &call, 9).await.0, 5);
}

/// `x-ratelimit-*` and `RateLimit` stand on every answer that passed through limits; `per_backend` is one.
#[tokio::test]
async fn the_quota_of_a_backend_is_told_too() {
    let backend = Backend::start().await;
    let config = Config::with(&backend).permissive().limit("per_backend: { requests_per_hour: 1 }");
    let gateway = Gateway::start(&config).await;
    for status in [200, 429] {
        let answer = gateway.call(Call::chat("m")).await;
        assert_eq!(answer.status, status);
        let told = Told::of(&answer);
        assert_eq!((told.policy.as_str(), told.limit, told.remaining), ("per-backend", 1, 0));
    }
}
