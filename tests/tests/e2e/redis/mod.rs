//! Gateways whose limits are in a real Redis.

mod checking;
mod counting;
mod fleet;
mod hanging;
mod modes;
mod names;
mod outage;
mod secure;
mod shards;
mod tenants;

use std::time::Duration;

use fairlane_tests::{Answer, Backend, Call, Config, Gateway, wait::until};

use crate::support::assert_refused;

/// The timeout of a test that is not about time: on a busy machine nothing takes as long.
const PATIENT: Duration = Duration::from_secs(5);
/// The timeout of a test that waits for it to pass.
const TIMEOUT: Duration = Duration::from_millis(200);
/// What a busy machine may add to it.
const MARGIN: Duration = Duration::from_millis(800);

/// What all gateways of a fleet have in common. `more` are further entries of the section `redis`.
fn shared(config: Config, url: &str, timeout: Duration, more: &str) -> Config {
    let comma = if more.is_empty() { "" } else { ", " };
    let timeout = timeout.as_millis();
    config
        .section("identity: { hash_key: the-secret-of-the-fleet }")
        .rate_limiting("storage: redis")
        .rate_limiting(&format!("redis: {{ url: \"{url}\", timeout_ms: {timeout}{comma}{more} }}"))
}

/// A gateway of Alice's and Bob's in front of a backend.
fn people(backend: &Backend, url: &str, timeout: Duration) -> Config {
    crate::support::people(shared(Config::with(backend), url, timeout, ""))
}

/// Starts a gateway, and waits until it has found its Redis.
async fn started(config: &Config) -> Gateway {
    let gateway = Gateway::start(config).await;
    ready(&gateway).await;
    gateway
}

async fn ready(gateway: &Gateway) {
    until("the gateway to be ready", async || (readiness(gateway).await.status == 200).then_some(())).await;
}

async fn unready(gateway: &Gateway) {
    until("the gateway to be unready", async || (readiness(gateway).await.status == 503).then_some(())).await;
}

async fn readiness(gateway: &Gateway) -> Answer {
    gateway.admin().call(Call::get("/readyz")).await
}

/// The store cannot decide, and that is all that is said.
#[track_caller]
fn assert_out(answer: &Answer) {
    assert_refused(answer, 503, "rate_limit_store_unavailable");
    assert_eq!(answer.header("retry-after"), "1", "{}", answer.printed());
}

/// What Redis counts as decisions and settlements.
async fn scripts(server: &fairlane_redis_servers::Server) -> u64 {
    server.calls("evalsha").await + server.calls("eval").await
}
