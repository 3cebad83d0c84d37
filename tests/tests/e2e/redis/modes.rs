//! Redis behind sentinels, and a cluster of it.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use fairlane_redis_servers::{Cluster, Sentinels, Server};
use fairlane_tests::{Backend, Config, Gateway, Pending, wait::until};
use tokio::task::JoinSet;

use super::{PATIENT, TIMEOUT, assert_out, shared, started};
use crate::support::{alice, assert_limited, bob, exhaust};

fn config(backend: &Backend, url: &str, mode: &str) -> Config {
    let mode = format!("mode: {mode}");
    crate::support::people(shared(Config::with(backend), url, TIMEOUT, &mode))
}

/// A day's requests: more than a test makes, so that nobody is refused for another reason than an outage.
const PLENTY: usize = 100_000;

#[tokio::test(flavor = "multi_thread")]
async fn another_master_is_found_by_itself_and_limits_go_on() {
    let (backend, sentinels) = (Backend::start().await, Sentinels::start().await);
    let config = config(&backend, &sentinels.url(), "sentinel")
        .limit("per_user: { requests_per_day: 5 }")
        .limit(&format!("global: {{ requests_per_day: {PLENTY} }}"));
    let gateway = Arc::new(started(&config).await);
    for _ in 0..3 {
        assert_eq!(gateway.call(alice()).await.status, 200);
    }
    sentinels.replicated().await;
    // Bob goes on asking; until the other master is there, he is told that the store is out, and nothing else.
    let (over, load) = (Arc::new(AtomicBool::new(false)), Arc::clone(&gateway));
    let asking = tokio::spawn({
        let over = Arc::clone(&over);
        async move {
            let mut wire = load.client().connect(None).await;
            while !over.load(Ordering::SeqCst) {
                let answer = wire.call(bob()).await;
                if !matches!(answer.status, 200 | 429) {
                    assert_out(&answer);
                }
            }
        }
    });
    sentinels.fail_over(Server::stop).await;
    super::ready(&gateway).await;
    over.store(true, Ordering::SeqCst);
    asking.await.unwrap();

    // What the old master had passed on is not forgotten: two are left of five.
    let (passed, refused) = exhaust(&gateway, &alice(), 10).await;
    assert_limited(&refused, "user");
    assert_eq!(passed, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_admits_exactly_the_capacity_and_refusals_take_nothing() {
    let (backend, cluster) = (Backend::start().await, Cluster::start().await);
    let mode = "mode: cluster";
    let config = crate::support::people(shared(Config::with(&backend), &cluster.url(), PATIENT, mode))
        .limit("per_user: { requests_per_day: 20 }")
        .limit("per_team: { requests_per_day: 30 }")
        .limit(&format!("global: {{ requests_per_day: {PLENTY} }}"));
    let (one, other) = (started(&config).await, started(&config).await);
    let both = |at: usize| if at.is_multiple_of(2) { &one } else { &other };
    // Alone, and so exact: a charge that is given back at another node for a moment refuses nobody.
    for at in 0..20 {
        let answer = both(at).call(alice()).await;
        assert_eq!(answer.status, 200, "{}", answer.printed());
    }
    for at in 0..10 {
        assert_limited(&both(at).call(alice()).await, "user");
    }
    for at in 0..10 {
        let answer = both(at).call(bob()).await;
        assert_eq!(
            answer.status,
            200,
            "what was refused has taken nothing of the team: {}",
            answer.printed()
        );
    }
    assert_limited(&one.call(bob()).await, "team");
    assert_eq!(backend.count(), 30);
}

#[tokio::test(flavor = "multi_thread")]
async fn at_the_same_instant_a_cluster_admits_no_more_than_the_capacity() {
    let (backend, cluster) = (Backend::start().await, Cluster::start().await);
    let config = config(&backend, &cluster.url(), "cluster")
        .limit("per_user: { requests_per_day: 20 }")
        .limit("per_team: { requests_per_day: 30 }");
    let gateways = [started(&config).await, started(&config).await];
    let asked: Vec<_> = (0..60)
        .flat_map(|at| {
            let gateway: &Gateway = &gateways[at % 2];
            [gateway.begin(alice()), gateway.begin(bob())]
        })
        .collect();
    let mut answers = JoinSet::new();
    asked.into_iter().map(Pending::answer).for_each(|answer| drop(answers.spawn(answer)));
    let mut passed = answers.join_all().await.iter().filter(|answer| answer.status == 200).count();
    assert_eq!(passed, backend.count());
    assert!(passed <= 30, "{passed}");
    // What others were refused by has been given back, or is about to be: in the end everything is taken, and no more.
    until("everything to be taken", async || {
        for call in [alice(), bob()] {
            passed += exhaust(&gateways[0], &call, 60).await.0;
        }
        (passed >= 30).then_some(())
    })
    .await;
    assert_eq!((passed, exhaust(&gateways[1], &bob(), 60).await.0), (30, 0));
}
