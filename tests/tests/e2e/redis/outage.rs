//! Redis is out: every answer is 503 and comes in time, nothing passes, and it is over by itself.

use std::time::Duration;

use fairlane_redis_servers::{ChaosProxy, Fault, Server};
use fairlane_tests::{Backend, Call, Config, Gateway, RawBackend, wait};
use tokio::{task::JoinSet, time::Instant};

use super::{MARGIN, PATIENT, TIMEOUT, assert_out, people, readiness, ready, shared, started, unready};
use crate::support::{alice, assert_limited, assert_refused_anthropic, exhaust};

/// How long the outage lasts in which memory and log are looked at, in milliseconds; the default is a short one.
const OUTAGE_MS: &str = "FAIRLANE_OUTAGE_MS";
const USUAL_OUTAGE_MS: u64 = 3_000;

/// From the end of an outage to the first answer.
const RECOVERY: Duration = Duration::from_secs(1);

/// Sends requests at once; each is answered that the store is out, in time.
async fn assert_all_out(gateway: &Gateway, requests: usize, call: &Call) {
    let mut answers = JoinSet::new();
    for _ in 0..requests {
        let (client, call) = (gateway.client(), call.clone());
        answers.spawn(async move {
            let mut wire = client.connect(None).await;
            let start = Instant::now();
            (wire.call(call).await, start.elapsed())
        });
    }
    for (answer, took) in answers.join_all().await {
        assert_out(&answer);
        assert!(took < TIMEOUT + MARGIN, "{took:?}");
    }
}

/// Asks until somebody passes; how long that took from `since` on. Until then, every answer is that the store is out.
async fn recovered(gateway: &Gateway, call: &Call, since: Instant) -> Duration {
    wait::until("the gateway to recover", async || {
        let answer = gateway.call(call.clone()).await;
        if answer.status == 200 {
            return Some(since.elapsed());
        }
        assert_out(&answer);
        None
    })
    .await
}

fn assert_soon(took: Duration) {
    assert!(took < RECOVERY + MARGIN, "{took:?}");
}

async fn edge_and_dispatch(backend: &Backend, url: &str) -> [Config; 3] {
    let shared = |limit| people(backend, url, TIMEOUT).limit(limit);
    [
        shared("per_user: { requests_per_day: 1000 }").fair_queuing(""),
        shared("per_client: { requests_per_day: 1000 }"),
        shared("per_backend: { requests_per_day: 1000 }"),
    ]
}

#[tokio::test]
async fn a_stopped_server_refuses_everywhere_in_time_and_comes_back_by_itself() {
    let (backend, server) = (Backend::start().await, Server::start().await);
    for config in edge_and_dispatch(&backend, &server.url()).await {
        let gateway = started(&config).await;
        assert_eq!(gateway.call(alice()).await.status, 200);
        let before = backend.count();
        server.pause();
        assert_all_out(&gateway, 30, &alice()).await;
        unready(&gateway).await;
        let why = readiness(&gateway).await.text();
        assert!(why.contains("redis") && why.contains("refused"), "{why}");
        assert_eq!(gateway.admin().call(Call::get("/healthz")).await.status, 200);
        gateway.metric("rate_limit_store_up", &[("store", "redis")], 0.0).await;
        // It is known to be out: the answer does not wait for it any more.
        let start = Instant::now();
        assert_out(&gateway.call(alice()).await);
        assert!(start.elapsed() < TIMEOUT, "{:?}", start.elapsed());
        assert_eq!(backend.count(), before, "nothing has passed");
        let metrics = gateway.metrics().await;
        let errors = metrics.value("rate_limit_store_errors_total", &[("store", "redis")]).unwrap();
        assert!(errors >= 31.0, "{errors}");
        assert_eq!(metrics.value("rate_limit_fail_open_total", &[]), Some(0.0));

        server.resume();
        assert_soon(recovered(&gateway, &alice(), Instant::now()).await);
        ready(&gateway).await;
        gateway.metric("rate_limit_store_up", &[("store", "redis")], 1.0).await;
    }
}

#[tokio::test]
async fn a_killed_server_refuses_and_one_that_comes_back_empty_starts_anew() {
    let (backend, server) = (Backend::start().await, Server::start().await);
    let config = people(&backend, &server.url(), TIMEOUT).limit("per_user: { requests_per_day: 3 }");
    let gateway = started(&config).await;
    assert_eq!(exhaust(&gateway, &alice(), 10).await.0, 3);
    server.stop();
    assert_all_out(&gateway, 10, &alice()).await;
    server.restart_empty().await;
    assert_soon(recovered(&gateway, &alice(), Instant::now()).await);
    let (passed, refused) = exhaust(&gateway, &alice(), 10).await;
    assert_limited(&refused, "user");
    assert_eq!(passed, 2, "what Redis lost is lost, and nothing more");
}

#[tokio::test]
async fn whatever_the_server_says_or_does_not_say_is_503() {
    let (backend, server) = (Backend::start().await, Server::start().await);
    let proxy = ChaosProxy::start(server.addr()).await;
    let config = people(&backend, &proxy.url(), TIMEOUT).limit("per_user: { requests_per_day: 1000 }");
    let gateway = started(&config).await;
    assert_eq!(gateway.call(alice()).await.status, 200);
    let before = backend.count();
    for fault in [
        Fault::BlackHole,
        Fault::Refuse,
        Fault::Hold,
        Fault::Delay(2 * TIMEOUT),
        Fault::cut_reply(3),
        Fault::garbage(),
        Fault::script_error("READONLY You can't write against a read only replica."),
        Fault::script_error("LOADING Redis is loading the dataset in memory"),
        Fault::script_error(
            "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
        ),
        Fault::script_error("OOM command not allowed when used memory > 'maxmemory'."),
        Fault::script_error("NOPERM this user has no permissions to run the 'evalsha' command"),
        Fault::script_answer("*1\r\n:1\r\n"),
    ] {
        let shown = format!("{fault:?}");
        proxy.set(fault);
        let start = Instant::now();
        let answer = gateway.call(alice()).await;
        assert_out(&answer);
        assert!(start.elapsed() < TIMEOUT + MARGIN, "{shown}: {:?}", start.elapsed());
        proxy.pass();
        let took = recovered(&gateway, &alice(), Instant::now()).await;
        assert!(took < RECOVERY + MARGIN, "{shown}: {took:?}");
        ready(&gateway).await;
    }
    assert_eq!(backend.count(), before + 12, "one for each recovery");
}

#[tokio::test]
async fn who_is_held_when_it_begins_is_told_when_its_turn_comes() {
    let (backend, server) = (Backend::start().await, Server::start().await);
    let config = people(&backend, &server.url(), TIMEOUT)
        .limit("per_user: { requests_per_second: 1, burst_capacity: 1 }")
        .fair_queuing("");
    let gateway = started(&config).await;
    assert_eq!(gateway.call(alice()).await.status, 200);
    let held: Vec<_> = (0..3).map(|_| gateway.begin(alice())).collect();
    gateway.held(3).await;
    let before = backend.count();
    server.pause();
    let start = Instant::now();
    for held in held {
        assert_out(&held.answer().await);
    }
    // The first at its turn, and the others after it, one attempt each.
    let took = start.elapsed();
    assert!(took < Duration::from_secs(1) + 3 * TIMEOUT + MARGIN, "{took:?}");
    assert_eq!(backend.count(), before);
    gateway.held(0).await;
    server.resume();
    assert_soon(recovered(&gateway, &alice(), Instant::now()).await);
}

#[tokio::test]
async fn a_server_that_is_not_there_from_the_start_is_waited_for() {
    let (backend, server) = (Backend::start().await, Server::start().await);
    server.stop();
    let config = people(&backend, &server.url(), TIMEOUT).limit("per_user: { requests_per_day: 10 }");
    let gateway = Gateway::start(&config).await;
    let unready = readiness(&gateway).await;
    assert_eq!(unready.status, 503, "{}", unready.printed());
    assert!(unready.text().contains("redis"), "{}", unready.text());
    assert_all_out(&gateway, 5, &alice()).await;
    let anthropic =
        Call::post("/v1/messages", &serde_json::json!({"model": "m", "max_tokens": 5, "messages": []}));
    let answer = gateway.call(anthropic.key("key-of-alice")).await;
    assert_refused_anthropic(&answer, 503, "overloaded_error", "rate_limit_store_unavailable");
    assert_eq!(backend.count(), 0);
    server.restart_empty().await;
    assert_soon(recovered(&gateway, &alice(), Instant::now()).await);
    ready(&gateway).await;
}

#[tokio::test]
async fn what_was_charged_before_the_dispatch_failed_is_not_lost_silently() {
    let (backend, server) = (Backend::start().await, Server::start().await);
    let proxy = ChaosProxy::start(server.addr()).await;
    let config = Config::new().backend("dead", &RawBackend::nobody(), "");
    let config = crate::support::people(shared(config, &proxy.url(), PATIENT, ""))
        .limit("per_user: { requests_per_day: 5 }");
    let gateway = started(&config).await;
    assert_eq!(gateway.call(alice()).await.status, 502);
    // Its settlement may come again, and is applied once: five pass.
    let config = people(&backend, &server.url(), PATIENT).limit("per_user: { requests_per_day: 5 }");
    let other = started(&config).await;
    wait::until("the settlement", async || {
        let settled: Vec<String> = server.query(&["KEYS", "*settled*"]).await;
        (!settled.is_empty()
            || gateway.metrics().await.value("rate_limit_settlements_lost_total", &[]) > Some(0.0))
        .then_some(())
    })
    .await;
    assert_eq!(exhaust(&other, &alice(), 10).await.0, 5);
}

/// What a gateway has in memory, in bytes. Its process is the one that names its folder.
fn memory(gateway: &Gateway) -> usize {
    let folder = gateway.folder().to_str().expect("a path of ASCII").to_owned();
    let processes = std::fs::read_dir("/proc").expect("processes").filter_map(Result::ok);
    let own = processes.map(|process| process.path()).find(|process| {
        std::fs::read_to_string(process.join("cmdline")).is_ok_and(|line| line.contains(&folder))
    });
    let status = std::fs::read_to_string(own.expect("it runs").join("status")).expect("its status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its memory");
    line.trim().trim_end_matches(" kB").parse::<usize>().expect("a number") << 10
}

#[tokio::test]
async fn under_load_neither_the_log_nor_the_answers_nor_memory_run_wild() {
    let (backend, server) = (Backend::start().await, Server::start().await);
    let config = people(&backend, &server.url(), TIMEOUT)
        .limit("global: { requests_per_second: 100000 }")
        .limit("per_user: { requests_per_second: 100000 }")
        .fair_queuing("");
    let gateway = started(&config).await;
    assert_eq!(gateway.call(alice()).await.status, 200);
    server.pause();
    let lasts =
        std::env::var(OUTAGE_MS).map_or(USUAL_OUTAGE_MS, |lasts| lasts.parse().expect("milliseconds"));
    let (start, lasts) = (Instant::now(), Duration::from_millis(lasts));
    let mut load = JoinSet::new();
    for _ in 0..16 {
        let client = gateway.client();
        load.spawn(async move {
            let mut wire = client.connect(None).await;
            let mut answers = 0;
            while start.elapsed() < lasts {
                assert_out(&wire.call(alice()).await);
                answers += 1;
            }
            answers
        });
    }
    // By then the timeouts are over, and whatever an outage needs is there.
    wait::pass(lasts / 3).await;
    let before = memory(&gateway);
    let answers: usize = load.join_all().await.into_iter().sum();
    let grown = memory(&gateway).saturating_sub(before);
    println!("{answers} answers in {lasts:?}, memory grew by {} KiB", grown >> 10);
    assert!(grown < 8 << 20, "memory grew by {grown} bytes during {answers} answers");
    // The first of each caller waited for the timeout, all others were answered at once.
    assert!(answers > 16 * 20, "{answers} answers");
    assert_eq!(backend.count(), 1);
    let lines = gateway
        .stderr()
        .text()
        .lines()
        .filter(|line| line.contains("WARN") || line.contains("ERROR"))
        .count();
    let most = usize::try_from(lasts.as_secs()).expect("some seconds") * 4 + 4;
    assert!(lines <= most, "{lines} lines in {lasts:?}:\n{}", gateway.stderr().text());
    server.resume();
    assert_soon(recovered(&gateway, &alice(), Instant::now()).await);
}

#[tokio::test]
async fn let_through_where_that_is_asked_for_loudly() {
    let (backend, server) = (Backend::start().await, Server::start().await);
    let config =
        crate::support::people(shared(Config::with(&backend), &server.url(), TIMEOUT, "outage: fail_open"))
            .limit("per_user: { requests_per_day: 2 }")
            .limit("per_backend: { requests_per_day: 1000 }");
    let gateway = started(&config).await;
    gateway.stderr().line("fail_open").await;
    assert_eq!(exhaust(&gateway, &alice(), 10).await.0, 2);
    server.stop();
    let start = Instant::now();
    for _ in 0..20 {
        let answer = gateway.call(alice()).await;
        assert_eq!(answer.status, 200, "{}", answer.printed());
    }
    let seconds = start.elapsed().as_secs();
    assert_eq!(readiness(&gateway).await.status, 200, "it serves");
    // Both decisions of each, identity and dispatch.
    gateway.metric("rate_limit_fail_open_total", &[], 40.0).await;
    gateway.metric("rate_limit_store_up", &[("store", "redis")], 0.0).await;
    let log = gateway.stderr().text();
    let said = log.lines().filter(|line| line.contains("pass unmetered") && line.contains("passed=")).count();
    assert!((1..=2 + usize::try_from(seconds).unwrap()).contains(&said), "{said} lines:\n{log}");

    server.restart_empty().await;
    gateway.metric("rate_limit_store_up", &[("store", "redis")], 1.0).await;
    let (passed, refused) = exhaust(&gateway, &alice(), 10).await;
    assert_limited(&refused, "user");
    assert!(passed <= 2, "{passed}");
    // Who was not charged gives nothing back. The one that was on its way when the server went may have been charged.
    let lost = gateway.metrics().await.value("rate_limit_settlements_lost_total", &[]);
    assert!(lost <= Some(1.0), "{lost:?}");
}
