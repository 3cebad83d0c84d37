//! Budgets in a real Redis: the same numbers, in one round trip to decide and one to settle.

use fairlane_redis_servers::Server;
use fairlane_tests::{Backend, Call, Config, Gate, Gateway, Pending, RawBackend, Reply, wait::until};
use rustix::process::Signal;
use serde_json::json;

use super::{
    BUDGET,
    api::{Api, PROMPT},
    ask, budget, left, probe, settled,
};
use crate::support::people;

/// A gateway whose budgets are in `server`.
pub(super) async fn started(config: Config, server: &Server) -> Gateway {
    let config = config
        .section("identity: { hash_key: the-secret-of-the-fleet }")
        .rate_limiting("storage: redis")
        .rate_limiting(&format!("redis: {{ url: \"{}\", timeout_ms: 5000 }}", server.url()));
    let gateway = Gateway::start(&config).await;
    gateway.metric("rate_limit_store_up", &[("store", "redis")], 1.0).await;
    gateway
}

async fn scripts(server: &Server) -> u64 {
    server.calls("evalsha").await + server.calls("eval").await
}

#[tokio::test]
async fn one_round_trip_decides_on_requests_and_tokens_of_all_dimensions_and_one_settles() {
    let (backend, server) = (Backend::start().await, Server::start().await);
    let mut config = people(Config::with(&backend));
    for dimension in ["api_key", "user", "team", "model"] {
        config = config.limit(&format!(
            "per_{dimension}: {{ requests_per_day: 1000, tokens_per_day: 1, token_burst_capacity: {BUDGET} }}"
        ));
    }
    let gateway = started(config, &server).await;
    backend.always(|_| Reply::json(200, &Api::Chat.answer(1, true)));
    // The script is loaded by the first decision of all.
    assert_eq!(gateway.call(ask(Api::Chat, false)).await.status, 200);
    settled(&gateway).await;
    until("the first settlement", async || (scripts(&server).await >= 2).then_some(())).await;
    let before = scripts(&server).await;
    for _ in 0..10 {
        assert_eq!(gateway.call(ask(Api::Chat, false)).await.status, 200);
    }
    let trips = until("ten decisions and ten settlements", async || {
        let trips = scripts(&server).await - before;
        (trips >= 20).then_some(trips)
    });
    assert_eq!(trips.await, 20);
    assert_eq!(left(&gateway, &backend).await, BUDGET - 11 * Api::Chat.used());
}

#[tokio::test]
async fn every_way_out_leaves_the_budget_where_the_usage_puts_it() {
    let (backend, server) = (Backend::start().await, Server::start().await);
    let config = people(Config::new())
        .backend("primary", &backend.url(), "models: [m]")
        .backend("gone", &RawBackend::nobody(), "models: [gone]")
        .limit(&budget("user", BUDGET));
    let gateway = started(config, &server).await;
    // The backend's count.
    backend.next(Reply::json(200, &Api::Chat.answer(1, true)));
    gateway.call(ask(Api::Chat, false)).await;
    let mut expected = BUDGET - Api::Chat.used();
    // More than was reserved.
    let mut large = Api::Chat.answer(1, false);
    large["usage"] = json!({"total_tokens": 5_000});
    backend.next(Reply::json(200, &large));
    gateway.call(ask(Api::Chat, false)).await;
    expected -= 5_000;
    // A caller that leaves while the backend works.
    let never = Gate::new();
    let count = backend.count();
    backend.next(Reply::json(200, &json!({})).after(&never));
    let leaver = gateway.begin(ask(Api::Chat, false));
    let seen = backend.request(count + 1).await;
    leaver.leave();
    backend.closed(seen.connection).await;
    expected -= PROMPT;
    // A backend that dies, and one that nobody reaches.
    backend.next(Reply::cut());
    assert_eq!(gateway.call(ask(Api::Chat, false)).await.status, 502);
    let mut unreachable = Api::Chat.request(false);
    unreachable["model"] = json!("gone");
    let call = Call::post(Api::Chat.path(), &unreachable).key("key-of-alice");
    assert_eq!(gateway.call(call).await.status, 502);
    // What is settled arrives a moment later.
    until(&format!("{expected} tokens to be left"), async || {
        (probe(&gateway, &backend).await == expected).then_some(())
    })
    .await;
}

#[tokio::test]
async fn who_does_not_fit_is_held_until_redis_says_that_it_does() {
    let (backend, server) = (Backend::start().await, Server::start().await);
    backend.always(|_| {
        let mut answer = Api::Chat.answer(1, false);
        // As much as was reserved, so that nothing comes back.
        answer["usage"] = json!({"prompt_tokens": 100, "completion_tokens": 50, "total_tokens": 150});
        Reply::json(200, &answer)
    });
    // A request at once, and one in each 150 ms.
    let config = people(Config::with(&backend))
        .limit("per_team: { tokens_per_minute: 60000, token_burst_capacity: 150 }")
        .rate_limiting("deferred_admission: { enabled: true, max_wait_ms: 60000 }");
    let gateway = started(config, &server).await;
    let answers: Vec<_> = (0..4).map(|_| gateway.begin(ask(Api::Chat, false))).collect();
    let mut deferred = 0;
    for answer in answers {
        let answer = answer.answer().await;
        assert_eq!(answer.status, 200, "{}", answer.printed());
        deferred += usize::from(!answer.header("x-deferred-admission-wait-ms").is_empty());
    }
    assert_eq!(deferred, 3);
}

#[tokio::test]
async fn what_a_killed_gateway_had_reserved_stays_taken() {
    let (backend, server) = (Backend::start().await, Server::start().await);
    let config = || people(Config::with(&backend)).limit(&budget("user", BUDGET));
    let (mut killed, other) = (started(config(), &server).await, started(config(), &server).await);
    let never = Gate::new();
    for _ in 0..3 {
        backend.next(Reply::json(200, &json!({})).after(&never));
    }
    let running: Vec<_> = (0..3).map(|_| killed.begin(ask(Api::Chat, false))).collect();
    backend.request(3).await;
    killed.signal(Signal::KILL);
    assert_eq!(killed.exited().await, -1);
    running.into_iter().for_each(Pending::leave);
    // Nobody is there to settle them. They are never given back, only flow in again as all that is used does.
    assert_eq!(left(&other, &backend).await, BUDGET - 3 * Api::Chat.reserved());
}
