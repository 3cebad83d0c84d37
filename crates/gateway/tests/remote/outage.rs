//! A store that is out: 503 and never 429, nobody is held, nothing passes unless it is asked for.

use std::{pin::pin, time::Duration};

use fairlane_fair_queue::{ClassLimits, Limits};
use fairlane_gateway::{
    admission::{Outage, QueueSettings},
    answer::Dialect,
};
use http_body_util::BodyExt as _;
use tokio::time::Instant;

use crate::{
    far::Fate,
    house::{House, INTERVAL, assert_out, bucket, held_for, pending, settings, ten_per_second},
};

const TIMEOUT: Duration = Duration::from_millis(50);

#[tokio::test(start_paused = true)]
async fn the_answer_is_503_in_either_shape_with_a_second_to_wait() {
    let house = House::new();
    house.store.outage(true);
    let refused = house.admit(1).await.unwrap_err();
    for (dialect, kind) in [(Dialect::OpenAi, "server_error"), (Dialect::Anthropic, "overloaded_error")] {
        let response = refused.answer(dialect);
        assert_eq!(
            (response.status().as_u16(), &response.headers()["retry-after"]),
            (503, &"1".parse().unwrap())
        );
        let Ok(body) = response.into_body().collect().await else { panic!("it is whole") };
        let body: serde_json::Value = serde_json::from_slice(&body.to_bytes()).unwrap();
        assert_eq!(body["error"]["code"], "rate_limit_store_unavailable");
        assert_eq!(body["error"]["type"], kind);
    }
    assert_eq!((house.held(), house.store.calls()), (0, [1, 0, 0]));
    assert_eq!(house.metric(r#"rate_limit_store_errors_total{store="far",kind="unavailable"}"#), 1.0);
    assert_eq!(house.metric(r#"rate_limit_store_up{store="far"}"#), 0.0);
    assert!(house.limiter.refuses().is_some_and(|why| why.contains("far")));
    house.store.outage(false);
    house.admit(1).await.unwrap();
    assert_eq!(house.metric(r#"rate_limit_store_up{store="far"}"#), 1.0);
    assert_eq!(house.limiter.refuses(), None);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_times_out_is_refused_when_it_does() {
    let house = House::new();
    house.store.takes(Fate::TimesOut(TIMEOUT));
    let start = Instant::now();
    assert_out(&house.admit(1).await.unwrap_err());
    assert!(start.elapsed() < TIMEOUT + Duration::from_millis(5), "{:?}", start.elapsed());
    assert_eq!(house.metric(r#"rate_limit_store_errors_total{store="far",kind="timeout"}"#), 1.0);
    assert_eq!(house.store.calls(), [1, 0, 0], "never asked again, never given back: the store sees to that");
}

#[tokio::test(start_paused = true)]
async fn who_is_held_when_it_begins_is_told_when_its_turn_comes() {
    let house = House::new();
    house.exhaust().await;
    let waiting = [1, 2, 1].map(|tenant| tokio::spawn(house.admit(tenant)));
    house.until_held(3).await;
    let start = Instant::now();
    house.store.outage(true);
    for waiting in waiting {
        assert_out(&waiting.await.unwrap().unwrap_err());
    }
    // The first at its turn; a failed attempt leaves its turn to the next.
    assert!(start.elapsed() < INTERVAL + Duration::from_millis(5), "{:?}", start.elapsed());
    assert_eq!(house.held(), 0);
    let snapshot = house.admission.snapshot().unwrap();
    assert_eq!(snapshot.in_flight, 0);
}

#[tokio::test(start_paused = true)]
async fn nobody_joins_those_who_wait() {
    let house = House::new();
    house.exhaust().await;
    let mut waiting = pin!(house.admit(1));
    while house.held() == 0 {
        assert!(pending(waiting.as_mut()).await);
        tokio::task::yield_now().await;
    }
    house.store.outage(true);
    assert_out(&house.admit(2).await.unwrap_err());
    assert_eq!(house.held(), 1);
    house.store.outage(false);
    waiting.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_shard_that_is_out_lets_nobody_pass_those_who_wait_on_another() {
    let house = House::new();
    let dead = bucket("of another shard", ten_per_second());
    house.store.shard_out(&dead);
    house.exhaust().await;
    let waiting = tokio::spawn(house.admit(1));
    house.until_held(1).await;
    let [takes, ..] = house.store.calls();
    let newcomer = tokio::spawn(house.admit(2));
    house.until_held(2).await;
    assert_eq!(house.store.calls(), [takes, 0, 0], "it joins those who wait, and asks nobody");

    // Whoever needs both shards is told of the outage, whoever waits on the one that lives.
    let mut both = house.ask(3);
    both.charges.extend(&dead);
    assert_out(&house.admission.admit(both).await.unwrap_err());
    assert_eq!((house.held(), house.store.calls()), (2, [takes + 1, 0, 0]));
    for waiting in [waiting, newcomer] {
        waiting.await.unwrap().unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_runs_out_in_it_ends_with_503_too() {
    let house = House::with(Some(held_for(Duration::from_millis(250))), Outage::FailClosed, ten_per_second());
    house.exhaust().await;
    // Tenant 2 takes half of what comes, so that the second of tenant 1 does not make it.
    let first = tokio::spawn(house.admit(1));
    house.until_held(1).await;
    let [other, second] = [2, 1].map(|tenant| tokio::spawn(house.admit(tenant)));
    first.await.unwrap().unwrap().keep_charges();
    other.await.unwrap().unwrap().keep_charges();
    // Its turn would come after its time.
    house.store.peeks(Fate::Fails);
    assert_out(&second.await.unwrap().unwrap_err());
}

#[tokio::test(start_paused = true)]
async fn what_the_queue_refuses_in_it_is_told_503_too() {
    let limits = Limits {
        requests: Some(ClassLimits {
            max_held_per_tenant: std::num::NonZeroUsize::MIN,
            ..ClassLimits::default()
        }),
        ..Limits::default()
    };
    let house =
        House::with(Some(QueueSettings { limits, ..settings() }), Outage::FailClosed, ten_per_second());
    house.exhaust().await;
    let waiting = tokio::spawn(house.admit(1));
    house.until_held(1).await;
    // The store has just gone and nobody has noticed yet: it joins, and finds its lane full.
    house.store.peeks(Fate::Fails);
    assert_out(&house.admit(1).await.unwrap_err());
    waiting.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn let_through_is_counted_charged_nothing_and_given_back_nothing() {
    let house = House::with(Some(settings()), Outage::FailOpen, ten_per_second());
    house.exhaust().await;
    let waiting = [1, 2].map(|tenant| tokio::spawn(house.admit(tenant)));
    house.until_held(2).await;
    house.store.outage(true);
    let asked = house.store.calls();
    assert_eq!(house.limiter.refuses(), None, "it is ready to serve");
    for _ in 0..5 {
        drop(house.admit(3).await.unwrap());
    }
    for waiting in waiting {
        drop(waiting.await.unwrap().unwrap());
    }
    assert_eq!((house.held(), house.admission.snapshot().unwrap().in_flight), (0, 0));
    house.limiter.settled().await;
    assert_eq!(house.metric("rate_limit_fail_open_total"), 7.0);
    let [takes, peeks, settlements] = house.store.calls();
    assert_eq!([takes, peeks, settlements], [asked[0] + 7, asked[1], asked[2]]);
    assert_eq!(house.metric("rate_limit_settlements_lost_total"), 0.0);
}
