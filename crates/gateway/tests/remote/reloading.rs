//! Limits that change while answers of the store are on their way.

use std::{collections::HashMap, num::NonZeroU32, sync::Arc, time::Duration};

use fairlane_fair_queue::{Limits, Reason};
use fairlane_gateway::{
    admission::{Admission, Outage, QueueSettings},
    dimension::Dimension,
    limits::{Charges, Period, PeriodQuota, QuotaTable},
    telemetry::Telemetry,
};
use fairlane_identity::Hasher;
use fairlane_limiter::Quota;
use tokio::time::{Instant, advance, sleep};

use crate::{
    far::Fate,
    house::{House, held_for, settings},
};

const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);
const SLOW: Duration = Duration::from_millis(20);
/// By the fast quota nobody waits for so long, and by the slow one everybody does.
const SOON: Duration = Duration::from_secs(1);

fn slow() -> Quota {
    Quota::new(2, 1, HOUR).unwrap()
}

fn fast() -> Quota {
    Quota::per_second(1_000).unwrap()
}

/// Whoever is refused may wait for long. One attempt is out at a time, so that no other one brings a later word.
fn patient() -> QueueSettings {
    let QueueSettings { limits, .. } = held_for(10 * DAY);
    QueueSettings {
        smallest_total: 10 * DAY,
        max_body_bytes: 10_000,
        limits: Limits { max_in_flight: NonZeroU32::MIN, ..limits },
        ..settings()
    }
}

/// The model has one request an hour.
fn house() -> House {
    let settings = patient();
    House::with(Some(settings), Outage::FailClosed, slow())
}

/// Another limit for the model, or none; those who are held are told.
async fn change(house: &House, limit: Option<PeriodQuota>) -> (Arc<Admission>, bool) {
    change_with(house, limit, Some(patient())).await
}

async fn change_with(
    house: &House,
    limit: Option<PeriodQuota>,
    queue: Option<QueueSettings>,
) -> (Arc<Admission>, bool) {
    let model = Hasher::new(b"test").unwrap().model("model");
    let mut table = QuotaTable::default();
    table.know(model);
    table.set(Charges::of_identity(Dimension::Model, model, limit.as_slice()).as_slice());
    let generation = house.limiter.generation().next();
    let successor = Arc::new(house.admission.successor(queue, generation));
    house.limiter.adopt(table, generation);
    let telemetry = Arc::new(Telemetry::new("user", Reason::ALL.map(Reason::as_str), []));
    successor.take_over(&HashMap::new(), telemetry);
    let told = successor.observe().await;
    (successor, told)
}

async fn raise(house: &House) -> bool {
    change(house, Some(PeriodQuota::new(Period::Second, fast()))).await.1
}

#[tokio::test(start_paused = true)]
async fn a_refusal_by_an_earlier_limit_holds_nobody_by_that_limit() {
    for limit in [Some(PeriodQuota::new(Period::Second, fast())), None] {
        let house = house();
        house.exhaust().await;
        house.store.takes(Fate::AnsweredAfter(SLOW));
        let late = tokio::spawn(house.admit(1));
        sleep(SLOW / 2).await;
        // It has been refused, and does not know it yet.
        change(&house, limit).await;
        let start = Instant::now();
        late.await.unwrap().unwrap().keep_charges();
        assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
        assert_eq!(house.held(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_is_refused_by_an_earlier_limit() {
    for limit in [Some(PeriodQuota::new(Period::Second, fast())), None] {
        let house = House::with(None, Outage::FailClosed, slow());
        house.exhaust().await;
        house.store.takes(Fate::AnsweredAfter(SLOW));
        let late = tokio::spawn(house.admit(1));
        sleep(SLOW / 2).await;
        change_with(&house, limit, None).await;
        match late.await.unwrap() {
            Ok(permit) => permit.keep_charges(),
            Err(refused) => {
                let wait = refused.fault.retry_after().unwrap();
                assert!(limit.is_some() && wait < SOON, "{wait:?}");
            }
        }
    }
}

/// More than are served at once.
const MANY: usize = 20;

/// Has many wait until the slow bucket has one again, and stops when the answer to the first is on its way.
async fn many_held(house: &House, rob: bool) -> Vec<tokio::task::JoinHandle<()>> {
    house.exhaust().await;
    let wait = |tenant| {
        let waiting = house.admit(tenant);
        tokio::spawn(async move { waiting.await.unwrap().keep_charges() })
    };
    let waiting = (0..MANY as u128).map(wait).collect();
    house.until_held(MANY).await;
    house.store.takes(Fate::AnsweredAfter(SLOW));
    sleep(HOUR - Duration::from_millis(1)).await;
    if rob {
        advance(Duration::from_millis(1)).await;
        house.store.rob(&house.charges);
    }
    sleep(SLOW / 2).await;
    assert_eq!(house.admission.snapshot().unwrap().in_flight, 1, "its answer is on its way");
    waiting
}

#[tokio::test(start_paused = true)]
async fn a_grant_by_an_earlier_limit_tells_those_behind_it_nothing() {
    let house = house();
    let waiting = many_held(&house, false).await;
    assert!(raise(&house).await);
    let start = Instant::now();
    for waiting in waiting {
        waiting.await.unwrap();
    }
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_an_earlier_limit_refused_is_made_again() {
    let house = house();
    let waiting = many_held(&house, true).await;
    assert!(raise(&house).await);
    let start = Instant::now();
    for waiting in waiting {
        waiting.await.unwrap();
    }
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_settlement_by_an_earlier_limit_tells_those_who_wait_nothing() {
    let house = house();
    let permit = house.admit(9).await.unwrap();
    house.admit(9).await.unwrap().keep_charges();
    let waiting: Vec<_> = (0..MANY as u128).map(|tenant| tokio::spawn(house.admit(tenant))).collect();
    house.until_held(MANY).await;
    house.store.takes(Fate::AnsweredAfter(SLOW));
    house.store.settlements(Fate::AnsweredAfter(SLOW));
    drop(permit);
    sleep(SLOW / 2).await;
    raise(&house).await;
    let start = Instant::now();
    for waiting in waiting {
        waiting.await.unwrap().unwrap().keep_charges();
    }
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_is_charged_by_the_period_that_a_limit_is_given_for_now() {
    let house = house();
    house.exhaust().await;
    let wait = |tenant| {
        let waiting = house.admit(tenant);
        tokio::spawn(async move { waiting.await.unwrap().keep_charges() })
    };
    let waiting: Vec<_> = (0..3).map(wait).collect();
    house.until_held(3).await;
    // The day's bucket is new, and so it is full: of one.
    let daily = PeriodQuota::new(Period::Day, Quota::new(1, 1, DAY).unwrap());
    change(&house, Some(daily)).await;
    for (passed, held) in [(DAY / 10, 2), (DAY / 2, 2), (DAY / 2, 1)] {
        sleep(passed).await;
        assert_eq!(house.held(), held);
    }
    let start = Instant::now();
    raise(&house).await;
    for waiting in waiting {
        waiting.await.unwrap();
    }
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
    assert_eq!(house.held(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_out_is_told_apart() {
    let house = house();
    house.exhaust().await;
    let waiting = tokio::spawn(house.admit(1));
    house.until_held(1).await;
    house.store.peeks(Fate::Fails);
    assert!(!raise(&house).await);
    house.store.peeks(Fate::After(Duration::ZERO));
    assert!(raise(&house).await);
    waiting.await.unwrap().unwrap();
}
