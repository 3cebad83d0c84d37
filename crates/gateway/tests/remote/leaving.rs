//! Callers that leave, at every moment: what they were granted goes back, exactly once.

use std::{pin::pin, sync::Arc, time::Duration};

use fairlane_fair_queue::Limits;
use fairlane_gateway::admission::{Outage, QueueSettings};
use fairlane_limiter::Quota;
use tokio::time::Instant;

use crate::{
    far::Fate,
    house::{House, INTERVAL, held_for, pending, settings, ten_per_second},
};

const SLOW: Duration = Duration::from_millis(20);

#[tokio::test(start_paused = true)]
async fn before_the_store_is_asked() {
    let house = House::new();
    drop(house.admit(1));
    house.limiter.settled().await;
    assert_eq!(house.store.calls(), [0, 0, 0], "what was never begun is not begun for nobody");
}

#[tokio::test(start_paused = true)]
async fn while_the_store_is_asked_for_the_first_time() {
    let house = House::new();
    house.store.takes(Fate::AnsweredAfter(SLOW));
    {
        let mut asked = pin!(house.admit(1));
        assert!(pending(asked.as_mut()).await);
        tokio::time::sleep(SLOW / 2).await;
        assert!(pending(asked.as_mut()).await);
        assert_eq!(house.left(), 1);
    }
    assert_eq!((house.left(), house.store.taken_back()), (2, 1), "the store has been told");
    house.limiter.settled().await;
    assert_eq!((house.left(), house.store.calls()), (2, [1, 0, 0]), "and not twice");
}

#[tokio::test(start_paused = true)]
async fn while_the_store_is_asked_and_refuses() {
    let house = House::new();
    house.exhaust().await;
    house.store.takes(Fate::After(SLOW));
    {
        let mut asked = pin!(house.admit(1));
        assert!(pending(asked.as_mut()).await);
    }
    house.limiter.settled().await;
    assert_eq!(house.store.calls(), [3, 0, 0], "nothing was taken, nothing is given back");
    assert_eq!(house.held(), 0);
}

#[tokio::test(start_paused = true)]
async fn in_a_lane() {
    let house = House::new();
    house.exhaust().await;
    let waiting = tokio::spawn(house.admit(1));
    house.until_held(1).await;
    waiting.abort();
    house.until_held(0).await;
    tokio::time::sleep(3 * INTERVAL).await;
    assert_eq!((house.left(), house.store.calls()), (2, [3, 0, 0]));
}

#[tokio::test(start_paused = true)]
async fn while_its_attempt_is_under_way() {
    let house = House::new();
    house.exhaust().await;
    let waiting = tokio::spawn(house.admit(1));
    house.until_held(1).await;
    house.store.takes(Fate::AnsweredAfter(SLOW));
    while house.store.calls()[0] == 3 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let in_flight = || house.admission.snapshot().unwrap().in_flight;
    assert_eq!((house.left(), in_flight()), (0, 1));
    waiting.abort();
    assert!(waiting.await.unwrap_err().is_cancelled());
    assert_eq!((house.held(), in_flight()), (0, 0), "its place is free at once");

    // What it was granted is there for the next.
    house.store.takes(Fate::After(Duration::ZERO));
    let start = Instant::now();
    let next = tokio::spawn(house.admit(2));
    next.await.unwrap().unwrap().keep_charges();
    assert!(start.elapsed() < INTERVAL, "{:?}: it did not wait for the next unit", start.elapsed());
    house.limiter.settled().await;
    assert_eq!((house.store.taken_back(), house.store.calls()[2]), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn while_the_queues_refusal_looks_at_the_bucket() {
    let house = House::with(Some(held_for(Duration::from_millis(50))), Outage::FailClosed, ten_per_second());
    house.exhaust().await;
    house.store.peeks(Fate::After(SLOW));
    {
        let mut asked = pin!(house.admit(1));
        while pending(asked.as_mut()).await && house.store.calls()[1] == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    house.limiter.settled().await;
    assert_eq!((house.held(), house.store.calls()[2]), (0, 0));
}

/// Requests of every fate, in a random order that the seed decides; the bucket never refills, so that what is missing in
/// the end is exactly what was kept.
async fn check_conservation(seed: u64) {
    let capacity = 40;
    let quota = Quota::new(capacity, 1, Duration::from_secs(86_400)).unwrap();
    let queue = QueueSettings { max_body_bytes: u64::MAX, limits: Limits::default(), ..settings() };
    let house = Arc::new(House::with(Some(queue), Outage::FailClosed, quota));
    let mut random = fastrand::Rng::with_seed(seed);
    let mut requests = tokio::task::JoinSet::new();
    let fates = [Fate::After, Fate::AnsweredAfter];
    for request in 0..120 {
        let (fate, settled) = (fates[random.usize(0..2)], fates[random.usize(0..2)]);
        let (begins, stays) = (random.u64(0..200), random.u64(0..40));
        let (answers, keeps, holds) = (random.u64(0..30), random.u8(0..4) == 0, random.u64(0..30));
        let house = Arc::clone(&house);
        requests.spawn(async move {
            tokio::time::sleep(Duration::from_millis(begins)).await;
            house.store.takes(fate(Duration::from_millis(answers)));
            house.store.settlements(settled(Duration::from_millis(answers)));
            let admitted = tokio::time::timeout(Duration::from_millis(stays), house.admit(request % 7)).await;
            let Ok(Ok(permit)) = admitted else { return 0 };
            if keeps {
                permit.keep_charges();
            } else {
                tokio::time::sleep(Duration::from_millis(holds)).await;
            }
            i64::from(keeps)
        });
    }
    let kept: i64 = requests.join_all().await.into_iter().sum();
    house.limiter.settled().await;
    let snapshot = house.admission.snapshot().unwrap();
    assert_eq!((snapshot.held, snapshot.in_flight), (0, 0), "seed {seed}");
    assert_eq!(house.left(), i64::try_from(capacity).unwrap() - kept, "seed {seed}");
}

#[tokio::test(start_paused = true)]
async fn whatever_becomes_of_requests_only_what_was_kept_is_missing() {
    for seed in 0..100 {
        check_conservation(seed).await;
    }
}
