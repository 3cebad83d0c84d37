//! What a backend gets of a request that is charged tokens, and what a caller gets of its answer.

use fairlane_tests::{Backend, Call, Config, Gateway, Reply};
use serde_json::{Value, json};

use super::{
    BUDGET,
    api::{Api, CHUNK},
    ask, left, with_budget,
};

fn streamed(api: Api) -> Reply {
    let (chunks, reply) = Reply::stream();
    for piece in [api.head(), api.chunk(), api.usage_event(), api.tail()] {
        chunks.send(piece);
    }
    reply
}

#[tokio::test]
async fn usage_is_asked_for_where_the_caller_does_not_and_kept_from_it() {
    let backend = Backend::start().await;
    let gateway = with_budget(&backend, "user", |config| config).await;
    let mut expected = BUDGET;
    for (request, api) in [Api::Chat, Api::Completions].into_iter().enumerate() {
        backend.next(streamed(api));
        let answer = gateway.call(ask(api, true)).await;
        let seen = backend.request(2 * request + 1).await;
        let mut asked = api.request(true);
        asked["stream_options"] = json!({"include_usage": true});
        assert_eq!(seen.json(), asked, "and nothing else is changed");
        assert_eq!(seen.header("content-length"), seen.body.len().to_string());
        assert_eq!(answer.text(), format!("{}{}", api.chunk(), api.tail()));
        expected -= api.used();
        assert_eq!(left(&gateway, &backend).await, expected);
    }
}

#[tokio::test]
async fn who_asks_for_usage_gets_it_and_the_request_as_it_was() {
    let backend = Backend::start().await;
    let gateway = with_budget(&backend, "user", |config| config).await;
    backend.next(streamed(Api::Chat));
    let mut request = Api::Chat.request(true);
    request["stream_options"] = json!({"include_usage": true});
    let call = Call::post(Api::Chat.path(), &request).key("key-of-alice");
    let sent = call.content().clone();
    let answer = gateway.call(call).await;
    assert_eq!(backend.request(1).await.body, sent);
    assert!(answer.text().contains("total_tokens"), "{}", answer.text());
    assert_eq!(left(&gateway, &backend).await, BUDGET - Api::Chat.used());
}

#[tokio::test]
async fn options_that_say_no_are_overruled_and_others_kept() {
    let backend = Backend::start().await;
    let gateway = with_budget(&backend, "user", |config| config).await;
    backend.next(streamed(Api::Chat));
    let mut request = Api::Chat.request(true);
    request["stream_options"] = json!({"include_usage": false, "include_obfuscation": false});
    let answer = gateway.call(Call::post(Api::Chat.path(), &request).key("key-of-alice")).await;
    let options = backend.request(1).await.json()["stream_options"].clone();
    assert_eq!(options, json!({"include_usage": true, "include_obfuscation": false}));
    assert!(!answer.text().contains("total_tokens"), "{}", answer.text());
    assert!(answer.text().contains(CHUNK));
}

#[tokio::test]
async fn an_unencoded_answer_is_asked_for_only_where_tokens_are_charged() {
    let backend = Backend::start().await;
    let charged = with_budget(&backend, "user", |config| config).await;
    let free = Gateway::start(&crate::support::people(Config::with(&backend))).await;
    for (request, (gateway, encodings)) in
        [(&charged, "identity"), (&free, "gzip, br")].into_iter().enumerate()
    {
        gateway.call(ask(Api::Chat, false).set("accept-encoding", "gzip, br")).await;
        assert_eq!(backend.request(request + 1).await.header("accept-encoding"), encodings);
    }
    // Nor is anything else of a free request changed.
    backend.next(streamed(Api::Chat));
    let call = ask(Api::Chat, true);
    let sent = call.content().clone();
    let answer = free.call(call).await;
    assert_eq!(backend.request(3).await.body, sent);
    assert!(answer.text().contains("total_tokens"), "what a backend tells unasked is passed on");
    assert_eq!(answer.header("x-ratelimit-limit-tokens"), "");
}

#[tokio::test]
async fn those_without_a_budget_of_their_own_are_not_read() {
    // Only one model has a budget.
    let backend = Backend::start().await;
    let config = crate::support::people(Config::with(&backend))
        .limit("per_model: { overrides: { dear: { tokens_per_day: 1, token_burst_capacity: 1000 } } }");
    let gateway = Gateway::start(&config).await;
    for (request, model, told) in [(1, "cheap", ""), (2, "dear", "1000")] {
        let mut body = Api::Chat.request(true);
        body["model"] = model.into();
        backend.next(streamed(Api::Chat));
        let answer = gateway.call(Call::post(Api::Chat.path(), &body).key("key-of-alice")).await;
        assert_eq!(answer.header("x-ratelimit-limit-tokens"), told);
        let options = backend.request(request).await.json()["stream_options"].clone();
        assert_eq!(options == Value::Null, told.is_empty());
    }
}

#[tokio::test]
async fn chunks_arrive_as_they_are_made_and_a_break_is_told() {
    let backend = Backend::start().await;
    let gateway = with_budget(&backend, "user", |config| config).await;
    let (chunks, reply) = Reply::stream();
    backend.next(reply);
    chunks.event("one");
    let mut opened = gateway.open(ask(Api::Chat, true)).await;
    assert_eq!(opened.header("x-ratelimit-limit-tokens"), BUDGET.to_string(), "on a stream too");
    opened.until("one").await;
    // Nothing else has been made yet.
    chunks.event("two");
    opened.until("two").await;
    chunks.cut();
    let rest = opened.answer().await;
    assert!(rest.text().contains("backend_unavailable"), "{}", rest.printed());
}

#[tokio::test]
async fn who_bypasses_the_limits_is_left_alone_in_everything() {
    let backend = Backend::start().await;
    let bypass = with_budget(&backend, "user", |config| config.rate_limiting("bypass_keys: [alice-1]")).await;
    let whitelist =
        with_budget(&backend, "user", |config| config.rate_limiting("whitelist: [127.0.0.0/8]")).await;
    for (request, gateway) in [&bypass, &whitelist].into_iter().enumerate() {
        let call = ask(Api::Chat, true).set("accept-encoding", "gzip");
        let sent = call.content().clone();
        backend.next(streamed(Api::Chat));
        let answer = gateway.call(call).await;
        let seen = backend.request(request + 1).await;
        assert_eq!((&seen.body, seen.header("accept-encoding")), (&sent, "gzip"));
        assert!(answer.text().contains("total_tokens"), "{}", answer.text());
        assert_eq!(answer.header("x-ratelimit-limit-tokens"), "");
        let metrics = gateway.metrics().await;
        assert_eq!(metrics.value("rate_limit_tokens_reserved_total", &[]), Some(0.0));
    }
}
