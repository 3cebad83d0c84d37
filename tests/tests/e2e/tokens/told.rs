//! What callers are told of their budgets.

use fairlane_tests::{Backend, Call, Config, Gateway, Reply, wait};
use serde_json::{Value, json};

use super::{
    BUDGET,
    api::{Api, CAP, PROMPT},
    ask, with_budget,
};
use crate::support::{assert_refused_anthropic, assert_retry, people};

#[tokio::test]
async fn what_remains_falls_by_what_is_used() {
    let backend = Backend::start().await;
    let gateway = with_budget(&backend, "user", |config| {
        config.limit("per_team: { requests_per_hour: 100 }").limit("per_model: { tokens_per_day: 10000000 }")
    })
    .await;
    backend.always(|_| Reply::json(200, &Api::Chat.answer(1, true)));
    for before in 0..3 {
        let answer = gateway.call(ask(Api::Chat, false)).await;
        let remaining = BUDGET - before * Api::Chat.used() - Api::Chat.reserved();
        assert_eq!(
            answer.header("x-ratelimit-remaining-tokens"),
            remaining.to_string(),
            "as of the decision"
        );
        assert_eq!(answer.header("x-ratelimit-limit-tokens"), BUDGET.to_string(), "the tightest");
        assert_eq!(answer.header("x-ratelimit-limit-requests"), "100");
        let policies = answer.header("ratelimit-policy");
        assert!(
            policies.starts_with("\"per-team\";q=100;w=3600, \"per-user-tokens\";q=100000;w="),
            "{policies}"
        );
        assert!(policies.ends_with(";fairlane-unit=tokens"), "{policies}");
        let statuses = answer.header("ratelimit");
        assert!(statuses.contains(&format!(", \"per-user-tokens\";r={remaining};t=")), "{statuses}");
    }
}

#[tokio::test]
async fn a_budget_refuses_by_the_size_of_the_ask() {
    let backend = Backend::start().await;
    // Ten tokens a second, and 200 at once.
    let limit = "per_user: { tokens_per_minute: 600, token_burst_capacity: 200 }";
    let gateway = Gateway::start(&people(Config::with(&backend)).limit(limit)).await;
    backend.always(|_| Reply::json(200, &Api::Chat.answer(1, false)));
    let first = gateway.call(ask(Api::Chat, false)).await;
    assert_eq!(first.status, 200);

    let refused = gateway.call(ask(Api::Chat, false)).await;
    assert_eq!((refused.status, refused.code().as_str()), (429, "rate_limit_exceeded"));
    assert_eq!((refused.limit_type().as_str(), &refused.error()["type"]), ("user", &json!("tokens")));
    assert_eq!(refused.details()["deferred_admission"], Value::Null);
    assert_eq!(refused.header("x-deferred-admission-wait-ms"), "");
    // 98 are there, as the first settled to 102, and 150 are asked for.
    let wait = assert_retry(&refused);
    assert!((4_000..=5_200).contains(&wait), "{wait} ms");
    let smaller = json!({"model": "m", "input": "word".repeat(50)});
    let smaller = gateway.call(Call::post("/v1/embeddings", &smaller).key("key-of-alice")).await;
    assert_eq!(smaller.status, 200, "a smaller one fits: {}", smaller.printed());
}

#[tokio::test]
async fn the_same_size_passes_at_the_told_time_and_not_well_before() {
    let backend = Backend::start().await;
    let limit = "per_user: { tokens_per_minute: 6000, token_burst_capacity: 200 }";
    let gateway = Gateway::start(&people(Config::with(&backend)).limit(limit)).await;
    backend.always(|_| Reply::json(200, &Api::Chat.answer(1, false)));
    assert_eq!(gateway.call(ask(Api::Chat, false)).await.status, 200);
    let refused = gateway.call(ask(Api::Chat, false)).await;
    let told = refused.retry_after().expect("a time");
    wait::pass(told / 2).await;
    assert_eq!(gateway.call(ask(Api::Chat, false)).await.status, 429);
    wait::pass(told / 2).await;
    assert_eq!(gateway.call(ask(Api::Chat, false)).await.status, 200);
}

#[tokio::test]
async fn what_never_fits_is_not_to_be_tried_again() {
    let backend = Backend::start().await;
    let limit = "per_team: { tokens_per_minute: 140 }";
    let gateway = Gateway::start(&people(Config::with(&backend)).limit(limit)).await;
    let answer = gateway.call(ask(Api::Chat, false)).await;
    assert_eq!((answer.status, answer.code().as_str()), (429, "request_exceeds_limit"));
    assert_eq!(answer.header("x-should-retry"), "false");
    assert_eq!((answer.header("retry-after"), answer.header("retry-after-ms")), ("", ""));
    assert_eq!((answer.limit_type().as_str(), &answer.error()["type"]), ("team", &json!("tokens")));
    let (asked, most) = (PROMPT + CAP, 140);
    let message = format!(
        "The request asks for {asked} tokens at once, and its team limit never allows more than {most}."
    );
    assert_eq!(answer.error()["message"], message);

    let answer = gateway.call(ask(Api::Messages, false)).await;
    assert_refused_anthropic(&answer, 429, "rate_limit_error", "request_exceeds_limit");
    assert_eq!(backend.count(), 0);
}

#[tokio::test]
async fn a_small_budget_is_no_eternal_refusal_to_who_caps_nothing() {
    let backend = Backend::start().await;
    // Less than what is assumed for an answer.
    let limit = "per_user: { tokens_per_minute: 120 }";
    let gateway = Gateway::start(&people(Config::with(&backend)).limit(limit)).await;
    let uncapped = || Call::chat("m").key("key-of-alice");
    let answer = gateway.call(uncapped()).await;
    assert_eq!(answer.status, 200, "{}", answer.printed());
    assert_eq!(answer.header("x-ratelimit-remaining-tokens"), "0", "all that there is was reserved");
    // It used two tokens, and so the next needs no more than one second.
    let refused = gateway.call(uncapped()).await;
    assert_eq!(refused.code(), "rate_limit_exceeded");
    assert!(assert_retry(&refused) <= 1_000);
    // What a prompt and a cap say themselves is not cut.
    let capped = json!({"model": "m", "max_tokens": 121, "messages": []});
    let capped = gateway.call(Call::post("/v1/chat/completions", &capped).key("key-of-alice")).await;
    assert_eq!(capped.code(), "request_exceeds_limit");
}

#[tokio::test]
async fn overrides_and_a_keys_own_limit_count_tokens_too() {
    let backend = Backend::start().await;
    let config = Config::with(&backend)
        .key("own", "key-of-alice", "rate_limit: { tokens_per_day: 1, token_burst_capacity: 1111 }")
        .key("special", "key-of-bob", "user: bob")
        .key("common", "key-of-carol", "user: carol")
        .limit(
            "per_api_key: { tokens_per_hour: 3000, tokens_per_day: 40000, \
             overrides: { special: { tokens_per_hour: 2222 } } }",
        );
    let gateway = Gateway::start(&config).await;
    for (key, limit) in [("key-of-alice", "1111"), ("key-of-bob", "2222"), ("key-of-carol", "3000")] {
        let answer = gateway.call(ask(Api::Embeddings, false).key(key)).await;
        assert_eq!(answer.header("x-ratelimit-limit-tokens"), limit, "{key}");
    }
    // All periods must pass: the day's is the tightest once the hour's has been used and has flowed back.
    let mut large = Api::Chat.request(false);
    large["max_completion_tokens"] = (3_001 - PROMPT).into();
    let answer = gateway.call(Call::post(Api::Chat.path(), &large).key("key-of-carol")).await;
    assert_eq!(answer.code(), "request_exceeds_limit", "the hour's is the smallest");
}

#[tokio::test]
async fn a_prompt_is_counted_by_the_tokenizer_where_that_is_asked_for() {
    let backend = Backend::start().await;
    backend.always(|_| Reply::json(500, &json!({"error": {}})));
    // A hundred tokens to the tokenizers of these models; a hundred and fifty by their length.
    let text = vec!["hello"; 100].join(" ");
    let request =
        json!({"model": "gpt-4o", "max_tokens": 50, "messages": [{"role": "user", "content": text}]});
    for (estimator, prompt) in [("bytes", 150), ("tiktoken", 100)] {
        let gateway = with_budget(&backend, "user", |config| {
            config.rate_limiting(&format!("tokens: {{ estimator: {estimator} }}"))
        })
        .await;
        let answer = gateway.call(Call::post("/v1/chat/completions", &request).key("key-of-alice")).await;
        let remaining = answer.number("x-ratelimit-remaining-tokens").unwrap();
        assert_eq!(remaining, BUDGET as u64 - prompt - 50, "{estimator}");
    }
}
