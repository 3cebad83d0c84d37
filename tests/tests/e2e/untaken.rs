//! Callers that do not take their answers: the backend's connection and the reservation must not be theirs for as long as
//! they like.

use bytes::Bytes;
use fairlane_tests::{Backend, Call, Config, Gateway, Reply, wait};

/// Every answer has ended after a second, long before its caller would have to take something.
fn config(backend: &Backend) -> Config {
    Config::with(backend)
        .permissive()
        .server("timeouts: { body_progress: 300s }")
        .limit("per_model: { tokens_per_day: 100000 }")
        .section("timeouts: { request: { standard: { total: 1s }, streaming: { first_byte: 1s, idle: 1s, total: 1s } } }")
}

/// What was reserved has been settled, and nothing is in flight any more.
async fn settled(gateway: &Gateway) {
    wait::until("the reservation to be settled", async || {
        let metrics = gateway.metrics().await;
        let sum = |name| metrics.samples(name, &[]).iter().map(|sample| sample.value).sum::<f64>();
        let reserved = sum("rate_limit_tokens_reserved_total");
        let closed = sum("rate_limit_tokens_settled_total") + sum("rate_limit_tokens_returned_total");
        let ended = sum("http_request_duration_seconds_count");
        (reserved > 0.0 && closed >= reserved && ended == 1.0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_stream_without_a_window_is_reset_at_its_total_though_its_backend_goes_on() {
    let backend = Backend::start().await;
    let gateway = Gateway::start(&config(&backend)).await;
    let (chunks, reply) = Reply::stream();
    backend.next(reply);
    chunks.event("one");
    chunks.event("two");
    let caller = gateway.client().http2(Some(0)).await;
    let untaken = caller.open(Call::chat_stream("m")).await;
    chunks.closed().await;
    backend.closed(backend.request(1).await.connection).await;
    let answer = untaken.answer().await;
    assert_eq!((answer.status, answer.complete, answer.body.len()), (200, false, 0));
    settled(&gateway).await;
    gateway.metric("http_requests_total", &[("status", "200")], 1.0).await;
}

#[tokio::test]
async fn a_plain_answer_larger_than_the_window_is_reset_at_its_total() {
    let backend = Backend::start().await;
    let gateway = Gateway::start(&config(&backend)).await;
    let (pieces, reply) = Reply::pieces("application/json");
    backend.next(reply);
    pieces.send(vec![b' '; 1_000_000]);
    let caller = gateway.client().http2(Some(10_000)).await;
    let untaken = caller.open(Call::chat("m")).await;
    pieces.closed().await;
    let answer = untaken.answer().await;
    assert_eq!((answer.status, answer.complete), (200, false));
    settled(&gateway).await;
    // Other streams of the connection are none the worse for it.
    assert_eq!(caller.call(Call::get("/v1/models")).await.status, 200);
}

#[tokio::test]
async fn one_that_takes_nothing_is_reset_after_the_progress_time() {
    let backend = Backend::start().await;
    let config = Config::with(&backend)
        .permissive()
        .limit("per_model: { tokens_per_day: 100000 }")
        .server("timeouts: { body_progress: 1s }");
    let gateway = Gateway::start(&config).await;
    let (chunks, reply) = Reply::stream();
    backend.next(reply);
    chunks.event("one");
    let caller = gateway.client().http2(Some(0)).await;
    let untaken = caller.open(Call::chat_stream("m")).await;
    chunks.closed().await;
    assert!(!untaken.answer().await.complete);
    settled(&gateway).await;
}

#[tokio::test]
async fn one_that_stops_reading_over_http1_is_closed_at_its_total() {
    let backend = Backend::start().await;
    let gateway = Gateway::start(&config(&backend)).await;
    // No stream of events: one that ends before the sockets are full would end with an event that says so.
    let (pieces, reply) = Reply::pieces("text/plain");
    backend.next(reply);
    // More than the sockets hold.
    let piece = Bytes::from(vec![b' '; 1 << 20]);
    for _ in 0..64 {
        pieces.send(piece.clone());
    }
    let opened = gateway.open(Call::chat("m")).await;
    pieces.closed().await;
    settled(&gateway).await;
    assert!(!opened.answer().await.complete);
}

#[tokio::test]
async fn one_that_takes_its_answer_slowly_but_in_time_has_it_whole() {
    let backend = Backend::start().await;
    let gateway = Gateway::start(&Config::with(&backend).permissive()).await;
    let body = "x".repeat(100_000);
    backend.next(Reply::bytes(200, "text/plain", body.clone()));
    let caller = gateway.client().http2(Some(1_000)).await;
    let answer = caller.call(Call::chat("m")).await;
    assert_eq!((answer.complete, answer.text() == body), (true, true));
}
