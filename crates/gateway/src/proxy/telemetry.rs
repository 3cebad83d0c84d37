//! What is counted about backends.

use std::sync::{Arc, OnceLock};

use http::StatusCode;
use metrics::{Counter, Gauge};

const REQUESTS: &str = "backend_requests_total";
const UP: &str = "backend_up";

/// The statuses that have a counter of their own, so that what a backend invents cannot add time series for ever.
const STATUSES: std::ops::Range<u16> = 100..600;

/// One backend's counters, looked up in the recorder once each.
pub(super) struct BackendMetrics {
    name: Arc<str>,
    statuses: Box<[OnceLock<Counter>]>,
    other: OnceLock<Counter>,
    unavailable: OnceLock<Counter>,
    timeout: OnceLock<Counter>,
}

// === impl BackendMetrics ===

impl BackendMetrics {
    pub(super) fn new(name: Arc<str>) -> Self {
        Self {
            name,
            statuses: STATUSES.map(|_| OnceLock::new()).collect(),
            other: OnceLock::new(),
            unavailable: OnceLock::new(),
            timeout: OnceLock::new(),
        }
    }

    pub(super) fn answered(&self, status: StatusCode) {
        let index = usize::from(status.as_u16().wrapping_sub(STATUSES.start));
        match self.statuses.get(index) {
            Some(counter) => self.count(counter, status.as_str()),
            None => self.count(&self.other, "other"),
        }
    }

    pub(super) fn unavailable(&self) {
        self.count(&self.unavailable, "unavailable");
    }

    pub(super) fn timed_out(&self) {
        self.count(&self.timeout, "timeout");
    }

    fn count(&self, counter: &OnceLock<Counter>, status: &str) {
        counter
            .get_or_init(
                || metrics::counter!(REQUESTS, "backend" => self.name.clone(), "status" => status.to_owned()),
            )
            .increment(1);
    }
}

/// The gauge that tells whether a backend takes requests.
pub(super) fn up_gauge(name: &Arc<str>) -> Gauge {
    metrics::gauge!(UP, "backend" => name.clone())
}
