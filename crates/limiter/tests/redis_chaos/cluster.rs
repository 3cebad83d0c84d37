//! A cluster whose shards die, change places, and hand slots to each other.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use fairlane_limiter::{BucketKey, RedisStore, Settlement, Store as _, redis::Mode};
use fairlane_redis_servers::{Cluster, ClusterOptions, Server, wait::until};
use tokio::{sync::watch, task::JoinSet, time::Instant};

use crate::{
    load::Load,
    support::{MARGIN, RECOVERY, TIMEOUT, bucket, fresh, median, recovered, remaining, store, take},
};

const SHARDS: usize = 3;

/// For each of the three shards a key whose bucket lives there, with the name that it has in Redis.
async fn keys(cluster: &Cluster, store: &RedisStore) -> Vec<(BucketKey, String)> {
    let mut found: Vec<Option<(BucketKey, String)>> = vec![None; SHARDS];
    while found.iter().any(Option::is_none) {
        let mut before = Vec::new();
        for node in &cluster.nodes()[..SHARDS] {
            before.push(node.query::<Vec<String>>(&["KEYS", "*"]).await);
        }
        let key = fresh();
        assert!(take(store, bucket(key, 1_000_000, 1)).await.is_granted());
        for (shard, before) in before.iter().enumerate() {
            let mut after: Vec<String> = cluster.nodes()[shard].query(&["KEYS", "*"]).await;
            after.retain(|name| !before.contains(name) && !name.contains("probe"));
            if let Some(name) = after.pop() {
                found[shard] = Some((key, name));
            }
        }
    }
    found.into_iter().flatten().collect()
}

#[tokio::test]
async fn only_what_a_dead_shard_holds_is_refused() {
    let cluster = Cluster::start().await;
    let store = store(&cluster.url(), Mode::Cluster).await;
    let keys: Vec<_> = keys(&cluster, &store).await.into_iter().map(|(key, _)| key).collect();
    let on = |shard: usize| bucket(keys[shard], 1_000_000, 1);
    cluster.nodes()[1].stop();
    let mut times = Vec::new();
    let end = Instant::now() + TIMEOUT * 8;
    let (mut alive, mut failed) = (0, 0);
    while Instant::now() < end {
        let dead = take(&store, on(1)).await;
        dead.assert_refused("a dead shard");
        times.push(dead.took);
        for shard in [0, 2] {
            let taken = take(&store, on(shard)).await;
            taken.assert_in_time("a shard that lives");
            // A machine that stalls may make any call late.
            failed += usize::from(!taken.is_granted());
            alive += 1;
        }
    }
    assert!(alive > 100, "the shards that live made only {alive} decisions");
    assert!(failed * 100 <= alive, "{failed} of {alive} decisions of shards that live failed");
    let median = median(times);
    println!("a dead shard refuses in {median:?} (median)");
    assert!(median < Duration::from_millis(2), "{median:?}");
    assert!(!store.is_up(), "not every decision can be made");

    // A decision over both is none, and what it took on the living one is given back.
    let left = remaining(&store, on(0)).await;
    for _ in 0..10 {
        assert!(store.take(&[on(0), on(1)]).await.is_err());
    }
    until("the living shard's charges to be back", || async {
        (remaining(&store, on(0)).await == left).then_some(())
    })
    .await;

    cluster.nodes()[1].restart_empty().await;
    cluster.whole().await;
    let start = Instant::now();
    until("the dead shard to serve", || async { take(&store, on(1)).await.is_granted().then_some(()) }).await;
    println!("a dead shard that is back: served again after {:?}", start.elapsed());
    assert!(start.elapsed() < RECOVERY + MARGIN, "{:?}", start.elapsed());
}

#[tokio::test]
async fn replicas_take_over() {
    let cluster = Cluster::start_with(ClusterOptions::new().replicas().password("secret")).await;
    let url = cluster.url().replace("://", "://:secret@");
    for (what, master, break_master) in [
        ("the cluster and a killed master", 0, Server::stop as fn(&Server)),
        ("the cluster and a paused master", 1, Server::pause),
    ] {
        let store = store(&url, Mode::Cluster).await;
        let load = Load::start(&store);
        load.goes_on(100).await;
        let broke = Instant::now();
        let promoted = cluster.fail_over(master, break_master).await;
        until("every shard to serve", || async { store.is_up().then_some(()) }).await;
        let recovery = broke.elapsed();
        recovered(&store, what).await;
        load.goes_on(300).await;
        let old = &cluster.nodes()[master];
        if old.is_running() {
            // It still takes itself for the master, until the others have told it.
            old.resume();
            load.goes_on(300).await;
        } else {
            old.restart_empty().await;
        }
        cluster.whole().await;
        load.goes_on(300).await;
        let books = load.finish().await;
        let doubles = books.doubles(Some(broke));
        println!(
            "{what}: another master after {promoted:?}, every shard served after {recovery:?}; {} grants, {} errors, \
             {doubles} granted twice, slowest call {:?}",
            books.grants, books.errors, books.slowest
        );
        assert!(recovery < promoted + RECOVERY + MARGIN, "{what}: {recovery:?}");
    }
}

/// Slots move while callers take from the very bucket that moves: each grant is charged once.
#[tokio::test]
async fn slots_move_under_load() {
    const CALLERS: usize = 4;
    let cluster = Cluster::start().await;
    let store = store(&cluster.url(), Mode::Cluster).await;
    let (key, name) = keys(&cluster, &store).await.swap_remove(0);
    let hot = bucket(key, 1_000_000, 1);
    // Finding the key took one.
    let granted = Arc::new(AtomicU64::new(1));
    let (stop, stopped) = watch::channel(false);
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS {
        let (store, stopped, granted) = (store.clone(), stopped.clone(), Arc::clone(&granted));
        callers.spawn(async move {
            let mut errors = 0_u64;
            while !*stopped.borrow() {
                let taken = take(&store, hot).await;
                taken.assert_in_time("a slot on its way");
                match &taken.result {
                    Ok(decision) => {
                        assert!(decision.is_granted(), "{decision:?}");
                        granted.fetch_add(1, Ordering::SeqCst);
                    }
                    Err(_) => {
                        errors += 1;
                        crate::support::breathe().await;
                    }
                }
            }
            errors
        });
    }
    // Grants of the bucket that moves, and of others.
    let load = Load::start(&store);
    let goes_on = || async {
        let target = granted.load(Ordering::SeqCst) + 50;
        until("the bucket that moves", || async { (granted.load(Ordering::SeqCst) >= target).then_some(()) })
            .await;
        load.goes_on(30).await;
    };
    goes_on().await;
    let slot = cluster.slot(&name).await;
    for to in [1, 2, 0] {
        let moving = cluster.begin_move(slot, to).await;
        goes_on().await;
        while moving.step().await > 0 {}
        goes_on().await;
        moving.finish().await;
        goes_on().await;
        assert_eq!(cluster.owner(slot).await, to);
    }
    stop.send_replace(true);
    let mut errors = 0;
    while let Some(caller) = callers.join_next().await {
        errors += caller.unwrap();
    }
    let granted = granted.load(Ordering::SeqCst);
    let books = load.finish().await;
    books.doubles(None);
    println!("slots that move: {granted} grants, {errors} errors, longest gap {:?}", books.longest_gap());
    crate::trial::settled(&store, hot, granted, None, "a slot that moved").await;
    assert!(errors <= granted / 100, "{errors} errors beside {granted} grants");
}

/// One bucket is scarce: those that it refuses keep nothing of the others, in whatever shard.
#[tokio::test]
async fn what_one_shard_refuses_another_gives_back() {
    const CALLS: u64 = 200;
    const SCARCE: u64 = 30;
    let cluster = Cluster::start().await;
    let store = store(&cluster.url(), Mode::Cluster).await;
    let keys = keys(&cluster, &store).await;
    let plenty = [bucket(keys[0].0, 1_000_000, 1), bucket(keys[1].0, 1_000_000, 1)];
    let scarce = bucket(keys[2].0, 1_000_000, (1_000_000 - 1) / SCARCE);
    let mut calls = JoinSet::new();
    for _ in 0..CALLS {
        let store = store.clone();
        calls.spawn(async move { store.take(&[plenty[0], scarce, plenty[1]]).await.unwrap().is_granted() });
    }
    let mut granted = 0;
    while let Some(call) = calls.join_next().await {
        granted += u64::from(call.unwrap());
    }
    assert_eq!(granted, SCARCE);
    for charge in plenty {
        let left = 1_000_000 - 1 - i64::try_from(SCARCE).unwrap();
        until("what was taken in vain to be back", || async {
            (remaining(&store, charge).await == left).then_some(())
        })
        .await;
    }
}

/// While a slot is on its way nobody takes two keys of it, of which one is new: a settlement has to wait.
#[tokio::test]
async fn settlements_wait_for_a_slot_on_its_way() {
    let cluster = Cluster::start().await;
    let store = store(&cluster.url(), Mode::Cluster).await;
    let (key, name) = keys(&cluster, &store).await.swap_remove(0);
    let charge = bucket(key, 1_000_000, 1);
    let moving = cluster.begin_move(cluster.slot(&name).await, 1).await;
    let mut settling = JoinSet::new();
    for _ in 0..20 {
        let store = store.clone();
        settling.spawn(async move {
            let settlement = Settlement::new(charge.key, charge.quota, -5);
            store.settle(&[settlement]).await.is_ok()
        });
    }
    // Decisions, on one key each, go on all the while.
    for _ in 0..50 {
        assert!(take(&store, charge).await.is_granted());
    }
    while moving.step().await > 0 {}
    for _ in 0..50 {
        assert!(take(&store, charge).await.is_granted());
    }
    moving.finish().await;
    while let Some(settled) = settling.join_next().await {
        assert!(settled.unwrap(), "given up");
    }
    assert_eq!(remaining(&store, charge).await, 1_000_000 - 1 - 100 - 20 * 5);
}
