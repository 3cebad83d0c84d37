//! A drain loses no request: not one that runs, and not one that is held.

use fairlane_tests::{Backend, Call, Config, Gate, Gateway, Reply};
use serde_json::json;

fn config(backend: &Backend) -> Config {
    Config::with(backend)
        .key("k", "key", "user: alice")
        .limit("per_user: { requests_per_second: 4, burst_capacity: 1 }")
        .fair_queuing("")
}

fn call() -> Call {
    Call::chat("m").key("key")
}

#[tokio::test]
async fn held_and_running_requests_finish_and_the_exit_code_is_0() {
    let backend = Backend::start().await;
    let mut gateway = Gateway::start(&config(&backend)).await;
    let gate = Gate::new();
    backend.next(Reply::json(200, &json!({"running": true})).after(&gate));
    let running = gateway.begin(call());
    backend.request(1).await;
    let held: Vec<_> = (0..4).map(|_| gateway.begin(call())).collect();
    gateway.held(4).await;

    gateway.terminate();
    gateway.stderr().line("draining").await;
    let ready = gateway.admin().call(Call::get("/readyz")).await;
    assert_eq!(ready.status, 503, "{}", ready.printed());
    for pending in held {
        let answer = pending.answer().await;
        assert_eq!(answer.status, 200, "{}", answer.printed());
    }
    assert!(!running.is_answered());
    gate.open();
    assert_eq!(running.answer().await.json()["running"], true);
    assert_eq!(gateway.exited().await, 0);
    assert_eq!(backend.count(), 5);
    assert!(!gateway.stderr().text().contains("cut"), "{}", gateway.stderr().text());
}

#[tokio::test]
async fn what_is_still_held_at_the_drain_timeout_is_answered_and_what_runs_is_cut() {
    let backend = Backend::start().await;
    let config = Config::with(&backend)
        .server("drain_timeout: 300ms")
        .key("k", "key", "user: alice")
        .limit("per_user: { requests_per_minute: 30, burst_capacity: 1 }")
        .fair_queuing("");
    let mut gateway = Gateway::start(&config).await;
    let never = Gate::new();
    backend.next(Reply::json(200, &json!({})).after(&never));
    let running = gateway.begin(call());
    backend.request(1).await;
    let held = gateway.begin(call());
    gateway.held(1).await;

    gateway.terminate();
    let answer = held.answer().await;
    assert_eq!((answer.status, answer.code().as_str()), (503, "shutting_down"), "{}", answer.printed());
    assert_eq!(answer.header("retry-after"), "1");
    assert_eq!(gateway.exited().await, 0);
    let log = gateway.stderr().text();
    assert!(log.contains("held=1") && log.contains("running=1"), "{log}");
    running.leave();
}

#[tokio::test]
async fn a_drain_under_load_loses_nobody_who_was_taken() {
    let backend = Backend::start().await;
    let mut gateway = Gateway::start(&Config::with(&backend).permissive()).await;
    let mut callers = tokio::task::JoinSet::new();
    for _ in 0..50 {
        let mut wire = gateway.client().connect(None).await;
        callers.spawn(async move {
            let mut answered = 0;
            // An idle connection may be closed while its next request is on the way: that one was never taken.
            while let Some(answer) = wire.try_call(Call::chat("m")).await {
                assert!(answer.complete && answer.status == 200, "{}", answer.printed());
                answered += 1;
            }
            answered
        });
    }
    backend.request(200).await;
    gateway.terminate();
    let answered: usize = callers.join_all().await.into_iter().sum();
    assert_eq!(gateway.exited().await, 0);
    assert_eq!(answered, backend.count(), "every request that reached the backend was answered");
}

#[tokio::test]
async fn a_second_signal_stops_at_once() {
    let backend = Backend::start().await;
    let mut gateway = Gateway::start(&config(&backend)).await;
    let never = Gate::new();
    backend.next(Reply::json(200, &json!({})).after(&never));
    let running = gateway.begin(call());
    backend.request(1).await;
    gateway.terminate();
    gateway.stderr().line("draining").await;
    gateway.terminate();
    assert_eq!(gateway.exited().await, 1);
    running.leave();
}
