//! Backends that are not there, answer garbage, answer late, or are too many.

use std::time::Duration;

use fairlane_tests::{Answer, Backend, Call, Config, Gate, Gateway, RawBackend, Reply};
use serde_json::json;
use tokio::time::Instant;

use crate::support::{assert_refused, assert_refused_anthropic};

async fn both(gateway: &Gateway) -> (Answer, Answer) {
    (gateway.call(Call::chat("m")).await, gateway.call(Call::message("m")).await)
}

#[track_caller]
fn assert_unavailable((openai, anthropic): &(Answer, Answer)) {
    assert_refused(openai, 502, "backend_unavailable");
    assert_refused_anthropic(anthropic, 502, "api_error", "backend_unavailable");
}

#[tokio::test]
async fn a_backend_that_nobody_answers_at_is_502_and_after_three_failures_503() {
    let config = Config::new().permissive().backend("gone", &RawBackend::nobody(), "");
    let gateway = Gateway::start(&config).await;
    assert_unavailable(&both(&gateway).await);
    assert_refused(&gateway.call(Call::chat("m")).await, 502, "backend_unavailable");
    let (openai, anthropic) = both(&gateway).await;
    assert_refused(&openai, 503, "no_healthy_backend");
    assert_refused_anthropic(&anthropic, 503, "overloaded_error", "no_healthy_backend");
    gateway.metric("backend_up", &[("backend", "gone")], 0.0).await;
}

#[tokio::test]
async fn a_backend_that_speaks_no_http_is_502() {
    let answers: [&[u8]; 4] =
        [b"", b"garbage\r\n\r\n", b"HTTP/1.1 abc\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n"];
    for bytes in answers {
        let backend = RawBackend::answering(bytes).await;
        let gateway = Gateway::start(&Config::with_raw(&backend).permissive()).await;
        assert_unavailable(&both(&gateway).await);
    }
}

#[tokio::test]
async fn a_backend_that_breaks_before_its_answer_is_502_and_is_not_asked_again() {
    let (first, second) = (Backend::start().await, Backend::start().await);
    let config = Config::new().permissive().backend("first", &first.url(), "weight: 1000000").backend(
        "second",
        &second.url(),
        "",
    );
    let gateway = Gateway::start(&config).await;
    first.always(|_| Reply::cut());
    assert_unavailable(&both(&gateway).await);
    assert_eq!((first.count(), second.count()), (2, 0), "it may have done what it was asked: only once");
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_not_passed_on_as_whole() {
    let backend = RawBackend::answering(&b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"[..]).await;
    let gateway = Gateway::start(&Config::with_raw(&backend).permissive()).await;
    let answer = gateway.call(Call::chat("m")).await;
    assert!(answer.status == 502 || !answer.complete, "{}", answer.printed());
}

#[tokio::test]
async fn a_request_without_a_connection_goes_to_the_next_candidate() {
    let backend = Backend::start().await;
    let config = Config::new()
        .permissive()
        .backend("gone", &RawBackend::nobody(), "weight: 1000000")
        .backend("there", &backend.url(), "");
    let gateway = Gateway::start(&config).await;
    for n in 1..=6 {
        assert_eq!(gateway.call(Call::chat("m")).await.status, 200);
        assert_eq!(backend.count(), n, "exactly once");
    }
}

#[tokio::test]
async fn requests_are_shared_by_weight() {
    let (light, heavy) = (Backend::start().await, Backend::start().await);
    let config = Config::new().permissive().backend("light", &light.url(), "").backend(
        "heavy",
        &heavy.url(),
        "weight: 3",
    );
    let gateway = Gateway::start(&config).await;
    for _ in 0..200 {
        assert_eq!(gateway.call(Call::chat("m")).await.status, 200);
    }
    assert!((45..=55).contains(&light.count()), "{} of 200", light.count());
}

#[tokio::test]
async fn a_backend_that_fails_its_health_check_is_no_candidate_until_it_passes() {
    let backend = Backend::start().await;
    let well = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let health = std::sync::Arc::clone(&well);
    backend.always(move |seen| match seen.path.as_str() {
        "/health" if health.load(std::sync::atomic::Ordering::SeqCst) => Reply::json(200, &json!({})),
        "/health" => Reply::json(503, &json!({})),
        _ => Reply::completion(seen),
    });
    let config = Config::new().permissive().backend(
        "checked",
        &backend.url(),
        "health: { path: /health, interval: 50ms, failures: 2 }",
    );
    let gateway = Gateway::start(&config).await;
    gateway.metric("backend_up", &[("backend", "checked")], 0.0).await;
    assert_refused(&gateway.call(Call::chat("m")).await, 503, "no_healthy_backend");
    well.store(true, std::sync::atomic::Ordering::SeqCst);
    gateway.metric("backend_up", &[("backend", "checked")], 1.0).await;
    assert_eq!(gateway.call(Call::chat("m")).await.status, 200);
}

#[tokio::test]
async fn an_answer_that_does_not_come_in_time_is_504() {
    let backend = Backend::start().await;
    let config = Config::with(&backend).permissive().section(
        "timeouts: { request: { standard: { total: 400ms }, streaming: { first_byte: 200ms, idle: 30s, total: 30s } } }",
    );
    let gateway = Gateway::start(&config).await;
    let never = Gate::new();
    let gate = never.clone();
    backend.always(move |_| Reply::json(200, &json!({})).after(&gate));

    let asked = Instant::now();
    assert_refused(&gateway.call(Call::chat("m")).await, 504, "backend_timeout");
    assert!(asked.elapsed() >= Duration::from_millis(399), "{:?}", asked.elapsed());
    let answer = gateway.call(Call::message("m")).await;
    assert_refused_anthropic(&answer, 504, "timeout_error", "backend_timeout");
    let asked = Instant::now();
    assert_refused(&gateway.call(Call::chat_stream("m")).await, 504, "backend_timeout");
    assert!(asked.elapsed() >= Duration::from_millis(199), "{:?}", asked.elapsed());

    // A status is not the first byte of a stream.
    let (_chunks, reply) = Reply::stream();
    backend.next(reply);
    assert_refused(&gateway.call(Call::chat_stream("m")).await, 504, "backend_timeout");
    for seen in backend.seen() {
        backend.closed(seen.connection).await;
    }
}

#[tokio::test]
async fn a_stream_may_take_longer_than_a_plain_answer() {
    let backend = Backend::start().await;
    let config = Config::with(&backend)
        .permissive()
        .section("timeouts: { request: { standard: { total: 300ms }, streaming: { total: 30s } } }");
    let gateway = Gateway::start(&config).await;
    let (chunks, reply) = Reply::stream();
    backend.next(reply);
    chunks.event("first");
    let mut opened = gateway.open(Call::chat_stream("m")).await;
    opened.until("first").await;
    // Another request's time runs out meanwhile; the stream's does not.
    let never = Gate::new();
    backend.next(Reply::json(200, &json!({})).after(&never));
    assert_eq!(gateway.call(Call::chat("m")).await.status, 504);
    chunks.event("last");
    chunks.done();
    opened.until("[DONE]").await;
}
