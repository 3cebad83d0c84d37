//! The server that Sentinels name.

use std::time::Duration;

use fairlane_limiter::redis::{Mode, RedisStore};
use fairlane_limiter::{Store, StoreError};
use fairlane_redis_servers::{Sentinels, SentinelsOptions, Server};
use tokio::time::Instant;

use crate::support::{charge, left, settings, slow, up};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_is_followed() {
    let sentinels = Sentinels::start().await;
    let mut settings = settings(&sentinels.url(), Mode::Sentinel);
    settings.timeout = Duration::from_millis(200);
    let store = RedisStore::new(settings).unwrap();
    assert!(store.take(&[charge(1, slow(10), 4)]).await.unwrap().is_granted());
    let first = store.health().borrow().nodes[0].address.clone();
    assert_eq!(first, sentinels.master().await.addr().to_string());
    sentinels.fail_over(Server::stop).await;
    let named = Instant::now();
    up(&store, true).await;
    assert!(named.elapsed() < Duration::from_secs(1), "{:?}", named.elapsed());
    let second = store.health().borrow().nodes[0].address.clone();
    assert_eq!(second, sentinels.master().await.addr().to_string());
    assert_ne!(first, second);
    assert!(store.take(&[charge(1, slow(10), 1)]).await.unwrap().is_granted());
    assert!(left(&store, 1, slow(10)).await >= 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sentinel_that_hangs_holds_nobody_up() {
    let sentinels = Sentinels::start_with(SentinelsOptions::new().password("p")).await;
    sentinels.sentinels()[0].pause();
    let url = sentinels.url().replace("//", "//:p@");
    let store = RedisStore::new(settings(&url, Mode::Sentinel)).unwrap();
    assert!(store.take(&[charge(1, slow(10), 1)]).await.unwrap().is_granted());
    sentinels.sentinels()[1].stop();
    let store = RedisStore::new(settings(&url, Mode::Sentinel)).unwrap();
    assert!(store.take(&[charge(1, slow(10), 1)]).await.unwrap().is_granted(), "one Sentinel is left");
}

#[tokio::test]
async fn a_group_that_nobody_knows_is_an_error() {
    let sentinels = Sentinels::start().await;
    let (url, _) = sentinels
        .url()
        .rsplit_once('/')
        .map(|(url, name)| (format!("{url}/nobody"), name.to_owned()))
        .unwrap();
    let store = RedisStore::new(settings(&url, Mode::Sentinel)).unwrap();
    let error = store.take(&[charge(1, slow(10), 1)]).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable(Some(_))), "{error:?}");
}
