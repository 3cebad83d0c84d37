//! Several gateways, one limit.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use fairlane_redis_servers::Server;
use fairlane_tests::{Backend, Call, Client, Config, Gate, Gateway, Pending, Reply, wait};
use rustix::process::Signal;
use serde_json::json;
use tokio::{net::TcpListener, sync::Barrier, task::JoinSet, time::Instant};

use super::{PATIENT, people, shared, started};
use crate::support::{Told, alice, assert_limited, bob, exhaust};

/// Three gateways with the same configuration.
async fn three(config: &Config) -> Vec<Gateway> {
    let mut gateways = Vec::new();
    for _ in 0..3 {
        gateways.push(started(config).await);
    }
    gateways
}

/// Sends so many requests at the same instant, spread over gateways; how many passed. The others are refused by `limit`.
async fn burst(gateways: &[SocketAddr], requests: usize, call: Call, limit: &'static str) -> usize {
    let together = Arc::new(Barrier::new(requests));
    let mut answers = JoinSet::new();
    for request in 0..requests {
        let (address, call) = (gateways[request % gateways.len()], call.clone());
        let together = Arc::clone(&together);
        answers.spawn(async move {
            let mut wire = Client::new(address).connect(None).await;
            together.wait().await;
            wire.call(call).await
        });
    }
    let answers = answers.join_all().await;
    let (passed, refused): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer.status == 200);
    refused.into_iter().for_each(|answer| assert_limited(answer, limit));
    passed.len()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_burst_through_three_gateways_admits_exactly_the_capacity() {
    let (backend, server) = (Backend::start().await, Server::start().await);
    let config = people(&backend, &server.url(), PATIENT).limit("per_user: { requests_per_day: 40 }");
    let gateways = three(&config).await;
    let addresses: Vec<_> = gateways.iter().map(Gateway::listen).collect();
    assert_eq!(burst(&addresses, 150, alice(), "user").await, 40);
    // Bob has a bucket of his own.
    assert_eq!(burst(&addresses, 50, bob(), "user").await, 40);
    assert_eq!(backend.count(), 80);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_load_through_three_gateways_admits_exactly_the_capacity_and_the_refill() {
    const RATE: f64 = 20.0;
    const CAPACITY: usize = 10;
    let (backend, server) = (Backend::start().await, Server::start().await);
    let config = people(&backend, &server.url(), PATIENT)
        .limit("per_user: { requests_per_second: 20, burst_capacity: 10 }");
    let gateways = three(&config).await;
    let mut load = JoinSet::new();
    let (start, lasts) = (Instant::now(), Duration::from_secs(3));
    for gateway in &gateways {
        for _ in 0..4 {
            let client = gateway.client();
            load.spawn(async move {
                let (mut wire, mut passed) = (client.connect(None).await, 0);
                while start.elapsed() < lasts {
                    passed += usize::from(wire.call(alice()).await.status == 200);
                }
                passed
            });
        }
    }
    let passed: usize = load.join_all().await.into_iter().sum();
    let due = |time: Duration| time.as_secs_f64().mul_add(RATE, CAPACITY as f64);
    let most = due(start.elapsed());
    // The bucket is always asked for more than it holds: nothing stays in it either. What flows in before the first request
    // and after the last one is all that may be missing.
    let least = due(lasts - Duration::from_millis(200));
    assert!((least..=most).contains(&(passed as f64)), "{passed} of {least} to {most}");
    assert_eq!(backend.count(), passed);
}

#[tokio::test]
async fn what_one_gateway_takes_the_other_misses_at_once() {
    let (backend, server) = (Backend::start().await, Server::start().await);
    let config = people(&backend, &server.url(), PATIENT)
        .limit("per_user: { requests_per_day: 4 }")
        .limit("per_model: { requests_per_day: 1000 }");
    let (one, other) = (started(&config).await, started(&config).await);
    for left in (0..4).rev() {
        let gateway = if left % 2 == 0 { &one } else { &other };
        let answer = gateway.call(alice()).await;
        assert_eq!((answer.status, Told::of(&answer).remaining), (200, left), "{}", answer.printed());
    }
    for gateway in [&one, &other] {
        assert_limited(&gateway.call(alice()).await, "user");
    }
}

/// What is charged is charged before the backend is asked: an answer that takes long hides nothing.
#[tokio::test]
async fn streams_that_are_still_open_count() {
    let (backend, server) = (Backend::start().await, Server::start().await);
    let config = people(&backend, &server.url(), PATIENT).limit("per_user: { requests_per_day: 4 }");
    let gateways = [started(&config).await, started(&config).await];
    let (mut open, mut streams) = (Vec::new(), Vec::new());
    for at in 0..4 {
        let (chunks, reply) = Reply::stream();
        backend.next(reply);
        chunks.event("first");
        open.push(gateways[at % 2].open(Call::chat_stream("gpt-x").key("key-of-alice")).await);
        streams.push(chunks);
    }
    for gateway in &gateways {
        assert_limited(&gateway.call(alice()).await, "user");
    }
    streams.into_iter().for_each(fairlane_tests::Chunks::done);
    for opened in open {
        assert!(opened.answer().await.text().contains("first"));
    }
    assert_eq!(backend.count(), 4);
}

/// Gateways with a Redis each know nothing of each other: two regions are twice the limit.
#[tokio::test]
async fn two_servers_are_twice_the_limit() {
    let backend = Backend::start().await;
    for _ in 0..2 {
        let server = Server::start().await;
        let config = people(&backend, &server.url(), PATIENT).limit("per_user: { requests_per_day: 2 }");
        let gateway = started(&config).await;
        assert_eq!(exhaust(&gateway, &alice(), 10).await.0, 2);
    }
}

#[tokio::test]
async fn two_prefixes_are_two_fleets_and_another_hash_key_knows_nobody() {
    let (backend, server) = (Backend::start().await, Server::start().await);
    let config = |prefix: &str| {
        let entry = format!("key_prefix: {prefix}");
        crate::support::people(shared(Config::with(&backend), &server.url(), PATIENT, &entry))
            .limit("per_user: { requests_per_day: 2 }")
    };
    for prefix in ["one", "two"] {
        let gateway = started(&config(prefix)).await;
        assert_eq!(exhaust(&gateway, &alice(), 10).await.0, 2, "{prefix}");
    }
}

#[tokio::test]
async fn a_killed_gateway_with_requests_under_way_leaves_nothing_that_does_not_heal() {
    let (backend, server) = (Backend::start().await, Server::start().await);
    let config = people(&backend, &server.url(), PATIENT)
        .limit("per_user: { requests_per_second: 2, burst_capacity: 4 }")
        .fair_queuing("");
    let (mut killed, other) = (started(&config).await, started(&config).await);
    let never = Gate::new();
    for _ in 0..4 {
        backend.next(Reply::json(200, &json!({})).after(&never));
    }
    let running: Vec<_> = (0..4).map(|_| killed.begin(alice())).collect();
    backend.request(4).await;
    let held = killed.begin(alice());
    killed.held_or_served(1).await;
    killed.signal(Signal::KILL);
    assert_eq!(killed.exited().await, -1);
    running.into_iter().chain([held]).for_each(Pending::leave);

    // The bucket is a bucket: it refills, whoever took from it.
    let start = Instant::now();
    for _ in 0..3 {
        let answer = other.call(alice()).await;
        assert_eq!(answer.status, 200, "{}", answer.printed());
    }
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
    // And in the end nothing is left in Redis.
    wait::until("all buckets to expire", async || {
        let keys: Vec<String> = server.query(&["KEYS", "*"]).await;
        keys.iter().all(|key| key.contains(":probe:")).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_rolling_restart_loses_no_request_and_no_count() {
    let (backend, server) = (Backend::start().await, Server::start().await);
    let config = people(&backend, &server.url(), PATIENT).limit("per_user: { requests_per_day: 10 }");
    let mut gateway = started(&config).await;
    for generation in 0..3 {
        // One is under way when its gateway is asked to go.
        let gate = Gate::new();
        backend.next(Reply::json(200, &json!({})).after(&gate));
        let before = backend.count();
        let running = gateway.begin(alice());
        backend.request(before + 1).await;
        gateway.terminate();
        gateway.stderr().line("draining").await;
        let next = started(&config).await;
        let answer = next.call(alice()).await;
        assert_eq!(Told::of(&answer).remaining, 10 - 2 * (generation + 1), "{}", answer.printed());
        gate.open();
        assert_eq!(running.answer().await.status, 200);
        assert_eq!(gateway.exited().await, 0);
        gateway = next;
    }
    assert_eq!(exhaust(&gateway, &alice(), 10).await.0, 4);
}

#[tokio::test]
async fn what_is_given_back_last_arrives_before_the_gateway_is_gone() {
    let (backend, server) = (Backend::start().await, Server::start().await);
    let config = people(&backend, &server.url(), PATIENT).limit("per_user: { requests_per_day: 3 }");
    // It takes connections and never says a word of TLS: a request that waits for it has reached nobody.
    let mute = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", mute.local_addr().unwrap());
    let to_mute = Config::new().backend("mute", &url, "").server("drain_timeout: 300ms");
    let to_mute = crate::support::people(shared(to_mute, &server.url(), PATIENT, ""))
        .limit("per_user: { requests_per_day: 3 }");
    let mut gateway = started(&to_mute).await;
    let running = [gateway.begin(alice()), gateway.begin(alice())];
    let connections = [mute.accept().await.unwrap(), mute.accept().await.unwrap()];
    gateway.terminate();
    assert_eq!(gateway.exited().await, 0);
    running.into_iter().for_each(Pending::leave);
    drop(connections);
    assert_eq!(exhaust(&started(&config).await, &alice(), 10).await.0, 3);
}
