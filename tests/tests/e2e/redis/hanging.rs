//! Redis hangs, and somebody leaves: callers, or the gateway itself.

use std::time::Duration;

use fairlane_redis_servers::Server;
use fairlane_tests::{Backend, Config, Gate, Reply, wait};
use serde_json::json;
use tokio::{net::TcpListener, time::Instant};

use super::{MARGIN, PATIENT, TIMEOUT, assert_out, people, shared, started};
use crate::support::{alice, bob, exhaust};

/// For what is given back when a gateway goes, and for its admin plane.
const LAST_WORDS: Duration = Duration::from_secs(1);

#[tokio::test]
async fn callers_that_leave_while_their_attempts_hang_take_nothing() {
    const DAY: usize = 8;
    const HELD: usize = 12;
    let (backend, server) = (Backend::start().await, Server::start().await);
    let config = people(&backend, &server.url(), PATIENT)
        .limit("per_user: { requests_per_second: 1, burst_capacity: 1 }")
        .limit(&format!("per_team: {{ requests_per_day: {DAY} }}"))
        .fair_queuing("max_in_flight: 4")
        .fair_queuing("max_wait_ms: 60000");
    let gateway = started(&config).await;
    // Alice's bucket and Bob's are two gates, so that several attempts can hang at once.
    for call in [alice(), bob()] {
        assert_eq!(gateway.call(call).await.status, 200);
    }
    let held: Vec<_> =
        (0..HELD).map(|nth| gateway.begin(if nth % 2 == 0 { alice() } else { bob() })).collect();
    gateway.held(HELD as u64).await;
    server.pause();
    wait::until("attempts that hang", async || {
        (gateway.queues().await["in_flight"].as_u64() >= Some(2)).then_some(())
    })
    .await;
    drop(held);
    gateway.held(0).await;
    assert_eq!(gateway.queues().await["in_flight"], 0, "their places are free at once");

    server.resume();
    let recovered = wait::until("the next to pass", async || {
        let answer = gateway.call(alice()).await;
        (answer.status == 200).then_some(())
    });
    recovered.await;
    // What the attempts were granted came back: of the day, only those are gone who passed.
    let mut passed = backend.count();
    assert!(passed >= 3, "{passed}");
    wait::until("all that is left of the day", async || {
        passed = backend.count();
        for call in [alice(), bob()] {
            passed += exhaust(&gateway, &call, DAY).await.0;
        }
        (passed >= DAY).then_some(())
    })
    .await;
    assert_eq!(backend.count(), DAY);
    gateway.metric("rate_limit_settlements_lost_total", &[], 0.0).await;
}

#[tokio::test]
async fn a_drain_does_not_wait_for_a_store_that_hangs() {
    let (backend, server) = (Backend::start().await, Server::start().await);
    let config = people(&backend, &server.url(), TIMEOUT)
        .server("drain_timeout: 10s")
        .limit("per_user: { requests_per_second: 1, burst_capacity: 1 }")
        .fair_queuing("");
    let mut gateway = started(&config).await;
    let gate = Gate::new();
    backend.next(Reply::json(200, &json!({"running": true})).after(&gate));
    let running = gateway.begin(alice());
    backend.request(1).await;
    let held: Vec<_> = (0..3).map(|_| gateway.begin(alice())).collect();
    gateway.held(3).await;
    server.pause();
    gateway.terminate();
    gateway.stderr().line("draining").await;
    for held in held {
        assert_out(&held.answer().await);
    }
    // Who was admitted before is served to the end.
    gate.open();
    let begin = Instant::now();
    assert_eq!(running.answer().await.json()["running"], true);
    assert_eq!(gateway.exited().await, 0);
    assert!(begin.elapsed() < 2 * LAST_WORDS + MARGIN, "{:?}", begin.elapsed());
    assert_eq!(backend.count(), 1);
}

#[tokio::test]
async fn what_a_hanging_store_does_not_take_back_is_told_when_the_gateway_goes() {
    let server = Server::start().await;
    // It takes connections and never says a word of TLS: a request that waits for it has reached nobody.
    let mute = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("https://{}", mute.local_addr().expect("an address"));
    let config = Config::new().backend("mute", &url, "").server("drain_timeout: 200ms");
    let config = crate::support::people(shared(config, &server.url(), TIMEOUT, ""))
        .limit("per_user: { requests_per_day: 3 }");
    let mut gateway = started(&config).await;
    let running = gateway.begin(alice());
    let connection = mute.accept().await.expect("the gateway connects");
    server.pause();
    let begin = Instant::now();
    gateway.terminate();
    gateway.stderr().line("did not take back what was left").await;
    assert_eq!(gateway.exited().await, 0);
    let took = begin.elapsed();
    assert!(took < Duration::from_millis(200) + 3 * LAST_WORDS + MARGIN, "{took:?}");
    running.leave();
    drop(connection);
}
