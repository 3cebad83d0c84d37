//! Every metric: its type, its labels, its help text, and what an operator does about it.
//!
//! The one place of these texts: the recorder, `fairlane explain` and the table in the documentation take them from here.

/// What a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// It only grows.
    Counter,
    /// It goes up and down.
    Gauge,
    /// Times, in seconds.
    Histogram,
}

impl MetricKind {
    /// The name as Prometheus has it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// One metric.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Its name.
    pub name: &'static str,
    /// What it is.
    pub kind: MetricKind,
    /// Its labels.
    pub labels: &'static [&'static str],
    /// What it counts or times: its help text.
    pub help: &'static str,
    /// What an operator does about it.
    pub advice: &'static str,
}

const fn metric(
    name: &'static str,
    kind: MetricKind,
    labels: &'static [&'static str],
    help: &'static str,
    advice: &'static str,
) -> Metric {
    Metric { name, kind, labels, help, advice }
}

use MetricKind::{Counter, Gauge, Histogram};

/// Every metric of the gateway.
pub const METRICS: &[Metric] = &[
    metric(
        "rate_limit_fair_queue_depth",
        Gauge,
        &[],
        "Requests held in the queues now.",
        "Near `fair_queuing.max_total_queued` it is about to refuse: raise the limit of what is contended, or the bound.",
    ),
    metric(
        "rate_limit_fair_queue_tenants",
        Gauge,
        &[],
        "Tenants the scheduler tracks now.",
        "Near `fair_queuing.max_tenants` new tenants are refused as `tenant_table_full`: raise the bound.",
    ),
    metric(
        "rate_limit_fair_queue_wait_seconds",
        Histogram,
        &["tenant_dimension"],
        "Time a request was held before its attempt was granted.",
        "Waits near `fair_queuing.max_wait_ms` mean that more is asked than the limits grant: raise the limits, or have callers ask less.",
    ),
    metric(
        "rate_limit_fair_queue_grants_total",
        Counter,
        &["tenant_dimension"],
        "Admission attempts granted from a queue.",
        "Its rate is what a contended limit grants; compare it with the limit.",
    ),
    metric(
        "rate_limit_fair_queue_refused_total",
        Counter,
        &["tenant_dimension", "reason"],
        "Requests refused instead of, or after, being queued.",
        "The `reason` says which bound refuses: `fairlane explain` tells what each means.",
    ),
    metric(
        "rate_limit_deferred_admission_held",
        Gauge,
        &[],
        "Requests deferred now, until a token budget has room for them.",
        "Near `deferred_admission.max_held` it is about to refuse: raise the budgets of tokens, or the bound.",
    ),
    metric(
        "rate_limit_deferred_admission_wait_seconds",
        Histogram,
        &[],
        "Time a request was deferred before its attempt was granted.",
        "Waits near `deferred_admission.max_wait_ms` mean that more tokens are asked than the budgets refill.",
    ),
    metric(
        "rate_limit_deferred_admission_refused_total",
        Counter,
        &["reason"],
        "Requests refused instead of, or after, being deferred.",
        "The `reason` says which bound refuses: `fairlane explain` tells what each means.",
    ),
    metric(
        "rate_limit_decisions_total",
        Counter,
        &["limit_type", "class", "decision"],
        "Limiter decisions, by the dimension that bound them.",
        "A `limit_type` with many `denied` is the limit that callers meet; `impossible` means requests that no waiting admits.",
    ),
    metric(
        "rate_limit_tokens_reserved_total",
        Counter,
        &["dimension"],
        "Tokens taken from budgets before requests were sent.",
        "Far above what is settled, estimates are too high: lower `tokens.default_output`, or have callers cap their output.",
    ),
    metric(
        "rate_limit_tokens_settled_total",
        Counter,
        &["dimension"],
        "Tokens that requests were charged for in the end.",
        "What is really used: the number to set budgets by.",
    ),
    metric(
        "rate_limit_tokens_returned_total",
        Counter,
        &["dimension"],
        "Reserved tokens that were given back to budgets.",
        "Far below what is reserved is good: estimates are near what is used.",
    ),
    metric(
        "rate_limit_store_seconds",
        Histogram,
        &["store"],
        "Time of a decision in the limit store.",
        "Times near `redis.timeout_ms` are about to be outages: look at Redis and at the way to it.",
    ),
    metric(
        "rate_limit_store_up",
        Gauge,
        &["store"],
        "1 while the limit store answers, in a cluster all of its shards.",
        "At 0 requests are answered 503, or pass unmetered with `outage: fail_open`; in a cluster only those with limits on the shards that are out, which `/readyz` counts. `fairlane check --connect` says what is wrong.",
    ),
    metric(
        "rate_limit_store_errors_total",
        Counter,
        &["store", "kind"],
        "Decisions that the limit store could not make, by what went wrong.",
        "`timeout`: it is slow or far; `unavailable`: it cannot be reached; `protocol`: it answers what is not expected.",
    ),
    metric(
        "rate_limit_fail_open_total",
        Counter,
        &[],
        "Decisions that were passed over, and requests let through, while the limit store was out.",
        "Each is a decision that no limit had a part in, and a request may need several: mend the store, or set `redis.outage` to `fail_closed`.",
    ),
    metric(
        "rate_limit_settlements_lost_total",
        Counter,
        &[],
        "Buckets that could not be given back to, and calls whose answers were lost and may have been grants.",
        "What was charged stays charged until it refills: it happens while the store cannot be reached.",
    ),
    metric(
        "rate_limit_buckets",
        Gauge,
        &[],
        "Buckets the memory store holds now.",
        "Near `rate_limiting.max_buckets` new identities begin to share: raise the bound.",
    ),
    metric(
        "rate_limit_overflow_total",
        Counter,
        &[],
        "Charges that shared an overflow bucket, because max_buckets were in use.",
        "Raise `rate_limiting.max_buckets`: identities that share a bucket limit each other.",
    ),
    metric(
        "http_requests_total",
        Counter,
        &["method", "route", "status"],
        "Requests answered on the data plane.",
        "Status 499 is a caller that left before its answer; `fairlane explain` tells what an error code means.",
    ),
    metric(
        "http_request_duration_seconds",
        Histogram,
        &["route"],
        "Time from a request's head to the end of its answer.",
        "Most of it is the backend's: compare it with the time that requests were held.",
    ),
    metric(
        "http_first_byte_seconds",
        Histogram,
        &["route"],
        "Time from a request's head to the head of its answer.",
        "What a caller waits before anything comes, being held included.",
    ),
    metric(
        "http_connections",
        Gauge,
        &[],
        "Connections open on the data plane now.",
        "Near `server.max_connections` more wait in the listen queue: raise the bound.",
    ),
    metric(
        "http_connections_refused_total",
        Counter,
        &[],
        "Connections closed at once, because their client had `server.max_connections_per_client` open.",
        "A proxy in front counts as one client unless it is among `server.trusted_proxies`; otherwise a client leaks connections, or needs a higher bound.",
    ),
    metric(
        "backend_requests_total",
        Counter,
        &["backend", "status"],
        "Requests sent to a backend, by its status, or unavailable, timeout or other.",
        "`unavailable` and `timeout` are seen by callers as 502 and 504: look at the backend.",
    ),
    metric(
        "backend_up",
        Gauge,
        &["backend"],
        "1 while a backend takes requests, 0 after failed connections or health checks, NaN once a reload has removed it.",
        "At 0 by health checks it gets no requests until one passes; after failed connections one request tries it every five seconds.",
    ),
    metric(
        "config_reloads_total",
        Counter,
        &["result"],
        "Reloads of the configuration, by result: success or failure.",
        "A failure has changed nothing; the log has the report, and `fairlane check` tells more.",
    ),
    metric(
        "config_last_reload_successful",
        Gauge,
        &[],
        "1 if the last reload of the configuration succeeded, or there was none, else 0.",
        "At 0 the gateway goes by an older configuration than the one in its file: run `fairlane check`.",
    ),
    metric(
        "config_last_reload_success_timestamp_seconds",
        Gauge,
        &[],
        "When the configuration in force was loaded, in seconds since 1970.",
        "Compare it with the time of the last roll-out, to see that every gateway took it up.",
    ),
    metric(
        "fairlane_build_info",
        Gauge,
        &["version"],
        "Always 1; the label names the version.",
        "Compare it over a fleet after a roll-out.",
    ),
];
