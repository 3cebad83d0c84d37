//! Fairness where the bucket is in Redis: each gateway is fair among its own callers.

use fairlane_redis_servers::Server;

use super::{PATIENT, ready, shared};
use crate::fairness::{Load, check};

#[tokio::test(flavor = "multi_thread")]
async fn two_floods_of_weights_three_and_one_share_75_to_25() {
    let server = Server::start().await;
    let over_redis = |config| shared(config, &server.url(), PATIENT, "");
    let mut load = Load::with("weights: [{ tenant: a, weight: 3 }]", over_redis).await;
    ready(load.gateway()).await;
    load.backlog("a", 16);
    load.backlog("b", 16);
    load.filled(30).await;
    check(&load.shares(&["a", "b"]).await, &[75.0, 25.0]);

    let metrics = load.gateway().metrics().await;
    let grants = metrics.value("rate_limit_fair_queue_grants_total", &[]).unwrap();
    let admitted = load.admitted() as f64;
    assert!(grants <= 1.05 * admitted, "{grants} grants for {admitted} admissions");
}
