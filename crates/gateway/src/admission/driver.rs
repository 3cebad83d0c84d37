//! Owns the scheduler, its lock and its one timer.
//!
//! The scheduler is a pure state machine; this is the part that has a clock. Every mutation goes through
//! [`Driver::mutate`]: change, drain all actions, arm the timer, unlock, and only then wake whom the actions concern.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwap;
use fairlane_fair_queue::{
    Action, Class, Demand, FairQueue, GateKey, GateLevel, Limits, Place, Reason, Refusal, Request, TenantKey,
    Ticket, Timestamp, Weight,
};
use fairlane_limiter::{Balances, Charge};
use parking_lot::{Mutex, MutexGuard};
use smallvec::SmallVec;
use tokio::{
    sync::{Notify, oneshot},
    time::Instant,
};

use super::{
    Generation,
    ask::{Ask, Tenant},
    hint::ContentionHint,
    limiter::{gate_of, levels},
};
use crate::{clock::TokioClock, dimension::class_of, limits::Charges, telemetry::Telemetry};

/// What a held request is told.
#[derive(Debug)]
pub(super) enum Turn {
    /// Try the limiter again.
    Attempt(Granted),
    /// The wait is over without one.
    Refused(Refusal),
    /// The gateway is going down.
    ShuttingDown,
}

/// What led to an attempt.
#[derive(Clone, Copy, Debug)]
pub(super) struct Granted {
    /// What the request waited for last.
    pub(super) class: Class,
    /// How long it has been deferred.
    pub(super) deferred: Duration,
}

/// What the limiter told of buckets, by the limits of a generation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Told<'a> {
    pub(super) levels: &'a [GateLevel],
    pub(super) by: Generation,
}

/// The gates of a request, each with what it asks there.
pub(super) type Demands = SmallVec<[Demand; 6]>;

pub(super) fn demands(charges: &Charges) -> Demands {
    let demand =
        |charge: &Charge| Demand { gate: gate_of(charge), class: class_of(&charge.key), cost: charge.cost };
    charges.as_slice().iter().map(demand).collect()
}

/// The scheduler at work.
#[derive(Debug)]
pub(super) struct Driver {
    shared: Arc<Shared>,
    timer: tokio::task::AbortHandle,
}

#[derive(Debug)]
struct Shared {
    inner: Mutex<Inner>,
    hint: ContentionHint,
    /// How many are held, readable without the lock.
    held: AtomicUsize,
    rearmed: Notify,
    clock: TokioClock,
    telemetry: ArcSwap<Telemetry>,
}

#[derive(Debug)]
struct Inner {
    queue: FairQueue,
    waiting: HashMap<Ticket, oneshot::Sender<Turn>>,
    /// Bytes of the bodies of all held requests, and how many they may be.
    body_bytes: u64,
    max_body_bytes: u64,
    /// The limits in force. What buckets held by earlier ones is no word on what they hold now.
    generation: Generation,
    /// When the timer task is to look again.
    armed: Option<Timestamp>,
    closed: bool,
}

/// A place that a request has been given. It has to be given up through the handle, whatever happens.
#[derive(Debug)]
pub(super) struct Joined {
    pub(super) scheduler: Handle,
    pub(super) place: Place,
    pub(super) turn: oneshot::Receiver<Turn>,
    pub(super) body_bytes: u64,
}

/// Why a request was not taken into a lane.
#[derive(Debug)]
pub(super) enum NotHeld {
    /// The queue says no.
    Refused(Refusal),
    /// The gateway is going down.
    ShuttingDown,
}

/// What became of a request that the limiter refused again.
#[derive(Debug)]
pub(super) enum Again {
    /// It waits on.
    Held(Place),
    /// It is refused now.
    Refused(Refusal),
    /// The scheduler does not know it any more.
    Gone,
}

impl Driver {
    /// Sets the scheduler up, and its timer on the current runtime.
    ///
    /// `max_body_bytes` bounds the bodies of all held requests together.
    pub(super) fn spawn(
        limits: Limits,
        max_body_bytes: u64,
        generation: Generation,
        clock: TokioClock,
        telemetry: Arc<Telemetry>,
    ) -> Self {
        let inner = Inner {
            queue: FairQueue::new(limits),
            waiting: HashMap::new(),
            body_bytes: 0,
            max_body_bytes,
            generation,
            armed: None,
            closed: false,
        };
        let shared = Arc::new(Shared {
            inner: Mutex::new(inner),
            hint: ContentionHint::new(),
            held: AtomicUsize::new(0),
            rearmed: Notify::new(),
            clock,
            telemetry: ArcSwap::new(telemetry),
        });
        let timer = tokio::spawn(Arc::clone(&shared).keep_time()).abort_handle();
        Self { shared, timer }
    }

    /// Other bounds, weights and limits, live. Nobody who is held is dropped: a bound that is exceeded now refuses newcomers. The
    /// tenants that `weights` does not know keep what they have.
    pub(super) fn reconfigure(
        &self,
        limits: Limits,
        max_body_bytes: u64,
        weights: &HashMap<TenantKey, Weight>,
        generation: Generation,
        telemetry: Arc<Telemetry>,
    ) {
        self.shared.telemetry.store(telemetry);
        self.shared.mutate(|inner, now| {
            inner.max_body_bytes = max_body_bytes;
            inner.generation = generation;
            inner.queue.reconfigure(limits, |tenant| weights.get(&tenant).copied(), now);
        });
    }

    /// How many are held now.
    pub(super) fn held(&self) -> usize {
        self.shared.held.load(Ordering::Acquire)
    }

    /// The gates that somebody waits at.
    pub(super) fn gates(&self) -> HashSet<GateKey> {
        if self.held() == 0 {
            return HashSet::new();
        }
        self.snapshot().gates.iter().map(|gate| gate.gate).collect()
    }

    /// Whether somebody may be waiting for one of the buckets. Lock-free; never wrongly `false`.
    pub(super) fn may_be_contended(&self, charges: &Charges) -> bool {
        self.shared.may_be_contended(charges)
    }

    /// The first of the charges whose bucket somebody waits for.
    pub(super) fn contended(&self, charges: &Charges) -> Option<usize> {
        let inner = self.shared.inner.lock();
        charges.as_slice().iter().position(|charge| inner.queue.contended(gate_of(charge)))
    }

    /// Takes a request into its lane if somebody waits for one of its buckets; asking and joining are one step. `deadline` is
    /// the end of its own time, however long it may be held.
    pub(super) fn join_contended(
        &self,
        ask: &Ask,
        tenant: Tenant,
        deadline: Instant,
    ) -> Option<Result<Joined, NotHeld>> {
        self.join_if(ask, tenant, None, deadline, |queue, demands| {
            demands.iter().any(|demand| queue.contended(demand.gate))
        })
    }

    /// Takes a request that the limiter refused into its lane.
    pub(super) fn join(
        &self,
        ask: &Ask,
        tenant: Tenant,
        told: Told<'_>,
        deadline: Instant,
    ) -> Result<Joined, NotHeld> {
        self.join_if(ask, tenant, Some(told), deadline, |_, _| true).unwrap_or(Err(NotHeld::ShuttingDown))
    }

    fn join_if(
        &self,
        ask: &Ask,
        tenant: Tenant,
        told: Option<Told<'_>>,
        deadline: Instant,
        wanted: impl FnOnce(&FairQueue, &[Demand]) -> bool,
    ) -> Option<Result<Joined, NotHeld>> {
        let demands = demands(&ask.charges);
        let (arrived, deadline) =
            (self.shared.clock.schedule(ask.arrived), self.shared.clock.schedule(deadline));
        let joined = self.shared.mutate(|inner, now| {
            if !wanted(&inner.queue, &demands) {
                return None;
            }
            if inner.closed {
                return Some(Err(NotHeld::ShuttingDown));
            }
            let request = Request {
                tenant: tenant.key,
                weight: tenant.weight,
                demands: &demands,
                levels: told.map_or(&[], |told| inner.believed(told)),
                arrived,
                deadline,
            };
            Some(inner.enqueue(request, ask.body_bytes, now))
        })?;
        Some(match joined {
            Ok((place, turn)) => {
                Ok(Joined { scheduler: self.handle(), place, turn, body_bytes: ask.body_bytes })
            }
            Err(not_held) => {
                if let NotHeld::Refused(refusal) = &not_held {
                    self.shared.refused(refusal);
                }
                Err(not_held)
            }
        })
    }

    /// Answers everybody who is held, and takes nobody any more.
    pub(super) fn close(&self) -> usize {
        let waiting = {
            let mut inner = self.shared.inner.lock();
            inner.closed = true;
            std::mem::take(&mut inner.waiting)
        };
        let held = waiting.len();
        for (_, turn) in waiting {
            // One whose caller just left has nobody to tell.
            _ = turn.send(Turn::ShuttingDown);
        }
        held
    }

    /// A look at the lanes.
    pub(super) fn snapshot(&self) -> fairlane_fair_queue::Snapshot {
        let now = self.shared.clock.schedule(Instant::now());
        self.shared.inner.lock().queue.snapshot(now)
    }

    /// A way to the scheduler that outlives a request.
    pub(super) fn handle(&self) -> Handle {
        Handle(Arc::clone(&self.shared))
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.timer.abort();
    }
}

/// What a request does to the scheduler.
#[derive(Clone, Debug)]
pub(super) struct Handle(Arc<Shared>);

impl Handle {
    /// What buckets hold after a settlement by the limits of `by`, for those who wait for one of them.
    pub(super) fn moved(&self, charges: &Charges, balances: &Balances, by: Generation) {
        // Not only for those who wait at one of them: who waits elsewhere may need them next, and only knows what they held
        // when it last asked.
        if self.0.held.load(Ordering::Acquire) == 0 {
            return;
        }
        let levels = levels(charges, balances);
        self.0.mutate(|inner, now| {
            let told = Told { levels: &levels, by };
            for &level in inner.believed(told) {
                inner.queue.observed(level, now);
            }
        });
    }

    /// Buckets that have no limit any more: nobody waits for them longer than for a turn.
    pub(super) fn unlimited(&self, gates: &[GateKey]) {
        self.0.mutate(|inner, now| {
            for &gate in gates {
                inner.queue.observed(without_limit(gate), now);
            }
        });
    }

    pub(super) fn admitted(&self, ticket: Ticket, body_bytes: u64, told: Told<'_>) {
        self.0.mutate(|inner, now| {
            inner.forget(ticket, body_bytes);
            let levels = inner.believed(told);
            inner.queue.admitted(ticket, levels, now);
        });
    }

    /// An attempt was refused; with `demands` it asked for something else than what it was held for.
    pub(super) fn refused(
        &self,
        ticket: Ticket,
        demands: Option<&Demands>,
        told: Told<'_>,
    ) -> (Again, Option<oneshot::Receiver<Turn>>) {
        let (again, turn) = self.0.mutate(|inner, now| {
            let levels = inner.believed(told);
            let requeued = match demands {
                Some(demands) => inner.queue.refused_otherwise(ticket, demands, levels, now),
                None => inner.queue.refused(ticket, levels, now),
            };
            match requeued {
                fairlane_fair_queue::Requeue::Requeued(place) => {
                    let (tell, turn) = oneshot::channel();
                    if inner.closed {
                        // Nobody will look at the map again.
                        _ = tell.send(Turn::ShuttingDown);
                    } else {
                        inner.waiting.insert(place.ticket, tell);
                    }
                    (Again::Held(place), Some(turn))
                }
                fairlane_fair_queue::Requeue::Refused(refusal) => (Again::Refused(refusal), None),
                fairlane_fair_queue::Requeue::Unknown => (Again::Gone, None),
            }
        });
        if let Again::Refused(refusal) = &again {
            self.0.refused(refusal);
        }
        (again, turn)
    }

    pub(super) fn failed(&self, ticket: Ticket, body_bytes: u64) {
        self.0.mutate(|inner, now| {
            inner.forget(ticket, body_bytes);
            inner.queue.failed(ticket, now);
        });
    }

    /// The request is no longer there, in whatever state it was.
    pub(super) fn left(&self, ticket: Ticket, body_bytes: u64) {
        self.0.mutate(|inner, now| {
            inner.forget(ticket, body_bytes);
            inner.queue.cancel(ticket, now);
        });
    }
}

/// What is said of a bucket that has no limit: it is full, and refills faster than anybody asks.
const fn without_limit(gate: GateKey) -> GateLevel {
    const PLENTY: u32 = u32::MAX;
    GateLevel {
        gate,
        level: PLENTY as i64,
        until_next: Duration::ZERO,
        capacity: PLENTY as u64,
        refill: PLENTY as u64,
        period: Duration::from_secs(1),
    }
}

/// Whom to tell what, once the lock is free.
type Wakes = SmallVec<[(oneshot::Sender<Turn>, Turn); 8]>;

impl Shared {
    fn may_be_contended(&self, charges: &Charges) -> bool {
        self.held.load(Ordering::Acquire) > 0
            && charges.as_slice().iter().any(|charge| self.hint.may_be_contended(gate_of(charge)))
    }

    /// One mutation, then all actions, then the timer; whoever is concerned is told after the lock is free.
    fn mutate<R>(&self, change: impl FnOnce(&mut Inner, Timestamp) -> R) -> R {
        let now = self.clock.schedule(Instant::now());
        let mut inner = self.inner.lock();
        let result = change(&mut inner, now);
        self.settle(inner, now);
        result
    }

    fn settle(&self, mut inner: MutexGuard<'_, Inner>, now: Timestamp) {
        let mut wakes = Wakes::new();
        while let Some(action) = inner.queue.poll(now) {
            wakes.extend(self.act(&mut inner, action));
        }
        while let Some((gate, contended)) = inner.queue.poll_contention() {
            self.hint.turned(gate, contended);
        }
        let next = inner.queue.next_wakeup();
        let sooner = next.is_some_and(|next| inner.armed.is_none_or(|armed| next < armed));
        if sooner {
            inner.armed = next;
        }
        let held = Class::ALL.map(|class| inner.queue.held_in(class));
        let tenants = inner.queue.tenants();
        self.held.store(held.iter().sum(), Ordering::Release);
        drop(inner);
        #[expect(clippy::cast_precision_loss, reason = "bounded far below 2^52")]
        {
            let [queued, deferred] = held.map(|held| held as f64);
            let telemetry = self.telemetry.load();
            telemetry.queue.depth.set(queued);
            telemetry.deferral.held.set(deferred);
            telemetry.queue.tenants.set(tenants as f64);
        }
        if sooner {
            self.rearmed.notify_one();
        }
        for (waiter, turn) in wakes {
            // A waiter that is being dropped tells the scheduler so itself.
            _ = waiter.send(turn);
        }
    }

    fn act(&self, inner: &mut Inner, action: Action) -> Option<(oneshot::Sender<Turn>, Turn)> {
        match action {
            Action::Grant { ticket, class, waited, deferred, .. } => {
                let telemetry = self.telemetry.load();
                match class {
                    Class::Requests => {
                        telemetry.queue.grants.increment(1);
                        telemetry.queue.wait_seconds.record(waited.saturating_sub(deferred));
                    }
                    Class::Tokens => telemetry.deferral.waited(deferred),
                }
                Some((inner.waiting.remove(&ticket)?, Turn::Attempt(Granted { class, deferred })))
            }
            Action::Refuse { ticket, refusal, .. } => {
                self.refused(&refusal);
                Some((inner.waiting.remove(&ticket)?, Turn::Refused(refusal)))
            }
        }
    }

    fn refused(&self, refusal: &Refusal) {
        let telemetry = self.telemetry.load();
        match refusal.class {
            Class::Requests => telemetry.queue.refused(refusal.reason.as_str()),
            Class::Tokens => telemetry.deferral.refused(refusal.reason),
        }
    }

    /// Looks again whenever the scheduler asked for it.
    async fn keep_time(self: Arc<Self>) {
        loop {
            let armed = self.inner.lock().armed;
            match armed {
                None => self.rearmed.notified().await,
                Some(at) => {
                    tokio::select! {
                        () = tokio::time::sleep_until(self.clock.instant(at)) => {
                            self.mutate(|inner, _| inner.armed = None);
                        }
                        () = self.rearmed.notified() => {}
                    }
                }
            }
        }
    }
}

impl Inner {
    /// What is to be believed of what was told. An answer that was on its way while limits were changed would have those
    /// who wait go by the earlier ones, and they have been told already what holds now.
    fn believed<'a>(&self, told: Told<'a>) -> &'a [GateLevel] {
        if told.by.is_before(self.generation) { &[] } else { told.levels }
    }

    fn enqueue(
        &mut self,
        request: Request<'_>,
        body_bytes: u64,
        now: Timestamp,
    ) -> Result<(Place, oneshot::Receiver<Turn>), NotHeld> {
        let place = self.queue.enqueue(request, now).map_err(NotHeld::Refused)?;
        if self.body_bytes.saturating_add(body_bytes) > self.max_body_bytes {
            // It had to be enqueued to know its place and its wait.
            self.queue.cancel(place.ticket, now);
            return Err(NotHeld::Refused(Refusal {
                reason: match place.class {
                    Class::Requests => Reason::QueueFull,
                    Class::Tokens => Reason::HoldFull,
                },
                class: place.class,
                position: place.position,
                waited: Duration::ZERO,
                deferred: Duration::ZERO,
                retry_after: place.estimate,
                gate: place.gate,
            }));
        }
        self.body_bytes += body_bytes;
        let (tell, turn) = oneshot::channel();
        self.waiting.insert(place.ticket, tell);
        Ok((place, turn))
    }

    fn forget(&mut self, ticket: Ticket, body_bytes: u64) {
        self.waiting.remove(&ticket);
        self.body_bytes = self.body_bytes.saturating_sub(body_bytes);
    }
}
