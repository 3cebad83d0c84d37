//! A thousand callers that leave: everything they took comes back.

use std::time::Duration;

use fairlane_tests::{Backend, Config, Gate, Gateway, Reply, wait};
use serde_json::json;

use super::{api::Api, ask, left};
use crate::support::people;

/// Five requests of 150 tokens at once, and all of it again in a second.
const HOLDS: i64 = 750;

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_that_leave_leave_the_whole_budget() {
    let backend = Backend::start().await;
    let config = people(Config::with(&backend))
        .limit(&format!("per_team: {{ tokens_per_minute: {}, token_burst_capacity: {HOLDS} }}", 60 * HOLDS))
        .rate_limiting(
            "deferred_admission: { enabled: true, max_held_per_tenant: 1000, max_wait_ms: 60000 }",
        );
    let gateway = Gateway::start(&config).await;
    let never = Gate::new();
    backend.always(move |_| Reply::json(200, &json!({})).after(&never));
    let mut sent = 0;
    while sent < 1_000 {
        // Some of them run at the backend, the others are held.
        let pending: Vec<_> = (0..100).map(|at| gateway.begin(ask(Api::Chat, at % 2 == 0))).collect();
        wait::until("requests to be held", async || {
            (gateway.queues().await["held"].as_u64()? >= 50).then_some(())
        })
        .await;
        sent += pending.len();
        drop(pending);
        gateway.held(0).await;
    }
    assert!(backend.count() >= 5, "some have reached the backend");
    let metrics = gateway.metrics().await;
    assert_eq!(metrics.value("rate_limit_deferred_admission_held", &[]), Some(0.0));
    assert_eq!(gateway.queues().await["in_flight"], 0);
    super::settled(&gateway).await;
    // Each that ran owes its prompt at most.
    wait::pass(Duration::from_secs(2)).await;
    assert_eq!(left(&gateway, &backend).await, HOLDS);
    backend.always(|_| Reply::json(200, &Api::Chat.answer(1, true)));
    let all: Vec<_> = (0..5).map(|_| gateway.begin(ask(Api::Chat, false))).collect();
    for pending in all {
        assert_eq!(pending.answer().await.status, 200);
    }
}
