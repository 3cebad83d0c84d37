//! The recorder behind the metrics, and the text that Prometheus scrapes.

use metrics::{Unit, describe_counter, describe_gauge, describe_histogram};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};

/// Upper bounds of time buckets, in seconds: from a fast refusal to the longest stream.
const SECONDS: [f64; 16] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 120.0, 600.0];
/// The same for a look into a store.
const STORE_SECONDS: [f64; 10] = [1e-6, 2.5e-6, 1e-5, 5e-5, 1e-4, 5e-4, 1e-3, 5e-3, 2.5e-2, 0.1];

/// The process's recorder.
#[derive(Clone)]
pub struct Exporter {
    handle: PrometheusHandle,
}

impl std::fmt::Debug for Exporter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Exporter").finish_non_exhaustive()
    }
}

/// The recorder cannot be installed.
#[derive(Debug, thiserror::Error)]
#[error("the metrics cannot be set up")]
pub struct ExporterError(#[from] BuildError);

impl Exporter {
    /// Installs the recorder of this process. Handles taken before stay silent.
    ///
    /// # Errors
    ///
    /// When one is installed already.
    pub fn install() -> Result<Self, ExporterError> {
        let store = Matcher::Full("rate_limit_store_seconds".to_owned());
        let handle = PrometheusBuilder::new()
            .set_buckets(&SECONDS)?
            .set_buckets_for_metric(store, &STORE_SECONDS)?
            .install_recorder()?;
        describe();
        Ok(Self { handle })
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
}

/// Help texts; a metric without one fails `promtool check metrics`.
fn describe() {
    for (name, help) in [
        ("rate_limit_decisions_total", "Limiter decisions, by the dimension that bound them."),
        ("rate_limit_fair_queue_grants_total", "Admission attempts granted from a queue."),
        ("rate_limit_fair_queue_refused_total", "Requests refused instead of, or after, being queued."),
        (
            "rate_limit_deferred_admission_refused_total",
            "Requests refused instead of, or after, being deferred.",
        ),
        ("rate_limit_tokens_reserved_total", "Tokens taken from budgets before requests were sent."),
        ("rate_limit_tokens_settled_total", "Tokens that requests were charged for in the end."),
        ("rate_limit_tokens_returned_total", "Reserved tokens that were given back to budgets."),
        (
            "rate_limit_overflow_total",
            "Charges that shared an overflow bucket, because max_buckets were in use.",
        ),
        ("rate_limit_store_errors_total", "Calls that the limit store could not answer, by what went wrong."),
        (
            "rate_limit_fail_open_total",
            "Decisions that were passed over, and requests let through, while the limit store was out.",
        ),
        ("rate_limit_settlements_lost_total", "Buckets that could not be given back to."),
        ("http_requests_total", "Requests answered on the data plane."),
        (
            "backend_requests_total",
            "Requests sent to a backend, by its status, or unavailable, timeout or other.",
        ),
    ] {
        describe_counter!(name, Unit::Count, help);
    }
    for (name, help) in [
        ("rate_limit_fair_queue_depth", "Requests held in the queues now."),
        (
            "rate_limit_deferred_admission_held",
            "Requests deferred now, until a token budget has room for them.",
        ),
        ("rate_limit_fair_queue_tenants", "Tenants the scheduler tracks now."),
        ("rate_limit_store_up", "1 while the limit store answers."),
        ("rate_limit_buckets", "Buckets the memory store holds now."),
        ("backend_up", "1 while a backend takes requests, 0 after failed connections or health checks."),
        ("fairlane_build_info", "Always 1; the label names the version."),
    ] {
        describe_gauge!(name, help);
    }
    for (name, help) in [
        ("rate_limit_fair_queue_wait_seconds", "Time a request was held before its attempt was granted."),
        (
            "rate_limit_deferred_admission_wait_seconds",
            "Time a request was deferred before its attempt was granted.",
        ),
        ("rate_limit_store_seconds", "Time of a decision in the limit store."),
        ("http_request_duration_seconds", "Time from a request's head to the end of its answer."),
        ("http_first_byte_seconds", "Time from a request's head to the head of its answer."),
    ] {
        describe_histogram!(name, Unit::Seconds, help);
    }
}
