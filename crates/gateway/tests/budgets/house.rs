//! A team with a limit of requests and a budget of tokens, a model with a budget of its own, and tenants who want them.

use std::{future::poll_fn, pin::Pin, sync::Arc, task::Poll, time::Duration};

use fairlane_fair_queue::{ClassLimits, Limits, Reason, TenantKey, Weight};
use fairlane_gateway::{
    admission::{Admission, Ask, Limiter, Outage, Permit, QueueSettings, Refused, Tenant},
    answer::{Fault, HoldRefusal, RateLimited},
    clock::TokioClock,
    dimension::Dimension,
    limits::{Buckets, Charges, IdentityQuotas, Period, PeriodQuota},
    request::Reservation,
    telemetry::Telemetry,
};
use fairlane_identity::Hasher;
use fairlane_limiter::{Balances, Decision, MemoryLimits, MemoryStore, Quota};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use tokio::time::Instant;

use crate::far::Far;

/// What the team's budget ever holds; one token flows in a millisecond.
pub(crate) const BUDGET: u64 = 1_000;
/// What the model's budget ever holds, which refills as fast.
pub(crate) const MODEL_BUDGET: u64 = 5_000;
/// Requests of the team at once; one comes in ten milliseconds.
pub(crate) const BURST: u64 = 100;

/// Where the buckets are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    Here,
    FarAway,
}

pub(crate) struct House {
    pub(crate) limiter: Arc<Limiter>,
    pub(crate) admission: Arc<Admission>,
    pub(crate) buckets: Buckets,
    pub(crate) far: Option<Arc<Far>>,
    metrics: PrometheusHandle,
}

/// Requests are neither queued nor deferred.
pub(crate) fn nobody_waits() -> Option<QueueSettings> {
    None
}

/// Requests are deferred, and not queued.
pub(crate) fn deferring(tokens: ClassLimits) -> Option<QueueSettings> {
    Some(QueueSettings {
        limits: Limits { requests: None, tokens: Some(tokens), ..Limits::default() },
        ..settings()
    })
}

/// Requests are both.
pub(crate) fn queuing_and_deferring(requests: ClassLimits, tokens: ClassLimits) -> Option<QueueSettings> {
    let limits = Limits { requests: Some(requests), tokens: Some(tokens), ..Limits::default() };
    Some(QueueSettings { limits, ..settings() })
}

fn settings() -> QueueSettings {
    QueueSettings {
        limits: Limits::default(),
        smallest_total: Duration::from_secs(60),
        tenant_dimension: "user",
        max_body_bytes: 1_000,
    }
}

fn per_second(amount: u64, capacity: u64) -> PeriodQuota {
    let quota = Quota::per_second(amount).unwrap().with_capacity(capacity).unwrap();
    PeriodQuota::new(Period::Second, quota)
}

/// What a request reserves whose prompt and whose cap are these.
pub(crate) fn reservation(prompt_estimate: u64, output: u64) -> Reservation {
    Reservation { prompt_estimate, output, total: prompt_estimate + output, assumed: false }
}

impl House {
    pub(crate) fn new(kept: Kept, queue: Option<QueueSettings>) -> Self {
        let recorder = PrometheusBuilder::new().build_recorder();
        let far = (kept == Kept::FarAway).then(Far::new);
        let (limiter, admission) = metrics::with_local_recorder(&recorder, || {
            let telemetry = Arc::new(Telemetry::new("user", Reason::ALL.map(Reason::as_str), []));
            let clock = TokioClock::start();
            let limiter = Arc::new(match &far {
                Some(far) => Limiter::remote(far.clone(), Outage::FailClosed, Arc::clone(&telemetry)),
                None => {
                    Limiter::new(MemoryStore::new(MemoryLimits::default(), clock), Arc::clone(&telemetry))
                }
            });
            let admission = Admission::new(Arc::clone(&limiter), queue, clock, telemetry);
            (limiter, Arc::new(admission))
        });
        let hasher = Hasher::new(b"test").unwrap();
        let team = IdentityQuotas {
            requests: vec![per_second(100, BURST)],
            tokens: vec![per_second(1_000, BUDGET)],
        };
        let model = IdentityQuotas { requests: Vec::new(), tokens: vec![per_second(1_000, MODEL_BUDGET)] };
        let mut buckets = Buckets::of_identity(Dimension::Team, hasher.team("team"), &team);
        buckets.push_identity(Dimension::Model, hasher.model("model"), &model);
        Self { limiter, admission, buckets, far, metrics: recorder.handle() }
    }

    pub(crate) fn ask(&self, tenant: u128, reservation: Reservation) -> Ask {
        let mut charges = self.buckets.requests.clone();
        charges.reserve(&self.buckets.tokens, reservation.total);
        Ask {
            charges,
            tokens: Some(reservation),
            tenant: Some(Tenant { key: TenantKey(tenant), weight: Weight::default() }),
            body_bytes: 100,
            ..Ask::nothing(Instant::now())
        }
    }

    pub(crate) fn admit(
        &self,
        ask: Ask,
    ) -> impl Future<Output = Result<Permit, Box<Refused>>> + Send + 'static {
        let admission = Arc::clone(&self.admission);
        async move { admission.admit(ask).await }
    }

    /// What the team has left of its requests and of its tokens, and the model of its tokens, once all that is known has
    /// been settled.
    pub(crate) async fn left(&self) -> [i64; 3] {
        self.limiter.settled().await;
        let mut charges: Charges = self.buckets.requests.clone();
        charges.reserve(&self.buckets.tokens, 0);
        let remaining = |balances: &Balances| [0, 1, 2].map(|at| balances.remaining(at).unwrap());
        match self.limiter.peek(&charges).await.unwrap() {
            Decision::Granted(granted) => remaining(granted.balances()),
            Decision::Denied(denied) => remaining(denied.balances()),
            Decision::Impossible(_) => panic!("a look does not exceed"),
        }
    }

    /// What the team has left of its tokens.
    pub(crate) async fn tokens_left(&self) -> i64 {
        self.left().await[1]
    }

    /// Takes so many of the team's tokens, for good.
    pub(crate) async fn exhaust(&self, tokens: u64) {
        self.admit(self.ask(99, reservation(tokens, 0))).await.unwrap().keep_charges();
        self.limiter.settled().await;
    }

    pub(crate) fn held(&self) -> usize {
        self.admission.snapshot().unwrap().held
    }

    /// Waits until exactly so many are held: a store far away has to answer first.
    pub(crate) async fn until_held(&self, held: usize) {
        while self.held() != held {
            tokio::task::yield_now().await;
        }
    }

    /// What a metric reads; labels as Prometheus shows them.
    pub(crate) fn metric(&self, series: &str) -> f64 {
        let text = self.metrics.render();
        let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {series}:\n{text}")).parse().unwrap()
    }
}

/// Polls a future once, and tells whether it is still pending.
pub(crate) async fn pending<F: Future>(future: Pin<&mut F>) -> bool {
    let mut future = future;
    poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_pending())).await
}

#[track_caller]
pub(crate) fn limited(refused: &Refused) -> &RateLimited {
    let Fault::RateLimited(limited) = &refused.fault else { panic!("{refused:?}") };
    limited
}

/// Why deferred admission refuses, how long it was deferred, and for how many tokens.
#[track_caller]
pub(crate) fn deferral(refused: &Refused) -> (&'static str, Duration, u64) {
    let Some(HoldRefusal::Deferral(deferral)) = &limited(refused).held else { panic!("{refused:?}") };
    (deferral.reason, deferral.waited, deferral.tokens)
}
