//! What the gateway does not do yet. Not part of the suite: a test moves to its place when it passes.

use fairlane_tests::{Backend, Call, Config, Gateway};

use crate::support::Told;

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
