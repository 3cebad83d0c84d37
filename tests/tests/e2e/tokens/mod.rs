//! Token budgets: what is reserved, forwarded and settled, by the real binary.

mod api;
mod burst;
mod deferral;
mod disconnects;
mod forwarding;
mod libraries;
mod matrix;
mod redis;
mod shares;
mod told;

use fairlane_tests::{Backend, Call, Config, Gateway, Reply, wait::until};
use serde_json::json;

use self::api::Api;

/// What a budget holds in most of these tests. It refills by one token a day, so that every number is exact.
const BUDGET: i64 = 100_000;

/// A budget of so many tokens that hardly refills.
fn budget(dimension: &str, tokens: i64) -> String {
    format!("per_{dimension}: {{ tokens_per_day: 1, token_burst_capacity: {tokens} }}")
}

/// Alice's gateway, with one budget.
async fn with_budget(backend: &Backend, dimension: &str, further: impl FnOnce(Config) -> Config) -> Gateway {
    let config = crate::support::people(Config::with(backend)).limit(&budget(dimension, BUDGET));
    Gateway::start(&further(config)).await
}

/// What Alice's only budget holds once everything has been settled.
async fn left(gateway: &Gateway, backend: &Backend) -> i64 {
    settled(gateway).await;
    let left = probe(gateway, backend).await;
    settled(gateway).await;
    left
}

/// What Alice's only budget holds: told by a request of one token that fails, and so costs nothing.
async fn probe(gateway: &Gateway, backend: &Backend) -> i64 {
    backend.next(Reply::json(500, &json!({"error": {}})));
    let word = json!({"model": "m", "input": "word"});
    let answer = gateway.call(Call::post("/v1/embeddings", &word).key("key-of-alice")).await;
    assert_eq!(answer.status, 500, "{}", answer.printed());
    answer.header("x-ratelimit-remaining-tokens").parse::<i64>().expect("a budget was met") + 1
}

/// Waits until all that was reserved has been settled. Holds where nothing took more than it had reserved.
async fn settled(gateway: &Gateway) {
    until("all reservations to be settled", async || {
        let metrics = gateway.metrics().await;
        let sum = |name: &str| metrics.value(&format!("rate_limit_tokens_{name}_total"), &[]);
        (sum("reserved")? == sum("settled")? + sum("returned")?).then_some(())
    })
    .await;
}

/// Alice asks `api` for at most 50 tokens about 400 bytes of text.
fn ask(api: Api, stream: bool) -> Call {
    Call::post(api.path(), &api.request(stream)).key("key-of-alice")
}
