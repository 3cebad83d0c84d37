//! The fair queue's refusals and bounds, one by one, and what is told to those who were held.

use std::time::Duration;

use fairlane_tests::{Answer, Backend, Call, Client, Config, Gate, Gateway, Reply, wait::pass};
use serde_json::json;
use tokio::time::Instant;

use crate::support::{
    Told, alice, assert_limited, assert_refused, assert_refused_anthropic, assert_retry, bob, people,
};

/// What is on time on a machine that is busy with something else.
const LATE: Duration = Duration::from_millis(700);

/// The whole refusal by the fair queue, headers and body.
#[track_caller]
fn assert_queue_refused(answer: &Answer, limit_type: &str, reason: &str) {
    assert_refused(answer, 429, "rate_limit_exceeded");
    assert_eq!(
        (answer.limit_type().as_str(), answer.reason().as_str()),
        (limit_type, reason),
        "{}",
        answer.printed()
    );
    assert_retry(answer);
    let queue = &answer.details()["fair_queue"];
    assert_eq!(queue["tenant_dimension"], "user");
    assert!(queue["position"].as_u64().is_some_and(|position| position >= 1), "{queue}");
    assert_eq!(queue["position"].as_u64(), answer.number("x-fair-queue-position"));
    assert!(queue["waited_ms"].is_u64());
    assert_eq!(queue["waited_ms"].as_u64(), answer.number("x-fair-queue-wait-ms"));
    assert_eq!(answer.header("x-fair-queue-estimated-wait-ms"), "", "it was not admitted");
    // At a deadline, what the bucket holds may be there for another.
    let most = u64::from(reason == "deadline_exceeded");
    assert!(Told::of(answer).remaining <= most, "{}", answer.printed());
}

/// One request passes at once, and another every ten seconds: whoever is held stays so for the whole test.
async fn slow(backend: &Backend, bounds: &[&str]) -> Gateway {
    let config = people(Config::with(backend))
        .key("carol", "key-of-carol", "user: carol")
        .limit("per_model: { requests_per_minute: 6, burst_capacity: 1 }")
        .fair_queuing("max_wait_ms: 100000");
    let gateway =
        Gateway::start(&bounds.iter().fold(config, |config, bound| config.fair_queuing(bound))).await;
    let answer = gateway.call(alice()).await;
    assert_eq!((answer.status, answer.header("x-fair-queue-position")), (200, ""), "it was not held");
    gateway
}

async fn refusals(gateway: &Gateway, reason: &str) -> f64 {
    let labels = [("tenant_dimension", "user"), ("reason", reason)];
    gateway.metrics().await.value("rate_limit_fair_queue_refused_total", &labels).unwrap_or_default()
}

#[tokio::test]
async fn queue_full_when_as_many_are_held_as_may_be_in_all() {
    let backend = Backend::start().await;
    // The bound of all is looked at before that of the tenant.
    let gateway = slow(&backend, &["max_total_queued: 2", "max_queue_depth_per_tenant: 1"]).await;
    let _held = [gateway.begin(alice()), gateway.begin(bob())];
    gateway.held(2).await;
    for (ahead, call) in [(0, Call::chat("gpt-x").key("key-of-carol")), (1, alice())] {
        let answer = gateway.call(call).await;
        assert_queue_refused(&answer, "model", "queue_full");
        assert_eq!(answer.details()["fair_queue"]["position"], ahead + 1, "in its own lane");
        let wait = assert_retry(&answer);
        assert!(
            (ahead * 10_000 + 3_000..=ahead * 10_000 + 10_000).contains(&wait),
            "behind its own lane: {wait}"
        );
        assert_eq!(answer.details()["fair_queue"]["waited_ms"], 0);
    }
    assert_eq!((refusals(&gateway, "queue_full").await, backend.count()), (2.0, 1));
}

#[tokio::test]
async fn queue_full_when_the_held_bodies_are_as_large_as_they_may_be_in_all() {
    let backend = Backend::start().await;
    let config = people(Config::with(&backend))
        .server("max_buffered_bytes: 1000")
        .limit("per_user: { requests_per_minute: 6, burst_capacity: 1 }")
        .fair_queuing("max_wait_ms: 100000");
    let gateway = Gateway::start(&config).await;
    let large =
        || Call::post("/v1/embeddings", &json!({"model": "m", "input": "x".repeat(600)})).key("key-of-alice");
    assert_eq!(gateway.call(large()).await.status, 200, "only what is held counts");
    let held = gateway.begin(large());
    gateway.held(1).await;
    assert_queue_refused(&gateway.call(large()).await, "user", "queue_full");
    held.leave();
    gateway.held(0).await;
    let _held = gateway.begin(large());
    gateway.held(1).await;
}

#[tokio::test]
async fn tenant_queue_full_when_as_many_of_one_tenant_are_held_as_may_be() {
    let backend = Backend::start().await;
    let gateway = slow(&backend, &["max_queue_depth_per_tenant: 2"]).await;
    let _held = [gateway.begin(alice()), gateway.begin(Call::chat("gpt-x").key("second-key-of-alice"))];
    gateway.held(2).await;
    let answer = gateway.call(alice()).await;
    assert_queue_refused(&answer, "model", "tenant_queue_full");
    assert_eq!(answer.details()["fair_queue"]["position"], 3);
    let answer = gateway.call(Call::message("gpt-x").key("key-of-alice")).await;
    assert_refused_anthropic(&answer, 429, "rate_limit_error", "rate_limit_exceeded");
    assert_eq!((answer.limit_type().as_str(), answer.reason().as_str()), ("model", "tenant_queue_full"));
    assert_eq!(refusals(&gateway, "tenant_queue_full").await, 2.0);
    let _other = gateway.begin(bob());
    gateway.held(3).await;
}

#[tokio::test]
async fn tenant_table_full_when_as_many_tenants_are_tracked_as_may_be() {
    let backend = Backend::start().await;
    let gateway = slow(&backend, &["max_tenants: 1"]).await;
    let held = gateway.begin(alice());
    gateway.held(1).await;
    let answer = gateway.call(bob()).await;
    assert_queue_refused(&answer, "model", "tenant_table_full");
    assert_eq!(answer.details()["fair_queue"]["position"], 1, "its own lane, not Alice's");
    assert_eq!(refusals(&gateway, "tenant_table_full").await, 1.0);
    // A tenant with nothing left is forgotten when its place is wanted.
    held.leave();
    gateway.held(0).await;
    let _held = gateway.begin(bob());
    gateway.held(1).await;
}

#[tokio::test]
async fn wait_exceeds_budget_is_told_at_once_and_counts_those_ahead() {
    let backend = Backend::start().await;
    let config = people(Config::with(&backend))
        .limit("per_user: { requests_per_second: 1, burst_capacity: 1 }")
        .fair_queuing("max_wait_ms: 2500");
    let gateway = Gateway::start(&config).await;
    assert_eq!(gateway.call(alice()).await.status, 200);
    let held = [gateway.begin(alice()), gateway.begin(alice())];
    gateway.held(2).await;
    let asked = Instant::now();
    let answer = gateway.call(alice()).await;
    assert_queue_refused(&answer, "user", "wait_exceeds_budget");
    assert!(asked.elapsed() < LATE, "not after the wait: {:?}", asked.elapsed());
    assert_eq!(answer.details()["fair_queue"]["position"], 3);
    assert_eq!(refusals(&gateway, "wait_exceeds_budget").await, 1.0);
    for held in held {
        assert_eq!(held.answer().await.status, 200, "those before it make it");
    }
}

#[tokio::test]
async fn a_wait_beyond_the_budget_has_an_honest_retry_after() {
    let backend = Backend::start().await;
    let config = people(Config::with(&backend))
        .limit("per_user: { requests_per_minute: 30, burst_capacity: 1 }")
        .fair_queuing("max_wait_ms: 300");
    let gateway = Gateway::start(&config).await;
    assert_eq!(gateway.call(alice()).await.status, 200);
    let answer = gateway.call(alice()).await;
    let told = Instant::now();
    assert_queue_refused(&answer, "user", "wait_exceeds_budget");
    let wait = Duration::from_millis(assert_retry(&answer));
    assert!(wait <= Duration::from_secs(2), "never longer than the bucket needs: {wait:?}");
    pass(wait / 2).await;
    let early = gateway.call(alice()).await;
    if told.elapsed() + Duration::from_millis(300) < wait {
        assert_eq!(early.reason(), "wait_exceeds_budget", "half of {wait:?} was enough");
    }
    tokio::time::sleep_until(told + wait).await;
    let answer = gateway.call(alice()).await;
    assert_eq!((answer.status, answer.header("x-fair-queue-wait-ms")), (200, ""), "{}", answer.printed());
}

/// Keeps two of Alice's requests waiting for ever. As long as what comes back is held, Alice stays ahead of whoever
/// weighs little beside her.
#[must_use]
fn flood(client: Client) -> tokio::task::JoinSet<()> {
    let mut callers = tokio::task::JoinSet::new();
    for _ in 0..2 {
        callers.spawn(async move {
            loop {
                _ = client.call(alice()).await;
            }
        });
    }
    callers
}

#[tokio::test]
async fn deadline_exceeded_is_answered_at_the_deadline() {
    let backend = Backend::start().await;
    let config = people(Config::with(&backend))
        .limit("per_model: { requests_per_second: 2, burst_capacity: 1 }")
        .fair_queuing("max_wait_ms: 1500")
        .fair_queuing("weights: [ { tenant: alice, weight: 1000 } ]");
    let gateway = Gateway::start(&config).await;
    assert_eq!(gateway.call(alice()).await.status, 200);
    let _flood = flood(gateway.client());
    gateway.held(2).await;
    let asked = Instant::now();
    let answer = gateway.call(bob()).await;
    let elapsed = asked.elapsed();
    assert_queue_refused(&answer, "model", "deadline_exceeded");
    let budget = Duration::from_millis(1_500);
    assert!((budget - Duration::from_millis(5)..budget + LATE).contains(&elapsed), "{elapsed:?}");
    let waited = answer.number("x-fair-queue-wait-ms").unwrap();
    assert!((1_495..1_500 + 300).contains(&waited), "{waited}");
    assert_eq!(answer.details()["fair_queue"]["position"], 1);
    assert_eq!(refusals(&gateway, "deadline_exceeded").await, 1.0);
}

#[tokio::test]
async fn the_budget_is_the_smallest_total_timeout_where_that_is_less_than_the_longest_wait() {
    for (totals, max_wait, within) in [
        ("standard: { total: 700ms }, streaming: { total: 60s }", 60_000, false),
        // Whatever class the request itself is of.
        ("standard: { total: 60s }, streaming: { first_byte: 600ms, total: 700ms }", 60_000, false),
        ("standard: { total: 60s }, streaming: { total: 60s }", 700, false),
        ("standard: { total: 60s }, streaming: { total: 60s }", 60_000, true),
    ] {
        let backend = Backend::start().await;
        let config = people(Config::with(&backend))
            .limit("per_user: { requests_per_second: 1, burst_capacity: 1 }")
            .fair_queuing(&format!("max_wait_ms: {max_wait}"))
            .section(&format!("timeouts: {{ request: {{ {totals} }} }}"));
        let gateway = Gateway::start(&config).await;
        assert_eq!(gateway.call(alice()).await.status, 200);
        let asked = Instant::now();
        let answer = gateway.call(alice()).await;
        if within {
            assert_eq!(answer.status, 200, "{totals}");
        } else if asked.elapsed() < Duration::from_millis(250) {
            // On a machine that slept, the bucket may have come into reach.
            assert_queue_refused(&answer, "user", "wait_exceeds_budget");
        }
    }
}

#[tokio::test]
async fn a_deadline_by_the_total_timeout_is_answered_then() {
    let backend = Backend::start().await;
    let config = people(Config::with(&backend))
        .limit("per_model: { requests_per_second: 2, burst_capacity: 1 }")
        .fair_queuing("max_wait_ms: 60000")
        .fair_queuing("weights: [ { tenant: alice, weight: 1000 } ]")
        .section("timeouts: { request: { standard: { total: 1500ms } } }");
    let gateway = Gateway::start(&config).await;
    assert_eq!(gateway.call(alice()).await.status, 200);
    let _flood = flood(gateway.client());
    gateway.held(2).await;
    let asked = Instant::now();
    let answer = gateway.call(bob()).await;
    assert_queue_refused(&answer, "model", "deadline_exceeded");
    let elapsed = asked.elapsed();
    assert!(
        (Duration::from_millis(1_450)..Duration::from_millis(1_500) + LATE).contains(&elapsed),
        "{elapsed:?}"
    );
}

#[tokio::test]
async fn time_spent_held_is_taken_off_the_requests_own_total() {
    let backend = Backend::start().await;
    let config = people(Config::with(&backend))
        .limit("per_user: { requests_per_second: 1, burst_capacity: 1 }")
        .fair_queuing("")
        .section("timeouts: { request: { standard: { total: 2s } } }");
    let gateway = Gateway::start(&config).await;
    assert_eq!(gateway.call(alice()).await.status, 200);
    let never = Gate::new();
    backend.next(Reply::json(200, &json!({})).after(&never));
    let asked = Instant::now();
    let answer = gateway.call(alice()).await;
    let elapsed = asked.elapsed();
    assert_refused(&answer, 504, "backend_timeout");
    assert!((Duration::from_millis(1_990)..Duration::from_secs(2) + LATE).contains(&elapsed), "{elapsed:?}");
    assert!(answer.number("x-fair-queue-wait-ms").is_some_and(|waited| waited > 500), "{}", answer.printed());
}

#[tokio::test]
async fn whoever_was_held_is_told_its_place_its_wait_and_what_it_was_to_expect() {
    let backend = Backend::start().await;
    let config = people(Config::with(&backend))
        .limit("per_user: { requests_per_second: 2, burst_capacity: 1 }")
        .fair_queuing("");
    let gateway = Gateway::start(&config).await;
    let answer = gateway.call(alice()).await;
    for absent in ["x-fair-queue-position", "x-fair-queue-wait-ms", "x-fair-queue-estimated-wait-ms"] {
        assert_eq!((answer.status, answer.header(absent)), (200, ""), "it was not held");
    }
    let mut held = Vec::new();
    for place in 1..=4 {
        held.push(gateway.begin(alice()));
        gateway.held(place).await;
    }
    for (place, held) in (1..).zip(held) {
        let answer = held.answer().await;
        assert_eq!(answer.status, 200);
        assert_eq!(answer.number("x-fair-queue-position"), Some(place));
        let waited = answer.number("x-fair-queue-wait-ms").unwrap();
        let estimated = answer.number("x-fair-queue-estimated-wait-ms").unwrap();
        assert!((place * 500 - 400..=place * 500 + 300).contains(&waited), "place {place}: {waited} ms");
        assert!(estimated.abs_diff(waited) <= (waited / 4).max(150), "told {estimated}, was {waited}");
        assert_eq!(Told::of(&answer).policy, "per-user");
        assert_eq!(Told::of(&answer).remaining, 0, "it took what there was");
    }
}

#[tokio::test]
async fn at_a_contended_gate_retry_after_counts_those_ahead_and_holds() {
    let backend = Backend::start().await;
    let config = people(Config::with(&backend))
        .limit("per_user: { requests_per_second: 2, burst_capacity: 1 }")
        .fair_queuing("max_queue_depth_per_tenant: 3");
    let gateway = Gateway::start(&config).await;
    assert_eq!(gateway.call(alice()).await.status, 200);
    let _held: Vec<_> = (0..3).map(|_| gateway.begin(alice())).collect();
    gateway.held(3).await;
    let answer = gateway.call(alice()).await;
    let told = Instant::now();
    assert_queue_refused(&answer, "user", "tenant_queue_full");
    let wait = assert_retry(&answer);
    assert!((1_200..=2_100).contains(&wait), "four times half a second, less what has passed: {wait}");
    tokio::time::sleep_until(told + Duration::from_millis(wait)).await;
    let answer = gateway.call(alice()).await;
    let waited = answer.number("x-fair-queue-wait-ms").unwrap_or_default();
    assert!(answer.status == 200 && waited <= 100, "{}", answer.printed());
}

#[tokio::test]
async fn one_without_a_tenant_never_overtakes_those_who_wait() {
    let backend = Backend::start().await;
    let config = people(Config::with(&backend))
        .permissive()
        .limit("per_model: { requests_per_second: 2, burst_capacity: 1 }")
        .fair_queuing("");
    let gateway = Gateway::start(&config).await;
    assert_eq!(gateway.call(alice()).await.status, 200);
    let held: Vec<_> = (0..4).map(|_| gateway.begin(alice())).collect();
    gateway.held(4).await;
    // As long as anybody waits, whatever the bucket holds at that moment.
    let mut refused = 0;
    while gateway.queues().await["held"].as_u64().is_some_and(|held| held >= 2) {
        let answer = gateway.call(Call::chat("gpt-x")).await;
        assert_limited(&answer, "model");
        assert!(assert_retry(&answer) <= 500, "the bucket's own time: {}", answer.printed());
        refused += 1;
    }
    assert!(refused > 0);
    for held in held {
        assert_eq!(held.answer().await.status, 200);
    }
}

#[tokio::test]
async fn the_tenant_is_of_the_configured_dimension() {
    for (dimension, other, other_waits) in [
        // Bob is of Alice's team; her second key is of herself.
        ("team", "key-of-bob", false),
        ("user", "second-key-of-alice", false),
        ("user", "key-of-bob", true),
        ("api_key", "second-key-of-alice", true),
    ] {
        let backend = Backend::start().await;
        let gateway =
            slow(&backend, &[&format!("tenant_dimension: {dimension}"), "max_queue_depth_per_tenant: 1"])
                .await;
        let _held = gateway.begin(alice());
        gateway.held(1).await;
        let other = Call::chat("gpt-x").key(other);
        if other_waits {
            let _other = gateway.begin(other);
            gateway.held(2).await;
        } else {
            let answer = gateway.call(other).await;
            assert_eq!(answer.reason(), "tenant_queue_full", "{dimension}");
            assert_eq!(answer.details()["fair_queue"]["tenant_dimension"], dimension);
        }
        let labels = [("tenant_dimension", dimension)];
        assert!(gateway.metrics().await.value("rate_limit_fair_queue_grants_total", &labels).is_some());
    }
}

#[tokio::test]
async fn a_key_without_the_configured_dimension_waits_as_the_next_one() {
    let backend = Backend::start().await;
    let config = Config::with(&backend)
        .key("bare-1", "first-bare-key", "")
        .key("bare-2", "second-bare-key", "")
        .key("lone", "key-of-a-team", "team: research")
        .limit("per_model: { requests_per_minute: 6, burst_capacity: 1 }")
        .fair_queuing("max_wait_ms: 100000")
        .fair_queuing("max_queue_depth_per_tenant: 1");
    let gateway = Gateway::start(&config).await;
    let call = |key: &str| Call::chat("m").key(key);
    assert_eq!(gateway.call(call("first-bare-key")).await.status, 200);
    let mut held = Vec::new();
    for (count, key) in (1..).zip(["first-bare-key", "second-bare-key", "key-of-a-team"]) {
        held.push(gateway.begin(call(key)));
        gateway.held(count).await;
        assert_eq!(gateway.call(call(key)).await.reason(), "tenant_queue_full");
    }
}

#[tokio::test]
async fn the_limits_on_the_wire_refuse_at_once_though_queuing_is_on() {
    for (limit, limit_type) in [("global", "global"), ("per_client", "client")] {
        let backend = Backend::start().await;
        let config = people(Config::with(&backend))
            .limit(&format!("{limit}: {{ requests_per_second: 1, burst_capacity: 1 }}"))
            .fair_queuing("");
        let gateway = Gateway::start(&config).await;
        assert_eq!(gateway.call(alice()).await.status, 200);
        assert_limited(&gateway.call(alice()).await, limit_type);
    }
}

#[tokio::test]
async fn a_key_that_bypasses_the_limits_is_not_held_behind_others() {
    let backend = Backend::start().await;
    let config = people(Config::with(&backend))
        .key("operator", "key-of-the-operator", "user: alice")
        .rate_limiting("bypass_keys: [operator]")
        .limit("per_user: { requests_per_minute: 6, burst_capacity: 1 }")
        .fair_queuing("max_wait_ms: 100000");
    let gateway = Gateway::start(&config).await;
    assert_eq!(gateway.call(alice()).await.status, 200);
    let _held = gateway.begin(alice());
    gateway.held(1).await;
    let answer = gateway.call(Call::chat("gpt-x").key("key-of-the-operator")).await;
    assert_eq!((answer.status, answer.header("x-fair-queue-position")), (200, ""));
}

#[tokio::test]
async fn a_lone_tenant_gets_the_whole_bucket_in_the_order_it_came() {
    let backend = Backend::start().await;
    let config = people(Config::with(&backend))
        .limit("per_model: { requests_per_second: 20, burst_capacity: 1 }")
        .fair_queuing("");
    let gateway = Gateway::start(&config).await;
    assert_eq!(gateway.call(alice()).await.status, 200);
    let start = Instant::now();
    let mut held = Vec::new();
    for n in 1..=20 {
        held.push(gateway.begin(alice().set("x-number", &n.to_string())));
        gateway.held_or_served(n).await;
    }
    for held in held {
        assert_eq!(held.answer().await.status, 200);
    }
    let elapsed = start.elapsed();
    assert!(elapsed < Duration::from_millis(1_000) + LATE, "twenty at twenty a second: {elapsed:?}");
    let order: Vec<usize> =
        backend.seen()[1..].iter().filter_map(|seen| seen.header("x-number").parse().ok()).collect();
    assert_eq!(order, (1..=20).collect::<Vec<_>>());
}

#[tokio::test]
async fn those_who_wait_at_one_bucket_are_in_nobodys_way_at_another() {
    let backend = Backend::start().await;
    let config = people(Config::with(&backend))
        .limit("per_model: { overrides: { scarce: { requests_per_minute: 6, burst_capacity: 1 } } }")
        .fair_queuing("max_wait_ms: 10000000")
        .fair_queuing("max_queue_depth_per_tenant: 1000")
        .section("timeouts: { request: { standard: { total: 4h }, streaming: { total: 4h } } }");
    let gateway = Gateway::start(&config).await;
    let scarce = || Call::chat("scarce").key("key-of-alice");
    assert_eq!(gateway.call(scarce()).await.status, 200);
    let _held: Vec<_> = (0..300).map(|_| gateway.begin(scarce())).collect();
    gateway.held(300).await;
    for call in [alice(), bob(), alice(), bob()] {
        let answer = gateway.call(call).await;
        assert_eq!((answer.status, answer.header("x-fair-queue-wait-ms")), (200, ""));
    }
    assert_eq!(gateway.queues().await["held"], 300);
}

#[tokio::test]
async fn weights_come_from_the_list_from_the_tier_or_by_default() {
    let backend = Backend::start().await;
    let yaml = Config::with(&backend)
        .key("a", "key-a", "user: alice, tier: gold")
        .key("b", "key-b", "user: bob, tier: gold")
        .key("c", "key-c", "user: carol")
        .key("d", "key-d", "user: dave")
        .section("identity: { tiers: { gold: { weight: 4 } } }")
        .limit("per_model: { requests_per_minute: 6, burst_capacity: 1 }")
        .fair_queuing("max_wait_ms: 100000")
        .fair_queuing("default_weight: 2")
        .fair_queuing(
            "weights: [ { tenant: alice, weight: 9 }, { tenant: \"${NAME}\", weight: 7, dimension: user } ]",
        )
        .yaml();
    let gateway = Gateway::start_yaml(&yaml, |command| {
        command.env("NAME", "carol");
    })
    .await;
    let call = |key: &str| Call::chat("m").key(key);
    assert_eq!(gateway.call(call("key-a")).await.status, 200);
    let mut held = Vec::new();
    let mut weights = std::collections::BTreeMap::new();
    for (count, key) in (1..).zip(["key-a", "key-b", "key-c", "key-d"]) {
        held.push(gateway.begin(call(key)));
        gateway.held(count).await;
        let page = gateway.queues().await;
        let gate =
            page["gates"].as_array().unwrap().iter().find(|gate| gate["waiting"] != 0).unwrap().clone();
        for lane in gate["lanes"].as_array().unwrap() {
            // The lane that is new belongs to whoever has just come.
            weights.entry(lane["tenant"].to_string()).or_insert((key, lane["weight"].clone()));
        }
    }
    let weights: std::collections::BTreeMap<_, _> = weights.into_values().collect();
    let wanted = [("key-a", 9), ("key-b", 4), ("key-c", 7), ("key-d", 2)];
    assert_eq!(weights, wanted.map(|(key, weight)| (key, json!(weight))).into());
}
