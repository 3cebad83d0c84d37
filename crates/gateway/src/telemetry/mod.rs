//! What the gateway counts and times: names, labels, and handles that cost an atomic each.
//!
//! All label values come from the configuration or from closed lists, so a caller cannot make a series. Handles are taken
//! once; where a label is known only at the answer (a status), a table of cells stands in for a look-up by name.
//!
//! Handles are those of the process's recorder of the `metrics` facade. The gateway installs its own ([`Exporter`]); a
//! service that mounts admission sees these metrics in whatever recorder it has installed before.

mod catalogue;
mod exporter;
mod routes;
mod store;
mod tokens;

use std::time::Duration;

use fairlane_fair_queue::Class;
use http::{Method, StatusCode};
use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};

use self::routes::RouteMetrics;
pub use self::{
    catalogue::{METRICS, Metric, MetricKind},
    exporter::{Exporter, ExporterError},
    store::StoreMetrics,
    tokens::{DeferralMetrics, TokenDimensions, TokenMetrics},
};
use crate::dimension::Dimension;

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

impl Verdict {
    const ALL: [Self; 3] = [Self::Granted, Self::Denied, Self::Impossible];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Granted => "granted",
            Self::Denied => "denied",
            Self::Impossible => "impossible",
        }
    }
}

/// The gateway's metrics.
pub struct Telemetry {
    /// By class and dimension.
    decisions: [[[Counter; 3]; 7]; 2],
    /// What the fair queue tells.
    pub queue: QueueMetrics,
    /// What deferred admission tells.
    pub deferral: DeferralMetrics,
    /// What token budgets tell.
    pub tokens: TokenMetrics,
    buckets: Gauge,
    overflow: Counter,
    connections: Gauge,
    connections_refused: Counter,
    routes: Vec<RouteMetrics>,
}

impl std::fmt::Debug for Telemetry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Telemetry").finish_non_exhaustive()
    }
}

/// The fair queue's metrics.
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
    refused: Vec<(&'static str, Counter)>,
}

impl QueueMetrics {
    fn new(tenant_dimension: &'static str, reasons: impl IntoIterator<Item = &'static str>) -> Self {
        let refused = |reason| {
            let counter = counter!(
                "rate_limit_fair_queue_refused_total",
                "tenant_dimension" => tenant_dimension,
                "reason" => reason
            );
            (reason, counter)
        };
        Self {
            depth: gauge!("rate_limit_fair_queue_depth"),
            tenants: gauge!("rate_limit_fair_queue_tenants"),
            wait_seconds: histogram!(
                "rate_limit_fair_queue_wait_seconds",
                "tenant_dimension" => tenant_dimension
            ),
            grants: counter!(
                "rate_limit_fair_queue_grants_total",
                "tenant_dimension" => tenant_dimension
            ),
            refused: reasons.into_iter().map(refused).collect(),
        }
    }

    /// Counts one refusal.
    pub fn refused(&self, reason: &str) {
        if let Some((_, counter)) = self.refused.iter().find(|(name, _)| *name == reason) {
            counter.increment(1);
        }
    }
}

/// The name in metrics of a path that is none.
const UNKNOWN_ROUTE: &str = "unknown";

impl Telemetry {
    /// Takes all handles, with the labels that the configuration allows.
    #[must_use]
    pub fn new<'a>(
        tenant_dimension: &'static str,
        reasons: impl IntoIterator<Item = &'static str>,
        routes: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        gauge!("fairlane_build_info", "version" => env!("CARGO_PKG_VERSION")).set(1.0);
        Self {
            decisions: Class::ALL.map(|class| {
                Dimension::ALL.map(|dimension| {
                    Verdict::ALL.map(|verdict| {
                        counter!(
                            "rate_limit_decisions_total",
                            "limit_type" => dimension.as_str(),
                            "class" => class.as_str(),
                            "decision" => verdict.as_str()
                        )
                    })
                })
            }),
            queue: QueueMetrics::new(tenant_dimension, reasons),
            deferral: DeferralMetrics::new(),
            tokens: TokenMetrics::new(),
            buckets: gauge!("rate_limit_buckets"),
            overflow: counter!("rate_limit_overflow_total"),
            connections: gauge!("http_connections"),
            connections_refused: counter!("http_connections_refused_total"),
            routes: routes.into_iter().chain([UNKNOWN_ROUTE]).map(RouteMetrics::new).collect(),
        }
    }

    /// Counts a decision under the charge that bound it.
    pub fn decided(&self, dimension: Dimension, class: Class, verdict: Verdict) {
        let [requests, tokens] = &self.decisions;
        let rows = match class {
            Class::Requests => requests,
            Class::Tokens => tokens,
        };
        let row = rows.get(dimension.index());
        if let Some(counter) = row.and_then(|row| row.get(verdict as usize)) {
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
        if let Some(route) = self.routes.get(route) {
            route.answered(method, status, after);
        }
    }

    /// Notes that an answer's body has ended, or was given up.
    pub fn ended(&self, route: usize, after: Duration) {
        if let Some(route) = self.routes.get(route) {
            route.ended(after);
        }
    }

    /// Notes how many connections are open, and how many have been refused so far.
    pub fn connections(&self, open: usize, refused: u64) {
        #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
        self.connections.set(open as f64);
        self.connections_refused.absolute(refused);
    }

    /// Notes what the memory store holds, and how often it had to share a bucket.
    pub fn store(&self, buckets: usize, overflowed: u64) {
        #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
        self.buckets.set(buckets as f64);
        self.overflow.absolute(overflowed);
    }
}
