//! Settles with a store that has to be waited for, off everybody's path.

use std::{fmt, sync::Arc};

use futures_util::{StreamExt as _, stream::FuturesUnordered};
use metrics::Counter;
use smallvec::SmallVec;
use tokio::{
    runtime,
    sync::mpsc::{self, error::TrySendError},
};
use tokio_util::task::{TaskTracker, task_tracker::TaskTrackerToken};

use super::{Generation, RemoteStore, correction::Correction, driver::Handle};
use crate::limits::USUAL_CHARGES;

/// Settlements that wait for their turn, at the most: what a store of usual speed settles in a tenth of a second or so.
const QUEUED: usize = 8_192;
/// Settlements under way at once; during an outage each of them may take seconds.
const AT_ONCE: usize = 256;

/// Where a store's settlements are left.
///
/// A dropped permit can wait for nothing, so it leaves what it settles in a bounded queue, which one task works off. What
/// finds no room, or what the store does not take, is counted: a bucket that misses what is given back stands lower than it
/// should, and refills; one that misses a debt stands higher, by what a request used beyond its reservation.
pub(super) struct Settler {
    queue: mpsc::Sender<Work>,
    outstanding: TaskTracker,
    lost: Counter,
}

/// What one request settles.
struct Work {
    /// Boxed: there is room for thousands of these.
    correction: Box<Correction>,
    /// The limits that it goes by.
    by: Generation,
    /// The gates of those who wait for the buckets.
    scheduler: Option<Handle>,
    _outstanding: TaskTrackerToken,
}

impl Settler {
    /// Starts the task; must be called on a Tokio runtime. Losses are counted in `lost`, by the bucket.
    pub(super) fn spawn(store: Arc<dyn RemoteStore>, lost: Counter) -> Self {
        let (queue, work) = mpsc::channel(QUEUED);
        drop(runtime::Handle::current().spawn(work_off(work, store, lost.clone())));
        Self { queue, outstanding: TaskTracker::new(), lost }
    }

    /// Moves buckets, and tells the gates of those who wait for them.
    pub(super) fn settle(&self, correction: Correction, by: Generation, scheduler: Option<Handle>) {
        let correction = Box::new(correction);
        let work = Work { correction, by, scheduler, _outstanding: self.outstanding.token() };
        match self.queue.try_send(work) {
            Ok(()) => {}
            Err(TrySendError::Full(work) | TrySendError::Closed(work)) => {
                self.lost.increment(work.correction.charges().as_slice().len() as u64);
            }
        }
    }

    /// Waits until nothing is outstanding.
    pub(super) async fn settled(&self) {
        self.outstanding.close();
        self.outstanding.wait().await;
    }

    pub(super) fn outstanding(&self) -> usize {
        self.outstanding.len()
    }
}

impl fmt::Debug for Settler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settler").field("outstanding", &self.outstanding.len()).finish_non_exhaustive()
    }
}

/// Ends when the settler is gone and everything it left has been settled.
async fn work_off(mut queue: mpsc::Receiver<Work>, store: Arc<dyn RemoteStore>, lost: Counter) {
    let mut running = FuturesUnordered::new();
    loop {
        tokio::select! {
            Some(work) = queue.recv(), if running.len() < AT_ONCE => running.push(work.run(&*store, &lost)),
            Some(()) = running.next() => {}
            else => return,
        }
    }
}

impl Work {
    async fn run(self, store: &dyn RemoteStore, lost: &Counter) {
        let settlements: SmallVec<[_; USUAL_CHARGES]> = self.correction.settlements().collect();
        let settled = store.settle(&settlements).await;
        if let Some(error) = settled.error() {
            let missing = (0..settlements.len()).filter(|at| !settled.has_happened(*at)).count();
            lost.increment(missing as u64);
            tracing::debug!(error = error as &dyn std::error::Error, missing, "not settled");
        }
        let moved = self.correction.charges().at(|at| settled.has_happened(at));
        if let Some(scheduler) = &self.scheduler
            && !moved.is_empty()
        {
            scheduler.moved(&moved, &settled.happened(), self.by);
        }
    }
}
