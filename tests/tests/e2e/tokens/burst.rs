//! Many at once on one budget never take more than it has, in memory and in Redis.

use std::sync::Arc;

use fairlane_redis_servers::Server;
use fairlane_tests::{Backend, Client, Config, Gate, Gateway, Reply, wait::until};
use tokio::{sync::Barrier, task::JoinSet};

use super::{api::Api, ask, budget, left, redis, settled};
use crate::support::{assert_retry, people};

/// Ten requests of 150 tokens fit, and 60 tokens are left over.
const HOLDS: i64 = 10 * 150 + 60;
const REQUESTS: usize = 60;

/// Sends all at the same instant, and lets the backend answer only when all have been decided on.
async fn check(gateways: &[Gateway], backend: &Backend) {
    let gate = Gate::new();
    let answer = |gate: Gate| move |_: &_| Reply::json(200, &Api::Chat.answer(1, true)).after(&gate);
    backend.always(answer(gate.clone()));
    let together = Arc::new(Barrier::new(REQUESTS));
    let mut asked = JoinSet::new();
    for request in 0..REQUESTS {
        let client = Client::new(gateways[request % gateways.len()].listen());
        let together = Arc::clone(&together);
        asked.spawn(async move {
            let mut wire = client.connect(None).await;
            together.wait().await;
            wire.call(ask(Api::Chat, false)).await
        });
    }
    let mut refused = 0;
    while refused < REQUESTS - 10 {
        let answer = asked.join_next().await.expect("some are refused").expect("an answer");
        assert_eq!((answer.status, answer.limit_type().as_str()), (429, "team"), "{}", answer.printed());
        assert_eq!(answer.error()["type"], "tokens");
        assert!(assert_retry(&answer) > 1_000, "a day brings one token");
        refused += 1;
    }
    until("ten requests to reach the backend", async || (backend.count() == 10).then_some(())).await;
    gate.open();
    for answer in asked.join_all().await {
        assert_eq!(answer.status, 200, "{}", answer.printed());
    }
    for gateway in gateways {
        settled(gateway).await;
    }
    assert_eq!(left(&gateways[0], backend).await, HOLDS - 10 * Api::Chat.used());
    // What came back is there for others.
    assert_eq!(gateways[0].call(ask(Api::Chat, false)).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn in_memory() {
    let backend = Backend::start().await;
    let gateway = Gateway::start(&people(Config::with(&backend)).limit(&budget("team", HOLDS))).await;
    check(&[gateway], &backend).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_redis_through_two_gateways() {
    let (backend, server) = (Backend::start().await, Server::start().await);
    let mut gateways = Vec::new();
    for _ in 0..2 {
        let config = people(Config::with(&backend)).limit(&budget("team", HOLDS));
        gateways.push(redis::started(config, &server).await);
    }
    check(&gateways, &backend).await;
}
