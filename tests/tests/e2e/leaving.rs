//! Callers that leave: while they are held, before the first byte, in the middle of a stream.

use std::time::Duration;

use fairlane_tests::{Backend, Call, Config, Gate, Gateway, Reply, wait};
use serde_json::json;

use crate::support::until_all_came;

/// One request may pass at once, and the next when its bucket has refilled; whoever is held has a minute of patience.
async fn gateway(backend: &Backend, per_minute: u32) -> Gateway {
    let limit = format!("per_user: {{ requests_per_minute: {per_minute}, burst_capacity: 1 }}");
    let config = Config::with(backend)
        .key("k", "key", "user: alice")
        .limit(&limit)
        .fair_queuing("max_wait_ms: 100000");
    Gateway::start(&config).await
}

fn call() -> Call {
    Call::chat("m").key("key")
}

#[tokio::test]
async fn one_that_leaves_while_held_never_reaches_the_backend_and_the_others_move_up() {
    let backend = Backend::start().await;
    let gateway = gateway(&backend, 60).await;
    assert_eq!(gateway.call(call()).await.status, 200);

    let leaver = gateway.begin(call().header("x-name", "leaver"));
    gateway.held(1).await;
    let stayer = gateway.begin(call().header("x-name", "stayer"));
    gateway.held(2).await;
    leaver.leave();
    gateway.held(1).await;
    let answer = stayer.answer().await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("x-fair-queue-position"), "2", "the place it had when it joined");
    let waited = answer.number("x-fair-queue-wait-ms").unwrap();
    assert!(waited < 1_500, "it was served in the leaver's place: after {waited} ms");
    assert_eq!(backend.request(2).await.header("x-name"), "stayer");
    assert_eq!(backend.count(), 2);
}

#[tokio::test]
async fn one_that_leaves_behind_a_pipelined_request_is_noticed_too() {
    let backend = Backend::start().await;
    let gateway = gateway(&backend, 1).await;
    assert_eq!(gateway.call(call()).await.status, 200);

    let body = r#"{"model":"m","messages":[]}"#;
    let head = "POST /v1/chat/completions HTTP/1.1\r\nhost: h\r\nauthorization: Bearer key\r\n";
    let request = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
    let mut raw = gateway.client().raw().await;
    raw.send(format!("{request}{request}")).await;
    gateway.held(1).await;
    drop(raw);
    gateway.held(0).await;
    assert_eq!(backend.count(), 1);
}

#[tokio::test]
async fn one_that_leaves_before_the_first_byte_closes_the_backends_connection() {
    let backend = Backend::start().await;
    let gateway = Gateway::start(&Config::with(&backend).permissive()).await;
    let never = Gate::new();
    backend.next(Reply::json(200, &json!({})).after(&never));
    let pending = gateway.begin(Call::chat("m"));
    let seen = backend.request(1).await;
    pending.leave();
    backend.closed(seen.connection).await;
}

#[tokio::test]
async fn one_that_leaves_in_the_middle_of_a_stream_closes_the_backends_connection() {
    let backend = Backend::start().await;
    let gateway = Gateway::start(&Config::with(&backend).permissive()).await;
    let (chunks, reply) = Reply::stream();
    backend.next(reply);
    chunks.event("one");
    let mut opened = gateway.open(Call::chat_stream("m")).await;
    opened.until("one").await;
    opened.leave();
    // The backend sends nothing more: the gateway must not need a write to notice.
    chunks.closed().await;
    backend.closed(backend.request(1).await.connection).await;
}

#[tokio::test]
async fn a_thousand_that_leave_in_the_queue_leave_full_capacity() {
    const BURST: usize = 20;
    let backend = Backend::start().await;
    let config = Config::with(&backend)
        .key("k", "key", "user: alice")
        .limit(&format!("per_user: {{ requests_per_second: {BURST}, burst_capacity: {BURST} }}"))
        .fair_queuing("max_queue_depth_per_tenant: 1000")
        .fair_queuing("max_wait_ms: 60000");
    let gateway = Gateway::start(&config).await;
    let mut left = 0;
    while left < 1_000 {
        let pending: Vec<_> = (0..200).map(|_| gateway.begin(call())).collect();
        until_all_came(&gateway, &pending).await;
        left += pending.len();
        drop(pending);
        gateway.held(0).await;
    }
    let metrics = gateway.metrics().await;
    assert_eq!(metrics.value("rate_limit_fair_queue_depth", &[]), Some(0.0));
    let queues = gateway.queues().await;
    assert_eq!((&queues["held"], &queues["in_flight"]), (&0.into(), &0.into()));
    // Full again after a second at most; then the whole burst passes at once.
    wait::pass(Duration::from_millis(1_100)).await;
    let burst: Vec<_> = (0..BURST).map(|_| gateway.begin(call())).collect();
    for pending in burst {
        let answer = pending.answer().await;
        assert_eq!((answer.status, answer.header("x-fair-queue-wait-ms")), (200, ""));
    }
}

#[tokio::test]
async fn one_that_leaves_in_the_middle_of_a_stream_is_noticed_behind_a_pipelined_request() {
    let backend = Backend::start().await;
    let gateway = Gateway::start(&Config::with(&backend).permissive()).await;
    let (chunks, reply) = Reply::stream();
    backend.next(reply);
    chunks.event("one");
    let body = r#"{"model":"m","messages":[],"stream":true}"#;
    let head = "POST /v1/chat/completions HTTP/1.1\r\nhost: h\r\n";
    let mut raw = gateway.client().raw().await;
    raw.send(format!("{head}content-length: {}\r\n\r\n{body}POST /v1/", body.len())).await;
    raw.until("one").await;
    drop(raw);
    chunks.closed().await;
}
