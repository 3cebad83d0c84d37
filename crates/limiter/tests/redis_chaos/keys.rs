//! What is in the server afterwards.

use fairlane_limiter::{BucketKey, Charge, Dimension, Quota, Settlement, Store as _, redis::Mode};
use fairlane_redis_servers::Server;

use crate::support::{serving, settings};

/// Every way through the scripts: grants, denials, settlements up and down into debt, looks, changed quotas.
#[tokio::test]
async fn every_key_expires_and_names_no_identity() {
    let server = Server::start().await;
    let mut settings = settings(&server.url(), Mode::Standalone);
    "trial".clone_into(&mut settings.key_prefix);
    let store = fairlane_limiter::RedisStore::new(settings).unwrap();
    serving(&store).await;
    let quotas = [
        Quota::per_day(1).unwrap().with_capacity(Quota::MAX_CAPACITY).unwrap(),
        Quota::per_hour(10).unwrap(),
        Quota::per_second(100_000).unwrap().with_capacity(7).unwrap(),
    ];
    for number in 0..200_u64 {
        let key = |offset: u64| {
            BucketKey::new(Dimension::new(u8::try_from(number % 5).unwrap()), u128::from(number + offset))
        };
        let quota = quotas[usize::try_from(number % 3).unwrap()];
        let cost = 1 + number % 11;
        let charges = [Charge::new(key(0), quota, cost), Charge::new(key(1_000), quota, cost)];
        assert!(store.take(&charges).await.is_ok());
        assert!(store.peek(&charges[..1]).await.is_ok());
        let amount = i64::try_from(number).unwrap() - 100;
        store
            .settle(&[Settlement::new(key(0), quota, amount), Settlement::new(key(2_000), quota, -1)])
            .await
            .unwrap();
    }
    let keys: Vec<String> = server.query(&["KEYS", "*"]).await;
    assert!(keys.len() > 100, "{}", keys.len());
    for key in &keys {
        assert!(key.starts_with("trial:"), "{key}: the prefix");
        assert!(key.is_ascii() && key.len() <= 128, "{key}");
        let version = key.split(':').nth(1).unwrap();
        assert!(version.starts_with('v') || version.parse::<u32>().is_ok(), "{key}: a version");
        let left: i64 = server.query(&["PTTL", key]).await;
        // Gone meanwhile, or on its way out.
        assert!(left > 0 || left == -2, "{key} stays for ever");
    }
}

/// A key lives as long as its bucket is not full, to the millisecond.
#[tokio::test]
async fn a_key_expires_when_its_bucket_is_full() {
    let server = Server::start().await;
    let store = fairlane_limiter::RedisStore::new(settings(&server.url(), Mode::Standalone)).unwrap();
    serving(&store).await;
    let before: Vec<String> = server.query(&["KEYS", "*"]).await;
    let quota = Quota::per_hour(3_600).unwrap();
    let key = BucketKey::new(Dimension::new(1), 77);
    let decision = store.take(&[Charge::new(key, quota, 100)]).await.unwrap();
    let until_full = decision.granted().unwrap().balances().get(0).unwrap().until_full;
    assert_eq!(until_full.as_secs(), 100);
    let mut keys: Vec<String> = server.query(&["KEYS", "*"]).await;
    keys.retain(|key| !before.contains(key) && !key.contains("probe"));
    let [key] = keys.as_slice() else { panic!("one bucket, one key: {keys:?}") };
    let left: u64 = server.query(&["PTTL", key]).await;
    assert!((95_000..=100_001).contains(&left), "{left} ms");
}
