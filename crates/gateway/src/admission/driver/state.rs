//! The scheduler behind its lock, and its timer.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering, fence},
    },
};

use arc_swap::ArcSwap;
use fairlane_fair_queue::{
    Action, Class, FairQueue, GateLevel, Limits, Place, Refusal, Request, Ticket, Timestamp,
};
use parking_lot::{Mutex, MutexGuard};
use smallvec::SmallVec;
use tokio::{
    sync::{Notify, oneshot},
    time::Instant,
};

use super::turn::{Granted, NotHeld, Told, Turn};
use crate::{
    admission::{Generation, hint::ContentionHint, limiter::gate_of},
    clock::TokioClock,
    limits::Charges,
    telemetry::Telemetry,
};

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) inner: Mutex<Inner>,
    hint: ContentionHint,
    /// How many are held, readable without the lock.
    pub(super) held: AtomicUsize,
    /// How often it was told that something came back to buckets.
    pub(super) moves: AtomicU64,
    rearmed: Notify,
    pub(super) clock: TokioClock,
    pub(super) telemetry: ArcSwap<Telemetry>,
}

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) queue: FairQueue,
    pub(super) waiting: HashMap<Ticket, oneshot::Sender<Turn>>,
    /// Bytes of the bodies of all held requests, and how many they may be.
    body_bytes: u64,
    pub(super) max_body_bytes: u64,
    /// The limits in force. What buckets held by earlier ones is no word on what they hold now.
    pub(super) generation: Generation,
    /// When the timer task is to look again.
    armed: Option<Timestamp>,
    pub(super) closed: bool,
}

/// Whom to tell what, once the lock is free.
type Wakes = SmallVec<[(oneshot::Sender<Turn>, Turn); 8]>;

// === impl Shared ===

impl Shared {
    pub(super) fn new(
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
        Self {
            inner: Mutex::new(inner),
            hint: ContentionHint::new(),
            held: AtomicUsize::new(0),
            moves: AtomicU64::new(0),
            rearmed: Notify::new(),
            clock,
            telemetry: ArcSwap::new(telemetry),
        }
    }

    /// Whether somebody may be waiting for one of the buckets. Lock-free; never wrongly `false`.
    pub(super) fn may_be_contended(&self, charges: &Charges) -> bool {
        self.held.load(Ordering::Acquire) > 0
            && charges.as_slice().iter().any(|charge| self.hint.may_be_contended(gate_of(charge)))
    }

    /// One mutation, then all actions, then the timer; whoever is concerned is told after the lock is free.
    pub(super) fn mutate<R>(&self, change: impl FnOnce(&mut Inner, Timestamp) -> R) -> R {
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
        self.held.store(held.iter().sum(), Ordering::Release);
        // Whoever is held now either finds out that something has come back, or is found by who brings it.
        fence(Ordering::SeqCst);
        self.show(held, inner.queue.tenants());
        drop(inner);
        if sooner {
            self.rearmed.notify_one();
        }
        for (waiter, turn) in wakes {
            // A waiter that is being dropped tells the scheduler so itself.
            _ = waiter.send(turn);
        }
    }

    /// Tells how many are held. Under the lock, so that the last word is the latest.
    #[expect(clippy::cast_precision_loss, reason = "bounded far below 2^52")]
    fn show(&self, held: [usize; 2], tenants: usize) {
        let [queued, deferred] = held.map(|held| held as f64);
        let telemetry = self.telemetry.load();
        telemetry.queue.depth.set(queued);
        telemetry.deferral.held.set(deferred);
        telemetry.queue.tenants.set(tenants as f64);
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

    pub(super) fn refused(&self, refusal: &Refusal) {
        let telemetry = self.telemetry.load();
        match refusal.class {
            Class::Requests => telemetry.queue.refused(refusal.reason.as_str()),
            Class::Tokens => telemetry.deferral.refused(refusal.reason),
        }
    }

    /// Looks again whenever the scheduler asked for it.
    pub(super) async fn keep_time(self: Arc<Self>) {
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

// === impl Inner ===

impl Inner {
    /// What is to be believed of what was told. An answer that was on its way while limits were changed would have those
    /// who wait go by the earlier ones, and they have been told already what holds now.
    pub(super) fn believed<'a>(&self, told: Told<'a>) -> &'a [GateLevel] {
        if told.by.is_before(self.generation) { &[] } else { told.levels }
    }

    pub(super) fn enqueue(
        &mut self,
        request: Request<'_>,
        body_bytes: u64,
        now: Timestamp,
    ) -> Result<(Place, oneshot::Receiver<Turn>), NotHeld> {
        if self.body_bytes.saturating_add(body_bytes) > self.max_body_bytes {
            return Err(NotHeld::Refused(self.queue.turn_away(request, now)));
        }
        let place = self.queue.enqueue(request, now).map_err(NotHeld::Refused)?;
        self.body_bytes += body_bytes;
        let (tell, turn) = oneshot::channel();
        self.waiting.insert(place.ticket, tell);
        Ok((place, turn))
    }

    pub(super) fn forget(&mut self, ticket: Ticket, body_bytes: u64) {
        self.waiting.remove(&ticket);
        self.body_bytes = self.body_bytes.saturating_sub(body_bytes);
    }
}
