//! The metrics of the limit store.

use fairlane_limiter::StoreError;
use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};

/// What is counted and timed about the limit store.
#[derive(Debug)]
pub struct StoreMetrics {
    /// Time of a decision.
    pub seconds: Histogram,
    /// Decisions that were passed over during an outage: a request may need several.
    pub fail_open: Counter,
    /// Buckets that were not given back to, and calls whose answers were lost and may have been grants.
    pub lost: Counter,
    up: Gauge,
    errors: [Counter; 3],
}

impl StoreMetrics {
    /// Takes the handles of the store called `store`.
    #[must_use]
    pub fn new(store: &'static str) -> Self {
        let error = |kind| counter!("rate_limit_store_errors_total", "store" => store, "kind" => kind);
        let metrics = Self {
            seconds: histogram!("rate_limit_store_seconds", "store" => store),
            fail_open: counter!("rate_limit_fail_open_total"),
            lost: counter!("rate_limit_settlements_lost_total"),
            up: gauge!("rate_limit_store_up", "store" => store),
            errors: ["timeout", "unavailable", "protocol"].map(error),
        };
        // Counters appear before they count, so that their first increase is seen as one.
        for counter in metrics.errors.iter().chain([&metrics.fail_open, &metrics.lost]) {
            counter.increment(0);
        }
        metrics
    }

    /// Notes whether the store answers.
    pub fn up(&self, up: bool) {
        self.up.set(if up { 1.0 } else { 0.0 });
    }

    /// Counts an error.
    pub fn failed(&self, error: &StoreError) {
        let [timeout, unavailable, protocol] = &self.errors;
        match error {
            StoreError::Timeout => timeout,
            StoreError::Protocol(_) => protocol,
            _ => unavailable,
        }
        .increment(1);
    }
}
