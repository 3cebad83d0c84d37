//! What the gateway does not do yet. Not part of the suite: a test moves to its place when it passes.

use std::time::Duration;

use fairlane_tests::{Backend, Call, Config, Gateway};
use tokio::time::Instant;

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

/// `header` runs from the first byte of a request, and a `P` is one, whether HTTP/1 or HTTP/2 is to come.
#[tokio::test]
async fn the_first_byte_of_either_protocol_starts_the_headers_time() {
    let backend = Backend::start().await;
    let config = Config::with(&backend).permissive().server("timeouts: { header: 300ms }");
    let gateway = Gateway::start(&config).await;
    for begun in ["P", "PRI * HTTP/2.0\r\n"] {
        let start = Instant::now();
        let mut raw = gateway.client().raw().await;
        raw.send(begun).await;
        raw.rest().await;
        assert!(start.elapsed() < Duration::from_secs(5), "{begun:?}: {:?}", start.elapsed());
    }
}
