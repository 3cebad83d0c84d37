//! What is written to the server, and for how long.

use std::time::Duration;

use fairlane_limiter::redis::Mode;
use fairlane_limiter::{Charge, Quota, Settlement, Store};
use fairlane_redis_servers::Server;

use crate::support::{charge, key, left, settings, slow, store, store_with};

async fn keys(server: &Server) -> Vec<String> {
    let mut keys: Vec<String> = server.query(&["KEYS", "*"]).await;
    // What the store writes to see that it can.
    keys.retain(|key| !key.contains(":probe:"));
    keys.sort();
    keys
}

async fn life(server: &Server, key: &str) -> i64 {
    server.query(&["PTTL", key]).await
}

#[tokio::test]
async fn names_are_versioned_and_hold_no_more_than_a_digest() {
    let server = Server::start().await;
    let mut settings = settings(&server.url(), Mode::Standalone);
    settings.key_prefix = "shop".to_owned();
    let store = store_with(settings).await;
    let charges = [Charge::new(key(0, 0xada), slow(9), 1), Charge::new(key(12, u128::MAX), slow(9), 1)];
    assert!(store.take(&charges).await.unwrap().is_granted());
    let expected =
        ["shop:v1:0:00000000000000000000000000000ada", "shop:v1:12:ffffffffffffffffffffffffffffffff"];
    assert_eq!(keys(&server).await, expected);
}

#[tokio::test]
async fn a_key_expires_when_its_bucket_is_full() {
    let server = Server::start().await;
    let store = store(&server).await;
    // 1.5 s for what is taken; 10.0 s after a debt; nearly for ever.
    let half = Quota::per_second(2).unwrap();
    let slowest = Quota::per_day(1).unwrap().with_capacity(Quota::MAX_CAPACITY).unwrap();
    assert!(
        store.take(&[Charge::new(key(0, 1), half.with_capacity(5).unwrap(), 3)]).await.unwrap().is_granted()
    );
    store.settle(&[Settlement::new(key(0, 2), half.with_capacity(5).unwrap(), -20)]).await.unwrap();
    store.settle(&[Settlement::new(key(0, 3), slowest, i64::MIN)]).await.unwrap();
    for key in keys(&server).await {
        let life = life(&server, &key).await;
        let expected = match key.as_bytes().last() {
            _ if key.contains(":settled:") => 1..=20_000,
            Some(b'1') => 1_000..=1_501,
            Some(b'2') => 9_500..=10_001,
            _ => (1 << 42)..=4_503_599_627_370,
        };
        assert!(expected.contains(&life), "{key} lives {life} ms");
    }
    assert_eq!(keys(&server).await.len(), 5, "three buckets and two marks");
}

#[tokio::test]
async fn a_bucket_lives_until_it_is_full_and_not_a_microsecond_less() {
    let server = Server::start().await;
    let store = store(&server).await;
    // One unit in 100 ms. Whoever waits as long as told finds exactly that unit, each time, though the key is on the
    // verge of expiring.
    let quota = Quota::per_second(10).unwrap().with_capacity(2).unwrap();
    assert!(store.take(&[charge(1, quota, 2)]).await.unwrap().is_granted());
    let begin = tokio::time::Instant::now();
    let mut granted = 2;
    while begin.elapsed() < Duration::from_millis(1_500) {
        match store.take(&[charge(1, quota, 2)]).await.unwrap() {
            fairlane_limiter::Decision::Denied(denied) => tokio::time::sleep(denied.retry_after()).await,
            decision => granted += if decision.is_granted() { 2 } else { 0 },
        }
    }
    let flowed = begin.elapsed().as_millis() / 100;
    assert!((10..=2 + flowed).contains(&granted), "{granted} granted of 2 and {flowed}");
}

#[tokio::test]
async fn a_refusal_and_a_look_write_nothing_but_a_changed_quota() {
    let server = Server::start().await;
    let store = store(&server).await;
    assert!(store.take(&[charge(1, slow(5), 4)]).await.unwrap().is_granted());
    let names = keys(&server).await;
    let value = || async { server.query::<Vec<u8>>(&["GET", &names[0]]).await };
    let before = value().await;
    assert!(store.take(&[charge(1, slow(5), 2), charge(2, slow(5), 1)]).await.unwrap().denied().is_some());
    assert!(store.peek(&[charge(1, slow(5), 1), charge(2, slow(5), 1)]).await.unwrap().is_granted());
    assert_eq!(
        (keys(&server).await, value().await),
        (names.clone(), before.clone()),
        "after a refusal and a look"
    );
    assert!(store.take(&[charge(1, slow(6), 2)]).await.unwrap().denied().is_some());
    assert_ne!(value().await, before, "a refusal under another quota");
    assert_eq!(left(&store, 1, slow(6)).await, 1);
}

#[tokio::test]
async fn a_bucket_that_is_made_full_is_forgotten() {
    let server = Server::start().await;
    let store = store(&server).await;
    assert!(store.take(&[charge(1, slow(5), 5)]).await.unwrap().is_granted());
    assert_eq!(keys(&server).await.len(), 1);
    store.settle(&[Settlement::new(key(0, 1), slow(5), 5)]).await.unwrap();
    let rest = keys(&server).await;
    assert!(rest.iter().all(|key| key.contains(":settled:")), "{rest:?}");
}

#[tokio::test]
async fn the_time_is_the_servers() {
    let server = Server::start().await;
    let store = store(&server).await;
    let before: (u64, u64) = server.query(&["TIME"]).await;
    let quota = Quota::per_second(1).unwrap();
    assert!(store.take(&[charge(1, quota, 1)]).await.unwrap().is_granted());
    let after: (u64, u64) = server.query(&["TIME"]).await;
    let value: Vec<u8> = server.query(&["GET", &keys(&server).await[0]]).await;
    let numbers: Vec<_> =
        value.chunks(8).map(|bytes| f64::from_le_bytes(bytes.try_into().unwrap())).collect();
    let micros = |(seconds, micros): (u64, u64)| (seconds * 1_000_000 + micros) as f64;
    assert_eq!((numbers[0], numbers[1], numbers[3], numbers[4]), (0.0, 0.0, 1.0, 86_400.0), "{numbers:?}");
    assert!((micros(before)..=micros(after)).contains(&numbers[2]), "{numbers:?}");
}
