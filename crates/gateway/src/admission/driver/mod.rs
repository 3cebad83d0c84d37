//! Owns the scheduler, its lock and its one timer.
//!
//! The scheduler is a pure state machine; this is the part that has a clock. Every mutation goes through
//! [`Shared::mutate`]: change, drain all actions, arm the timer, unlock, and only then wake whom the actions concern.

mod state;
mod turn;

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use fairlane_fair_queue::{
    Demand, FairQueue, GateKey, GateLevel, Limits, Request, TenantKey, Ticket, Weight,
};
use fairlane_limiter::Balances;
use tokio::{sync::oneshot, time::Instant};

use self::state::Shared;
pub(super) use self::turn::{Again, Demands, Joined, NotHeld, Told, Turn, demands};
use super::{
    Generation,
    ask::{Ask, Tenant},
    limiter::{gate_of, levels},
};
use crate::{clock::TokioClock, limits::Charges, telemetry::Telemetry};

/// The scheduler at work.
#[derive(Debug)]
pub(super) struct Driver {
    shared: Arc<Shared>,
    timer: tokio::task::AbortHandle,
}

/// What a request does to the scheduler.
#[derive(Clone, Debug)]
pub(super) struct Handle(Arc<Shared>);

// === impl Driver ===

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
        let shared = Arc::new(Shared::new(limits, max_body_bytes, generation, clock, telemetry));
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

    /// How often something has come back to buckets so far. If a request was refused and has joined a lane, and this is as it was
    /// before, nothing came back meanwhile that nobody was told of.
    pub(super) fn moves(&self) -> u64 {
        self.shared.moves.load(Ordering::SeqCst)
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

// === impl Handle ===

impl Handle {
    /// What buckets hold after a settlement by the limits of `by`, for those who wait for one of them.
    pub(super) fn moved(&self, charges: &Charges, balances: &Balances, by: Generation) {
        // Not only for those who wait at one of them: who waits elsewhere may need them next, and only knows what they held
        // when it last asked.
        self.0.moves.fetch_add(1, Ordering::SeqCst);
        if self.0.held.load(Ordering::SeqCst) == 0 {
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
