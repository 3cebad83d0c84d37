//! A store that has to be waited for, as the limiter uses it: what its errors mean, and what becomes of a decision that
//! nobody waits for any more.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use fairlane_limiter::{Decision, StoreError};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::{
    Outage, RemoteStore,
    driver::Handle,
    limiter::{Gauges, Undecided},
    settling::{Asking, Settler},
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

    pub(super) fn is_up(&self) -> bool {
        self.store.is_up()
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

    /// Takes all charges or none; a grant that comes when nobody waits for it any more is given back.
    pub(super) fn take<'a>(&'a self, charges: &Charges, scheduler: Option<&'a Handle>) -> Taking<'a> {
        Taking { remote: self, scheduler, asking: Some(self.ask(charges.clone())) }
    }

    /// The same for charges that are kept whatever becomes of the request.
    pub(super) async fn take_for_good(&self, charges: &Charges) -> Result<Decision, Undecided> {
        let (_, decided) = self.ask(charges.clone()).await;
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

    fn ask(&self, charges: Charges) -> Asking {
        let (store, gauges) = (Arc::clone(&self.store), Arc::clone(&self.gauges));
        Box::pin(async move {
            let before = Instant::now();
            let decided = store.take(charges.as_slice()).await;
            gauges.store.seconds.record(before.elapsed());
            match &decided {
                Ok(decision) => gauges.decided(charges.as_slice(), decision),
                Err(error) => gauges.store.failed(error),
            }
            (charges, decided)
        })
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

/// A decision under way. Dropped before it is made, it is made all the same, and given back if it is a grant.
#[must_use = "a decision that nobody waits for is given back"]
pub(super) struct Taking<'a> {
    remote: &'a Remote,
    scheduler: Option<&'a Handle>,
    /// `None` once it is decided.
    asking: Option<Asking>,
}

impl Future for Taking<'_> {
    type Output = Result<Decision, Undecided>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // A future that is polled after its end stays silent.
        let Some(asking) = &mut self.asking else { return Poll::Pending };
        let (_, decided) = ready!(asking.as_mut().poll(cx));
        self.asking = None;
        Poll::Ready(self.remote.judge(decided))
    }
}

impl Drop for Taking<'_> {
    fn drop(&mut self) {
        if let Some(asking) = self.asking.take() {
            self.remote.settler.finish(asking, self.scheduler.cloned());
        }
    }
}
