//! The recorder behind the metrics, and the text that Prometheus scrapes.

use metrics::{Unit, describe_counter, describe_gauge, describe_histogram};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};

use super::catalogue::{METRICS, Metric, MetricKind};

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
    for Metric { name, kind, help, .. } in METRICS {
        match kind {
            MetricKind::Counter => describe_counter!(*name, Unit::Count, *help),
            MetricKind::Gauge => describe_gauge!(*name, *help),
            MetricKind::Histogram => describe_histogram!(*name, Unit::Seconds, *help),
        }
    }
}
