//! Admission under a paused clock: who passes, who is held, and that every way out gives back what it must.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a helper of a test that fails is a test that fails, and a panic is how a test says so"
)]

use std::{
    convert::Infallible,
    future::poll_fn,
    num::NonZeroUsize,
    pin::pin,
    sync::{Arc, Mutex},
    task::Poll,
    time::Duration,
};

use bytes::Bytes;
use fairlane_fair_queue::{ClassLimits, Limits, Reason, TenantKey, Weight};
use fairlane_gateway::{
    admission::{Admission, AdmissionLayer, Ask, Limiter, Permit, QueueSettings, Refused, Tenant},
    answer::{Dialect, Fault, HoldRefusal},
    body::{Body, full},
    clock::TokioClock,
    dimension::Dimension,
    limits::{Charges, Period, PeriodQuota},
    telemetry::Telemetry,
};
use fairlane_identity::Hasher;
use fairlane_limiter::{MemoryLimits, MemoryStore, Quota};
use http::{Request, Response};
use http_body_util::BodyExt as _;
use tokio::time::Instant;
use tower::{Layer as _, Service as _, service_fn};

/// One bucket of one model, 10 per second and at most `BURST` at once, and tenants who want it.
struct House {
    admission: Arc<Admission>,
    limiter: Arc<Limiter>,
    charges: Charges,
}

const BURST: u64 = 2;
const INTERVAL: Duration = Duration::from_millis(100);

fn settings() -> QueueSettings {
    QueueSettings {
        limits: Limits::default(),
        smallest_total: Duration::from_secs(60),
        tenant_dimension: "user",
        max_body_bytes: 1_000,
    }
}

fn house(queue: Option<QueueSettings>) -> House {
    let clock = TokioClock::start();
    let telemetry = Arc::new(Telemetry::new("user", Reason::ALL.map(Reason::as_str), []));
    let store = MemoryStore::new(MemoryLimits::default(), clock);
    let limiter = Arc::new(Limiter::new(store, Arc::clone(&telemetry)));
    let admission = Arc::new(Admission::new(Arc::clone(&limiter), queue, clock, telemetry));
    let quota = Quota::per_second(10).unwrap().with_capacity(BURST).unwrap();
    let model = Hasher::new(b"test").unwrap().model("model");
    House {
        admission,
        limiter,
        charges: Charges::of_identity(Dimension::Model, model, &[PeriodQuota::new(Period::Second, quota)]),
    }
}

impl House {
    fn ask(&self, tenant: u128) -> Ask {
        Ask {
            charges: self.charges.clone(),
            tenant: Some(Tenant { key: TenantKey(tenant), weight: Weight::default() }),
            body_bytes: 100,
            ..Ask::nothing(Instant::now())
        }
    }

    fn admit(&self, ask: Ask) -> impl Future<Output = Result<Permit, Box<Refused>>> + Send + 'static {
        let admission = Arc::clone(&self.admission);
        async move { admission.admit(ask).await }
    }

    /// Takes the whole burst, for good.
    async fn exhaust(&self) {
        for _ in 0..BURST {
            self.admit(self.ask(99)).await.unwrap().keep_charges();
        }
    }

    async fn left(&self) -> i64 {
        let decision = self.limiter.peek(&self.charges).await.unwrap();
        let balances = decision.granted().map_or_else(
            || decision.denied().unwrap().balances().get(0),
            |granted| granted.balances().get(0),
        );
        balances.unwrap().remaining
    }

    fn held(&self) -> usize {
        self.admission.snapshot().unwrap().held
    }
}

/// Polls a future once, and tells whether it is still pending.
async fn pending<F: Future>(future: std::pin::Pin<&mut F>) -> bool {
    let mut future = future;
    poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_pending())).await
}

fn reason(refused: &Refused) -> (&'static str, usize) {
    match &refused.fault {
        Fault::RateLimited(limited) => {
            let Some(HoldRefusal::Queue(queue)) = limited.held else { panic!("{limited:?}") };
            (queue.reason, queue.position)
        }
        other => panic!("{other:?}"),
    }
}

fn header<'r, B>(response: &'r Response<B>, name: &str) -> Option<&'r str> {
    Some(response.headers().get(name)?.to_str().unwrap())
}

#[tokio::test(start_paused = true)]
async fn without_a_queue_a_refusal_is_immediate() {
    let house = house(None);
    house.exhaust().await;
    let refused = house.admit(house.ask(1)).await.unwrap_err();
    let Fault::RateLimited(limited) = &refused.fault else { panic!("{refused:?}") };
    assert_eq!((limited.limit_type, limited.retry_after), (Dimension::Model, INTERVAL));
    assert!(limited.held.is_none());
    assert_eq!(refused.quotas.requests.unwrap().remaining, 0);
}

#[tokio::test(start_paused = true)]
async fn the_held_are_served_when_the_bucket_can_serve_them() {
    let house = house(Some(settings()));
    house.exhaust().await;
    let start = Instant::now();
    let (first, second) = tokio::join!(house.admit(house.ask(1)), house.admit(house.ask(1)));
    let (first, second) = (first.unwrap(), second.unwrap());
    // Timers tick in milliseconds.
    let waited = start.elapsed();
    assert!((2 * INTERVAL..2 * INTERVAL + Duration::from_millis(5)).contains(&waited), "{waited:?}");
    let mut headers = http::HeaderMap::new();
    second.write_headers(&mut headers);
    assert_eq!(headers["x-fair-queue-position"], "2");
    assert_eq!(headers["x-fair-queue-estimated-wait-ms"], "200");
    let told: u64 = headers["x-fair-queue-wait-ms"].to_str().unwrap().parse().unwrap();
    assert!((200..205).contains(&told), "{told}");
    drop(first);
}

#[tokio::test(start_paused = true)]
async fn a_newcomer_joins_those_who_wait_instead_of_passing_them() {
    let house = house(Some(settings()));
    house.exhaust().await;
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = tokio::task::JoinSet::new();
    let mut send = |tenant: u128| {
        let (admitted, order) = (house.admit(house.ask(tenant)), Arc::clone(&order));
        tasks.spawn(async move {
            admitted.await.unwrap().keep_charges();
            order.lock().unwrap().push(tenant);
        });
    };
    send(1);
    tokio::task::yield_now().await;
    // Just before a token comes, which the newcomer would find first if it asked for it.
    tokio::time::advance(INTERVAL - Duration::from_millis(1)).await;
    send(2);
    tokio::task::yield_now().await;
    assert_eq!(house.held(), 2);
    tasks.join_all().await;
    assert_eq!(*order.lock().unwrap(), [1, 2]);
}

#[tokio::test(start_paused = true)]
async fn nobody_without_a_tenant_is_held_or_passes_those_who_are() {
    let house = house(Some(settings()));
    house.exhaust().await;
    let nobody = || Ask { tenant: None, ..house.ask(1) };
    let refused = house.admit(nobody()).await.unwrap_err();
    assert!(matches!(&refused.fault, Fault::RateLimited(limited) if limited.held.is_none()));

    let mut waiting = pin!(house.admit(house.ask(1)));
    assert!(pending(waiting.as_mut()).await);
    tokio::time::advance(INTERVAL).await;
    let refused = house.admit(nobody()).await.unwrap_err();
    assert!(matches!(&refused.fault, Fault::RateLimited(limited) if limited.limit_type == Dimension::Model));
    waiting.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_at_its_deadline_and_hopeless_ones_never_begin() {
    let requests = ClassLimits { max_wait: Duration::from_millis(250), ..ClassLimits::default() };
    let limits = Limits { requests: Some(requests), ..Limits::default() };
    let bounded = QueueSettings { limits, ..settings() };
    let house = house(Some(bounded));
    house.exhaust().await;
    // Tenant 2 takes half of what comes, so that the second of tenant 1 is possible and does not make it.
    let asks = [1, 2, 1].map(|tenant| tokio::spawn(house.admit(house.ask(tenant))));
    tokio::task::yield_now().await;
    let start = Instant::now();
    let refused = house.admit(house.ask(1)).await.unwrap_err();
    assert_eq!(reason(&refused), ("wait_exceeds_budget", 3));
    assert_eq!(start.elapsed(), Duration::ZERO);
    let [first, other, second] = asks;
    first.await.unwrap().unwrap().keep_charges();
    other.await.unwrap().unwrap().keep_charges();
    let refused = second.await.unwrap().unwrap_err();
    assert_eq!(reason(&refused), ("deadline_exceeded", 1));
    let waited = start.elapsed();
    assert!((Duration::from_millis(250)..Duration::from_millis(255)).contains(&waited), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn the_smallest_total_timeout_bounds_a_wait_too() {
    let total = Duration::from_millis(250);
    let house = house(Some(QueueSettings { smallest_total: total, ..settings() }));
    house.exhaust().await;
    let mut late = house.ask(1);
    late.arrived = Instant::now();
    // Its body took most of its time.
    tokio::time::advance(Duration::from_millis(90)).await;
    let house_is_empty = house.held();
    assert_eq!(house_is_empty, 0);
    late.arrived -= Duration::from_millis(155);
    let refused = house.admit(late).await.unwrap_err();
    assert_eq!(reason(&refused).0, "wait_exceeds_budget");
}

#[tokio::test(start_paused = true)]
async fn bounds_are_kept_and_the_bodies_held_are_one_of_them() {
    let one = NonZeroUsize::MIN;
    let limits = Limits {
        requests: Some(ClassLimits { max_held_per_tenant: one, ..ClassLimits::default() }),
        ..Limits::default()
    };
    let house = house(Some(QueueSettings { limits, max_body_bytes: 250, ..settings() }));
    house.exhaust().await;
    let mut first = pin!(house.admit(house.ask(1)));
    assert!(pending(first.as_mut()).await);
    let refused = house.admit(house.ask(1)).await.unwrap_err();
    assert_eq!(reason(&refused), ("tenant_queue_full", 2));

    let mut second = pin!(house.admit(house.ask(2)));
    assert!(pending(second.as_mut()).await);
    let refused = house.admit(house.ask(3)).await.unwrap_err();
    assert_eq!(reason(&refused), ("queue_full", 1), "100 more bytes than the 250 allowed");
    assert_eq!(house.held(), 2, "and it left no trace");
    first.await.unwrap();
    second.await.unwrap();
    // What was held is not held any more.
    house.exhaust().await;
    let mut third = pin!(house.admit(house.ask(3)));
    assert!(pending(third.as_mut()).await);
    third.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn at_the_end_everybody_held_is_told_and_nobody_is_held_any_more() {
    let house = house(Some(settings()));
    house.exhaust().await;
    let held = tokio::spawn(house.admit(house.ask(1)));
    tokio::task::yield_now().await;
    assert_eq!(house.admission.close(), 1);
    assert!(matches!(held.await.unwrap().unwrap_err().fault, Fault::ShuttingDown));
    let refused = house.admit(house.ask(1)).await.unwrap_err();
    assert!(matches!(refused.fault, Fault::ShuttingDown));
    assert_eq!(house.held(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_permit_gives_back_what_reached_nobody_exactly_once() {
    let house = house(Some(settings()));
    let permit = house.admit(house.ask(1)).await.unwrap();
    let twin = permit.clone();
    assert_eq!(house.left().await, 1);
    drop(permit);
    assert_eq!(house.left().await, 1, "its twin still holds it");
    drop(twin);
    assert_eq!(house.left().await, 2);
    let kept = house.admit(house.ask(1)).await.unwrap();
    kept.keep_charges();
    drop(kept);
    assert_eq!(house.left().await, 1);
}

#[tokio::test(start_paused = true)]
async fn what_is_given_back_wakes_those_who_wait_for_it() {
    let house = house(Some(settings()));
    let permit = house.admit(house.ask(1)).await.unwrap();
    house.admit(house.ask(1)).await.unwrap().keep_charges();
    let start = Instant::now();
    let waiting = tokio::spawn(house.admit(house.ask(2)));
    tokio::task::yield_now().await;
    drop(permit);
    waiting.await.unwrap().unwrap();
    assert!(start.elapsed() < Duration::from_millis(5), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn leaving_in_every_state_leaves_full_capacity() {
    let house = house(Some(settings()));
    for round in 0..1_000 {
        house.exhaust().await;
        let mut waiting = Box::pin(house.admit(house.ask(round)));
        assert!(pending(waiting.as_mut()).await);
        assert_eq!(house.held(), 1);
        if round % 2 == 1 {
            // Granted by the timer, and never polled again.
            tokio::time::sleep(INTERVAL).await;
            assert_eq!(house.left().await, 1, "a grant takes nothing");
        }
        drop(waiting);
        assert_eq!(house.held(), 0);
        tokio::time::sleep(2 * INTERVAL).await;
        assert_eq!(house.left().await, 2);
    }
    let snapshot = house.admission.snapshot().unwrap();
    assert_eq!((snapshot.held, snapshot.in_flight), (0, 0));
}

// === as middleware ===

type Inner = Arc<dyn Fn(Permit) -> Response<Body> + Send + Sync>;

async fn through_layer(
    house: &House,
    ask: Ask,
    inner: Inner,
) -> Response<impl http_body::Body<Data = Bytes>> {
    let layer = AdmissionLayer::new(Arc::clone(&house.admission), move |_: &mut Request<Bytes>| ask.clone());
    let service = service_fn(move |request: Request<Bytes>| {
        let permit = request.extensions().get::<Permit>().expect("an admitted request").clone();
        let inner = Arc::clone(&inner);
        async move { Ok::<_, Infallible>(inner(permit)) }
    });
    layer.layer(service).call(Request::new(Bytes::new())).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn the_layer_answers_refusals_in_the_callers_dialect() {
    let house = house(None);
    house.exhaust().await;
    let ask = Ask { dialect: Dialect::Anthropic, ..house.ask(1) };
    let response = through_layer(&house, ask, Arc::new(|_| unreachable!("refused"))).await;
    assert_eq!(response.status(), 429);
    assert_eq!(header(&response, "retry-after-ms"), Some("100"));
    assert_eq!(header(&response, "x-ratelimit-remaining-requests"), Some("0"));
    let Ok(body) = response.into_body().collect().await else { panic!("a refusal's body is whole") };
    let body: serde_json::Value = serde_json::from_slice(&body.to_bytes()).unwrap();
    assert_eq!(body["error"]["type"], "rate_limit_error");
}

#[tokio::test(start_paused = true)]
async fn the_permit_rides_on_the_body_to_its_end() {
    let house = house(Some(settings()));
    let response = through_layer(&house, house.ask(1), Arc::new(|_| Response::new(full("hello")))).await;
    assert_eq!(header(&response, "x-ratelimit-remaining-requests"), Some("1"));
    assert_eq!(house.left().await, 1, "the body is not at its end");
    drop(response.into_body());
    assert_eq!(house.left().await, 2, "the service has kept nothing");

    let keep = |permit: Permit| {
        permit.keep_charges();
        Response::new(full("hello"))
    };
    drop(through_layer(&house, house.ask(1), Arc::new(keep)).await);
    assert_eq!(house.left().await, 1);
}

#[tokio::test(start_paused = true)]
async fn the_layers_future_gives_back_when_it_is_dropped_while_the_service_runs() {
    let house = house(Some(settings()));
    let ask = house.ask(1);
    let layer = AdmissionLayer::new(Arc::clone(&house.admission), move |_: &mut Request<Bytes>| ask.clone());
    let mut service = layer
        .layer(service_fn(|_: Request<Bytes>| std::future::pending::<Result<Response<Body>, Infallible>>()));
    let mut running = Box::pin(service.call(Request::new(Bytes::new())));
    assert!(pending(running.as_mut()).await);
    assert_eq!(house.left().await, 1);
    drop(running);
    assert_eq!(house.left().await, 2);
}
