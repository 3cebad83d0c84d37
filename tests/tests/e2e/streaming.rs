//! Answers as they come: the first chunk before the last, and no silent end.

use fairlane_tests::{Backend, Call, Config, Gateway, Reply};

#[tokio::test]
async fn the_first_chunk_arrives_before_the_backend_has_made_the_last() {
    let backend = Backend::start().await;
    let gateway = Gateway::start(&Config::with(&backend).permissive()).await;
    let (chunks, reply) = Reply::stream();
    backend.next(reply);
    chunks.event("one");
    let mut opened = gateway.open(Call::chat_stream("m")).await;
    opened.until("one").await;
    // Nothing else has been made yet.
    chunks.event("two");
    opened.until("two").await;
    chunks.done();
    let rest = opened.answer().await;
    assert!(rest.complete && rest.text().contains("[DONE]"));
}

#[tokio::test]
async fn a_stream_that_breaks_ends_with_an_error_and_not_as_if_it_were_whole() {
    let backend = Backend::start().await;
    let gateway = Gateway::start(&Config::with(&backend).permissive()).await;
    let (chunks, reply) = Reply::stream();
    backend.next(reply);
    chunks.event("one");
    let mut opened = gateway.open(Call::chat_stream("m")).await;
    opened.until("one").await;
    chunks.cut();
    let rest = opened.answer().await;
    assert!(rest.text().contains("\"error\""), "{}", rest.printed());
    assert!(!rest.text().contains("[DONE]"));
}

#[tokio::test]
async fn a_stream_that_stalls_is_ended() {
    let backend = Backend::start().await;
    let idle = "timeouts: { request: { streaming: { first_byte: 10s, idle: 200ms, total: 60s } } }";
    let gateway = Gateway::start(&Config::with(&backend).permissive().section(idle)).await;
    let (chunks, reply) = Reply::stream();
    backend.next(reply);
    chunks.event("one");
    let mut opened = gateway.open(Call::chat_stream("m")).await;
    opened.until("one").await;
    let rest = opened.answer().await;
    assert!(rest.text().contains("\"error\""), "{}", rest.printed());
    chunks.closed().await;
}

#[tokio::test]
async fn a_held_stream_says_how_it_was_held_and_then_streams() {
    let backend = Backend::start().await;
    let config = Config::with(&backend)
        .key("k", "key", "user: alice")
        .limit("per_user: { requests_per_second: 4, burst_capacity: 1 }")
        .fair_queuing("");
    let gateway = Gateway::start(&config).await;
    assert_eq!(gateway.call(Call::chat("m").key("key")).await.status, 200);
    let (chunks, reply) = Reply::stream();
    backend.next(reply);
    chunks.event("one");
    let mut opened = gateway.open(Call::chat_stream("m").key("key")).await;
    assert_eq!(opened.status, 200);
    for name in ["x-fair-queue-position", "x-fair-queue-wait-ms", "x-fair-queue-estimated-wait-ms"] {
        assert!(opened.headers.contains_key(name), "{name}");
    }
    assert!(opened.headers.contains_key("x-ratelimit-limit-requests"));
    opened.until("one").await;
    chunks.done();
}
