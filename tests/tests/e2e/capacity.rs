//! Capacity comes back: what reached no backend is given back whole, what did is kept, and nothing leaks either way.

use fairlane_tests::{Backend, Call, Config, Gate, Gateway, RawBackend, Reply};
use serde_json::json;

use crate::support::{exhaust, people};

/// How many requests Alice has an hour, of whatever model.
const HERS: usize = 12;

/// Alice's limit over backends that are as their models say.
async fn gateway(good: &Backend, bad: &Backend, further: impl FnOnce(Config) -> Config) -> Gateway {
    let config = people(Config::new())
        .backend("good", &good.url(), "models: [good]")
        .backend("bad", &bad.url(), "models: [bad]")
        .backend("gone", &RawBackend::nobody(), "models: [gone]")
        .key("narrow", "narrow-key-of-alice", "user: alice, models: [good]")
        .limit(&format!("per_user: {{ requests_per_hour: {HERS} }}"))
        .section("timeouts: { request: { standard: { total: 300ms }, streaming: { first_byte: 300ms } } }");
    Gateway::start(&further(config)).await
}

fn call(model: &str) -> Call {
    Call::chat(model).key("key-of-alice")
}

async fn left(gateway: &Gateway) -> usize {
    exhaust(gateway, &call("good"), HERS + 5).await.0
}

#[tokio::test]
async fn requests_that_are_refused_before_admission_take_nothing() {
    let (good, bad) = (Backend::start().await, Backend::start().await);
    let gateway = gateway(&good, &bad, |config| config.server("max_body_bytes: 2000")).await;
    let large = json!({"model": "good", "input": "x".repeat(3_000)});
    let storm = [
        (400, Call::post("/v1/chat/completions", &json!([])).key("key-of-alice")),
        (400, Call::post("/v1/chat/completions", &json!({})).key("key-of-alice")),
        (401, Call::chat("good").key("wrong-key")),
        (403, Call::chat("bad").key("narrow-key-of-alice")),
        (404, call("unknown")),
        (404, Call::get("/nowhere").key("key-of-alice")),
        (405, Call::get("/v1/chat/completions").key("key-of-alice")),
        (413, Call::post("/v1/embeddings", &large).key("key-of-alice")),
        (415, call("good").set("content-encoding", "gzip")),
        (200, Call::get("/v1/models").key("key-of-alice")),
    ];
    for _ in 0..HERS {
        for (status, call) in &storm {
            assert_eq!(gateway.call(call.clone()).await.status, *status);
        }
    }
    assert_eq!(left(&gateway).await, HERS);
    assert_eq!((good.count(), bad.count()), (HERS, 0));
}

#[tokio::test]
async fn requests_that_reach_no_backend_are_given_back() {
    let (good, bad) = (Backend::start().await, Backend::start().await);
    let gateway = gateway(&good, &bad, |config| config).await;
    let mut statuses = [0; 2];
    for _ in 0..3 * HERS {
        match gateway.call(call("gone")).await.status {
            502 => statuses[0] += 1,
            503 => statuses[1] += 1,
            other => panic!("{other}"),
        }
    }
    assert_eq!(statuses, [3, 3 * HERS - 3], "three failed connections rest a backend");
    assert_eq!(left(&gateway).await, HERS);
}

#[tokio::test]
async fn requests_that_a_backends_own_limit_refuses_are_given_back() {
    let (good, bad) = (Backend::start().await, Backend::start().await);
    let gateway = gateway(&good, &bad, |config| {
        config.limit("per_backend: { overrides: { bad: { requests_per_hour: 1 } } }")
    })
    .await;
    assert_eq!(gateway.call(call("bad")).await.status, 200);
    for _ in 0..3 * HERS {
        assert_eq!(gateway.call(call("bad")).await.limit_type(), "backend");
    }
    assert_eq!(left(&gateway).await, HERS - 1);
}

#[tokio::test]
async fn a_backend_without_a_connection_gets_its_own_charge_back() {
    let gone = RawBackend::nobody();
    let config =
        Config::new().permissive().backend("gone", &gone, "").limit("per_backend: { requests_per_hour: 1 }");
    let gateway = Gateway::start(&config).await;
    for _ in 0..3 {
        assert_eq!(gateway.call(Call::chat("m")).await.status, 502, "its one request was never used");
    }
}

#[tokio::test]
async fn requests_that_reached_a_backend_are_kept_however_it_went() {
    let (good, bad) = (Backend::start().await, Backend::start().await);
    let gateway = gateway(&good, &bad, |config| config).await;
    let never = Gate::new();
    let failures = [
        (502, Reply::cut()),
        (504, Reply::json(200, &json!({})).after(&never)),
        (400, Reply::json(400, &json!({"error": {}}))),
        (429, Reply::json(429, &json!({"error": {}}))),
        (500, Reply::json(500, &json!({"error": {}}))),
    ];
    let count = failures.len();
    for (status, reply) in failures {
        bad.next(reply);
        assert_eq!(gateway.call(call("bad")).await.status, status);
    }
    // And one whose caller leaves in the middle of a stream.
    let (chunks, reply) = Reply::stream();
    bad.next(reply);
    chunks.event("first");
    let mut stream = gateway.open(Call::chat_stream("bad").key("key-of-alice")).await;
    stream.until("first").await;
    stream.leave();
    chunks.closed().await;
    assert_eq!(left(&gateway).await, HERS - count - 1);
}

#[tokio::test]
async fn after_a_storm_of_failures_held_requests_get_all_there_is() {
    let (good, bad) = (Backend::start().await, Backend::start().await);
    bad.always(|_| Reply::cut());
    // Room for one attempt at a time: a single grant that leaked would stop the queue.
    let gateway = gateway(&good, &bad, |config| {
        config
            .limit("per_model: { requests_per_second: 40, burst_capacity: 1 }")
            .fair_queuing("max_in_flight: 1")
            .limit(&format!("per_team: {{ requests_per_hour: {} }}", 1_000))
            .limit("per_api_key: { requests_per_hour: 1000 }")
    })
    .await;
    let storm: Vec<_> = (0..20)
        .flat_map(|_| [Call::chat("bad").key("key-of-bob"), Call::chat("gone").key("key-of-bob")])
        .map(|call| gateway.begin(call))
        .collect();
    for pending in storm {
        let status = pending.answer().await.status;
        assert!([429, 502, 503, 504].contains(&status), "{status}");
    }
    gateway.held(0).await;
    assert_eq!(gateway.queues().await["in_flight"], 0);
    let held: Vec<_> = (0..8).map(|_| gateway.begin(call("good"))).collect();
    for pending in held {
        let answer = pending.answer().await;
        assert_eq!(answer.status, 200, "{}", answer.printed());
    }
}

/// Otherwise leaving before the first byte would be a way to use a backend without being charged for it.
#[tokio::test]
async fn a_request_whose_caller_leaves_while_the_backend_works_keeps_its_charges() {
    let backend = Backend::start().await;
    let config =
        Config::with(&backend).key("k", "key", "user: alice").limit("per_user: { requests_per_hour: 6 }");
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
