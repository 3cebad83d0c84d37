//! HTTP/2 callers that reset a stream and keep their connection: each is counted once, as one that has left.

use fairlane_tests::{Backend, Call, Config, Gate, Gateway, Http2, Reply, wait};
use serde_json::json;

async fn gateway(backend: &Backend) -> Gateway {
    let config = Config::with(backend)
        .key("k", "key", "user: alice")
        .limit("per_user: { requests_per_minute: 1, burst_capacity: 1 }")
        .fair_queuing("max_wait_ms: 100000");
    Gateway::start(&config).await
}

fn call() -> Call {
    Call::chat("m").key("key")
}

/// How many requests were counted under a status, or under any.
async fn counted(gateway: &Gateway, labels: &[(&str, &str)]) -> f64 {
    gateway.metrics().await.samples("http_requests_total", labels).iter().map(|sample| sample.value).sum()
}

/// Of the chats, one more than those that were `answered` has been counted, as one whose caller left.
async fn assert_left(gateway: &Gateway, caller: &Http2, answered: f64) {
    let labels = [("status", "499"), ("route", "/v1/chat/completions"), ("method", "POST")];
    gateway.metric("http_requests_total", &labels, 1.0).await;
    // One that comes later is counted later, so that nothing is still to come of the reset one.
    assert_eq!(caller.call(Call::get("/v1/models").key("key")).await.status, 200);
    assert_eq!(counted(gateway, &[("status", "499")]).await, 1.0);
    assert_eq!(counted(gateway, &labels[1..]).await, answered + 1.0);
    gateway.metric("http_request_duration_seconds_count", &labels[1..2], answered + 1.0).await;
}

#[tokio::test]
async fn one_that_is_reset_while_held_counts_as_left() {
    let backend = Backend::start().await;
    let gateway = gateway(&backend).await;
    let caller = gateway.client().http2(None).await;
    assert_eq!(caller.call(call()).await.status, 200);
    let held = caller.begin(call());
    gateway.held(1).await;
    held.leave();
    gateway.held(0).await;
    assert_left(&gateway, &caller, 1.0).await;
    assert_eq!(backend.count(), 1);
}

#[tokio::test]
async fn one_that_is_reset_before_its_backend_answers_counts_as_left() {
    let backend = Backend::start().await;
    let gateway = gateway(&backend).await;
    let caller = gateway.client().http2(None).await;
    let never = Gate::new();
    backend.next(Reply::json(200, &json!({})).after(&never));
    let forwarding = caller.begin(call());
    let seen = backend.request(1).await;
    forwarding.leave();
    backend.closed(seen.connection).await;
    assert_left(&gateway, &caller, 0.0).await;
}

#[tokio::test]
async fn one_that_is_reset_before_its_body_is_whole_counts_as_left() {
    let backend = Backend::start().await;
    let gateway = gateway(&backend).await;
    let caller = gateway.client().http2(None).await;
    let sending = caller.begin_without_end(call());
    // Streams are taken up in order: once a later one is answered, this one has begun.
    assert_eq!(caller.call(Call::get("/nowhere")).await.status, 404);
    sending.leave();
    assert_left(&gateway, &caller, 0.0).await;
    assert_eq!(backend.count(), 0, "half a request is none");
}

/// hyper takes a reset without an error for the end of the body.
#[tokio::test]
async fn one_that_is_reset_without_an_error_before_its_body_is_whole_is_not_forwarded() {
    let backend = Backend::start().await;
    let gateway = Gateway::start(&Config::with(&backend).permissive()).await;
    let mut raw = gateway.client().raw().await;
    raw.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
    raw.send(frame(SETTINGS, 0, 0, b"")).await;
    raw.send(frame(HEADERS, END_HEADERS, 1, &head("POST", "/v1/chat/completions"))).await;
    raw.send(frame(DATA, 0, 1, br#"{"model":"m","messages":[]}"#)).await;
    raw.send(frame(HEADERS, END_HEADERS | END_STREAM, 3, &head("GET", "/nowhere"))).await;
    // Streams are taken up in order: once the second is answered, the first has begun.
    gateway.metric("http_requests_total", &[("status", "404")], 1.0).await;
    raw.send(frame(RST_STREAM, 0, 1, &[0; 4])).await;
    gateway.metric("http_requests_total", &[("status", "499")], 1.0).await;
    assert_eq!(counted(&gateway, &[]).await, 2.0);
    assert_eq!(backend.count(), 0);
}

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// A request's head in HPACK, every field spelled out.
fn head(method: &str, path: &str) -> Vec<u8> {
    let fields = [(":method", method), (":scheme", "http"), (":path", path), (":authority", "h")];
    let field = |(name, value): (&str, &str)| {
        let length = |text: &str| u8::try_from(text.len()).unwrap();
        [&[0, length(name)], name.as_bytes(), &[length(value)], value.as_bytes()].concat()
    };
    fields.into_iter().flat_map(field).collect()
}

#[tokio::test]
async fn one_that_is_reset_in_its_answer_counts_by_its_status() {
    let backend = Backend::start().await;
    let gateway = gateway(&backend).await;
    let caller = gateway.client().http2(None).await;
    let (chunks, reply) = Reply::stream();
    backend.next(reply);
    chunks.event("one");
    let opened = caller.open(Call::chat_stream("m").key("key")).await;
    drop(opened);
    chunks.closed().await;
    gateway.metric("http_requests_total", &[("status", "200")], 1.0).await;
    assert_eq!(counted(&gateway, &[]).await, 1.0);
}

#[tokio::test]
async fn one_that_closes_its_connection_over_http1_is_counted_the_same() {
    let backend = Backend::start().await;
    let gateway = gateway(&backend).await;
    let never = Gate::new();
    backend.next(Reply::json(200, &json!({})).after(&never));
    let forwarding = gateway.begin(call());
    backend.request(1).await;
    let held = gateway.begin(call());
    gateway.held(1).await;
    held.leave();
    forwarding.leave();
    gateway.metric("http_requests_total", &[("status", "499")], 2.0).await;
    wait::until("both to have ended", async || {
        let metrics = gateway.metrics().await;
        let route = [("route", "/v1/chat/completions")];
        (metrics.value("http_request_duration_seconds_count", &route) == Some(2.0)).then_some(())
    })
    .await;
    assert_eq!(counted(&gateway, &[]).await, 2.0);
}
