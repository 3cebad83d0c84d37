//! Held until a budget has room: by the real clock, over real connections.

use fairlane_tests::{Backend, Config, Gateway, Reply};
use serde_json::Value;

use super::{api::Api, ask};
use crate::support::{assert_retry, people};

/// 1000 tokens a second, and 150 at once: a request each 150 ms.
const LIMIT: &str = "per_team: { tokens_per_minute: 60000, token_burst_capacity: 150 }";

async fn gateway(backend: &Backend, deferral: &str, further: impl FnOnce(Config) -> Config) -> Gateway {
    backend.always(|_| {
        // As much as was reserved, so that nothing comes back.
        let mut answer = Api::Chat.answer(1, false);
        answer["usage"] =
            serde_json::json!({"prompt_tokens": 100, "completion_tokens": 50, "total_tokens": 150});
        Reply::json(200, &answer)
    });
    let config = people(Config::with(backend))
        .limit(LIMIT)
        .rate_limiting(&format!("deferred_admission: {{ enabled: true, {deferral} }}"));
    Gateway::start(&further(config)).await
}

#[tokio::test]
async fn who_does_not_fit_is_held_and_told_how_long() {
    let backend = Backend::start().await;
    let gateway = gateway(&backend, "max_wait_ms: 20000", |config| config).await;
    let first = gateway.call(ask(Api::Chat, false)).await;
    assert_eq!((first.status, first.header("x-deferred-admission-wait-ms")), (200, ""));
    let second = gateway.call(ask(Api::Chat, true)).await;
    assert_eq!(second.status, 200, "{}", second.printed());
    let waited = second.number("x-deferred-admission-wait-ms").expect("it was deferred");
    assert!((20..=5_000).contains(&waited), "{waited} ms");
    assert_eq!(second.header("x-fair-queue-position"), "", "it was not queued");
    let metrics = gateway.metrics().await;
    assert_eq!(metrics.value("rate_limit_deferred_admission_wait_seconds_count", &[]), Some(1.0));
    assert_eq!(metrics.value("rate_limit_deferred_admission_held", &[]), Some(0.0));
    assert_eq!(metrics.value("rate_limit_fair_queue_grants_total", &[]), Some(0.0));
}

#[tokio::test]
async fn bounds_refuse_under_their_names_and_a_hopeless_wait_at_once() {
    let backend = Backend::start().await;
    let slow = "per_team: { tokens_per_minute: 600, token_burst_capacity: 150 }";
    let config = people(Config::with(&backend)).limit(slow).rate_limiting(
        "deferred_admission: { enabled: true, max_held: 2, max_held_per_tenant: 1, max_wait_ms: 60000 }",
    );
    let gateway = Gateway::start(&config).await;
    backend.always(|_| Reply::json(200, &Api::Chat.answer(1, false)));
    assert_eq!(gateway.call(ask(Api::Chat, false)).await.status, 200);
    let _alice = gateway.begin(ask(Api::Chat, false));
    gateway.held(1).await;
    let refused = gateway.call(ask(Api::Chat, false)).await;
    assert_eq!(refused.details()["deferred_admission"]["reason"], "tenant_hold_full");
    assert_eq!(refused.details()["deferred_admission"]["tokens"], 150);
    assert_eq!(refused.details()["deferred_admission"]["waited_ms"], 0);
    assert_eq!(refused.details()["fair_queue"], Value::Null);
    assert_eq!(refused.header("x-deferred-admission-wait-ms"), "0");
    // Behind its own lane: the second after the first.
    let wait = assert_retry(&refused);
    assert!(wait > 10_000, "{wait} ms");
    let page = gateway.queues().await;
    assert_eq!((&page["queued"], &page["deferred"]), (&0.into(), &1.into()));
    assert_eq!(
        (&page["gates"][0]["class"], &page["gates"][0]["limit_type"]),
        (&"tokens".into(), &"team".into())
    );
    let _bob = gateway.begin(ask(Api::Chat, false).key("key-of-bob"));
    gateway.held(2).await;
    let refused = gateway.call(ask(Api::Chat, false).key("key-of-bob")).await;
    assert_eq!(refused.details()["deferred_admission"]["reason"], "hold_full");
    let refusals = [("reason", "hold_full")];
    let metrics = gateway.metrics().await;
    assert_eq!(metrics.value("rate_limit_deferred_admission_refused_total", &refusals), Some(1.0));
    assert_eq!(metrics.value("rate_limit_fair_queue_refused_total", &[]), Some(0.0));
}

#[tokio::test]
async fn what_cannot_fit_in_time_is_refused_in_the_first_moment() {
    let backend = Backend::start().await;
    let gateway = gateway(&backend, "max_wait_ms: 1", |config| config).await;
    assert_eq!(gateway.call(ask(Api::Chat, false)).await.status, 200);
    let refused = gateway.call(ask(Api::Chat, false)).await;
    assert_eq!(
        refused.details()["deferred_admission"]["reason"],
        "wait_exceeds_budget",
        "{}",
        refused.printed()
    );
    assert!(assert_retry(&refused) <= 150);
}

#[tokio::test]
async fn first_queued_then_deferred_tells_both_waits() {
    let backend = Backend::start().await;
    let gateway = gateway(&backend, "max_wait_ms: 30000", |config| {
        config
            .limit("per_user: { requests_per_second: 20, burst_capacity: 1 }")
            .fair_queuing("max_wait_ms: 30000")
    })
    .await;
    assert_eq!(gateway.call(ask(Api::Chat, false)).await.status, 200);
    let begun: Vec<_> = (0..4).map(|_| gateway.begin(ask(Api::Chat, false))).collect();
    let mut both = 0;
    for pending in begun {
        let answer = pending.answer().await;
        assert_eq!(answer.status, 200, "{}", answer.printed());
        let queued = !answer.header("x-fair-queue-wait-ms").is_empty();
        both += usize::from(queued && !answer.header("x-deferred-admission-wait-ms").is_empty());
    }
    assert!(both > 0, "20 requests a second but 7 times 150 tokens");
}
