//! What an outage costs whoever has to live with it.

use std::{env, fs, process::Command, time::Duration};

use fairlane_redis_servers::{Fault, wait::until};
use tokio::{sync::watch, task::JoinSet, time::Instant};

use crate::{
    support::{self, MARGIN, TIMEOUT, bucket, fresh, median, recovered, take},
    trial::Setup,
};

/// Once an outage is known, a refusal costs next to nothing.
#[tokio::test]
async fn an_open_breaker_refuses_at_once() {
    let Setup { server, store, proxy: _proxy } = Setup::new().await;
    server.pause();
    let charge = bucket(fresh(), 10, 1);
    until("the outage to be known", || async {
        take(&store, charge).await.assert_refused("a paused server");
        (!store.is_up()).then_some(())
    })
    .await;
    let mut times = Vec::new();
    for _ in 0..1_000 {
        let taken = take(&store, charge).await;
        taken.assert_refused("an open breaker");
        times.push(taken.took);
    }
    let median = median(times);
    println!("an open breaker refuses in {median:?} (median)");
    assert!(median < Duration::from_millis(1), "{median:?}");
    server.resume();
    recovered(&store, "a paused server").await;
}

/// An outage is probed now and then, and by one connection at a time, however many call.
#[tokio::test]
async fn an_outage_is_probed_seldom() {
    let Setup { proxy, store, server: _server } = Setup::new().await;
    for (what, fault) in [
        ("a black hole", Fault::BlackHole),
        ("read-only", Fault::script_error("READONLY You can't write against a read only replica.")),
        ("garbage", Fault::garbage()),
    ] {
        proxy.set(fault);
        until("the outage to be known", || async {
            take(&store, bucket(fresh(), 10, 1)).await.assert_in_time(what);
            (!store.is_up()).then_some(())
        })
        .await;
        let (made, received) = (proxy.connections_made(), proxy.received_in_all());
        let span = Duration::from_secs(1);
        let end = Instant::now() + span;
        while Instant::now() < end {
            take(&store, bucket(fresh(), 10, 1)).await.assert_refused(what);
            support::breathe().await;
        }
        let (made, received) = (proxy.connections_made() - made, proxy.received_in_all() - received);
        println!("{what}: {made} connections and {received} commands in {span:?}");
        assert!(made <= 20, "{what}: {made} connections in {span:?}");
        assert!(received <= 200, "{what}: {received} commands in {span:?}");
        assert!(proxy.connections() <= 20, "{what}: {} connections at once", proxy.connections());
        proxy.pass();
        recovered(&store, what).await;
    }
}

/// Set in the process that has the flood for itself: what other tests keep in memory would be measured, too.
const ALONE: &str = "FAIRLANE_FLOOD_ALONE";

/// Ten thousand callers at once on a server that does not answer: all are refused in time, and nothing piles up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_on_a_paused_server_piles_nothing_up() {
    const CALLERS: usize = 10_000;
    const WAVES: usize = 10;
    if env::var_os(ALONE).is_none() {
        let mut alone = Command::new(env::current_exe().unwrap());
        alone.args(["--exact", "bounds::a_flood_on_a_paused_server_piles_nothing_up", "--nocapture"]);
        let output = alone.env(ALONE, "1").output().unwrap();
        let printed = String::from_utf8_lossy(&output.stdout);
        println!("{printed}");
        assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
        assert!(printed.contains("1 passed"), "it did not run");
        return;
    }
    let Setup { server, proxy, store } = Setup::new().await;
    server.pause();
    let start = Instant::now();
    let mut before = 0;
    let begin = watch::Sender::new(());
    for wave in 0..WAVES {
        let mut calls = JoinSet::new();
        for _ in 0..CALLERS {
            let store = store.clone();
            let mut begun = begin.subscribe();
            calls.spawn(async move {
                // All are there before the first calls, so that each wave takes the same memory by itself.
                begun.changed().await.unwrap();
                take(&store, bucket(fresh(), 10, 1)).await
            });
        }
        begin.send_replace(());
        while let Some(call) = calls.join_next().await {
            let taken = call.unwrap();
            assert!(taken.result.is_err(), "wave {wave}: {taken:?}");
            // Ten thousand tasks on two threads take their time themselves.
            assert!(taken.took < TIMEOUT + 4 * MARGIN, "wave {wave}: {:?}", taken.took);
        }
        if wave == 1 {
            before = memory();
        }
    }
    println!("{} calls refused in {:?}", WAVES * CALLERS, start.elapsed());
    let grown = memory().saturating_sub(before);
    println!("memory grew by {} KiB", grown / 1024);
    assert!(grown < 16 << 20, "memory grew by {grown} bytes");
    assert!(proxy.connections() <= 20, "{} connections", proxy.connections());
    server.resume();
    recovered(&store, "a flood on a paused server").await;
}

/// What this process has in memory, in bytes.
fn memory() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024
}
