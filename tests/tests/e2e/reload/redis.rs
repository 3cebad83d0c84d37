//! Changes while the limits are in a real Redis.

use std::time::Duration;

use fairlane_redis_servers::Server;
use fairlane_tests::{Backend, Call, Config, Gateway, wait};
use rustix::process::Signal;
use tokio::time::Instant;

use super::{HELD, all_answered, hold, of, users, waiting};

/// The users' limits are in this Redis.
fn stored(backend: &Backend, url: &str) -> Config {
    users(Config::with(backend))
        .section("identity: { hash_key: the-secret-of-the-fleet }")
        .rate_limiting("storage: redis")
        .rate_limiting(&format!("redis: {{ url: \"{url}\", timeout_ms: 500 }}"))
}

async fn started(config: &Config) -> Gateway {
    let gateway = Gateway::start(config).await;
    until_ready(&gateway).await;
    gateway
}

async fn until_ready(gateway: &Gateway) {
    wait::until("the gateway to be ready", async || {
        (gateway.admin().call(Call::get("/readyz")).await.status == 200).then_some(())
    })
    .await;
}

const TEN_AN_HOUR: &str = "per_team: { requests_per_hour: 10, burst_capacity: 1 }";

#[tokio::test]
async fn a_lowered_limit_acts_on_the_next_decision_and_a_raised_one_gives_nothing() {
    let (backend, server) = (Backend::start().await, Server::start().await);
    let limit = |burst: usize| {
        stored(&backend, &server.url())
            .limit(&format!("per_user: {{ requests_per_hour: 1, burst_capacity: {burst} }}"))
    };
    let gateway = started(&limit(100)).await;
    let left = async || gateway.call(of(0)).await.number("x-ratelimit-remaining-requests");
    assert_eq!(left().await, Some(99));
    gateway.reconfigure(&limit(3)).await;
    for expected in [2, 1, 0] {
        assert_eq!(left().await, Some(expected));
    }
    assert_eq!(gateway.call(of(0)).await.status, 429);
    gateway.reconfigure(&limit(100)).await;
    assert_eq!(gateway.call(of(0)).await.status, 429);
    for _ in 0..10 {
        gateway.reloaded("success", async || gateway.signal(Signal::HUP)).await;
    }
    assert_eq!(gateway.call(of(0)).await.status, 429);
}

#[tokio::test]
async fn those_who_are_held_are_served_by_a_raised_limit() {
    let (backend, server) = (Backend::start().await, Server::start().await);
    let limit = |limit: &str| waiting(stored(&backend, &server.url())).limit(limit);
    let gateway = started(&limit(TEN_AN_HOUR)).await;
    let pending = hold(&gateway).await;
    gateway.reconfigure(&limit("per_team: { requests_per_hour: 720000, burst_capacity: 1000 }")).await;
    all_answered(pending).await;
    assert_eq!(backend.count(), HELD + 1);
}

#[tokio::test]
async fn those_who_are_held_are_set_free_by_a_limit_that_goes_and_charged_by_one_for_another_period() {
    let (backend, server) = (Backend::start().await, Server::start().await);
    let gateway = started(&waiting(stored(&backend, &server.url())).limit(TEN_AN_HOUR)).await;
    let pending = hold(&gateway).await;
    let daily = "per_team: { requests_per_day: 240, burst_capacity: 3 }";
    gateway.reconfigure(&waiting(stored(&backend, &server.url())).limit(daily)).await;
    gateway.held(HELD as u64 - 3).await;
    wait::until("three to be served", async || (backend.count() == 4).then_some(())).await;
    gateway.reconfigure(&waiting(stored(&backend, &server.url()))).await;
    all_answered(pending).await;
}

#[tokio::test]
async fn a_change_during_an_outage_is_made_at_once_and_acts_when_it_is_over() {
    let (backend, server) = (Backend::start().await, Server::start().await);
    let limit = |limit: &str| waiting(stored(&backend, &server.url())).limit(limit);
    let gateway = started(&limit("per_user: { requests_per_hour: 1, burst_capacity: 100 }")).await;
    assert_eq!(gateway.call(of(0)).await.header("x-ratelimit-remaining-requests"), "99");
    let lowered = limit("per_user: { requests_per_hour: 1, burst_capacity: 3 }");
    server.stop();
    assert_eq!(gateway.call(of(0)).await.status, 503);
    let start = Instant::now();
    gateway.reconfigure(&lowered).await;
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
    assert_eq!(gateway.call(of(0)).await.status, 503);
    server.restart_empty().await;
    until_ready(&gateway).await;
    assert_eq!(gateway.call(of(0)).await.header("x-ratelimit-remaining-requests"), "2");
}

#[tokio::test]
async fn those_who_are_held_over_an_outage_go_by_what_was_changed_in_it() {
    let (backend, server) = (Backend::start().await, Server::start().await);
    let limit = |limit: &str| waiting(stored(&backend, &server.url())).limit(limit);
    let gateway = started(&limit(TEN_AN_HOUR)).await;
    let pending = hold(&gateway).await;
    let raised = limit("per_team: { requests_per_hour: 720000, burst_capacity: 1000 }");
    server.stop();
    let start = Instant::now();
    gateway.reconfigure(&raised).await;
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
    gateway.held(HELD as u64).await;
    server.restart_empty().await;
    all_answered(pending).await;
}

#[tokio::test]
async fn another_store_is_named_and_not_put_in_force() {
    let (backend, server) = (Backend::start().await, Server::start().await);
    let limit = "per_user: { requests_per_hour: 1 }";
    let gateway = started(&stored(&backend, &server.url()).limit(limit)).await;
    assert_eq!(gateway.call(of(0)).await.status, 200);
    let memory = users(Config::with(&backend))
        .section("identity: { hash_key: the-secret-of-the-fleet }")
        .rate_limiting("storage: memory")
        .limit(limit);
    gateway.reconfigure(&memory).await;
    let log = gateway.stderr().text();
    for key in ["rate_limiting.storage", "rate_limiting.redis.url"] {
        assert!(log.contains(key), "no word of {key}: {log}");
    }
    assert_eq!(gateway.call(of(0)).await.status, 429, "the bucket is where it was");
}
