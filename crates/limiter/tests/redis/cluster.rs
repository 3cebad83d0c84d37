//! A cluster: buckets of one decision in several slots.

use std::collections::HashMap;
use std::time::Duration;

use fairlane_limiter::conformance::{self, Harness};
use fairlane_limiter::redis::{Mode, RedisStore};
use fairlane_limiter::{Charge, Clock, ManualClock, Settlement, Store, StoreError, Timestamp};
use fairlane_redis_servers::{Cluster, ClusterOptions, Server, ServerOptions, wait};
use tokio::time::Instant;

use crate::support::{charge, clock, key, left, settings, slow, up};

struct OnCluster {
    cluster: Cluster,
    clock: ManualClock,
}

impl Harness for OnCluster {
    type Store = RedisStore;

    async fn empty_store(&self) -> RedisStore {
        let settings = settings(&self.cluster.url(), Mode::Cluster);
        RedisStore::with_clock(settings, self.clock.clone()).unwrap()
    }

    async fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    async fn step_back(&self, by: Duration) -> bool {
        let micros = self.clock.now().as_micros() - u64::try_from(by.as_micros()).unwrap();
        self.clock.set(Timestamp::from_micros(micros));
        true
    }
}

#[tokio::test]
async fn calls_one_after_the_other_agree_with_the_model() {
    // The rest of the suite is about calls at the same time, of which a cluster may refuse some for a moment.
    let harness = OnCluster { cluster: Cluster::start().await, clock: clock() };
    conformance::run_random(&harness, 1_000).await;
}

async fn store(cluster: &Cluster) -> RedisStore {
    let store = RedisStore::new(settings(&cluster.url(), Mode::Cluster)).unwrap();
    up(&store, true).await;
    store
}

/// Digests of buckets that are on the server in this place, and of some that are not.
async fn placed(cluster: &Cluster, prefix: &str, on: usize) -> (Vec<u128>, Vec<u128>) {
    let (mut here, mut elsewhere) = (Vec::new(), Vec::new());
    for digest in 0..60 {
        let slot = cluster.slot(&format!("{prefix}:v1:0:{digest:032x}")).await;
        if cluster.owner(slot).await == on { here.push(digest) } else { elsewhere.push(digest) }
    }
    (here, elsewhere)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_charges_or_none() {
    let cluster = Cluster::start().await;
    let store = store(&cluster).await;
    assert_eq!(store.health().borrow().nodes.len(), 3);
    // Each of ten has room five times; all of them share three buckets with room for everybody.
    let charges = |one: u128| {
        let shared = [1_000, 1_001, 1_002].map(|digest| charge(digest, slow(1_000), 1));
        [vec![charge(one, slow(5), 1)], shared.to_vec()].concat()
    };
    let mut calls = tokio::task::JoinSet::new();
    for nth in 0..200 {
        let store = store.clone();
        calls.spawn(async move { store.take(&charges(nth % 10)).await.unwrap().is_granted() });
    }
    let granted = calls.join_all().await.into_iter().filter(|granted| *granted).count();
    assert_eq!(granted, 50);
    for shared in [1_000, 1_001, 1_002] {
        assert_eq!(left(&store, shared, slow(1_000)).await, 950);
    }
    for server in cluster.nodes() {
        let keys: Vec<String> = server.query(&["KEYS", "*:v1:*"]).await;
        assert!(keys.len() > 1, "buckets are on all servers");
        for key in keys {
            let life: i64 = server.query(&["PTTL", &key]).await;
            assert!(life > 0 || life == -2, "{key} lives for ever");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slots_move_without_a_call_lost_or_charged_twice() {
    let cluster = Cluster::start().await;
    let settings = settings(&cluster.url(), Mode::Cluster);
    let prefix = settings.key_prefix.clone();
    let store = RedisStore::new(settings).unwrap();
    up(&store, true).await;
    let slot = cluster.slot(&format!("{prefix}:v1:0:{:032x}", 7)).await;
    let (from, quota) = (cluster.owner(slot).await, slow(1_000_000));
    let charges = [charge(7, quota, 1), charge(8, quota, 1)];
    let calling = tokio::spawn({
        let store = store.clone();
        async move {
            let mut granted = 0;
            while granted < 400 {
                assert!(store.take(&charges).await.unwrap().is_granted());
                granted += 1;
                tokio::task::yield_now().await;
            }
            granted
        }
    });
    for step in 1..=4 {
        cluster.move_slot(slot, (from + step) % 3).await;
    }
    let granted: i64 = calling.await.unwrap();
    for digest in [7, 8] {
        assert_eq!(left(&store, digest, quota).await, 1_000_000 - granted);
    }
    // Half-way: some keys are here and some are there.
    let to = (cluster.owner(slot).await + 1) % 3;
    let moving = cluster.begin_move(slot, to).await;
    assert!(store.take(&charges).await.unwrap().is_granted(), "a key that has not moved");
    while moving.step().await > 0 {}
    assert!(store.take(&charges).await.unwrap().is_granted(), "a key that has moved, by asking");
    // A settlement has two keys, of which the cluster finds one only: it has to wait.
    let settling = tokio::spawn({
        let store = store.clone();
        async move { store.settle(&[Settlement::new(key(0, 7), quota, 1)]).await }
    });
    wait::pass(Duration::from_millis(100)).await;
    moving.finish().await;
    settling.await.unwrap().unwrap();
    assert_eq!(left(&store, 7, quota).await, 1_000_000 - granted - 1);
}

/// A cluster of one, which never needed to know its own address.
#[tokio::test]
async fn one_server_may_be_a_cluster() {
    let options = ServerOptions::new().line("cluster-enabled yes").line("cluster-require-full-coverage no");
    let server = Server::start_with(options).await;
    let store = RedisStore::new(settings(&server.url(), Mode::Cluster)).unwrap();
    store.take(&[charge(1, slow(10), 1)]).await.expect_err("nobody has a slot");
    assert!(!store.is_up());
    server.command(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]).await;
    up(&store, true).await;
    assert!(store.take(&[charge(1, slow(10), 1), charge(2, slow(10), 1)]).await.unwrap().is_granted());
    store.settle(&[Settlement::new(key(0, 1), slow(10), 1)]).await.unwrap();
    assert_eq!((left(&store, 1, slow(10)).await, left(&store, 2, slow(10)).await), (10, 9));
    assert_eq!(store.health().borrow().nodes[0].address, server.addr().to_string());
}

/// Somebody has begun to move a slot, and gone home.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_needs_two_keys_of_a_slot_that_stays_half_way_is_given_up_in_time() {
    let cluster = Cluster::start().await;
    let mut settings = settings(&cluster.url(), Mode::Cluster);
    // So long that no call to a busy machine takes it, which would count against the server.
    settings.timeout = Duration::from_millis(500);
    settings.settle_within = Duration::from_secs(1);
    let prefix = settings.key_prefix.clone();
    let store = RedisStore::new(settings).unwrap();
    up(&store, true).await;
    let mut slots = HashMap::new();
    let mut digests = 0..10_000;
    let (slot, one, other) = loop {
        let digest = digests.next().expect("two keys in a slot");
        let slot = cluster.slot(&format!("{prefix}:v1:0:{digest:032x}")).await;
        if let Some(other) = slots.insert(slot, digest) {
            break (slot, digest, other);
        }
    };
    let quota = slow(100);
    let both = [charge(one, quota, 1), charge(other, quota, 1)];
    assert!(store.take(&both[..1]).await.unwrap().is_granted());
    let moving = cluster.begin_move(slot, (cluster.owner(slot).await + 1) % 3).await;
    // A bucket that is new is made where the slot goes to, so that now there is one on either side.
    for charges in [&both[..1], &both[1..]] {
        assert!(store.take(charges).await.unwrap().is_granted(), "one key is found wherever it is");
    }
    let begin = Instant::now();
    let error = store.take(&both).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable(_) | StoreError::Timeout), "{error:?}");
    assert!(begin.elapsed() < Duration::from_secs(1), "{:?}", begin.elapsed());
    let begin = Instant::now();
    store.settle(&[Settlement::new(key(0, one), quota, 1)]).await.unwrap_err();
    assert!(begin.elapsed() < Duration::from_millis(1_500), "{:?}", begin.elapsed());
    assert!(store.is_up(), "nothing is wrong with the servers");

    while moving.step().await > 0 {}
    moving.finish().await;
    for (digest, expected) in [(one, 98), (other, 99)] {
        assert_eq!(left(&store, digest, quota).await, expected, "only what was granted is charged");
    }
    assert!(store.take(&both).await.unwrap().is_granted());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_decisions_on_a_dead_server_are_refused() {
    let cluster = Cluster::start().await;
    let mut settings = settings(&cluster.url(), Mode::Cluster);
    settings.timeout = Duration::from_millis(200);
    let prefix = settings.key_prefix.clone();
    let store = RedisStore::new(settings).unwrap();
    up(&store, true).await;
    let (dead, alive) = placed(&cluster, &prefix, 1).await;
    cluster.nodes()[1].pause();
    let one = |digest| [charge(digest, slow(100), 1)];
    for _ in 0..3 {
        store.take(&one(dead[0])).await.unwrap_err();
    }
    assert!(!store.is_up());
    let down = store.health().borrow().nodes.iter().filter(|node| !node.up).count();
    assert_eq!(down, 1);
    for digest in &alive {
        assert!(store.take(&one(*digest)).await.unwrap().is_granted());
    }
    let both = [charge(alive[0], slow(100), 1), charge(dead[0], slow(100), 1)];
    assert!(store.is_up_for(&one(alive[0])) && store.is_up_for(&[]));
    assert!(!store.is_up_for(&one(dead[0])) && !store.is_up_for(&both));
    let scripts = || async {
        let mut scripts = 0;
        for node in [0, 2] {
            scripts += cluster.nodes()[node].calls("evalsha").await;
        }
        scripts
    };
    let before = scripts().await;
    for _ in 0..20 {
        let begin = Instant::now();
        let error = store.take(&both).await.unwrap_err();
        assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
        assert!(begin.elapsed() < Duration::from_millis(400));
        store.peek(&both).await.unwrap_err();
    }
    assert_eq!(scripts().await, before, "nothing is taken for a moment from those that live");
    assert_eq!(left(&store, alive[0], slow(100)).await, 99);
    cluster.nodes()[1].resume();
    let back = Instant::now();
    up(&store, true).await;
    assert!(back.elapsed() < Duration::from_secs(1), "{:?}", back.elapsed());
    assert!(store.take(&both).await.unwrap().is_granted());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_dead_server_does_not_settle_leaves_what_others_have() {
    let cluster = Cluster::start().await;
    let mut settings = settings(&cluster.url(), Mode::Cluster);
    settings.timeout = Duration::from_millis(200);
    settings.settle_within = Duration::from_millis(400);
    let prefix = settings.key_prefix.clone();
    let store = RedisStore::new(settings).unwrap();
    up(&store, true).await;
    let (dead, alive) = placed(&cluster, &prefix, 1).await;
    let charges = [alive[0], dead[0], alive[1]].map(|digest| charge(digest, slow(100), 5));
    assert!(store.take(&charges).await.unwrap().is_granted());
    cluster.nodes()[1].stop();
    let settlements = charges.map(|charge| Settlement::new(charge.key, charge.quota, 3));
    let settled = store.settle_each(&settlements).await;
    assert!(matches!(settled.error(), Some(StoreError::Unavailable(_))), "{settled:?}");
    assert_eq!([0, 1, 2, 3].map(|at| settled.has_happened(at)), [true, false, true, false]);
    let balances: Vec<_> = settled.happened().iter().map(|balance| balance.remaining).collect();
    assert_eq!(balances, [98, 98]);
    for digest in [alive[0], alive[1]] {
        assert_eq!(left(&store, digest, slow(100)).await, 98);
    }
    store.settle(&settlements).await.unwrap_err();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_is_followed() {
    let cluster = Cluster::start_with(ClusterOptions::new().replicas().password("p")).await;
    let mut settings = settings(&cluster.url().replace("//", "//:p@"), Mode::Cluster);
    settings.timeout = Duration::from_millis(200);
    let prefix = settings.key_prefix.clone();
    let store = RedisStore::new(settings).unwrap();
    up(&store, true).await;
    let (moved, _) = placed(&cluster, &prefix, 0).await;
    assert!(store.take(&[charge(moved[0], slow(10), 3)]).await.unwrap().is_granted());
    cluster.fail_over(0, Server::stop).await;
    let begin = Instant::now();
    up(&store, true).await;
    assert!(begin.elapsed() < Duration::from_secs(1), "{:?}", begin.elapsed());
    assert!(store.take(&[charge(moved[0], slow(10), 1)]).await.unwrap().is_granted());
    assert!(left(&store, moved[0], slow(10)).await >= 6);
}

#[tokio::test]
async fn a_cluster_that_is_not_there_is_unavailable() {
    let store = RedisStore::new(settings("redis://127.0.0.1:1,127.0.0.1:2", Mode::Cluster)).unwrap();
    let error = store.take(&[Charge::new(key(0, 1), slow(1), 1)]).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
    assert!(matches!(store.inspect().await.unwrap_err(), StoreError::Unavailable(_)));
}

#[tokio::test]
async fn every_server_says_what_it_is() {
    let cluster = Cluster::start().await;
    let store = store(&cluster).await;
    let found = store.inspect().await.unwrap();
    assert_eq!(found.nodes.len(), 3);
    assert!(
        found.nodes.iter().all(|node| node.runs_scripts() && node.role.as_deref() == Some("master")),
        "{found:?}"
    );
}
