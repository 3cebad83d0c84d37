//! The store of buckets, as admission uses it.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use arc_swap::ArcSwap;
use fairlane_fair_queue::{Class, GateKey, GateLevel};
use fairlane_limiter::{Balances, BucketKey, Charge, Decision, Denied, MemoryStore, StoreError};
use smallvec::SmallVec;
use tokio::time::Instant;

use super::{Generation, Outage, Reach, RemoteStore, correction::Correction, driver::Handle, remote::Remote};
use crate::{
    clock::TokioClock,
    dimension::{Dimension, class_of},
    limits::{Charges, QuotaTable, USUAL_CHARGES},
    telemetry::{StoreMetrics, Telemetry, Verdict},
};

/// What a decision tells the gates, one level per charge.
pub(super) type Levels = SmallVec<[GateLevel; USUAL_CHARGES]>;

/// The store of buckets, with every decision counted and timed.
#[derive(Debug)]
pub struct Limiter {
    kept: Kept,
    gauges: Arc<Gauges>,
    /// The quotas that hold now, and which in a row of them these are.
    quotas: ArcSwap<QuotaTable>,
    generation: AtomicU32,
}

/// Where the buckets are.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one of these, and what every request uses is near")]
enum Kept {
    /// In this process: every decision is made at once, and none can fail.
    Memory(MemoryStore<TokioClock>),
    /// Elsewhere.
    Remote(Remote),
}

/// What is counted and timed about decisions, and about the store that makes them.
#[derive(Debug)]
pub(super) struct Gauges {
    pub(super) store: StoreMetrics,
    telemetry: Arc<Telemetry>,
}

/// The store could not decide. What becomes of the request then has been settled here, once and for all.
#[derive(Debug)]
pub(super) enum Undecided {
    /// An outage lets requests through: nothing was charged, and nothing is to be given back.
    Unmetered,
    /// An outage refuses.
    Refused(StoreError),
}

impl Limiter {
    /// Puts a store in memory to use: there is nothing to wait for, and nothing that can fail.
    #[must_use]
    pub fn new(store: MemoryStore<TokioClock>, telemetry: Arc<Telemetry>) -> Self {
        let gauges = Gauges { store: StoreMetrics::new("memory"), telemetry };
        gauges.store.up(true);
        Self::over(Kept::Memory(store), Arc::new(gauges))
    }

    /// Puts a store to use that has to be waited for. Must be called on a Tokio runtime.
    #[must_use]
    pub fn remote(store: Arc<dyn RemoteStore>, outage: Outage, telemetry: Arc<Telemetry>) -> Self {
        let gauges = Arc::new(Gauges { store: StoreMetrics::new(store.name()), telemetry });
        gauges.store.up(store.is_up());
        Self::over(Kept::Remote(Remote::new(store, outage, Arc::clone(&gauges))), gauges)
    }

    fn over(kept: Kept, gauges: Arc<Gauges>) -> Self {
        Self { kept, gauges, quotas: ArcSwap::default(), generation: AtomicU32::default() }
    }

    /// Which quotas hold now.
    #[must_use]
    pub fn generation(&self) -> Generation {
        Generation(self.generation.load(Ordering::Acquire))
    }

    /// Puts other quotas in force. What is charged from here on goes by them, whoever asked before.
    pub fn adopt(&self, quotas: QuotaTable, generation: Generation) {
        self.quotas.store(Arc::new(quotas));
        self.generation.store(generation.0, Ordering::Release);
    }

    /// The quotas that hold now.
    #[must_use]
    pub fn quotas(&self) -> Arc<QuotaTable> {
        self.quotas.load_full()
    }

    /// Has what was taken by the limits of `made` go back by those that hold now, and tells which these are.
    pub(super) fn refresh(&self, charges: &mut Charges, made: Generation) -> Generation {
        let now = self.generation();
        if made != now && !charges.is_empty() {
            self.quotas.load().refresh(charges);
        }
        now
    }

    /// Has what was to be taken by the limits of `made` be taken by those that hold now, and tells which these are.
    pub(super) fn renew(&self, charges: &mut Charges, made: Generation) -> Generation {
        let now = self.generation();
        if made != now && !charges.is_empty() {
            self.quotas.load().renew(charges);
        }
        now
    }

    /// Gives the bucket a place of its own, found without a look-up, where the store has such places.
    #[must_use]
    pub fn pin(&self, key: BucketKey) -> BucketKey {
        match &self.kept {
            Kept::Memory(store) => store.pin(key),
            Kept::Remote(_) => key,
        }
    }

    /// What buckets hold, and whether they would take the charges.
    ///
    /// # Errors
    ///
    /// The store could not answer; never in memory.
    pub async fn peek(&self, charges: &Charges) -> Result<Decision, StoreError> {
        match &self.kept {
            Kept::Memory(store) => Ok(store.peek_now(charges.as_slice())),
            Kept::Remote(remote) => remote.peek(charges).await,
        }
    }

    /// Waits until everything that was given back has arrived, or is known to be lost.
    pub async fn settled(&self) {
        if let Kept::Remote(remote) = &self.kept {
            remote.settler().settled().await;
        }
    }

    /// How much has been given back that has not arrived yet.
    #[must_use]
    pub fn unsettled(&self) -> usize {
        match &self.kept {
            Kept::Memory(_) => 0,
            Kept::Remote(remote) => remote.settler().outstanding(),
        }
    }

    /// Why all requests with limits are refused at present, if they are: nothing of the store answers, and an outage
    /// refuses.
    #[must_use]
    pub fn refuses(&self) -> Option<String> {
        let (store, reach) = self.outage()?;
        (reach.answering == 0)
            .then(|| format!("the limit store ({store}) is out of reach, and requests are refused"))
    }

    /// Why some requests with limits are refused at present and others are not, if that is so: a part of the store
    /// answers.
    #[must_use]
    pub fn refuses_some(&self) -> Option<String> {
        let (store, Reach { answering, known }) = self.outage()?;
        let out = known.saturating_sub(answering);
        match (answering, out) {
            (0, _) => None,
            (_, 0) => Some(format!(
                "a part of the limit store ({store}) has no server, and requests with limits there are refused"
            )),
            _ => Some(format!(
                "{out} of {known} servers of the limit store ({store}) are out of reach, and requests with limits there \
                 are refused"
            )),
        }
    }

    /// How much of the store answers, if that is not all of it and what cannot be decided is refused.
    fn outage(&self) -> Option<(&'static str, Reach)> {
        match &self.kept {
            Kept::Remote(remote) if remote.outage() == Outage::FailClosed => {
                Some((remote.name(), remote.reach()?))
            }
            _ => None,
        }
    }

    /// Refreshes what is measured rather than counted.
    pub fn upkeep(&self) {
        match &self.kept {
            Kept::Memory(store) => {
                let stats = store.stats();
                self.gauges.telemetry.store(stats.buckets, stats.overflowed);
            }
            Kept::Remote(remote) => remote.upkeep(),
        }
    }

    /// Whether the store is known to answer for the buckets of these charges, whatever else of it is out.
    pub(super) fn is_up_for(&self, charges: &Charges) -> bool {
        match &self.kept {
            Kept::Memory(_) => true,
            Kept::Remote(remote) => remote.is_up_for(charges),
        }
    }

    /// Takes all charges or none, at once; `None` if the store has to be waited for.
    pub(super) fn take_now(&self, charges: &[Charge]) -> Option<Decision> {
        match &self.kept {
            Kept::Memory(store) => Some(self.gauges.timed(store, charges)),
            Kept::Remote(_) => None,
        }
    }

    /// Looks at once; `None` if the store has to be waited for.
    pub(super) fn look_now(&self, charges: &[Charge]) -> Option<Decision> {
        match &self.kept {
            Kept::Memory(store) => Some(store.peek_now(charges)),
            Kept::Remote(_) => None,
        }
    }

    /// Takes all charges or none.
    ///
    /// # Errors
    ///
    /// The store could not decide.
    ///
    /// # Cancel safety
    ///
    /// Dropped before it is ready, it takes nothing in the end: the store gives back what it takes after that.
    pub(super) async fn take(&self, charges: &Charges) -> Result<Decision, Undecided> {
        match &self.kept {
            Kept::Memory(store) => Ok(self.gauges.timed(store, charges.as_slice())),
            Kept::Remote(remote) => remote.take(charges).await,
        }
    }

    /// Looks without taking; what an outage means is the same as for [`Limiter::take`].
    ///
    /// # Errors
    ///
    /// The store could not answer.
    pub(super) async fn look(&self, charges: &Charges) -> Result<Decision, Undecided> {
        match &self.kept {
            Kept::Memory(store) => Ok(store.peek_now(charges.as_slice())),
            Kept::Remote(remote) => remote.look(charges).await,
        }
    }

    /// Moves buckets, at once or as soon as the store can, and tells the gates of those who wait for them. The correction
    /// is by the limits of `by`.
    pub(super) fn settle(&self, correction: Correction, by: Generation, scheduler: Option<&Handle>) {
        match &self.kept {
            Kept::Memory(store) => {
                let settlements: SmallVec<[_; USUAL_CHARGES]> = correction.settlements().collect();
                let balances = store.settle_now(&settlements);
                if let Some(scheduler) = scheduler {
                    scheduler.moved(correction.charges(), &balances, by);
                }
            }
            Kept::Remote(remote) => remote.settler().settle(correction, by, scheduler.cloned()),
        }
    }

    /// A charge that its bucket never holds, which needs no store to be told. It is counted as a decision.
    pub(super) fn exceeding(&self, charges: &Charges) -> Option<usize> {
        let at = charges.exceeding()?;
        if let Some(dimension) = charges.dimension(at) {
            self.gauges.telemetry.decided(dimension, charges.class(at), Verdict::Impossible);
        }
        Some(at)
    }

    /// What is counted about requests.
    pub(super) fn telemetry(&self) -> &Telemetry {
        &self.gauges.telemetry
    }
}

impl Gauges {
    fn timed(&self, store: &MemoryStore<TokioClock>, charges: &[Charge]) -> Decision {
        let before = Instant::now();
        let decision = store.take_at(charges, store.clock().limiter(before));
        self.store.seconds.record(before.elapsed());
        self.decided(charges, &decision);
        decision
    }

    pub(super) fn decided(&self, charges: &[Charge], decision: &Decision) {
        let Some((at, verdict)) = judged(charges, decision) else { return };
        let Some(charge) = charges.get(at) else { return };
        if let Some(dimension) = Dimension::of(&charge.key) {
            self.telemetry.decided(dimension, class_of(&charge.key), verdict);
        }
    }
}

/// The charge that a decision is counted under, and how it came out.
///
/// A grant binds nothing: it counts under the last charge that was asked.
fn judged(charges: &[Charge], decision: &Decision) -> Option<(usize, Verdict)> {
    Some(match decision {
        Decision::Granted(_) => (charges.len().checked_sub(1)?, Verdict::Granted),
        Decision::Denied(denied) => (binding(charges, denied)?, Verdict::Denied),
        Decision::Impossible(impossible) => (*impossible.exceeding().first()?, Verdict::Impossible),
    })
}

/// The charge that binds: the one with the longest wait among the refusing request counts, or, if none of those refuses,
/// among the refusing token reservations.
pub(super) fn binding(charges: &[Charge], denied: &Denied) -> Option<usize> {
    let longest = |class: Class| {
        let counts = |at: usize| charges.get(at).is_some_and(|charge| class_of(&charge.key) == class);
        let refusing = denied.refusals().filter(|refusal| counts(refusal.index));
        refusing.max_by_key(|refusal| refusal.retry_after).map(|refusal| refusal.index)
    };
    longest(Class::Requests).or_else(|| longest(Class::Tokens))
}

/// The gate of a charge's bucket.
///
/// The digest is keyed and separated by dimension and by what is counted, so it names the bucket alone.
pub(crate) fn gate_of(charge: &Charge) -> GateKey {
    GateKey(charge.key.digest())
}

/// What balances tell the gates of their buckets.
pub(super) fn levels(charges: &Charges, balances: &Balances) -> Levels {
    const DAY: std::time::Duration = std::time::Duration::from_secs(86_400);
    charges
        .as_slice()
        .iter()
        .zip(balances.iter())
        .map(|(charge, balance)| GateLevel {
            gate: gate_of(charge),
            level: balance.remaining,
            until_next: balance.until_next,
            capacity: charge.quota.capacity(),
            refill: charge.quota.refill_per_day(),
            period: DAY,
        })
        .collect()
}
