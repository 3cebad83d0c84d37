//! Limits that refuse at once: which one binds, what is told, and that what is told is true.
//!
//! `request_exceeds_limit` has no test here: a request counts as one in every bucket of request counts, and no bucket
//! holds less than one, so only an ask in another unit could be too large.

use std::time::Duration;

use fairlane_tests::{Answer, Backend, Call, Config, Gateway, wait::pass};
use tokio::time::Instant;

use crate::support::{
    Told, alice, assert_limited, assert_refused_anthropic, assert_retry, bob, exhaust, people,
};

/// What a refusal of a bucket of one request a minute says.
#[track_caller]
fn assert_one_a_minute(answer: &Answer, limit_type: &str, policy: &str) {
    assert_limited(answer, limit_type);
    let wait = assert_retry(answer);
    assert!((30_000..=60_000).contains(&wait), "{}", answer.printed());
    let told = Told::of(answer);
    assert_eq!((told.policy.as_str(), told.limit, told.remaining, told.window), (policy, 1, 0, 60));
    assert!((30.0..=60.0).contains(&told.reset), "{told:?}");
}

#[tokio::test]
async fn every_limit_refuses_under_its_own_name() {
    let limits = [
        ("global", "global", "global"),
        ("per_client", "client", "per-client"),
        ("per_api_key", "api_key", "per-api-key"),
        ("per_user", "user", "per-user"),
        ("per_team", "team", "per-team"),
        ("per_model", "model", "per-model"),
    ];
    for (limit, limit_type, policy) in limits {
        let backend = Backend::start().await;
        let config = people(Config::with(&backend)).limit(&format!("{limit}: {{ requests_per_minute: 1 }}"));
        let gateway = Gateway::start(&config).await;
        let answer = gateway.call(alice()).await;
        assert_eq!(answer.status, 200, "{limit}");
        let told = Told::of(&answer);
        assert_eq!((told.policy.as_str(), told.limit, told.remaining, told.window), (policy, 1, 0, 60));

        let answer = gateway.call(alice()).await;
        assert_one_a_minute(&answer, limit_type, policy);
        let answer = gateway.call(Call::message("gpt-x").key("key-of-alice")).await;
        assert_refused_anthropic(&answer, 429, "rate_limit_error", "rate_limit_exceeded");
        assert_eq!(answer.limit_type(), limit_type);
        assert_retry(&answer);
        assert_eq!(backend.count(), 1, "{limit}: what is refused reaches nobody");
        gateway
            .metric("rate_limit_decisions_total", &[("limit_type", limit_type), ("decision", "denied")], 2.0)
            .await;
    }
}

#[tokio::test]
async fn backends_at_their_own_limit_refuse_as_backend() {
    let (first, second) = (Backend::start().await, Backend::start().await);
    let config = Config::new()
        .backend("first", &first.url(), "")
        .backend("second", &second.url(), "")
        .permissive()
        .limit("per_backend: { requests_per_minute: 1, overrides: { second: { requests_per_hour: 1 } } }");
    let gateway = Gateway::start(&config).await;
    let (passed, answer) = exhaust(&gateway, &Call::chat("m"), 5).await;
    assert_eq!((passed, first.count(), second.count()), (2, 1, 1), "an exhausted backend is no candidate");
    assert_limited(&answer, "backend");
    let wait = assert_retry(&answer);
    assert!((30_000..=60_000).contains(&wait), "the first that has room again: {wait}");
    let denied = [("limit_type", "backend"), ("decision", "denied")];
    let metrics = gateway.metrics().await;
    assert!(metrics.value("rate_limit_decisions_total", &denied).is_some_and(|count| count >= 2.0));
}

#[tokio::test]
async fn the_bucket_with_the_longest_wait_binds_and_the_tightest_is_told() {
    let backend = Backend::start().await;
    let config = people(Config::with(&backend))
        .limit("per_user: { requests_per_minute: 1 }")
        .limit("per_team: { requests_per_hour: 1 }")
        .limit("per_model: { requests_per_day: 100 }");
    let gateway = Gateway::start(&config).await;
    let (passed, answer) = exhaust(&gateway, &alice(), 2).await;
    assert_eq!(passed, 1);
    assert_limited(&answer, "team");
    assert!(assert_retry(&answer) > 3_000_000, "the latest over all that refuse");
    let answer = gateway.call(bob()).await;
    assert_limited(&answer, "team");
    assert_eq!(Told::of(&answer).policy, "per-team", "Bob's own bucket is full");
}

#[tokio::test]
async fn a_refused_request_has_taken_nothing() {
    let backend = Backend::start().await;
    let config = people(Config::with(&backend))
        .limit("per_user: { requests_per_hour: 5 }")
        .limit("per_model: { requests_per_hour: 100, overrides: { scarce: { requests_per_hour: 1 } } }");
    let gateway = Gateway::start(&config).await;
    let scarce = Call::chat("scarce").key("key-of-alice");
    assert_eq!(gateway.call(scarce.clone()).await.status, 200);
    for _ in 0..10 {
        assert_limited(&gateway.call(scarce.clone()).await, "model");
    }
    let (passed, answer) = exhaust(&gateway, &alice(), 10).await;
    assert_eq!(passed, 4, "one of Alice's five went to the scarce model, ten refusals took none");
    assert_limited(&answer, "user");
}

#[tokio::test]
async fn every_period_of_a_limit_must_pass() {
    let backend = Backend::start().await;
    let config = people(Config::with(&backend))
        .limit("per_user: { requests_per_second: 100, requests_per_minute: 50, requests_per_day: 3 }");
    let gateway = Gateway::start(&config).await;
    let (passed, answer) = exhaust(&gateway, &alice(), 10).await;
    assert_eq!(passed, 3);
    assert_limited(&answer, "user");
    assert_eq!((Told::of(&answer).limit, Told::of(&answer).window), (3, 86_400));
}

#[tokio::test]
async fn burst_capacity_is_what_the_bucket_holds() {
    let backend = Backend::start().await;
    let config =
        people(Config::with(&backend)).limit("per_user: { requests_per_minute: 2, burst_capacity: 6 }");
    let gateway = Gateway::start(&config).await;
    let (passed, answer) = exhaust(&gateway, &alice(), 10).await;
    assert_eq!(passed, 6);
    let told = Told::of(&answer);
    assert_eq!((told.limit, told.window), (6, 180), "six, at two a minute, in three minutes");
    assert!((15_000..=30_000).contains(&assert_retry(&answer)));
}

#[tokio::test]
async fn an_override_replaces_the_limit_of_whom_it_names() {
    let backend = Backend::start().await;
    let config = people(Config::with(&backend))
        .key("own", "key-with-its-own", "rate_limit: { requests_per_hour: 4 }")
        .limit("per_user: { requests_per_hour: 2, overrides: { bob: { requests_per_hour: 3 } } }")
        .limit("per_api_key: { requests_per_hour: 5, overrides: { alice-2: { requests_per_hour: 1 } } }");
    let gateway = Gateway::start(&config).await;
    assert_eq!(exhaust(&gateway, &bob(), 9).await.0, 3);
    let own = Call::chat("m").key("key-with-its-own");
    assert_eq!(exhaust(&gateway, &own, 9).await.0, 4);
    let second = Call::chat("m").key("second-key-of-alice");
    let (passed, answer) = exhaust(&gateway, &second, 9).await;
    assert_eq!((passed, answer.limit_type().as_str()), (1, "api_key"));
    let (passed, answer) = exhaust(&gateway, &alice(), 9).await;
    assert_eq!((passed, answer.limit_type().as_str()), (1, "user"), "her second key has taken one of two");
}

#[tokio::test]
async fn inventing_model_names_buys_no_fresh_buckets() {
    let backend = Backend::start().await;
    let config = Config::new()
        .backend("primary", &backend.url(), "models: [\"gpt-*\", \"*\"]")
        .permissive()
        .limit("per_model: { requests_per_hour: 4, overrides: { \"tuned-*\": { requests_per_hour: 2 } } }");
    let gateway = Gateway::start(&config).await;
    for (prefix, limit) in [("tuned-", 2), ("gpt-", 4), ("other-", 4)] {
        for name in 0..limit + 3 {
            let answer = gateway.call(Call::chat(&format!("{prefix}{name}"))).await;
            assert_eq!(answer.status, if name < limit { 200 } else { 429 }, "{prefix}{name}");
        }
    }
}

#[tokio::test]
async fn an_absent_limit_is_none() {
    let backend = Backend::start().await;
    let gateway = Gateway::start(&people(Config::with(&backend))).await;
    for _ in 0..50 {
        let answer = gateway.call(alice()).await;
        assert_eq!(answer.status, 200);
        assert_eq!((answer.header("x-ratelimit-limit-requests"), answer.header("ratelimit")), ("", ""));
    }
}

#[tokio::test]
async fn switched_off_no_limit_counts() {
    let backend = Backend::start().await;
    let config = people(Config::with(&backend))
        .rate_limiting("enabled: false")
        .limit("global: { requests_per_hour: 1 }")
        .limit("per_user: { requests_per_hour: 1 }")
        .limit("per_backend: { requests_per_hour: 1 }");
    let gateway = Gateway::start(&config).await;
    for _ in 0..5 {
        let answer = gateway.call(alice()).await;
        assert_eq!((answer.status, answer.header("ratelimit")), (200, ""));
    }
}

#[tokio::test]
async fn without_fair_queuing_an_exhausted_limit_refuses_at_once() {
    let backend = Backend::start().await;
    let config =
        people(Config::with(&backend)).limit("per_user: { requests_per_second: 1, burst_capacity: 1 }");
    let gateway = Gateway::start(&config).await;
    assert_eq!(gateway.call(alice()).await.status, 200);
    let asked = Instant::now();
    let answer = gateway.call(alice()).await;
    assert_limited(&answer, "user");
    assert!(asked.elapsed() < Duration::from_millis(900), "it waited: {:?}", asked.elapsed());
    assert_eq!(gateway.queues().await["enabled"], false);
}

/// Asks again well before the time that a refusal tells, and again when it is over.
async fn assert_honest(gateway: &Gateway, call: &Call, refusal: &Answer, told: Instant) {
    let wait = Duration::from_millis(assert_retry(refusal));
    pass(wait / 2).await;
    let early = gateway.call(call.clone()).await;
    // A machine that stood still for half of the time proves nothing about the gateway.
    if told.elapsed() < wait {
        assert_eq!(early.status, 429, "half of {wait:?} was enough");
    }
    tokio::time::sleep_until(told + wait).await;
    let answer = gateway.call(call.clone()).await;
    assert_eq!(answer.status, 200, "{wait:?} were not enough: {}", answer.printed());
}

#[tokio::test]
async fn retry_after_is_honest() {
    let limits = [
        "global: { requests_per_second: 1, burst_capacity: 2 }",
        "per_client: { requests_per_second: 1, burst_capacity: 2 }",
        "per_user: { requests_per_second: 1, burst_capacity: 2 }",
        "per_model: { requests_per_minute: 60, burst_capacity: 2 }",
        "per_backend: { requests_per_second: 1, burst_capacity: 2 }",
    ];
    let checks = limits.map(async |limit| {
        let backend = Backend::start().await;
        let gateway = Gateway::start(&people(Config::with(&backend)).limit(limit)).await;
        // Refusals cost nothing, so a few more do not move the time.
        let (_, mut refusal) = exhaust(&gateway, &alice(), 4).await;
        let mut told = Instant::now();
        for _ in 0..5 {
            refusal = gateway.call(alice()).await;
            told = Instant::now();
        }
        assert_honest(&gateway, &alice(), &refusal, told).await;
    });
    let checks = checks.map(tokio::spawn);
    for check in checks {
        check.await.unwrap();
    }
}

#[tokio::test]
async fn many_at_once_never_get_more_than_the_bucket_holds() {
    let backend = Backend::start().await;
    let config = people(Config::with(&backend)).limit("per_user: { requests_per_hour: 20 }");
    let gateway = Gateway::start(&config).await;
    let pending: Vec<_> = (0..100).map(|_| gateway.begin(alice())).collect();
    let mut passed = 0;
    for pending in pending {
        let answer = pending.answer().await;
        match answer.status {
            200 => passed += 1,
            _ => assert_limited(&answer, "user"),
        }
    }
    assert_eq!((passed, backend.count()), (20, 20));
}

/// A path may leave the model out; that is no way around the models' limit.
#[tokio::test]
async fn requests_that_name_no_model_share_a_bucket_of_the_models_limit() {
    let backend = Backend::start().await;
    let config = Config::new()
        .backend("primary", &backend.url(), "models: [cheap, dear]")
        .permissive()
        .limit("per_model: { requests_per_hour: 2 }");
    let gateway = Gateway::start(&config).await;
    let call = || Call::post("/v1/images/generations", &serde_json::json!({"prompt": "x"}));
    for status in [200, 200, 429] {
        let answer = gateway.call(call()).await;
        assert_eq!(answer.status, status, "{}", answer.printed());
    }
}
