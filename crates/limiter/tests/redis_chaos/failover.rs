//! Sentinels make another server the master.

use std::time::Duration;

use fairlane_limiter::{RedisStore, redis::Mode};
use fairlane_redis_servers::{Sentinels, SentinelsOptions, Server, wait::pass};
use tokio::time::Instant;

use crate::{
    load::Load,
    support::{MARGIN, RECOVERY, recovered, settings, store},
};

async fn trial(what: &str, sentinels: Sentinels, url: &str, break_master: impl FnOnce(&Server)) {
    let store = store(url, Mode::Sentinel).await;
    let load = Load::start(&store);
    load.goes_on(100).await;
    let old = sentinels.master().await;
    let broke = Instant::now();
    let promoted = sentinels.fail_over(break_master).await;
    recovered(&store, what).await;
    load.goes_on(200).await;
    if old.is_running() {
        // It still takes itself for the master, and takes writes, until the Sentinels have told it.
        old.resume();
        let calls = old.calls("evalsha").await;
        load.goes_on(200).await;
        let calls = old.calls("evalsha").await - calls;
        assert!(calls < 20, "{what}: {calls} decisions asked of a master that is none any more");
        old.synced().await;
        load.goes_on(100).await;
    }
    let books = load.finish().await;
    let (gap, doubles) = (books.longest_gap(), books.doubles(Some(broke)));
    println!(
        "{what}: another master after {promoted:?}, no answer for {gap:?}; {} grants, {} errors, {doubles} granted \
         twice, slowest call {:?}",
        books.grants, books.errors, books.slowest
    );
    assert!(gap < promoted + RECOVERY + MARGIN, "{what}: {gap:?} without an answer");
}

#[tokio::test]
async fn a_killed_master() {
    let sentinels = Sentinels::start().await;
    let url = sentinels.url();
    trial("Sentinels and a killed master", sentinels, &url, Server::stop).await;
}

/// With a password, and two replicas to choose from.
#[tokio::test]
async fn a_paused_master() {
    let options =
        SentinelsOptions::new().replicas(2).password("secret").down_after(Duration::from_millis(400));
    let sentinels = Sentinels::start_with(options).await;
    let url = sentinels.url().replace("://", "://:secret@");
    trial("Sentinels and a paused master", sentinels, &url, Server::pause).await;
}

/// A store that is made while there is no master.
#[tokio::test]
async fn a_store_that_begins_in_a_failover() {
    let sentinels = Sentinels::start().await;
    let mut born = None;
    let promoted = sentinels
        .fail_over(|master| {
            master.stop();
            born = RedisStore::new(settings(&sentinels.url(), Mode::Sentinel)).ok();
        })
        .await;
    let store = born.unwrap();
    println!("another master after {promoted:?}");
    recovered(&store, "a store that was made meanwhile").await;
    let address = sentinels.master().await.addr().to_string();
    assert_eq!(store.health().borrow().nodes[0].address, address);
}

/// Sentinels may hang, as long as one is there to ask.
#[tokio::test]
async fn sentinels_that_hang() {
    let sentinels = Sentinels::start().await;
    for sentinel in &sentinels.sentinels()[..2] {
        sentinel.pause();
    }
    let start = Instant::now();
    let store = store(&sentinels.url(), Mode::Sentinel).await;
    println!("one Sentinel of three: first served after {:?}", start.elapsed());
    assert!(start.elapsed() < RECOVERY + MARGIN, "{:?}", start.elapsed());
    sentinels.servers()[0].command(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).await;
    recovered(&store, "one Sentinel of three").await;
}

/// A master that serves goes on without Sentinels: they are asked where it is, not whether it may serve.
#[tokio::test]
async fn sentinels_that_are_gone() {
    let sentinels = Sentinels::start().await;
    let store = store(&sentinels.url(), Mode::Sentinel).await;
    let load = Load::start(&store);
    load.goes_on(50).await;
    for break_sentinel in [Server::pause as fn(&Server), Server::stop] {
        sentinels.sentinels().iter().for_each(break_sentinel);
        pass(Duration::from_secs(2)).await;
        load.goes_on(50).await;
    }
    let books = load.finish().await;
    assert_eq!(books.errors, 0, "the master was there all the while");
    books.doubles(None);
}
