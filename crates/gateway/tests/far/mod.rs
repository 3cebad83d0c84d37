//! A store that has to be waited for, and does exactly what a test tells it.

#![allow(dead_code, reason = "each test program uses a part of it")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use fairlane_gateway::{
    admission::{RemoteStore, SettleFuture, StoreFuture},
    clock::TokioClock,
    limits::Charges,
};
use fairlane_limiter::{
    BucketKey, Charge, Decision, MemoryLimits, MemoryStore, Settled, Settlement, StoreError,
};
use parking_lot::Mutex;

/// What becomes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is answered when so much time has passed, from the buckets as they are then.
    After(Duration),
    /// It is done at once, and the answer takes so much time.
    AnsweredAfter(Duration),
    /// It fails at once, and does nothing.
    Fails,
    /// It does what it is asked, but no answer comes: it fails when so much time has passed.
    TimesOut(Duration),
}

/// Buckets far away. They are in memory, on Tokio's clock.
#[derive(Debug)]
pub(crate) struct Far {
    buckets: MemoryStore<TokioClock>,
    up: AtomicBool,
    /// Buckets on a shard that is out.
    dead: Mutex<Vec<BucketKey>>,
    takes: Mutex<Fate>,
    peeks: Mutex<Fate>,
    settlements: Mutex<Fate>,
    calls: [AtomicUsize; 3],
    under_way: [AtomicUsize; 3],
    most_under_way: [AtomicUsize; 3],
    lost: AtomicU64,
    taken_back: AtomicUsize,
}

impl Far {
    /// One that answers everything at the next opportunity.
    pub(crate) fn new() -> Arc<Self> {
        let soon = || Mutex::new(Fate::After(Duration::ZERO));
        Arc::new(Self {
            buckets: MemoryStore::new(MemoryLimits::default(), TokioClock::start()),
            up: AtomicBool::new(true),
            dead: Mutex::default(),
            takes: soon(),
            peeks: soon(),
            settlements: soon(),
            calls: Default::default(),
            under_way: Default::default(),
            most_under_way: Default::default(),
            lost: AtomicU64::new(0),
            taken_back: AtomicUsize::new(0),
        })
    }

    /// What becomes of decisions that begin from here on.
    pub(crate) fn takes(&self, fate: Fate) {
        *self.takes.lock() = fate;
    }

    /// What becomes of looks.
    pub(crate) fn peeks(&self, fate: Fate) {
        *self.peeks.lock() = fate;
    }

    /// What becomes of settlements.
    pub(crate) fn settlements(&self, fate: Fate) {
        *self.settlements.lock() = fate;
    }

    /// Everything fails, and the store knows it; or it is over.
    pub(crate) fn outage(&self, out: bool) {
        let fate = if out { Fate::Fails } else { Fate::After(Duration::ZERO) };
        self.takes(fate);
        self.peeks(fate);
        self.settlements(fate);
        self.up.store(!out, Ordering::SeqCst);
    }

    /// The shard that the buckets of these charges are on is out, and the store knows it.
    pub(crate) fn shard_out(&self, charges: &Charges) {
        self.dead.lock().extend(charges.as_slice().iter().map(|charge| charge.key));
    }

    fn is_out(&self, key: BucketKey) -> bool {
        self.dead.lock().contains(&key)
    }

    fn touch_shard_out(&self, charges: &[Charge]) -> bool {
        charges.iter().any(|charge| self.is_out(charge.key))
    }

    /// Whether it says that it answers.
    pub(crate) fn up(&self, up: bool) {
        self.up.store(up, Ordering::SeqCst);
    }

    /// It could not take back so many grants itself.
    pub(crate) fn loses(&self, grants: u64) {
        self.lost.fetch_add(grants, Ordering::SeqCst);
    }

    /// Decisions, looks and settlements that were asked for.
    pub(crate) fn calls(&self) -> [usize; 3] {
        self.calls.each_ref().map(|calls| calls.load(Ordering::SeqCst))
    }

    /// The most decisions, looks and settlements that were under way at once since this was asked last.
    pub(crate) fn most_under_way(&self) -> [usize; 3] {
        self.most_under_way.each_ref().map(|most| most.swap(0, Ordering::SeqCst))
    }

    /// Grants that nobody waited for, which it has given back itself as a store has to.
    pub(crate) fn taken_back(&self) -> usize {
        self.taken_back.load(Ordering::SeqCst)
    }

    /// Takes from the buckets as another gateway would, past whoever is tested.
    pub(crate) fn rob(&self, charges: &Charges) {
        assert!(self.buckets.take_now(charges.as_slice()).is_granted(), "there is nothing to take");
    }

    /// What the bucket of the first charge holds.
    pub(crate) fn left(&self, charges: &Charges) -> i64 {
        match self.buckets.peek_now(charges.as_slice()) {
            Decision::Granted(granted) => granted.balances().remaining(0).unwrap(),
            Decision::Denied(denied) => denied.balances().remaining(0).unwrap(),
            Decision::Impossible(_) => panic!("the charge does not fit"),
        }
    }

    fn call<'a, T: Send + 'a>(
        &'a self,
        at: usize,
        fates: &'a Mutex<Fate>,
        charges: &'a [Charge],
        act: impl FnOnce(&MemoryStore<TokioClock>) -> T + Send + 'a,
    ) -> StoreFuture<'a, T> {
        Box::pin(async move {
            self.calls[at].fetch_add(1, Ordering::SeqCst);
            let _under_way = UnderWay::of(self, at);
            let fate = if self.touch_shard_out(charges) { Fate::Fails } else { *fates.lock() };
            match fate {
                Fate::After(wait) => {
                    // Nothing that has to be waited for is there at the first look.
                    tokio::task::yield_now().await;
                    if !wait.is_zero() {
                        tokio::time::sleep(wait).await;
                    }
                    Ok(act(&self.buckets))
                }
                Fate::AnsweredAfter(wait) => {
                    let answer = act(&self.buckets);
                    tokio::time::sleep(wait).await;
                    Ok(answer)
                }
                Fate::Fails => Err(StoreError::Unavailable(None)),
                Fate::TimesOut(wait) => {
                    drop(act(&self.buckets));
                    tokio::time::sleep(wait).await;
                    Err(StoreError::Timeout)
                }
            }
        })
    }
}

struct UnderWay<'a>(&'a AtomicUsize);

impl<'a> UnderWay<'a> {
    fn of(far: &'a Far, at: usize) -> Self {
        let now = far.under_way[at].fetch_add(1, Ordering::SeqCst) + 1;
        far.most_under_way[at].fetch_max(now, Ordering::SeqCst);
        Self(&far.under_way[at])
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A grant on its way: one that does not arrive is given back.
struct Granted<'a> {
    far: &'a Far,
    charges: &'a [Charge],
    granted: AtomicBool,
}

impl Drop for Granted<'_> {
    fn drop(&mut self) {
        if *self.granted.get_mut() {
            self.far.taken_back.fetch_add(1, Ordering::SeqCst);
            let amount = |charge: &Charge| i64::try_from(charge.cost).unwrap();
            let back = |charge: &Charge| Settlement::new(charge.key, charge.quota, amount(charge));
            drop(self.far.buckets.settle_now(&self.charges.iter().map(back).collect::<Vec<_>>()));
        }
    }
}

impl RemoteStore for Far {
    fn name(&self) -> &'static str {
        "far"
    }

    fn is_up(&self) -> bool {
        self.up.load(Ordering::SeqCst) && self.dead.lock().is_empty()
    }

    fn is_up_for(&self, charges: &[Charge]) -> bool {
        self.up.load(Ordering::SeqCst) && !self.touch_shard_out(charges)
    }

    fn take<'a>(&'a self, charges: &'a [Charge]) -> StoreFuture<'a, Decision> {
        Box::pin(async move {
            let mut granted = Granted { far: self, charges, granted: AtomicBool::new(false) };
            let decided = self.call(0, &self.takes, charges, |buckets| {
                let decision = buckets.take_now(charges);
                granted.granted.store(decision.is_granted(), Ordering::SeqCst);
                decision
            });
            let decided = decided.await?;
            *granted.granted.get_mut() = false;
            Ok(decided)
        })
    }

    fn peek<'a>(&'a self, charges: &'a [Charge]) -> StoreFuture<'a, Decision> {
        self.call(1, &self.peeks, charges, |buckets| buckets.peek_now(charges))
    }

    fn settle<'a>(&'a self, settlements: &'a [Settlement]) -> SettleFuture<'a> {
        let (missing, lives): (Vec<_>, Vec<_>) =
            (0..settlements.len()).partition(|at| self.is_out(settlements[*at].key));
        let lives: Vec<_> = lives.into_iter().map(|at| settlements[at]).collect();
        Box::pin(async move {
            let settled =
                self.call(2, &self.settlements, &[], move |buckets| buckets.settle_now(&lives)).await;
            match settled {
                Ok(happened) if !missing.is_empty() => {
                    Settled::in_part(happened, &missing, StoreError::Unavailable(None))
                }
                settled => settled.into(),
            }
        })
    }

    fn lost(&self) -> u64 {
        self.lost.load(Ordering::SeqCst)
    }
}
