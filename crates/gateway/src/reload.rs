//! Changes of the configuration while the gateway runs.
//!
//! In two phases: everything is read, validated and built first, and then put in force, which cannot fail. So a
//! configuration that is not good changes nothing at all.
//!
//! | what is there already | by what it goes afterwards |
//! |---|---|
//! | buckets | keep their content, in the quota that they have now; a bucket whose quota is the same gains nothing |
//! | requests that are held | keep their place; they are charged by the quotas that their key, user, team and model have, where they were limited before, and sent to the backends that there are, at the moment of their admission |
//! | requests under way | go on as they are; what they give back is given by the quotas of that moment |
//! | connections of callers | keep the timers and bounds that they were accepted with |
//! | connections to backends | stay, where the backend has the same name, address, certificates and connect timeout |
//! | what is known of a backend's health | stays, where it has the same name and address |

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use fairlane_config::Validated;
use metrics::{Counter, Gauge, counter, gauge};
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::{
    admin::AdminState,
    assemble::{AssembleError, Foundation, assemble, edge_settings},
    edge::EdgeSettings,
    proxy::HealthWatch,
    stack::Stack,
};

/// How long a store that could not say what buckets hold is left alone before it is asked again.
const AGAIN: Duration = Duration::from_millis(500);

/// Puts other configurations in force in a gateway that runs. Clones do so in the same one.
#[derive(Clone, Debug)]
pub struct Reloader(Arc<Live>);

#[derive(Debug)]
struct Live {
    foundation: Foundation,
    stack: Stack,
    admin: Arc<AdminState>,
    edge: watch::Sender<EdgeSettings>,
    /// The background checks of the backends, once the gateway serves.
    health: Mutex<Option<HealthWatch>>,
    /// One reload at a time.
    turn: tokio::sync::Mutex<()>,
    outcome: Outcome,
}

/// The metrics of the last reload.
#[derive(Debug)]
struct Outcome {
    successful: Gauge,
    time: Gauge,
    successes: Counter,
    failures: Counter,
}

impl Reloader {
    pub(crate) fn new(
        foundation: Foundation,
        stack: Stack,
        admin: Arc<AdminState>,
        edge: watch::Sender<EdgeSettings>,
    ) -> Self {
        let (health, turn) = (Mutex::default(), tokio::sync::Mutex::default());
        let outcome = Outcome::new();
        Self(Arc::new(Live { foundation, stack, admin, edge, health, turn, outcome }))
    }

    /// Puts a configuration in force. What [only a restart changes](fairlane_config::Loader::keeping) has to be as it is.
    /// Must be called on a Tokio runtime.
    ///
    /// # Errors
    ///
    /// What validation cannot see, such as certificates that cannot be read. Then nothing has changed.
    ///
    /// # Cancel safety
    ///
    /// Dropped before it is ready, it has changed nothing, or everything; in the latter case some of those who are held learn
    /// of it with their next attempt only.
    pub async fn reload(&self, config: &Validated) -> Result<(), AssembleError> {
        let live = &*self.0;
        let _turn = live.turn.lock().await;
        let parts = assemble(config, &live.foundation, Some(&live.stack.parts()))
            .inspect_err(|_| live.outcome.failed())?;
        live.stack.replace(parts);
        live.edge.send_modify(|settings| {
            *settings = EdgeSettings { workers: settings.workers.clone(), ..edge_settings(config) };
        });
        live.admin.show(config);
        if live.health.lock().is_some() {
            self.watch_health();
        }
        self.tell_the_held().await;
        live.outcome.succeeded();
        Ok(())
    }

    /// Tells those who are held what their buckets hold now; as soon as the store can say it, if it cannot at once.
    async fn tell_the_held(&self) {
        let parts = self.0.stack.parts();
        if parts.admission.observe().await {
            return;
        }
        // Weak, so that it does not outlive the gateway; and whatever comes after these parts tells them anew.
        let parts = Arc::downgrade(&parts);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(AGAIN).await;
                match parts.upgrade() {
                    Some(parts) if parts.are_in_force() && !parts.admission.observe().await => {}
                    _ => return,
                }
            }
        });
    }

    /// Notes that there was no good configuration to put in force.
    pub fn refused(&self) {
        self.0.outcome.failed();
    }

    /// Starts the background checks of the backends that there are now, and ends those of earlier ones.
    pub(crate) fn watch_health(&self) {
        let watch = self.0.stack.parts().proxy.watch_health();
        *self.0.health.lock() = Some(watch);
    }

    /// Ends the background checks.
    pub(crate) fn rest(&self) {
        self.0.health.lock().take();
    }
}

impl Outcome {
    /// What the gateway starts with has been loaded well.
    fn new() -> Self {
        let reloads = |result| counter!("config_reloads_total", "result" => result);
        let outcome = Self {
            successful: gauge!("config_last_reload_successful"),
            time: gauge!("config_last_reload_success_timestamp_seconds"),
            successes: reloads("success"),
            failures: reloads("failure"),
        };
        outcome.failures.increment(0);
        outcome.successes.increment(0);
        outcome.is_good();
        outcome
    }

    #[expect(clippy::disallowed_methods, reason = "a dashboard wants the time of the day")]
    fn is_good(&self) {
        self.successful.set(1.0);
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.time.set(since.as_secs_f64());
    }

    fn succeeded(&self) {
        self.is_good();
        self.successes.increment(1);
    }

    fn failed(&self) {
        self.successful.set(0.0);
        self.failures.increment(1);
    }
}
