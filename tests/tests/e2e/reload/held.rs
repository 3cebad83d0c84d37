//! What a change means to those who are held, and to those who come after it.

use fairlane_tests::{Backend, Call, Config, Gateway, Pending, Reply, wait};
use serde_json::json;

use super::{HELD, PATIENT, all_answered, held_by, hold, of, ten_an_hour, users, waiting};
use crate::support::until_all_came;

#[tokio::test]
async fn a_raised_limit_serves_them_by_the_new_one() {
    let backend = Backend::start().await;
    let gateway = Gateway::start(&ten_an_hour(&backend)).await;
    let pending = hold(&gateway).await;
    // What the bucket holds stays what it was, nothing; it refills fast now.
    gateway
        .reconfigure(&held_by(&backend, "per_team: { requests_per_hour: 720000, burst_capacity: 1000 }"))
        .await;
    all_answered(pending).await;
    assert_eq!(backend.count(), HELD + 1);
}

#[tokio::test]
async fn a_limit_that_is_gone_serves_them_at_once() {
    let backend = Backend::start().await;
    let gateway = Gateway::start(&ten_an_hour(&backend)).await;
    let pending = hold(&gateway).await;
    gateway.reconfigure(&waiting(users(Config::with(&backend)))).await;
    all_answered(pending).await;
}

#[tokio::test]
async fn a_lowered_limit_acts_on_the_next_decision_of_theirs_too() {
    let backend = Backend::start().await;
    // Nobody passes at first: the bucket is empty, and large requests of tokens are none here.
    let gateway =
        Gateway::start(&held_by(&backend, "per_team: { requests_per_hour: 10, burst_capacity: 1 }")).await;
    let pending = hold(&gateway).await;
    // Raised to 100 a second and, before many have passed, lowered to what it was.
    gateway
        .reconfigure(&held_by(&backend, "per_team: { requests_per_hour: 360000, burst_capacity: 5 }"))
        .await;
    gateway.reconfigure(&ten_an_hour(&backend)).await;
    let held = gateway.queues().await["held"].as_u64().unwrap();
    let passed = backend.count();
    assert_eq!(passed as u64 + held, HELD as u64 + 1, "none is lost");
    assert!(held > 0, "it was lowered too late to show anything");
    for _ in 0..10 {
        // Each of these is decided, refused and held by the lowered limit.
        drop(gateway.begin(of(1)));
    }
    gateway.held(held).await;
    assert_eq!(backend.count(), passed);
    drop(pending);
}

#[tokio::test]
async fn a_lowered_limit_cuts_what_is_left_of_a_burst() {
    let backend = Backend::start().await;
    let limit = |burst: usize| {
        users(Config::with(&backend))
            .limit(&format!("per_user: {{ requests_per_hour: 1, burst_capacity: {burst} }}"))
    };
    let gateway = Gateway::start(&limit(100)).await;
    assert_eq!(gateway.call(of(0)).await.header("x-ratelimit-remaining-requests"), "99");
    gateway.reconfigure(&limit(3)).await;
    for left in ["2", "1", "0"] {
        assert_eq!(gateway.call(of(0)).await.header("x-ratelimit-remaining-requests"), left);
    }
    assert_eq!(gateway.call(of(0)).await.status, 429);
    // Raised again, it does not get back what was cut.
    gateway.reconfigure(&limit(100)).await;
    assert_eq!(gateway.call(of(0)).await.status, 429);
}

#[tokio::test]
async fn a_limit_that_is_given_for_another_period_sets_nobody_free() {
    let backend = Backend::start().await;
    let gateway = Gateway::start(&ten_an_hour(&backend)).await;
    let pending = hold(&gateway).await;
    // The day's bucket is new, and so it is full: of three.
    gateway.reconfigure(&held_by(&backend, "per_team: { requests_per_day: 240, burst_capacity: 3 }")).await;
    gateway.held(HELD as u64 - 3).await;
    wait::until("three to be served", async || (backend.count() == 4).then_some(())).await;
    let late = gateway.begin(of(3));
    gateway.held(HELD as u64 - 2).await;
    gateway.reconfigure(&held_by(&backend, "per_team: { requests_per_second: 1000 }")).await;
    all_answered(pending).await;
    assert_eq!(late.answer().await.status, 200);
}

#[tokio::test]
async fn whoever_waits_for_one_limit_is_told_of_the_others() {
    let backend = Backend::start().await;
    // The team's is the one that they wait for, as it is the slower one.
    let both = |team: &str, user: &str| waiting(users(Config::with(&backend)).limit(team).limit(user));
    let slow = both(
        "per_team: { requests_per_day: 20, burst_capacity: 4 }",
        "per_user: { requests_per_hour: 1, burst_capacity: 1 }",
    );
    let gateway = Gateway::start(&slow).await;
    for user in 0..4 {
        assert_eq!(gateway.call(of(user)).await.status, 200);
    }
    let pending: Vec<_> = (0..20).map(|n| gateway.begin(of(n % 4))).collect();
    gateway.held(20).await;
    gateway
        .reconfigure(&both(
            "per_team: { requests_per_second: 100 }",
            "per_user: { requests_per_second: 100 }",
        ))
        .await;
    all_answered(pending).await;
}

#[tokio::test]
async fn a_limit_that_goes_and_comes_back_is_where_it_was() {
    let backend = Backend::start().await;
    let gateway = Gateway::start(&ten_an_hour(&backend)).await;
    let pending = hold(&gateway).await;
    gateway.reconfigure(&waiting(users(Config::with(&backend)))).await;
    gateway.reconfigure(&ten_an_hour(&backend)).await;
    all_answered(pending).await;
    let held = gateway.begin(of(0));
    gateway.held(1).await;
    assert_eq!(backend.count(), HELD + 1);
    held.leave();
}

#[tokio::test]
async fn a_limit_for_a_further_period_leaves_the_bucket_of_the_other_as_it_is() {
    let backend = Backend::start().await;
    let limit = |limit: &str| users(Config::with(&backend)).limit(&format!("per_user: {{ {limit} }}"));
    let gateway = Gateway::start(&limit("requests_per_day: 3")).await;
    for _ in 0..3 {
        assert_eq!(gateway.call(of(0)).await.status, 200);
    }
    gateway.reconfigure(&limit("requests_per_second: 100, requests_per_day: 3")).await;
    assert_eq!(gateway.call(of(0)).await.status, 429);
    gateway.reconfigure(&limit("requests_per_day: 3")).await;
    assert_eq!(gateway.call(of(0)).await.status, 429);
}

/// Holds as many requests of two users, and has weights changed before more of them are served.
async fn share_after(before: impl Fn(Config) -> Config, after: impl Fn(Config) -> Config) -> usize {
    let backend = Backend::start().await;
    let limit = |rate: &str| held_by(&backend, &format!("per_team: {{ {rate} }}"));
    let gateway = Gateway::start(&before(limit("requests_per_hour: 10, burst_capacity: 1"))).await;
    assert_eq!(gateway.call(of(0)).await.status, 200);
    let pending: Vec<_> = (0..HELD).map(|n| gateway.begin(of(n % 2))).collect();
    gateway.held(HELD as u64).await;
    gateway.reconfigure(&after(limit("requests_per_hour: 360000, burst_capacity: 1"))).await;
    wait::until("a hundred to be served", async || (backend.count() >= 101).then_some(())).await;
    let share = {
        let seen = backend.seen();
        seen[1..101].iter().filter(|seen| seen.header("x-user") == "0").count()
    };
    all_answered(pending).await;
    share
}

#[tokio::test]
async fn they_share_by_changed_weights() {
    let even = "weights: [{ tenant: user-0, weight: 1 }]";
    let share = share_after(
        |config| config.fair_queuing(even),
        |config| {
            config.fair_queuing("weights: [{ tenant: user-0, weight: 3 }, { tenant: user-1, weight: 1 }]")
        },
    )
    .await;
    assert!((72..=78).contains(&share), "{share} of 100 where 75 are due");
}

#[tokio::test]
async fn they_share_by_a_changed_tier() {
    // A second key of user 0 has the tier, and so has the tenant.
    let gold = |config: Config, weight: u32| {
        config
            .key("gold", "key-gold", "user: user-0, team: team, tier: gold")
            .section(&format!("identity: {{ tiers: {{ gold: {{ weight: {weight} }} }} }}"))
    };
    let share = share_after(|config| gold(config, 1), |config| gold(config, 3)).await;
    assert!((72..=78).contains(&share), "{share} of 100 where 75 are due");
}

#[tokio::test]
async fn timeouts_are_those_of_the_moment_in_which_they_are_sent() {
    let backend = Backend::start().await;
    let gateway = Gateway::start(&ten_an_hour(&backend)).await;
    let pending = hold(&gateway).await;
    let hasty = || {
        users(Config::with(&backend))
            .section("timeouts: { request: { standard: { total: 1ms }, streaming: { total: 1ms } } }")
    };
    gateway.reconfigure(&hasty().limit("per_team: { requests_per_hour: 10, burst_capacity: 1 }")).await;
    gateway.held(HELD as u64).await;
    gateway.reconfigure(&hasty()).await;
    // Their time counts from when they came.
    for pending in pending {
        let answer = pending.answer().await;
        assert_eq!((answer.status, answer.code().as_str()), (504, "backend_timeout"));
    }
    assert_eq!(backend.count(), 1);
}

#[tokio::test]
async fn they_share_by_a_changed_default() {
    let uneven = "weights: [{ tenant: user-0, weight: 3 }]";
    let share = share_after(
        |config| config.fair_queuing(uneven),
        |config| {
            config.fair_queuing("default_weight: 3").fair_queuing("weights: [{ tenant: user-0, weight: 1 }]")
        },
    )
    .await;
    assert!((22..=28).contains(&share), "{share} of 100 where 25 are due");
}

#[tokio::test]
async fn a_lowered_bound_refuses_newcomers_and_drops_nobody() {
    let backend = Backend::start().await;
    let gateway = Gateway::start(&ten_an_hour(&backend)).await;
    let pending = hold(&gateway).await;
    let bounded = |bound: &str| {
        users(Config::with(&backend))
            .limit("per_team: { requests_per_hour: 10, burst_capacity: 1 }")
            .fair_queuing("max_wait_ms: 86400000")
            .fair_queuing(bound)
            .section(PATIENT)
    };
    for (bound, reason) in [
        ("max_queue_depth_per_tenant: 5", "tenant_queue_full"),
        ("max_total_queued: 5, max_queue_depth_per_tenant: 200", "queue_full"),
    ] {
        let config = bound
            .split(", ")
            .skip(1)
            .fold(bounded(bound.split(", ").next().unwrap()), |config, more| config.fair_queuing(more));
        gateway.reconfigure(&config).await;
        let refused = gateway.call(of(0)).await;
        assert_eq!((refused.status, refused.reason().as_str()), (429, reason), "{}", refused.printed());
        gateway.held(HELD as u64).await;
    }
    gateway.reconfigure(&waiting(users(Config::with(&backend)))).await;
    all_answered(pending).await;
}

#[tokio::test]
async fn without_fair_queuing_they_wait_on_and_newcomers_are_refused_at_once() {
    let backend = Backend::start().await;
    let gateway = Gateway::start(&ten_an_hour(&backend)).await;
    let pending = hold(&gateway).await;
    let off = users(Config::with(&backend))
        .limit("per_team: { requests_per_hour: 10, burst_capacity: 1 }")
        .section(PATIENT);
    gateway.reconfigure(&off).await;
    let refused = gateway.call(of(0)).await;
    assert_eq!((refused.status, refused.limit_type().as_str()), (429, "team"), "{}", refused.printed());
    assert!(refused.details()["fair_queue"].is_null(), "{}", refused.printed());
    gateway.held(HELD as u64).await;
    gateway.reconfigure(&users(Config::with(&backend)).section(PATIENT)).await;
    all_answered(pending).await;
}

#[tokio::test]
async fn fair_queuing_that_is_switched_on_holds_the_next_one() {
    let backend = Backend::start().await;
    let off = users(Config::with(&backend)).limit("per_team: { requests_per_hour: 10, burst_capacity: 1 }");
    let gateway = Gateway::start(&off).await;
    assert_eq!(gateway.call(of(0)).await.status, 200);
    assert_eq!(gateway.call(of(0)).await.status, 429);
    gateway.reconfigure(&ten_an_hour(&backend)).await;
    let held = gateway.begin(of(0));
    gateway.held(1).await;
    held.leave();
    gateway.held(0).await;
}

#[tokio::test]
async fn a_removed_key_is_refused_and_its_held_requests_are_not_set_free() {
    let backend = Backend::start().await;
    let gateway = Gateway::start(&ten_an_hour(&backend)).await;
    let mut pending = hold(&gateway).await;
    let without = (1..4).fold(Config::with(&backend), |config, user| {
        config.key(&format!("id-{user}"), &format!("key-{user}"), &format!("user: user-{user}, team: team"))
    });
    gateway
        .reconfigure(
            &waiting(without.clone()).limit("per_team: { requests_per_hour: 10, burst_capacity: 1 }"),
        )
        .await;
    assert_eq!(gateway.call(of(0)).await.status, 401);
    assert_eq!(gateway.queues().await["held"], HELD as u64);
    assert_eq!(backend.count(), 1);
    // Its requests are served in their turn, as those of the others are.
    gateway
        .reconfigure(&waiting(without).limit("per_team: { requests_per_hour: 720000, burst_capacity: 1000 }"))
        .await;
    let mine: Vec<Pending> =
        (0..HELD).rev().step_by(1).filter(|n| n % 4 == 0).map(|n| pending.remove(n)).collect();
    all_answered(mine).await;
    all_answered(pending).await;
}

#[tokio::test]
async fn they_are_sent_to_the_backends_of_the_moment() {
    let (old, new) = (Backend::start().await, Backend::start().await);
    let gateway = Gateway::start(&ten_an_hour(&old)).await;
    let pending = hold(&gateway).await;
    let moved = users(Config::new().backend("another", &new.url(), ""));
    gateway.reconfigure(&waiting(moved)).await;
    all_answered(pending).await;
    assert_eq!((old.count(), new.count()), (1, HELD));
    let up = |name| [("backend", name)];
    let metrics = gateway.metrics().await;
    assert_eq!(metrics.value("backend_up", &up("another")), Some(1.0));
    assert!(metrics.value("backend_up", &up("primary")).unwrap().is_nan());
}

#[tokio::test]
async fn a_model_that_nobody_serves_any_more_is_not_found() {
    let backend = Backend::start().await;
    let gateway = Gateway::start(&ten_an_hour(&backend)).await;
    let pending = hold(&gateway).await;
    let other = users(Config::new().backend("primary", &backend.url(), "models: [\"other\"]"));
    gateway.reconfigure(&waiting(other)).await;
    for pending in pending {
        let answer = pending.answer().await;
        assert_eq!((answer.status, answer.code().as_str()), (404, "model_not_found"));
    }
}

#[tokio::test]
async fn what_is_under_way_at_a_backend_that_goes_is_finished() {
    let (old, new) = (Backend::start().await, Backend::start().await);
    let gateway = Gateway::start(&users(Config::with(&old))).await;
    let (chunks, reply) = Reply::stream();
    old.next(reply);
    chunks.event("before");
    let mut stream = gateway.open(fairlane_tests::Call::chat_stream("m").key("key-0")).await;
    stream.until("before").await;
    gateway.reconfigure(&users(Config::new().backend("another", &new.url(), ""))).await;
    assert_eq!(gateway.call(of(1)).await.status, 200);
    assert_eq!((old.count(), new.count()), (1, 1));
    chunks.event("after");
    stream.until("after").await;
    chunks.done();
    assert!(stream.answer().await.complete);
}

#[tokio::test]
async fn connections_to_a_backend_that_stays_stay_too() {
    let backend = Backend::start().await;
    let gateway = Gateway::start(&users(Config::with(&backend))).await;
    let mut connection = gateway.client().connect(None).await;
    assert_eq!(connection.call(of(0)).await.status, 200);
    let more = users(Config::with(&backend)).limit("per_user: { requests_per_second: 100 }");
    gateway.reconfigure(&more).await;
    assert_eq!(connection.call(of(0)).await.status, 200);
    assert_eq!(backend.connections(), 1);
}

/// The team has a budget of tokens; whoever does not fit is deferred for long.
fn budget(backend: &Backend, budget: &str) -> Config {
    users(Config::with(backend))
        .limit(&format!("per_team: {{ {budget} }}"))
        .rate_limiting("tokens: { default_output: 100 }")
        .rate_limiting(
            "deferred_admission: { enabled: true, max_held_per_tenant: 200, max_wait_ms: 86400000 }",
        )
        .section(PATIENT)
}

/// Begins requests of which each reserves some hundred tokens, until most of them are deferred.
async fn defer(gateway: &Gateway) -> Vec<Pending> {
    defer_all(gateway, |n| of(n % 4)).await
}

async fn defer_all(gateway: &Gateway, call: impl Fn(usize) -> Call) -> Vec<Pending> {
    let pending: Vec<_> = (0..HELD / 2).map(|n| gateway.begin(call(n))).collect();
    until_all_came(gateway, &pending).await;
    let held = gateway.queues().await["deferred"].as_u64().unwrap();
    assert!(held >= 50, "{held} are deferred");
    pending
}

#[tokio::test]
async fn a_raised_budget_serves_those_who_are_deferred() {
    let backend = Backend::start().await;
    let gateway = Gateway::start(&budget(&backend, "tokens_per_day: 24000, token_burst_capacity: 150")).await;
    let pending = defer(&gateway).await;
    gateway.reconfigure(&budget(&backend, "tokens_per_day: 8640000000, token_burst_capacity: 150")).await;
    all_answered(pending).await;
}

#[tokio::test]
async fn a_budget_that_is_gone_serves_them_at_once() {
    let backend = Backend::start().await;
    let gateway = Gateway::start(&budget(&backend, "tokens_per_day: 24000, token_burst_capacity: 150")).await;
    let pending = defer(&gateway).await;
    gateway.reconfigure(&users(Config::with(&backend))).await;
    all_answered(pending).await;
}

#[tokio::test]
async fn a_budget_that_only_an_assumption_does_not_fit_into_serves_them_in_time() {
    let backend = Backend::start().await;
    let gateway = Gateway::start(&budget(&backend, "tokens_per_day: 24000, token_burst_capacity: 150")).await;
    let pending = defer(&gateway).await;
    gateway.reconfigure(&budget(&backend, "tokens_per_day: 8640000000, token_burst_capacity: 50")).await;
    all_answered(pending).await;
}

#[tokio::test]
async fn a_budget_that_they_never_fit_into_any_more_refuses_them() {
    let backend = Backend::start().await;
    let gateway = Gateway::start(&budget(&backend, "tokens_per_day: 24000, token_burst_capacity: 150")).await;
    // What a request says itself is not cut down to what fits.
    let capped = json!({"model": "m", "messages": [], "max_tokens": 100});
    let capped = |n: usize| Call::post("/v1/chat/completions", &capped).key(&format!("key-{}", n % 4));
    let pending = defer_all(&gateway, capped).await;
    gateway.reconfigure(&budget(&backend, "tokens_per_day: 24000, token_burst_capacity: 50")).await;
    for pending in pending {
        let answer = pending.answer().await;
        if answer.status != 200 {
            assert_eq!((answer.status, answer.code().as_str()), (429, "request_exceeds_limit"));
        }
    }
}
