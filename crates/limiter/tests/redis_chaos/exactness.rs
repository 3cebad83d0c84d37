//! Several stores as several processes would have them: one limit.

use std::time::Duration;

use fairlane_limiter::{Charge, Quota, RedisStore};
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
