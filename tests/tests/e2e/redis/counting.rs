//! One round trip for each decision, and at most one more to settle.

use fairlane_redis_servers::Server;
use fairlane_tests::{Backend, Call, Config, Gate, Gateway, RawBackend, Reply, wait::until};
use serde_json::json;

use super::{PATIENT, people, scripts, shared, started};
use crate::support::{alice, assert_limited};

/// How many round trips `act` takes, once the server has nothing left to do.
async fn counted(server: &Server, act: impl AsyncFnOnce(), expected: u64) {
    let before = scripts(server).await;
    act().await;
    let counted = until("the round trips that are due", async || {
        let counted = scripts(server).await - before;
        (counted >= expected).then_some(counted)
    });
    assert_eq!(counted.await, expected);
}

/// The script is loaded by the first decision of all.
async fn warm(gateway: &Gateway) {
    assert_eq!(gateway.call(alice()).await.status, 200);
}

#[tokio::test]
async fn edge_identity_and_dispatch_are_one_round_trip_each() {
    let (backend, server) = (Backend::start().await, Server::start().await);
    let identity = "per_user: { requests_per_day: 100 }";
    let limits: [(&[&str], u64); 3] = [
        (&[identity, "per_team: { requests_per_day: 100, requests_per_hour: 100 }"], 1),
        (&[identity, "global: { requests_per_day: 100 }", "per_client: { requests_per_day: 100 }"], 2),
        (&[identity, "global: { requests_per_day: 100 }", "per_backend: { requests_per_day: 100 }"], 3),
    ];
    for (limits, trips) in limits {
        let mut config = people(&backend, &server.url(), PATIENT);
        for limit in limits {
            config = config.limit(limit);
        }
        let gateway = started(&config).await;
        warm(&gateway).await;
        for _ in 0..5 {
            counted(&server, async || assert_eq!(gateway.call(alice()).await.status, 200), trips).await;
        }
        // What stays charged is not settled, and nothing is asked for what nobody is limited in.
        counted(
            &server,
            async || assert_eq!(gateway.call(Call::get("/nowhere")).await.status, 404),
            trips / 2,
        )
        .await;
    }
}

#[tokio::test]
async fn a_refusal_is_one_round_trip_and_a_request_that_reached_nobody_one_more() {
    let (backend, server) = (Backend::start().await, Server::start().await);
    let config = people(&backend, &server.url(), PATIENT).limit("per_user: { requests_per_day: 1 }");
    let gateway = started(&config).await;
    warm(&gateway).await;
    counted(&server, async || assert_limited(&gateway.call(alice()).await, "user"), 1).await;

    // Nobody listens where the backend should be.
    let config = Config::new().backend("dead", &RawBackend::nobody(), "");
    let config = crate::support::people(shared(config, &server.url(), PATIENT, "key_prefix: other"))
        .limit("per_user: { requests_per_day: 1 }")
        .limit("per_backend: { requests_per_day: 1 }");
    let gateway = started(&config).await;
    for _ in 0..3 {
        // Charged, charged, and given back to both: it could not be repeated otherwise.
        counted(&server, async || assert_eq!(gateway.call(alice()).await.status, 502), 4).await;
        // Three in a row rest the backend.
    }
    gateway.metric("rate_limit_settlements_lost_total", &[], 0.0).await;
}

#[tokio::test]
async fn a_held_request_asks_once_when_it_comes_and_once_when_it_is_its_turn() {
    let (backend, server) = (Backend::start().await, Server::start().await);
    let config = people(&backend, &server.url(), PATIENT)
        .limit("per_user: { requests_per_second: 5, burst_capacity: 1 }")
        .fair_queuing("");
    let gateway = started(&config).await;
    warm(&gateway).await;
    let before = scripts(&server).await;
    let held: Vec<_> = (0..10).map(|_| gateway.begin(alice())).collect();
    for held in held {
        let answer = held.answer().await;
        assert_eq!(answer.status, 200, "{}", answer.printed());
    }
    let trips = scripts(&server).await - before;
    // Those that came when others waited joined them unasked; each admission is one attempt, or two at the most where
    // this machine and Redis disagree about a millisecond.
    assert!((10..=21).contains(&trips), "{trips} round trips for 10 admissions");
    assert_eq!(gateway.metrics().await.value("rate_limit_fair_queue_depth", &[]), Some(0.0));
}

#[tokio::test]
async fn a_caller_that_leaves_a_lane_costs_nothing() {
    let (backend, server) = (Backend::start().await, Server::start().await);
    let config = people(&backend, &server.url(), PATIENT)
        .limit("per_user: { requests_per_minute: 6, burst_capacity: 1 }")
        .fair_queuing("max_wait_ms: 100000");
    let gateway = started(&config).await;
    let gate = Gate::new();
    backend.next(Reply::json(200, &json!({})).after(&gate));
    let running = gateway.begin(alice());
    backend.request(1).await;
    let held = gateway.begin(alice());
    gateway.held(1).await;
    let before = scripts(&server).await;
    held.leave();
    gateway.held(0).await;
    gate.open();
    assert_eq!(running.answer().await.status, 200);
    assert_eq!((scripts(&server).await, backend.count()), (before, 1));
}
