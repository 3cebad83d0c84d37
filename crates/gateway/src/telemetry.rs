//! Every metric the gateway has: names, help, labels, and handles that cost an atomic each.
//!
//! All label values come from the configuration or from closed lists, so a caller cannot make a series. Handles are taken
//! once; where a label is known only at the answer (a status), a table of cells stands in for a look-up by name.

use std::{sync::OnceLock, time::Duration};

use http::{Method, StatusCode};
use metrics::{
    Counter, Gauge, Histogram, Key, KeyName, Label, Level, Metadata, Recorder as _, SharedString, Unit,
};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder};

use crate::dimension::Dimension;

/// Upper bounds of time buckets, in seconds: from a fast refusal to the longest stream.
const SECONDS: [f64; 16] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 120.0, 600.0];
/// The same for a look into a store.
const STORE_SECONDS: [f64; 10] = [1e-6, 2.5e-6, 1e-5, 5e-5, 1e-4, 5e-4, 1e-3, 5e-3, 2.5e-2, 0.1];

const METADATA: Metadata<'static> = Metadata::new("fairlane", Level::INFO, Some("fairlane"));

/// The kind of what a limit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Requests.
    Requests,
}

/// How a decision came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All charges were taken.
    Granted,
    /// At least one has to wait, and nothing was taken.
    Denied,
    /// At least one can never be taken.
    Impossible,
}

/// The gateway's metrics and the recorder behind them.
pub struct Telemetry {
    recorder: PrometheusRecorder,
    handle: PrometheusHandle,
    /// `rate_limit_decisions_total`, by dimension and verdict.
    decisions: [[Counter; 3]; 7],
    /// What the fair queue tells.
    pub queue: QueueMetrics,
    /// `rate_limit_store_seconds`.
    pub store_seconds: Histogram,
    buckets: Gauge,
    overflow: Counter,
    routes: Vec<RouteMetrics>,
}

impl std::fmt::Debug for Telemetry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Telemetry").finish_non_exhaustive()
    }
}

/// The fair queue's five metrics.
#[derive(Debug)]
pub struct QueueMetrics {
    /// Requests held now.
    pub depth: Gauge,
    /// Tenants tracked now.
    pub tenants: Gauge,
    /// Time held until a grant.
    pub wait_seconds: Histogram,
    /// Admission attempts granted.
    pub grants: Counter,
    /// Refusals, in the order of [`fairlane_fair_queue::Reason::ALL`].
    refused: Vec<(&'static str, Counter)>,
}

impl QueueMetrics {
    /// Counts one refusal.
    pub fn refused(&self, reason: &str) {
        if let Some((_, counter)) = self.refused.iter().find(|(name, _)| *name == reason) {
            counter.increment(1);
        }
    }
}

/// The metrics of one path.
struct RouteMetrics {
    path: SharedString,
    seconds: Histogram,
    first_byte: Histogram,
    /// Counters by method and status; made when first met, never looked up by name again.
    statuses: [OnceLock<Box<[OnceLock<Counter>]>>; 3],
}

/// What the label `method` may say.
const METHODS: [&str; 3] = ["GET", "POST", "other"];
const FIRST_STATUS: u16 = 100;
const LAST_STATUS: u16 = 999;

/// The name in metrics of a path that is none.
const UNKNOWN_ROUTE: &str = "unknown";

/// The metrics cannot be set up.
#[derive(Debug, thiserror::Error)]
#[error("the metrics cannot be set up")]
pub struct TelemetryError(#[from] metrics_exporter_prometheus::BuildError);

impl Telemetry {
    /// Sets up all metrics, with the labels that the configuration allows.
    ///
    /// # Errors
    ///
    /// When the exporter refuses its own settings.
    pub fn new<'a>(
        tenant_dimension: &'static str,
        reasons: impl IntoIterator<Item = &'static str>,
        routes: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, TelemetryError> {
        let recorder = PrometheusBuilder::new()
            .set_buckets(&SECONDS)?
            .set_buckets_for_metric(Matcher::Full("rate_limit_store_seconds".to_owned()), &STORE_SECONDS)?
            .build_recorder();
        describe(&recorder);
        let handle = recorder.handle();
        let with = Registry(&recorder);
        let decisions = Dimension::ALL.map(|dimension| {
            ["granted", "denied", "impossible"].map(|decision| {
                with.counter(
                    "rate_limit_decisions_total",
                    &[("limit_type", dimension.as_str()), ("class", "requests"), ("decision", decision)],
                )
            })
        });
        let tenant = ("tenant_dimension", tenant_dimension);
        let queue = QueueMetrics {
            depth: with.gauge("rate_limit_fair_queue_depth", &[]),
            tenants: with.gauge("rate_limit_fair_queue_tenants", &[]),
            wait_seconds: with.histogram("rate_limit_fair_queue_wait_seconds", &[tenant]),
            grants: with.counter("rate_limit_fair_queue_grants_total", &[tenant]),
            refused: reasons
                .into_iter()
                .map(|reason| {
                    let labels = [tenant, ("reason", reason)];
                    (reason, with.counter("rate_limit_fair_queue_refused_total", &labels))
                })
                .collect(),
        };
        let store_seconds = with.histogram("rate_limit_store_seconds", &[("store", "memory")]);
        with.gauge("rate_limit_store_up", &[("store", "memory")]).set(1.0);
        with.gauge("fairlane_build_info", &[("version", env!("CARGO_PKG_VERSION"))]).set(1.0);
        let routes = routes
            .into_iter()
            .chain([UNKNOWN_ROUTE])
            .map(|path| {
                let path = SharedString::from(path.to_owned());
                let label = [Label::new("route", path.clone())];
                RouteMetrics {
                    seconds: with.histogram_of("http_request_duration_seconds", &label),
                    first_byte: with.histogram_of("http_first_byte_seconds", &label),
                    path,
                    statuses: [const { OnceLock::new() }; 3],
                }
            })
            .collect();
        let buckets = with.gauge("rate_limit_buckets", &[]);
        let overflow = with.counter("rate_limit_overflow_total", &[]);
        Ok(Self { handle, decisions, queue, store_seconds, buckets, overflow, routes, recorder })
    }

    /// Counts a decision under the dimension that bound it.
    pub fn decided(&self, dimension: Dimension, verdict: Verdict) {
        let verdict = match verdict {
            Verdict::Granted => 0,
            Verdict::Denied => 1,
            Verdict::Impossible => 2,
        };
        if let Some(counter) = self.decisions.get(dimension.index()).and_then(|row| row.get(verdict)) {
            counter.increment(1);
        }
    }

    /// The index of what is at no known path.
    #[must_use]
    pub fn unknown_route(&self) -> usize {
        self.routes.len().saturating_sub(1)
    }

    /// Notes that an answer's head is on its way.
    pub fn answered(&self, route: usize, method: &Method, status: StatusCode, after: Duration) {
        let Some(route) = self.routes.get(route) else { return };
        route.first_byte.record(after);
        let method = match *method {
            Method::GET => 0,
            Method::POST => 1,
            _ => 2,
        };
        let Some(statuses) = route.statuses.get(method) else { return };
        let statuses =
            statuses.get_or_init(|| (FIRST_STATUS..=LAST_STATUS).map(|_| OnceLock::new()).collect());
        let Some(cell) = statuses.get(usize::from(status.as_u16().saturating_sub(FIRST_STATUS))) else {
            return;
        };
        let counter = cell.get_or_init(|| {
            let labels = [
                Label::from_static_parts("method", METHODS.get(method).copied().unwrap_or("other")),
                Label::new("route", route.path.clone()),
                Label::new("status", status.as_str().to_owned()),
            ];
            Registry(&self.recorder).counter_of("http_requests_total", &labels)
        });
        counter.increment(1);
    }

    /// Notes that an answer's body has ended, or was given up.
    pub fn ended(&self, route: usize, after: Duration) {
        if let Some(route) = self.routes.get(route) {
            route.seconds.record(after);
        }
    }

    /// Notes what the memory store holds, and how often it had to share a bucket.
    pub fn store(&self, buckets: usize, overflowed: u64) {
        #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
        self.buckets.set(buckets as f64);
        self.overflow.absolute(overflowed);
    }

    /// The text that Prometheus scrapes.
    #[must_use]
    pub fn render(&self) -> String {
        self.handle.render()
    }

    /// Folds what histograms collected since the last time; without it they grow until the next scrape.
    pub fn run_upkeep(&self) {
        self.handle.run_upkeep();
    }

    /// Runs `f` so that handles taken in it through the `metrics` macros are this gateway's.
    pub fn scoped<T>(&self, f: impl FnOnce() -> T) -> T {
        metrics::with_local_recorder(&self.recorder, f)
    }
}

/// Takes handles by name.
struct Registry<'a>(&'a PrometheusRecorder);

impl Registry<'_> {
    fn counter(&self, name: &'static str, labels: &[(&'static str, &'static str)]) -> Counter {
        self.counter_of(name, &fixed(labels))
    }

    fn counter_of(&self, name: &'static str, labels: &[Label]) -> Counter {
        self.0.register_counter(&Key::from_parts(name, labels.to_vec()), &METADATA)
    }

    fn gauge(&self, name: &'static str, labels: &[(&'static str, &'static str)]) -> Gauge {
        self.0.register_gauge(&Key::from_parts(name, fixed(labels)), &METADATA)
    }

    fn histogram(&self, name: &'static str, labels: &[(&'static str, &'static str)]) -> Histogram {
        self.histogram_of(name, &fixed(labels))
    }

    fn histogram_of(&self, name: &'static str, labels: &[Label]) -> Histogram {
        self.0.register_histogram(&Key::from_parts(name, labels.to_vec()), &METADATA)
    }
}

fn fixed(labels: &[(&'static str, &'static str)]) -> Vec<Label> {
    labels.iter().map(|(name, value)| Label::from_static_parts(name, value)).collect()
}

/// Help texts; a metric without one fails `promtool check metrics`.
const COUNTERS: [(&str, &str); 6] = [
    ("rate_limit_decisions_total", "Limiter decisions, by the dimension that bound them."),
    ("rate_limit_fair_queue_grants_total", "Admission attempts granted from a queue."),
    ("rate_limit_fair_queue_refused_total", "Requests refused instead of, or after, being queued."),
    ("http_requests_total", "Requests answered on the data plane."),
    ("backend_requests_total", "Answers of backends, by status."),
    ("rate_limit_overflow_total", "Charges that shared an overflow bucket, because max_buckets were in use."),
];
const GAUGES: [(&str, &str); 6] = [
    ("rate_limit_fair_queue_depth", "Requests held in the queues now."),
    ("rate_limit_fair_queue_tenants", "Tenants the scheduler tracks now."),
    ("rate_limit_store_up", "1 while the limit store answers."),
    ("rate_limit_buckets", "Buckets the memory store holds now."),
    ("backend_up", "1 while a backend takes requests."),
    ("fairlane_build_info", "Always 1; the label names the version."),
];
const HISTOGRAMS: [(&str, &str); 4] = [
    ("rate_limit_fair_queue_wait_seconds", "Time a request was held before its attempt was granted."),
    ("rate_limit_store_seconds", "Time of a decision in the limit store."),
    ("http_request_duration_seconds", "Time from a request's head to the end of its answer."),
    ("http_first_byte_seconds", "Time from a request's head to the head of its answer."),
];

fn describe(recorder: &PrometheusRecorder) {
    let text = SharedString::const_str;
    for (name, help) in COUNTERS {
        recorder.describe_counter(KeyName::from_const_str(name), Some(Unit::Count), text(help));
    }
    for (name, help) in GAUGES {
        recorder.describe_gauge(KeyName::from_const_str(name), None, text(help));
    }
    for (name, help) in HISTOGRAMS {
        recorder.describe_histogram(KeyName::from_const_str(name), Some(Unit::Seconds), text(help));
    }
}
