//! Several stores as several processes would have them: one limit.

use std::time::Duration;

use fairlane_limiter::{Charge, Quota, RedisStore, Settlement, Store as _};
use fairlane_redis_servers::Server;
use tokio::{task::JoinSet, time::Instant};

use crate::support::{bucket, fresh, remaining, standalone, take};

const STORES: usize = 4;

async fn stores(server: &Server) -> Vec<RedisStore> {
    let mut stores = Vec::new();
    for _ in 0..STORES {
        stores.push(standalone(&server.url()).await);
    }
    stores
}

/// The server's own clock, in microseconds.
async fn now(server: &Server) -> i64 {
    let (seconds, micros): (i64, i64) = server.query(&["TIME"]).await;
    seconds * 1_000_000 + micros
}

/// All at the same instant, more than there is room for.
#[tokio::test]
async fn a_burst_through_several_stores_admits_exactly_the_capacity() {
    const CAPACITY: u64 = 333;
    let server = Server::start().await;
    let stores = stores(&server).await;
    let charge = bucket(fresh(), CAPACITY, 1);
    let evaluated = server.calls("evalsha").await + server.calls("eval").await;
    let mut calls = JoinSet::new();
    for number in 0..2 * CAPACITY {
        let store = stores[usize::try_from(number).unwrap() % STORES].clone();
        calls.spawn(async move { take(&store, charge).await });
    }
    let mut granted = 0;
    while let Some(call) = calls.join_next().await {
        let decision = call.unwrap().result.unwrap();
        granted += u64::from(decision.is_granted());
        assert!(decision.is_granted() || decision.denied().is_some());
    }
    assert_eq!(granted, CAPACITY);
    assert_eq!(remaining(&stores[0], charge).await, 0);
    // The look above is the one that is more.
    let evaluated = server.calls("evalsha").await + server.calls("eval").await - evaluated;
    assert_eq!(evaluated, 2 * CAPACITY + 1, "one round trip for each decision");
}

/// Under constant demand nothing that flows in is lost, and nothing else is handed out.
#[tokio::test]
async fn constant_demand_admits_exactly_capacity_and_refill() {
    const CAPACITY: i64 = 50;
    const PER_SECOND: i64 = 400;
    let server = Server::start().await;
    let stores = stores(&server).await;
    let quota = Quota::per_second(PER_SECOND.unsigned_abs()).unwrap();
    let charge = Charge::new(fresh(), quota.with_capacity(CAPACITY.unsigned_abs()).unwrap(), 1);
    let begin = now(&server).await;
    assert!(take(&stores[0], charge).await.is_granted());
    let begun = now(&server).await;
    let end = Instant::now() + Duration::from_millis(1_500);
    let mut callers = JoinSet::new();
    for store in stores.iter().cycle().take(2 * STORES) {
        let store = store.clone();
        callers.spawn(async move {
            let mut granted = 0;
            while Instant::now() < end {
                granted += i64::from(take(&store, charge).await.is_granted());
            }
            granted
        });
    }
    let mut granted = 1;
    while let Some(caller) = callers.join_next().await {
        granted += caller.unwrap();
    }
    let ended = now(&server).await;
    let left = remaining(&stores[0], charge).await;
    let over = now(&server).await;
    // Content and grants are what it began with and what has flowed in, of which we know the time to some microseconds.
    let flowed = |micros: i64| micros * PER_SECOND / 1_000_000;
    let least = CAPACITY + flowed(ended - begun) - 1;
    let most = CAPACITY + flowed(over - begin);
    let sum = granted + left;
    assert!((least..=most).contains(&sum), "{granted} granted and {left} left, of {least} to {most}");
    println!("{granted} granted and {left} left, of {least} to {most}");
}

/// Reservations of all sizes at the same instant: their sum is never more than there is room for.
#[tokio::test]
async fn reservations_of_all_sizes_at_once_never_exceed_the_capacity() {
    const CAPACITY: u64 = 10_000;
    let server = Server::start().await;
    let stores = stores(&server).await;
    let key = fresh();
    let mut calls = JoinSet::new();
    for number in 0..400 {
        let store = stores[usize::try_from(number).unwrap() % STORES].clone();
        let charge = bucket(key, CAPACITY, 1 + number * number % 499);
        calls.spawn(async move { if take(&store, charge).await.is_granted() { charge.cost } else { 0 } });
    }
    let granted: u64 = calls.join_all().await.into_iter().sum();
    let left = remaining(&stores[0], bucket(key, CAPACITY, 1)).await;
    assert!(granted <= CAPACITY && granted > CAPACITY - 499, "{granted} granted of {CAPACITY}");
    assert_eq!(left.unsigned_abs(), CAPACITY - granted);
}

/// Takers and settlements of several stores, all at once on one bucket: nothing is lost and nothing comes from nowhere.
#[tokio::test]
async fn settlements_that_race_with_takers_lose_nothing() {
    const CAPACITY: u64 = 100_000;
    const ROUNDS: i64 = 100;
    let server = Server::start().await;
    let stores = stores(&server).await;
    let charge = bucket(fresh(), CAPACITY, 3);
    let mut calls = JoinSet::new();
    for (nth, store) in (0_i64..).zip(stores.iter().cycle().take(4 * STORES)) {
        let store = store.clone();
        calls.spawn(async move {
            let mut sum = 0;
            for round in 0..ROUNDS {
                if nth % 2 == 0 {
                    sum -= 3 * i64::from(take(&store, charge).await.result.unwrap().is_granted());
                } else {
                    // Half of them give back, and half of them take more. Never so much that the bucket is full.
                    let amount = if (nth / 2 + round) % 2 == 0 { 2 } else { -5 };
                    store.settle(&[Settlement::new(charge.key, charge.quota, amount)]).await.unwrap();
                    sum += amount;
                }
            }
            sum
        });
    }
    // Room for all that is given back, whoever comes first.
    let room = bucket(charge.key, CAPACITY, 10_000);
    assert!(take(&stores[0], room).await.is_granted());
    let sum: i64 = calls.join_all().await.into_iter().sum();
    let expected = i64::try_from(CAPACITY).unwrap() - 10_000 + sum;
    assert_eq!(remaining(&stores[0], charge).await, expected);
}

/// Two gateways with different limits for one bucket, as while a new configuration is rolled out.
#[tokio::test]
async fn two_quotas_at_once_admit_no_more_than_the_larger() {
    const SMALL: u64 = 120;
    const LARGE: u64 = 200;
    let server = Server::start().await;
    let stores = stores(&server).await;
    for _ in 0..5 {
        let key = fresh();
        let mut calls = JoinSet::new();
        for (nth, store) in stores.iter().cycle().take(2 * usize::try_from(LARGE).unwrap()).enumerate() {
            let (store, charge) = (store.clone(), bucket(key, if nth % 2 == 0 { SMALL } else { LARGE }, 1));
            calls.spawn(async move { take(&store, charge).await.result.unwrap().is_granted() });
        }
        let granted = calls.join_all().await.into_iter().filter(|granted| *granted).count();
        let granted = u64::try_from(granted).unwrap();
        assert!((SMALL..=LARGE).contains(&granted), "{granted} granted of {SMALL} or {LARGE}");
        assert_eq!(remaining(&stores[0], bucket(key, LARGE, 1)).await, 0, "both are refused in the end");
    }
}
