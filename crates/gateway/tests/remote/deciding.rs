//! A store that answers.

use std::{
    net::IpAddr,
    num::{NonZeroU32, NonZeroUsize},
    pin::pin,
    sync::Arc,
    time::Duration,
};

use fairlane_fair_queue::{ClassLimits, Limits};
use fairlane_gateway::{
    admission::{AdmissionLayer, Ask, Classify, Edge, Outage, Passed, Passing, QueueSettings, Refused},
    answer::Fault,
    body::full,
    limits::{Charges, EdgeLimits, Period, PeriodQuota},
};
use fairlane_identity::{ClientPrefix, Hasher};
use http::{Request, Response};
use tokio::time::Instant;
use tower::{Layer as _, Service as _, service_fn};

use crate::{
    far::Fate,
    house::{BURST, House, INTERVAL, assert_out, pending, reason, settings, ten_per_second},
};

const SLOW: Duration = Duration::from_millis(20);

#[tokio::test(start_paused = true)]
async fn a_decision_is_one_call_and_giving_back_one_more() {
    let house = House::new();
    let kept = house.admit(1).await.unwrap();
    kept.keep_charges();
    drop(kept);
    house.limiter.settled().await;
    assert_eq!((house.left(), house.store.calls()), (1, [1, 0, 0]));

    let permit = house.admit(1).await.unwrap();
    assert_eq!(house.left(), 0);
    let twin = permit.clone();
    drop(permit);
    house.limiter.settled().await;
    assert_eq!((house.left(), house.store.calls()), (0, [2, 0, 0]), "its twin still holds it");
    drop(twin);
    house.limiter.settled().await;
    assert_eq!((house.left(), house.store.calls()), (1, [2, 0, 1]));
}

#[tokio::test(start_paused = true)]
async fn without_a_queue_a_refusal_is_one_call() {
    let house = House::with(None, Outage::FailClosed, ten_per_second());
    house.exhaust().await;
    let refused = house.admit(1).await.unwrap_err();
    let Fault::RateLimited(limited) = &refused.fault else { panic!("{refused:?}") };
    assert_eq!((limited.retry_after, refused.quotas.requests.unwrap().remaining), (INTERVAL, 0));
    assert_eq!(house.store.calls(), [3, 0, 0]);
}

#[tokio::test(start_paused = true)]
async fn the_held_are_served_when_the_bucket_can_serve_them_at_one_attempt_each() {
    let house = House::new();
    house.store.takes(Fate::After(SLOW));
    house.exhaust().await;
    let start = Instant::now();
    let (first, second) = tokio::join!(house.admit(1), house.admit(2));
    let (first, second) = (first.unwrap(), second.unwrap());
    // Two intervals after the burst was taken, and the call itself.
    let waited = start.elapsed();
    let due = 2 * INTERVAL;
    assert!((due..due + SLOW + Duration::from_millis(5)).contains(&waited), "{waited:?}");
    // Both were asked for, refused, and asked for again.
    assert_eq!(house.store.calls(), [6, 0, 0]);
    let mut headers = http::HeaderMap::new();
    second.write_headers(&mut headers);
    assert_eq!(headers["x-fair-queue-position"], "1");
    drop(first);
}

#[tokio::test(start_paused = true)]
async fn a_newcomer_joins_those_who_wait_without_asking_the_store() {
    let house = House::new();
    house.exhaust().await;
    let first = tokio::spawn(house.admit(1));
    house.until_held(1).await;
    let asked = house.store.calls();
    let second = house.admit(2);
    assert!(second.is_held());
    assert_eq!((house.held(), house.store.calls()), (2, asked));
    first.await.unwrap().unwrap().keep_charges();
    second.await.unwrap().keep_charges();
    assert_eq!(house.store.calls(), [5, 0, 0]);
}

#[tokio::test(start_paused = true)]
async fn no_more_attempts_are_under_way_than_max_in_flight() {
    let limits = Limits { max_in_flight: NonZeroU32::new(3).unwrap(), ..Limits::default() };
    let queue = QueueSettings { limits, max_body_bytes: 10_000, ..settings() };
    let quota = fairlane_limiter::Quota::per_second(10).unwrap();
    let house = House::with(Some(queue), Outage::FailClosed, quota);
    // The whole bucket is taken, and comes back at once while twenty wait for it.
    let mut permits = Vec::new();
    for _ in 0..10 {
        permits.push(house.admit(99).await.unwrap());
    }
    let waiting = [1, 2].map(|tenant| (0..10).map(move |_| tenant)).into_iter().flatten();
    let waiting: Vec<_> = waiting.map(|tenant| tokio::spawn(house.admit(tenant))).collect();
    house.until_held(20).await;
    house.store.takes(Fate::After(SLOW));
    house.store.most_under_way();
    drop(permits);
    for waiting in waiting {
        waiting.await.unwrap().unwrap().keep_charges();
    }
    assert_eq!(house.store.most_under_way()[0], 3);
    let snapshot = house.admission.snapshot().unwrap();
    assert_eq!((snapshot.held, snapshot.in_flight), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_another_gateway_was_faster_than_waits_on() {
    let house = House::new();
    house.exhaust().await;
    let start = Instant::now();
    let waiting = tokio::spawn(house.admit(1));
    house.until_held(1).await;
    // The other gateway takes the unit that the gate here expects, at the moment it comes.
    tokio::time::sleep(INTERVAL - Duration::from_millis(1)).await;
    tokio::time::advance(Duration::from_millis(1)).await;
    house.store.rob(&house.charges);
    waiting.await.unwrap().unwrap().keep_charges();
    let waited = start.elapsed();
    assert!((2 * INTERVAL..3 * INTERVAL).contains(&waited), "{waited:?}");
    assert_eq!(house.store.calls()[0], 5, "one attempt in vain");
}

#[tokio::test(start_paused = true)]
async fn what_is_given_back_wakes_those_who_wait_for_it() {
    let house = House::new();
    let permit = house.admit(1).await.unwrap();
    house.admit(1).await.unwrap().keep_charges();
    let start = Instant::now();
    let waiting = tokio::spawn(house.admit(2));
    house.until_held(1).await;
    drop(permit);
    waiting.await.unwrap().unwrap();
    assert!(start.elapsed() < Duration::from_millis(5), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_refusal_of_the_queue_tells_the_quota_it_knows_or_looks() {
    let limits = Limits {
        requests: Some(ClassLimits {
            max_held_per_tenant: NonZeroUsize::MIN,
            max_wait: Duration::from_millis(250),
            ..ClassLimits::default()
        }),
        ..Limits::default()
    };
    let queue = QueueSettings { limits, ..settings() };
    let house = House::with(Some(queue), Outage::FailClosed, ten_per_second());
    house.exhaust().await;
    let mut first = pin!(house.admit(1));
    assert!(pending(first.as_mut()).await);
    house.until_held(0).await;
    tokio::task::yield_now().await;
    assert!(pending(first.as_mut()).await);
    assert_eq!(house.held(), 1);

    // It has to join without being asked for, and finds its lane full.
    let refused = house.admit(1).await.unwrap_err();
    assert_eq!((reason(&refused), refused.quotas.requests.unwrap().remaining), ("tenant_queue_full", 0));
    assert_eq!(house.store.calls(), [3, 1, 0]);
    first.await.unwrap().keep_charges();
}

#[tokio::test(start_paused = true)]
async fn nobody_without_a_tenant_passes_those_who_wait() {
    let house = House::new();
    house.exhaust().await;
    let waiting = tokio::spawn(house.admit(1));
    house.until_held(1).await;
    let nobody = Ask { tenant: None, ..house.ask(1) };
    let refused = house.admission.admit(nobody.clone()).await.unwrap_err();
    assert!(matches!(&refused.fault, Fault::RateLimited(limited) if limited.retry_after <= INTERVAL));
    assert_eq!(house.store.calls(), [3, 1, 0], "one look");
    house.store.peeks(Fate::Fails);
    assert_out(&house.admission.admit(nobody).await.unwrap_err());
    waiting.await.unwrap().unwrap();
}

// === at the edge ===

fn edge(house: &House) -> Edge {
    let limits = EdgeLimits {
        global: Charges::of_everybody(&[PeriodQuota::new(Period::Second, ten_per_second())]),
        client: vec![],
        client_overrides: vec![],
        prefix: ClientPrefix::default(),
        whitelist: std::iter::once("10.0.0.1/32".parse().unwrap()).collect(),
        hasher: Hasher::new(b"test").unwrap(),
    };
    Edge::new(Arc::clone(&house.limiter), limits)
}

async fn pass(edge: &Edge, client: &str) -> Result<Passed, Box<Refused>> {
    match edge.pass(client.parse::<IpAddr>().unwrap()) {
        Passing::Decided(passed) => passed,
        Passing::Asking(asking) => asking.await,
    }
}

#[tokio::test(start_paused = true)]
async fn the_edge_asks_once_keeps_what_it_took_and_refuses_in_an_outage() {
    let house = House::new();
    let edge = edge(&house);
    for left in (0..BURST).rev() {
        assert_eq!(pass(&edge, "192.0.2.1").await.unwrap().quota.unwrap().remaining, left);
    }
    let refused = pass(&edge, "192.0.2.1").await.unwrap_err();
    assert!(matches!(&refused.fault, Fault::RateLimited(limited) if limited.retry_after == INTERVAL));
    assert_eq!(house.store.calls(), [3, 0, 0]);
    house.store.outage(true);
    assert_out(&pass(&edge, "192.0.2.1").await.unwrap_err());
    assert!(pass(&edge, "10.0.0.1").await.unwrap().bypass, "who has no limits needs no store");
}

#[tokio::test(start_paused = true)]
async fn the_edge_lets_through_where_an_outage_does() {
    let house = House::with(None, Outage::FailOpen, ten_per_second());
    house.store.outage(true);
    let passed = pass(&edge(&house), "192.0.2.1").await.unwrap();
    assert!(!passed.bypass && passed.quota.is_none());
    assert_eq!(house.metric("rate_limit_fail_open_total"), 1.0);
}

// === as middleware ===

/// Notes when its request is held.
#[derive(Clone)]
struct Noting(Ask, tokio::sync::mpsc::UnboundedSender<()>);

impl Classify<&'static str> for Noting {
    fn ask(&self, _: &mut Request<&'static str>) -> Ask {
        self.0.clone()
    }

    fn held(&self, request: &mut Request<&'static str>) {
        *request.body_mut() = "held";
        self.1.send(()).unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn the_layer_tells_once_that_a_request_is_held() {
    let house = House::new();
    house.exhaust().await;
    let (told, mut heard) = tokio::sync::mpsc::unbounded_channel();
    let inner = service_fn(async |request: Request<&'static str>| {
        Ok::<_, std::convert::Infallible>(Response::new(full(*request.body())))
    });
    let mut service =
        AdmissionLayer::new(Arc::clone(&house.admission), Noting(house.ask(1), told)).layer(inner);
    let response = service.call(Request::new("fresh")).await.unwrap();
    let body = http_body_util::BodyExt::collect(response.into_body()).await.unwrap_or_else(|_| panic!());
    assert_eq!(body.to_bytes(), "held");
    assert_eq!((heard.recv().await, heard.try_recv().is_err()), (Some(()), true));

    // One that is admitted at the first word is not.
    tokio::time::sleep(3 * INTERVAL).await;
    let response = service.call(Request::new("fresh")).await.unwrap();
    let body = http_body_util::BodyExt::collect(response.into_body()).await.unwrap_or_else(|_| panic!());
    assert_eq!(body.to_bytes(), "fresh");
}
