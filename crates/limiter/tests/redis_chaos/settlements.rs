//! Settlements outlive faults, and happen once.

use std::time::Duration;

use fairlane_limiter::{Charge, RedisStore, Settlement, Store as _, redis::Mode};
use fairlane_redis_servers::{Fault, Server, wait::until};
use tokio::{task::JoinSet, time::Instant};

use crate::{
    support::{MARGIN, bucket, fresh, remaining, serving, settings, take},
    trial::Setup,
};

/// Room in a bucket that is not to run empty.
const ROOM: u64 = 1_000_000;

fn settlement(charge: Charge, amount: i64) -> Settlement {
    Settlement::new(charge.key, charge.quota, amount)
}

/// The server settles, and the way back breaks: it is tried again, and does not happen again.
#[tokio::test]
async fn a_settlement_whose_answer_is_lost_happens_once() {
    let Setup { proxy, store, server: _server } = Setup::new().await;
    let sent = || proxy.received("EVALSHA") + proxy.received("EVAL");
    for (what, fault, cut) in [
        ("cut at once", Fault::cut_script_reply(0), false),
        ("cut in the middle", Fault::cut_script_reply(7), false),
        ("held", Fault::Hold, false),
        ("held, then cut", Fault::Hold, true),
        ("slow", Fault::Delay(Duration::from_millis(200)), false),
    ] {
        serving(&store).await;
        let charge = bucket(fresh(), ROOM, 1_000);
        assert!(take(&store, charge).await.is_granted(), "{what}");
        let before = sent();
        proxy.set(fault);
        let settling = tokio::spawn({
            let store = store.clone();
            async move { store.settle(&[settlement(charge, -7)]).await.is_ok() }
        });
        until("the settlement to be sent", || async { (sent() > before).then_some(()) }).await;
        if cut {
            proxy.cut();
        }
        proxy.pass();
        assert!(settling.await.unwrap(), "{what}: given up");
        assert_eq!(remaining(&store, charge).await, 1_000_000 - 1_000 - 7, "{what}");
    }
}

/// Settlements wait for the end of an outage that is shorter than they are tried for.
#[tokio::test]
async fn settlements_outlive_an_outage() {
    const SETTLEMENTS: u64 = 200;
    let Setup { server, store, proxy: _proxy } = Setup::new().await;
    let charge = bucket(fresh(), ROOM, 1_000);
    assert!(take(&store, charge).await.is_granted());
    server.pause();
    let mut settling = JoinSet::new();
    for _ in 0..SETTLEMENTS {
        let store = store.clone();
        settling.spawn(async move { store.settle(&[settlement(charge, -3)]).await.is_ok() });
    }
    until("the outage to be known", || async {
        take(&store, charge).await.assert_refused("a paused server");
        (!store.is_up()).then_some(())
    })
    .await;
    server.resume();
    while let Some(settled) = settling.join_next().await {
        assert!(settled.unwrap(), "given up");
    }
    let expected = 1_000_000 - 1_000 - 3 * i64::try_from(SETTLEMENTS).unwrap();
    // Calls that timed out may have been granted, and are given back.
    until("late grants to be given back", || async {
        (remaining(&store, charge).await == expected).then_some(())
    })
    .await;
}

/// One that cannot happen is given up when it was said to be, and says so.
#[tokio::test]
async fn a_settlement_is_given_up_in_time() {
    let server = Server::start().await;
    let mut settings = settings(&server.url(), Mode::Standalone);
    settings.settle_within = Duration::from_millis(400);
    let (within, store) = (settings.settle_within, RedisStore::new(settings).unwrap());
    serving(&store).await;
    let charge = bucket(fresh(), ROOM, 1_000);
    server.stop();
    let start = Instant::now();
    assert!(store.settle(&[settlement(charge, -7)]).await.is_err());
    assert!(start.elapsed() <= within + MARGIN, "{:?}", start.elapsed());
}
