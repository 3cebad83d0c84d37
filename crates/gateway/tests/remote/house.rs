//! One bucket of one model in a store far away, and tenants who want it.

use std::{future::poll_fn, pin::Pin, sync::Arc, task::Poll, time::Duration};

use fairlane_fair_queue::{ClassLimits, Limits, Reason, TenantKey, Weight};
use fairlane_gateway::{
    admission::{Admission, Admitting, Ask, Limiter, Outage, QueueSettings, Refused, Tenant},
    answer::{Fault, HoldRefusal},
    clock::TokioClock,
    dimension::Dimension,
    limits::{Charges, Period, PeriodQuota},
    telemetry::Telemetry,
};
use fairlane_identity::Hasher;
use fairlane_limiter::Quota;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use tokio::time::Instant;

use crate::far::Far;

/// 10 per second and at most `BURST` at once.
pub(crate) const BURST: u64 = 2;
pub(crate) const INTERVAL: Duration = Duration::from_millis(100);

pub(crate) struct House {
    pub(crate) store: Arc<Far>,
    pub(crate) limiter: Arc<Limiter>,
    pub(crate) admission: Arc<Admission>,
    pub(crate) charges: Charges,
    metrics: PrometheusHandle,
}

pub(crate) fn settings() -> QueueSettings {
    QueueSettings {
        limits: Limits::default(),
        smallest_total: Duration::from_secs(60),
        tenant_dimension: "user",
        max_body_bytes: 1_000,
    }
}

/// The same, where nobody is held for longer than `max_wait`.
pub(crate) fn held_for(max_wait: Duration) -> QueueSettings {
    let requests = ClassLimits { max_wait, ..ClassLimits::default() };
    QueueSettings { limits: Limits { requests: Some(requests), ..Limits::default() }, ..settings() }
}

pub(crate) fn ten_per_second() -> Quota {
    Quota::per_second(10).unwrap().with_capacity(BURST).unwrap()
}

/// A request of one model.
pub(crate) fn bucket(model: &str, quota: Quota) -> Charges {
    let model = Hasher::new(b"test").unwrap().model(model);
    Charges::of_identity(Dimension::Model, model, &[PeriodQuota::new(Period::Second, quota)])
}

impl House {
    /// Requests are held, and an outage refuses.
    pub(crate) fn new() -> Self {
        Self::with(Some(settings()), Outage::FailClosed, ten_per_second())
    }

    pub(crate) fn with(queue: Option<QueueSettings>, outage: Outage, quota: Quota) -> Self {
        let store = Far::new();
        let recorder = PrometheusBuilder::new().build_recorder();
        let (limiter, admission) = metrics::with_local_recorder(&recorder, || {
            let telemetry = Arc::new(Telemetry::new("user", Reason::ALL.map(Reason::as_str), []));
            let limiter = Arc::new(Limiter::remote(store.clone(), outage, Arc::clone(&telemetry)));
            let admission = Admission::new(Arc::clone(&limiter), queue, TokioClock::start(), telemetry);
            (limiter, Arc::new(admission))
        });
        let charges = bucket("model", quota);
        Self { store, limiter, admission, charges, metrics: recorder.handle() }
    }

    pub(crate) fn ask(&self, tenant: u128) -> Ask {
        Ask {
            charges: self.charges.clone(),
            tenant: Some(Tenant { key: TenantKey(tenant), weight: Weight::default() }),
            body_bytes: 100,
            ..Ask::nothing(Instant::now())
        }
    }

    pub(crate) fn admit(&self, tenant: u128) -> Admitting {
        self.admission.admit(self.ask(tenant))
    }

    /// Takes the whole burst, for good.
    pub(crate) async fn exhaust(&self) {
        for _ in 0..BURST {
            self.admit(99).await.unwrap().keep_charges();
        }
    }

    pub(crate) fn left(&self) -> i64 {
        self.store.left(&self.charges)
    }

    pub(crate) fn held(&self) -> usize {
        self.admission.snapshot().unwrap().held
    }

    /// Waits until exactly so many are held: whoever asks the store is held only once it has answered.
    pub(crate) async fn until_held(&self, held: usize) {
        while self.held() != held {
            tokio::task::yield_now().await;
        }
    }

    /// What a metric reads; labels as Prometheus shows them.
    pub(crate) fn metric(&self, series: &str) -> f64 {
        self.limiter.upkeep();
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
pub(crate) fn assert_out(refused: &Refused) {
    assert!(matches!(refused.fault, Fault::StoreUnavailable), "{refused:?}");
}

#[track_caller]
pub(crate) fn reason(refused: &Refused) -> &'static str {
    let Fault::RateLimited(limited) = &refused.fault else { panic!("{refused:?}") };
    let Some(HoldRefusal::Queue(queue)) = limited.held else { panic!("{limited:?}") };
    queue.reason
}
