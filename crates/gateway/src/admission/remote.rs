//! A store that has to be waited for, as the limiter uses it, and what its errors mean.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use fairlane_limiter::{Decision, StoreError};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::{
    Outage, Reach, RemoteStore,
    limiter::{Gauges, Undecided},
    settling::Settler,
};
use crate::limits::Charges;

/// Between two lines of the log that say the same.
const LOUD_EVERY: Duration = Duration::from_secs(1);

/// A remote store at work.
#[derive(Debug)]
pub(super) struct Remote {
    store: Arc<dyn RemoteStore>,
    gauges: Arc<Gauges>,
    settler: Settler,
    outage: Outage,
    /// How many of the store's own losses have been counted.
    lost: AtomicU64,
    /// When the log last said that requests pass unmetered, and how many have since.
    said: Mutex<(Option<Instant>, u64)>,
}

impl Remote {
    /// Must be called on a Tokio runtime.
    pub(super) fn new(store: Arc<dyn RemoteStore>, outage: Outage, gauges: Arc<Gauges>) -> Self {
        let settler = Settler::spawn(Arc::clone(&store), gauges.store.lost.clone());
        Self { store, gauges, settler, outage, lost: AtomicU64::new(0), said: Mutex::default() }
    }

    /// Refreshes what is measured rather than counted.
    pub(super) fn upkeep(&self) {
        self.gauges.store.up(self.store.is_up());
        let lost = self.store.lost();
        self.gauges.store.lost.increment(lost.saturating_sub(self.lost.swap(lost, Ordering::Relaxed)));
    }

    /// How much of the store is known to answer; `None` if all of it is.
    pub(super) fn reach(&self) -> Option<Reach> {
        (!self.store.is_up()).then(|| self.store.reach())
    }

    pub(super) fn is_up_for(&self, charges: &Charges) -> bool {
        self.store.is_up_for(charges.as_slice())
    }

    pub(super) const fn outage(&self) -> Outage {
        self.outage
    }

    pub(super) fn name(&self) -> &'static str {
        self.store.name()
    }

    pub(super) const fn settler(&self) -> &Settler {
        &self.settler
    }

    /// Takes all charges or none.
    pub(super) async fn take(&self, charges: &Charges) -> Result<Decision, Undecided> {
        let before = Instant::now();
        let decided = self.store.take(charges.as_slice()).await;
        self.gauges.store.seconds.record(before.elapsed());
        match &decided {
            Ok(decision) => self.gauges.decided(charges.as_slice(), decision),
            Err(error) => self.gauges.store.failed(error),
        }
        self.judge(decided)
    }

    /// Looks without taking.
    pub(super) async fn look(&self, charges: &Charges) -> Result<Decision, Undecided> {
        let looked = self.peek(charges).await;
        self.judge(looked)
    }

    /// What the buckets hold, whatever an outage means.
    pub(super) async fn peek(&self, charges: &Charges) -> Result<Decision, StoreError> {
        let looked = self.store.peek(charges.as_slice()).await;
        if let Err(error) = &looked {
            self.gauges.store.failed(error);
        }
        looked
    }

    /// What an error means: the one place where a request may pass that nobody has decided on.
    fn judge(&self, decided: Result<Decision, StoreError>) -> Result<Decision, Undecided> {
        decided.map_err(|error| match self.outage {
            Outage::FailClosed => Undecided::Refused(error),
            Outage::FailOpen => {
                self.let_through(&error);
                Undecided::Unmetered
            }
        })
    }

    /// Counts it, and says so; not more often than somebody can read.
    fn let_through(&self, error: &StoreError) {
        self.gauges.store.fail_open.increment(1);
        let now = Instant::now();
        let passed = {
            let mut said = self.said.lock();
            said.1 += 1;
            if said.0.is_some_and(|at| now < at + LOUD_EVERY) {
                return;
            }
            said.0 = Some(now);
            std::mem::take(&mut said.1)
        };
        tracing::warn!(
            passed,
            error = error as &dyn std::error::Error,
            "the limit store is out, and requests pass unmetered (outage: fail_open)"
        );
    }
}
