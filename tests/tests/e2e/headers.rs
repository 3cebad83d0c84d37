//! What an answer tells of the limits it passed: on plain answers, streams and refusals alike.

use fairlane_tests::{Backend, Call, Config, Gateway, Reply};
use serde_json::json;

use crate::support::{Told, alice, assert_limited, assert_named, people};

#[tokio::test]
async fn the_quota_is_told_on_plain_answers_streams_and_refusals() {
    let backend = Backend::start().await;
    let gateway =
        Gateway::start(&people(Config::with(&backend)).limit("per_user: { requests_per_hour: 3 }")).await;

    let answer = gateway.call(alice()).await;
    assert_eq!(answer.status, 200);
    assert_named(&answer);
    let told = Told::of(&answer);
    assert_eq!((told.policy.as_str(), told.limit, told.remaining, told.window), ("per-user", 3, 2, 3_600));
    assert!((1_195.0..=1_200.0).contains(&told.reset), "one of three is missing: {told:?}");

    let (chunks, reply) = Reply::stream();
    backend.next(reply);
    chunks.event("first");
    let opened = gateway.open(Call::chat_stream("gpt-x").key("key-of-alice")).await;
    assert_eq!(opened.header("content-type"), "text/event-stream");
    assert_eq!(opened.header("x-ratelimit-remaining-requests"), "1", "before the stream has ended");
    chunks.done();
    let answer = opened.answer().await;
    assert_named(&answer);
    assert_eq!(Told::of(&answer).remaining, 1);

    // A backend's own refusal is an answer like any other.
    backend.next(Reply::json(400, &json!({"error": {"message": "no"}})));
    let answer = gateway.call(alice()).await;
    assert_eq!((answer.status, Told::of(&answer).remaining), (400, 0));

    let answer = gateway.call(alice()).await;
    assert_limited(&answer, "user");
    assert_eq!(Told::of(&answer).remaining, 0);
}

#[tokio::test]
async fn the_tightest_of_all_buckets_is_told_the_edges_included() {
    let backend = Backend::start().await;
    let config = people(Config::with(&backend))
        .limit("global: { requests_per_hour: 100 }")
        .limit("per_client: { requests_per_hour: 10 }")
        .limit("per_user: { requests_per_hour: 8 }")
        .limit("per_model: { requests_per_hour: 50, overrides: { scarce: { requests_per_hour: 2 } } }");
    let gateway = Gateway::start(&config).await;
    let told = |answer| {
        let told = Told::of(&answer);
        (told.policy, told.limit, told.remaining)
    };
    assert_eq!(told(gateway.call(alice()).await), ("per-user".into(), 8, 7));
    let scarce = Call::chat("scarce").key("key-of-bob");
    assert_eq!(told(gateway.call(scarce).await), ("per-model".into(), 2, 1));
    // Two of ten are gone for the address, and one of Bob's eight: 7/10 is less than 6/8.
    let bob = Call::chat("gpt-x").key("key-of-bob");
    assert_eq!(told(gateway.call(bob).await), ("per-client".into(), 10, 7));
}

#[tokio::test]
async fn refusals_after_the_edge_tell_what_the_edge_took() {
    let backend = Backend::start().await;
    let gateway =
        Gateway::start(&people(Config::with(&backend)).limit("per_client: { requests_per_hour: 9 }")).await;
    let calls = [
        (401, Call::chat("gpt-x")),
        (404, Call::get("/nowhere")),
        (405, Call::get("/v1/chat/completions")),
        (400, Call::post("/v1/chat/completions", &json!([])).key("key-of-bob")),
        (200, Call::get("/v1/models").key("key-of-bob")),
    ];
    for (remaining, (status, call)) in (0..9_u64).rev().zip(calls) {
        let answer = gateway.call(call).await;
        assert_eq!((answer.status, Told::of(&answer).remaining), (status, remaining));
    }
}

#[tokio::test]
async fn what_a_backend_says_of_its_own_limits_is_passed_on_under_another_name() {
    let backend = Backend::start().await;
    let gateway =
        Gateway::start(&people(Config::with(&backend)).limit("per_user: { requests_per_hour: 9 }")).await;
    let reply = Reply::json(429, &json!({"error": {"message": "slow down", "code": "theirs"}}))
        .header("retry-after", "7")
        .header("x-ratelimit-remaining-requests", "1234")
        .header("anthropic-ratelimit-requests-remaining", "55")
        .header("x-request-id", "backends-own")
        .header("connection", "x-hop")
        .header("x-hop", "1")
        .header("x-other", "kept");
    backend.next(reply);
    let answer = gateway.call(alice()).await;
    assert_eq!((answer.status, answer.code().as_str()), (429, "theirs"), "a backend's own 429 is passed on");
    assert_eq!(answer.header("retry-after"), "7");
    assert_eq!(answer.header("x-backend-ratelimit-remaining-requests"), "1234");
    assert_eq!(answer.header("x-backend-anthropic-ratelimit-requests-remaining"), "55");
    assert_eq!(answer.header("x-backend-request-id"), "backends-own");
    assert_eq!((answer.header("x-hop"), answer.header("x-other")), ("", "kept"));
    assert_eq!(Told::of(&answer).remaining, 8);
    assert_ne!(answer.header("x-request-id"), "backends-own");
    assert_named(&answer);
}

#[tokio::test]
async fn the_quota_of_a_backend_is_told_too() {
    let backend = Backend::start().await;
    let config = Config::with(&backend).permissive().limit("per_backend: { requests_per_hour: 1 }");
    let gateway = Gateway::start(&config).await;
    for status in [200, 429] {
        let answer = gateway.call(Call::chat("m")).await;
        assert_eq!(answer.status, status);
        let told = Told::of(&answer);
        assert_eq!((told.policy.as_str(), told.limit, told.remaining), ("per-backend", 1, 0));
    }
}
