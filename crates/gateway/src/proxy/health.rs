//! Whether a backend takes requests: what failed connections say, and what asking it says.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use metrics::Gauge;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

use super::endpoint::Endpoint;
use super::telemetry::up_gauge;

/// How many failed connections in a row rest a backend.
const FAILURES_TO_REST: u32 = 3;
/// For how long.
const REST: Duration = Duration::from_secs(5);
/// How often idle connections are looked through.
const SWEEP: Duration = Duration::from_secs(1);

/// What is known about one backend's health. All of it is atomic: it is read on every request.
pub(super) struct Health {
    name: Arc<str>,
    /// Made with the first word on it, as a series cannot be taken back.
    up: OnceLock<Gauge>,
    /// Moments below are nanoseconds since this one.
    origin: Instant,
    /// Connections that failed since the last one that was made.
    failures: AtomicU32,
    rested_at: AtomicU64,
    /// Until when the one request that tries a rested backend first has it for itself.
    trial_ends: AtomicU64,
    /// Whether there are active checks: what earlier ones said counts for nothing without them.
    is_checked: AtomicBool,
    /// Active checks that failed since the last one that did not.
    failed_checks: AtomicU32,
    /// Set while active checks fail.
    down: AtomicBool,
    /// The backend is none any more, or another one has its name.
    retired: AtomicBool,
}

/// How a backend stands among the candidates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// It takes requests.
    Up,
    /// It has rested, and the next request tries it.
    Due,
    /// A request is trying it; others take it only where there is nothing better.
    Trying,
    /// It takes none.
    Out,
}

/// Keeps the background health checks running; they end when it is dropped.
#[derive(Debug)]
#[must_use = "health checks end when this is dropped"]
pub struct HealthWatch {
    _checks: JoinSet<()>,
}

// === impl Health ===

impl Health {
    pub(super) fn new(name: Arc<str>) -> Self {
        Self {
            name,
            up: OnceLock::new(),
            origin: Instant::now(),
            failures: AtomicU32::new(0),
            rested_at: AtomicU64::new(0),
            trial_ends: AtomicU64::new(0),
            is_checked: AtomicBool::new(false),
            failed_checks: AtomicU32::new(0),
            down: AtomicBool::new(false),
            retired: AtomicBool::new(false),
        }
    }

    /// Whether the backend is checked from here on.
    pub(super) fn check(&self, is_checked: bool) {
        if self.is_checked.swap(is_checked, Ordering::Relaxed) != is_checked {
            self.failed_checks.store(0, Ordering::Relaxed);
            self.down.store(false, Ordering::Relaxed);
        }
    }

    fn is_down(&self) -> bool {
        self.down.load(Ordering::Relaxed) && self.is_checked.load(Ordering::Relaxed)
    }

    /// How the backend stands now. Reads the clock only when something was wrong.
    pub(super) fn standing(&self) -> Standing {
        if self.is_down() {
            return Standing::Out;
        }
        if self.failures.load(Ordering::Relaxed) < FAILURES_TO_REST {
            return Standing::Up;
        }
        let now = self.moment(Duration::ZERO);
        if now < self.rested_at.load(Ordering::Relaxed) {
            Standing::Out
        } else if now < self.trial_ends.load(Ordering::Relaxed) {
            Standing::Trying
        } else {
            Standing::Due
        }
    }

    /// A request was given to a backend that was due. Without this a backend that swallows connections would
    /// cost every request of the next seconds its connect timeout, rather than one.
    pub(super) fn trial_begins(&self) {
        self.trial_ends.store(self.moment(REST), Ordering::Relaxed);
    }

    /// A connection was made.
    pub(super) fn connected(&self) {
        if self.failures.load(Ordering::Relaxed) == 0 {
            return;
        }
        if self.failures.swap(0, Ordering::Relaxed) >= FAILURES_TO_REST {
            tracing::info!(backend = %self.name, "backend takes connections again");
            self.publish();
        }
    }

    /// A connection could not be made.
    pub(super) fn connection_failed(&self) {
        let failures = self.failures.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        if failures < FAILURES_TO_REST {
            return;
        }
        self.rested_at.store(self.moment(REST), Ordering::Relaxed);
        if failures == FAILURES_TO_REST {
            tracing::warn!(backend = %self.name, "backend refuses connections: resting it");
            self.publish();
        }
    }

    /// What an active check says; a backend that fails so many in a row is down.
    fn checked(&self, well: bool, failures: u32) {
        if well {
            self.failed_checks.store(0, Ordering::Relaxed);
            self.set_down(false);
        } else if self.failed_checks.fetch_add(1, Ordering::Relaxed).saturating_add(1) >= failures.max(1) {
            self.set_down(true);
        }
    }

    /// Logs and publishes changes only.
    fn set_down(&self, down: bool) {
        if self.down.swap(down, Ordering::Relaxed) == down {
            return;
        }
        if down {
            tracing::warn!(backend = %self.name, "backend fails its health checks");
        } else {
            tracing::info!(backend = %self.name, "backend passes its health check again");
        }
        self.publish();
    }

    /// The backend is none any more, or another one has its name: what is still heard of it does not concern metrics.
    pub(super) fn retire(&self, is_gone: bool) {
        self.retired.store(true, Ordering::Relaxed);
        if is_gone && let Some(up) = self.up.get() {
            // Neither up nor down: a series that stood at zero would be alarming for ever.
            up.set(f64::NAN);
        }
    }

    /// Tells metrics how it stands.
    pub(super) fn publish(&self) {
        if self.retired.load(Ordering::Relaxed) {
            return;
        }
        let up = !self.is_down() && self.failures.load(Ordering::Relaxed) < FAILURES_TO_REST;
        self.up.get_or_init(|| up_gauge(&self.name)).set(if up { 1.0 } else { 0.0 });
    }

    fn moment(&self, from_now: Duration) -> u64 {
        let since = Instant::now().saturating_duration_since(self.origin).saturating_add(from_now);
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    }
}

// === impl HealthWatch ===

impl HealthWatch {
    pub(super) fn new(endpoints: &[Arc<Endpoint>]) -> Self {
        let mut checks = JoinSet::new();
        for endpoint in endpoints {
            if endpoint.settings.path.is_some() {
                checks.spawn(watch(Arc::clone(endpoint)));
            }
            checks.spawn(sweep(Arc::clone(endpoint)));
        }
        Self { _checks: checks }
    }
}

/// Closes what a backend's connections have become when nobody uses them.
async fn sweep(endpoint: Arc<Endpoint>) {
    let mut ticks = interval(SWEEP);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        endpoint.sweep();
    }
}

/// Asks one backend again and again.
async fn watch(endpoint: Arc<Endpoint>) {
    let settings = &endpoint.settings;
    // A zero interval would panic, and hammer the backend besides.
    let every = settings.interval.max(Duration::from_millis(1));
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let well = timeout(every, endpoint.check()).await.unwrap_or(false);
        endpoint.health.checked(well, settings.failures);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::advance;

    fn failing(times: u32) -> Health {
        let health = Health::new("b".into());
        for _ in 0..times {
            health.connection_failed();
        }
        health
    }

    #[tokio::test(start_paused = true)]
    async fn three_failures_in_a_row_rest_a_backend_for_five_seconds() {
        assert_eq!(failing(2).standing(), Standing::Up);
        let health = failing(3);
        assert_eq!(health.standing(), Standing::Out);
        advance(Duration::from_millis(4_999)).await;
        assert_eq!(health.standing(), Standing::Out);
        advance(Duration::from_millis(2)).await;
        assert_eq!(health.standing(), Standing::Due);
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_ends_the_row() {
        let health = failing(2);
        health.connected();
        health.connection_failed();
        health.connection_failed();
        assert_eq!(health.standing(), Standing::Up);
    }

    #[tokio::test(start_paused = true)]
    async fn one_request_tries_a_rested_backend_and_its_failure_rests_it_again() {
        let health = failing(3);
        advance(REST).await;
        health.trial_begins();
        assert_eq!(health.standing(), Standing::Trying);
        health.connection_failed();
        assert_eq!(health.standing(), Standing::Out);
        advance(REST).await;
        assert_eq!(health.standing(), Standing::Due);
        health.trial_begins();
        health.connected();
        assert_eq!(health.standing(), Standing::Up);
    }

    #[tokio::test(start_paused = true)]
    async fn a_trial_that_tells_nothing_does_not_last() {
        let health = failing(3);
        advance(REST).await;
        health.trial_begins();
        advance(REST).await;
        assert_eq!(health.standing(), Standing::Due);
    }
}
