//! The official client libraries, unmodified, against budgets.
//!
//! What the callers do and check stands in `tests/python/budgets.py`.

use fairlane_tests::{Config, Gateway};

use crate::python_clients::play_from;

/// The embedded backend, and alice with a budget.
async fn gateway(budget: &str) -> Gateway {
    let config = Config::new()
        .backend("echo", "builtin:echo?chunk_ms=1", "")
        .key("alice", "key-of-alice", "user: alice")
        .limit(&format!("per_user: {{ {budget} }}"))
        .rate_limiting("tokens: { default_output: 50 }");
    Gateway::start(&config).await
}

async fn play(gateway: &Gateway, scene: &str) {
    play_from(gateway, "budgets.py", scene).await;
}

async fn settled(gateway: &Gateway) -> Option<f64> {
    gateway.metrics().await.value("rate_limit_tokens_settled_total", &[("dimension", "user")])
}

#[tokio::test]
async fn answers_of_openai_are_as_without_a_budget_and_cost_what_they_used() {
    let gateway = gateway("tokens_per_day: 1, token_burst_capacity: 10000").await;

    play(&gateway, "openai_answers").await;

    assert_eq!(settled(&gateway).await, Some(8.0 * 10.0), "seven of ten tokens, and two of five");
}

#[tokio::test]
async fn messages_of_anthropic_too() {
    let gateway = gateway("tokens_per_day: 1, token_burst_capacity: 10000").await;

    play(&gateway, "anthropic_answers").await;

    assert_eq!(settled(&gateway).await, Some(4.0 * 10.0));
}

/// A request reserves 105 tokens and uses 10: the second lacks 5, which take two and a half seconds.
const SCARCE: &str = "tokens_per_minute: 120, token_burst_capacity: 110";

#[tokio::test]
async fn openais_recovers_from_a_refusal_by_one_retry() {
    let gateway = gateway(SCARCE).await;

    play(&gateway, "openai_recovers").await;
}

#[tokio::test]
async fn anthropics_recovers_from_a_refusal_by_one_retry() {
    let gateway = gateway(SCARCE).await;

    play(&gateway, "anthropic_recovers").await;
}

#[tokio::test]
async fn neither_tries_again_what_never_fits() {
    let gateway = gateway(SCARCE).await;

    play(&gateway, "never_fits").await;

    let labels = [("class", "tokens"), ("decision", "impossible")];
    let impossible = gateway.metrics().await.value("rate_limit_decisions_total", &labels);
    assert_eq!(impossible, Some(2.0));
}
