//! Giving back: off everybody's path, bounded, and what is lost is counted.

use std::time::Duration;

use fairlane_gateway::admission::Outage;
use fairlane_limiter::Quota;
use tokio::time::Instant;

use crate::{
    far::Fate,
    house::{House, bucket, held_for, ten_per_second},
};

const LOST: &str = "rate_limit_settlements_lost_total";

#[tokio::test(start_paused = true)]
async fn what_the_store_does_not_take_is_counted_and_not_repeated() {
    let house = House::new();
    for (fate, lost) in [(Fate::Fails, 1.0), (Fate::TimesOut(Duration::from_millis(50)), 2.0)] {
        house.store.settlements(fate);
        drop(house.admit(1).await.unwrap());
        house.limiter.settled().await;
        assert_eq!(house.metric(LOST), lost, "{fate:?}");
    }
    assert_eq!(house.store.calls(), [2, 0, 2]);
}

/// A request takes of two buckets and never reaches a backend; one of them is on a shard that is out by then.
#[tokio::test(start_paused = true)]
async fn what_a_shard_does_not_take_leaves_what_another_did() {
    let quota = Quota::new(3, 1, Duration::from_secs(60)).unwrap();
    let house = House::with(Some(held_for(Duration::from_secs(100))), Outage::FailClosed, quota);
    let dead = bucket("of another shard", quota);
    let mut both = house.ask(1);
    both.charges.extend(&dead);
    let permit = house.admission.admit(both).await.unwrap();
    for _ in 1..3 {
        house.admit(9).await.unwrap().keep_charges();
    }
    let waiting = tokio::spawn(house.admit(2));
    house.until_held(1).await;
    house.store.shard_out(&dead);
    let start = Instant::now();
    drop(permit);
    // Who waits for the other bucket hears of what came back to it.
    waiting.await.unwrap().unwrap().keep_charges();
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    house.limiter.settled().await;
    assert_eq!((house.metric(LOST), house.left(), house.store.left(&dead)), (1.0, 0, 2));
}

#[tokio::test(start_paused = true)]
async fn what_the_store_itself_could_not_take_back_is_counted_once() {
    let house = House::new();
    assert_eq!(house.metric(LOST), 0.0);
    house.store.loses(3);
    assert_eq!(house.metric(LOST), 3.0);
    house.store.loses(1);
    assert_eq!((house.metric(LOST), house.metric(LOST)), (4.0, 4.0));
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_it_but_who_asks_to() {
    let house = House::new();
    let slow = Duration::from_millis(500);
    house.store.settlements(Fate::After(slow));
    let permit = house.admit(1).await.unwrap();
    let start = Instant::now();
    drop(permit);
    assert_eq!(start.elapsed(), Duration::ZERO);
    house.limiter.settled().await;
    assert!(start.elapsed() >= slow, "{:?}", start.elapsed());
    assert_eq!(house.left(), 2);
    // It can be asked again, and everything goes on.
    drop(house.admit(1).await.unwrap());
    house.limiter.settled().await;
    assert_eq!((house.left(), house.store.calls()), (2, [2, 0, 2]));
}

#[tokio::test(start_paused = true)]
async fn it_is_bounded_in_what_waits_and_in_what_is_under_way() {
    let quota = Quota::new(1_000_000, 1, Duration::from_secs(86_400)).unwrap();
    let house = House::with(None, Outage::FailClosed, quota);
    let mut permits = Vec::new();
    for _ in 0..10_000 {
        permits.push(house.admit(1).await.unwrap());
    }
    house.store.settlements(Fate::After(Duration::from_secs(1)));
    drop(permits);
    // The task has not had its turn yet: only what fits the queue is kept.
    let lost = house.metric(LOST);
    assert_eq!(lost, 10_000.0 - 8_192.0);
    house.limiter.settled().await;
    assert_eq!(house.store.most_under_way()[2], 256);
    assert_eq!((house.store.calls()[2], house.metric(LOST)), (8_192, lost));
    assert_eq!(house.left(), 1_000_000 - 1_808);
}

#[tokio::test(start_paused = true)]
async fn what_is_left_when_the_gateway_goes_is_settled_all_the_same() {
    let house = House::with(None, Outage::FailClosed, ten_per_second());
    let store = house.store.clone();
    let permit = house.admit(1).await.unwrap();
    let charges = house.charges.clone();
    drop(house);
    drop(permit);
    while store.calls()[2] == 0 {
        tokio::task::yield_now().await;
    }
    tokio::task::yield_now().await;
    assert_eq!(store.left(&charges), 2);
}
