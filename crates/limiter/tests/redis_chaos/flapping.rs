//! Connections that never last, and a timeout that is hardly one.

use std::{env, time::Duration};

use fairlane_limiter::{RedisStore, Store as _, redis::Mode};
use fairlane_redis_servers::{Server, wait::pass};
use tokio::{sync::watch, task::JoinSet, time::Instant};

use crate::{
    support::{breathe, bucket, fresh, recovered, serving, settings, take},
    trial::{Setup, settled},
};

/// For how long, in milliseconds. CI's default is short; a minute shows more.
const FLAPPING_MS: &str = "FAIRLANE_FLAPPING_MS";
const USUAL_FLAPPING_MS: u64 = 3_000;

/// Between two cuts.
const EVERY: Duration = Duration::from_millis(100);

const CALLERS: u64 = 8;

/// Room in a bucket that is not to run empty.
const ROOM: u64 = 100_000_000;

/// All connections are cut ten times a second, under load.
#[tokio::test]
async fn connections_that_are_cut_again_and_again() {
    let lasts = env::var(FLAPPING_MS).map_or(USUAL_FLAPPING_MS, |lasts| lasts.parse().unwrap());
    let lasts = Duration::from_millis(lasts);
    let Setup { server: _server, proxy, store } = Setup::new().await;
    let charge = bucket(fresh(), ROOM, 1);
    let (stop, stopped) = watch::channel(false);
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS {
        let (store, stopped) = (store.clone(), stopped.clone());
        callers.spawn(async move {
            let (mut granted, mut failed) = (0_u64, 0_u64);
            while !*stopped.borrow() {
                let taken = take(&store, charge).await;
                taken.assert_in_time("a connection that is cut");
                granted += u64::from(taken.is_granted());
                failed += u64::from(taken.result.is_err());
                breathe().await;
            }
            (granted, failed)
        });
    }
    let (begin, made) = (Instant::now(), proxy.connections_made());
    let mut most = 0;
    while begin.elapsed() < lasts {
        pass(EVERY).await;
        most = most.max(proxy.connections());
        proxy.cut();
    }
    let made = proxy.connections_made() - made;
    stop.send_replace(true);
    recovered(&store, "connections that are cut").await;
    let sums = callers.join_all().await;
    let granted: u64 = sums.iter().map(|(granted, _)| granted).sum();
    let failed: u64 = sums.iter().map(|(_, failed)| failed).sum();
    println!("{made} connections in {lasts:?}, at most {most} at once; {granted} grants, {failed} failures");
    assert!(granted > 0 && failed > 0, "neither cut nor served: {granted} and {failed}");
    // Ten cuts a second leave room for eleven connections.
    let bound = 11 * (begin.elapsed().as_secs() + 1);
    assert!(made <= bound, "{made} connections, more than {bound}");
    assert!(most <= 3, "{most} connections at once");
    settled(&store, charge, granted, None, "connections that are cut").await;
}

/// A millisecond is less than a busy machine needs: every call is answered all the same, and what comes too late is given
/// back.
#[tokio::test]
async fn a_timeout_of_a_millisecond() {
    let server = Server::start().await;
    let mut short = settings(&server.url(), Mode::Standalone);
    short.timeout = Duration::from_millis(1);
    let store = RedisStore::new(short).unwrap();
    let patient = RedisStore::new(settings(&server.url(), Mode::Standalone)).unwrap();
    serving(&patient).await;
    let charge = bucket(fresh(), ROOM, 1);
    let end = Instant::now() + Duration::from_secs(2);
    let mut callers = JoinSet::new();
    for _ in 0..32 {
        let store = store.clone();
        callers.spawn(async move {
            let (mut granted, mut failed) = (0_u64, 0_u64);
            while Instant::now() < end {
                match store.take(&[charge]).await {
                    Ok(decision) => granted += u64::from(decision.is_granted()),
                    Err(_) => failed += 1,
                }
                tokio::task::yield_now().await;
            }
            (granted, failed)
        });
    }
    // However fast the machine is, this is late.
    pass(Duration::from_millis(500)).await;
    server.pause();
    pass(Duration::from_millis(50)).await;
    server.resume();
    let sums = callers.join_all().await;
    let granted: u64 = sums.iter().map(|(granted, _)| granted).sum();
    let failed: u64 = sums.iter().map(|(_, failed)| failed).sum();
    let stats = store.stats();
    println!("{granted} grants, {failed} failures, {stats:?}");
    assert!(granted > 0 && failed > 0, "neither served nor late: {granted} and {failed}");
    settled(&patient, charge, granted, Some(stats.grants_lost), "a timeout of a millisecond").await;
}
