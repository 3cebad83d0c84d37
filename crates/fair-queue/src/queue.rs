use std::collections::BTreeSet;
use std::time::Duration;

use crate::class::Counts;
use crate::deadlines::Deadlines;
use crate::gate::{Gate, LAPSED, NEWS, OPEN};
use crate::grants::Grants;
use crate::index::{PlaceIndex, hash};
use crate::lane::{FORGETTABLE, IDLE, Lane, Tenant};
use crate::list::List;
use crate::slab::{NONE, Slab};
use crate::waiter::Waiter;
use crate::{
    Action, Class, Demand, GateKey, GateLevel, Limits, Place, Refusal, Request, Requeue, Snapshot, TenantKey,
    Ticket, Timestamp, Weight,
};

mod ahead;
mod choice;
mod classes;
mod forget;
mod hold;
mod rounds;
mod settle;
mod view;

/// A weighted fair queue of requests that wait for rate-limited buckets.
///
/// It has no clock, starts nothing and blocks nobody: it is told what happened, and says what to do. After
/// each call that changes something, drain [`poll`](Self::poll) and [`poll_contention`](Self::poll_contention)
/// and set one timer to [`next_wakeup`](Self::next_wakeup).
///
/// No call panics, whatever the ticket, the numbers or the clock. Time that runs backwards is taken to stand
/// still until it has caught up.
///
/// # Examples
///
/// ```
/// use fairlane_fair_queue::{Action, Demand, FairQueue, GateKey, GateLevel, Limits, Request, TenantKey, Timestamp, Weight};
/// use std::time::Duration;
///
/// let mut queue = FairQueue::new(Limits::default());
/// let start = Timestamp::ZERO;
/// let gate = GateKey(1);
///
/// // The limiter has refused a request: its bucket of 10 a second is empty for another 40 ms.
/// let level = GateLevel {
///     gate,
///     level: 0,
///     until_next: Duration::from_millis(40),
///     capacity: 10,
///     refill: 10,
///     period: Duration::from_secs(1),
/// };
/// let request = Request {
///     tenant: TenantKey(7),
///     weight: Weight::MIN,
///     demands: &[Demand::request(gate)],
///     levels: &[level],
///     arrived: start,
///     deadline: start + Duration::from_secs(5),
/// };
/// let place = queue.enqueue(request, start)?;
/// assert_eq!((place.position, place.estimate), (1, Duration::from_millis(40)));
/// assert!(queue.contended(gate));
///
/// // Nothing to do until then.
/// assert_eq!(queue.poll(start), None);
/// let at = queue.next_wakeup().unwrap();
/// assert_eq!(at, start + Duration::from_millis(40));
///
/// // Its turn: the driver asks the limiter again and reports.
/// assert!(matches!(queue.poll(at), Some(Action::Grant { ticket, .. }) if ticket == place.ticket));
/// assert!(queue.admitted(place.ticket, &[], at));
/// assert!(queue.is_empty() && !queue.contended(gate));
/// # Ok::<(), fairlane_fair_queue::Refusal>(())
/// ```
#[derive(Debug)]
pub struct FairQueue {
    limits: Limits,
    /// The latest moment ever told.
    now: Timestamp,
    /// Counts arrivals, and orders them.
    serial: u64,
    /// Counts grants and what is heard of buckets, to tell which came first.
    event: u64,
    waiters: Slab<Waiter>,
    /// The waiters by class.
    counts: Counts,
    lanes: Slab<Lane>,
    tenants: Slab<Tenant>,
    gates: Slab<Gate>,
    tenant_index: PlaceIndex,
    gate_index: PlaceIndex,
    lane_index: PlaceIndex,
    deadlines: Deadlines,
    grants: Grants,
    in_flight: u32,
    /// Gates at which somebody waits.
    gates_waiting: usize,
    /// Gates to look at: without an attempt out, and with.
    fresh: List<OPEN>,
    busy: List<OPEN>,
    /// Gates that open by themselves.
    closed: BTreeSet<(Timestamp, u32)>,
    news: List<NEWS>,
    lapsed: List<LAPSED>,
    idle: List<IDLE>,
    idle_lanes: usize,
    forgettable: List<FORGETTABLE>,
}

// === impl FairQueue ===

impl FairQueue {
    /// An empty queue.
    #[must_use]
    pub const fn new(limits: Limits) -> Self {
        Self {
            limits,
            now: Timestamp::ZERO,
            serial: 0,
            event: 0,
            waiters: Slab::new(),
            counts: Counts::new(),
            lanes: Slab::new(),
            tenants: Slab::new(),
            gates: Slab::new(),
            tenant_index: PlaceIndex::new(),
            gate_index: PlaceIndex::new(),
            lane_index: PlaceIndex::new(),
            deadlines: Deadlines::new(),
            grants: Grants::new(),
            in_flight: 0,
            gates_waiting: 0,
            fresh: List::new(),
            busy: List::new(),
            closed: BTreeSet::new(),
            news: List::new(),
            lapsed: List::new(),
            idle: List::new(),
            idle_lanes: 0,
            forgettable: List::new(),
        }
    }

    /// Holds a request that the limiter has refused, or that was not let through to it because one of its
    /// gates is [contended](Self::contended).
    ///
    /// It waits at the gate where it would wait longest, among those that are contended or have no room for
    /// it, behind its tenant's earlier requests; at one that counts tokens only if there is none that counts requests.
    ///
    /// # Errors
    ///
    /// The refusal to answer with, for the first of the reasons that applies, in the order of
    /// [`Reason`](crate::Reason). The request is not held, and nothing remains of it.
    pub fn enqueue(&mut self, request: Request<'_>, now: Timestamp) -> Result<Place, Refusal> {
        let now = self.tick(now);
        self.hold(&request, now)
    }

    /// The refusal to answer a request with that the driver has no room to hold, for want of memory for instance: as
    /// [`enqueue`](Self::enqueue) would give it if as many were held as may be. Nothing remains of it.
    pub fn turn_away(&mut self, request: Request<'_>, now: Timestamp) -> Refusal {
        let now = self.tick(now);
        self.refuse_newcomer(&request, now)
    }

    /// The attempt was accepted; `levels` is what the limiter told of the buckets with it. The request is no
    /// longer held. False, and nothing happens, if no attempt of this ticket is out.
    pub fn admitted(&mut self, ticket: Ticket, levels: &[GateLevel], now: Timestamp) -> bool {
        let now = self.tick(now);
        self.settle_admitted(ticket, levels, now)
    }

    /// The limiter refused the attempt; `levels` is what it told of the buckets. The turn is given back, and
    /// the request waits again, with its seniority and its deadline, unless it cannot be served in time.
    ///
    /// If it is now a bucket of the other class that it has to wait for, it is held in that class: within that one's bounds,
    /// and with a deadline that is drawn nearer if that class would hold nothing for so long since its arrival.
    ///
    /// With a [`Requeue::Refused`] the request is no longer held.
    pub fn refused(&mut self, ticket: Ticket, levels: &[GateLevel], now: Timestamp) -> Requeue {
        let now = self.tick(now);
        self.settle_refused(ticket, None, levels, now)
    }

    /// As [`refused`](Self::refused), of an attempt that asked for other buckets, or more or less of them, than the request
    /// was held for: limits have changed while it waited. It waits for `demands` from here on.
    pub fn refused_otherwise(
        &mut self,
        ticket: Ticket,
        demands: &[Demand],
        levels: &[GateLevel],
        now: Timestamp,
    ) -> Requeue {
        let now = self.tick(now);
        self.settle_refused(ticket, Some(demands), levels, now)
    }

    /// The attempt came to nothing (the store did not answer, say). The turn is given back and the request is
    /// no longer held. False, and nothing happens, if no attempt of this ticket is out.
    pub fn failed(&mut self, ticket: Ticket, now: Timestamp) -> bool {
        let now = self.tick(now);
        self.settle_failed(ticket, now)
    }

    /// The caller has gone: the request leaves at once, wherever it is, and those behind it move up. A turn
    /// that it had is given back. False, and nothing happens, if it is not held.
    pub fn cancel(&mut self, ticket: Ticket, now: Timestamp) -> bool {
        let now = self.tick(now);
        self.settle_cancelled(ticket, now)
    }

    /// Something other than an attempt told what a bucket holds: a settlement, a reload, another request.
    /// Nothing happens if the gate is not known here.
    pub fn observed(&mut self, level: GateLevel, now: Timestamp) {
        let now = self.tick(now);
        if let Some(gate) = self.find_gate(level.gate) {
            self.believe(gate, &level, now);
            self.sweep(now);
        }
    }

    /// New bounds and weights, live. `weights` is asked for every tenant tracked; `None` keeps what it has.
    ///
    /// Nobody who waits is dropped: a bound that is exceeded now only refuses newcomers. Every tenant keeps
    /// its lag, in units, so that nobody's service dips. Costs a walk over all lanes.
    pub fn reconfigure(
        &mut self,
        limits: Limits,
        weights: impl Fn(TenantKey) -> Option<Weight>,
        now: Timestamp,
    ) {
        let now = self.tick(now);
        self.limits = limits;
        for tenant in 0..self.tenants.places() {
            if !self.tenants[tenant].is_tracked {
                continue;
            }
            if let Some(weight) = weights(self.tenants[tenant].key) {
                self.reweigh(tenant, weight.get(), now);
            }
        }
    }

    /// The next thing to do; call it until there is nothing.
    pub fn poll(&mut self, now: Timestamp) -> Option<Action> {
        let now = self.tick(now);
        self.next_action(now)
    }

    /// When to poll again if nothing else happens before; `None` if never.
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Timestamp> {
        self.next_moment()
    }

    /// Does somebody wait at this gate, or try from it right now? Then a newcomer with a charge on its bucket
    /// has to queue, without asking the limiter: it would take what they wait for.
    #[must_use]
    pub fn contended(&self, gate: GateKey) -> bool {
        self.find_gate(gate).is_some_and(|gate| self.gates[gate].is_contended())
    }

    /// The next gate that has become contended (true) or free (false) since it was last told here; call it
    /// until there is nothing. Lets a driver keep a hint that can be read without its lock. A gate that has
    /// changed and changed back meanwhile is not told.
    pub fn poll_contention(&mut self) -> Option<(GateKey, bool)> {
        self.next_news()
    }

    /// Is nothing held?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.held() == 0
    }

    /// Requests held: waiting and in flight, in both classes.
    #[must_use]
    pub fn held(&self) -> usize {
        self.waiters.len()
    }

    /// Requests held in a class: those that wait at its gates, and those whose attempts went out from there.
    #[must_use]
    pub fn held_in(&self, class: Class) -> usize {
        self.counts[class]
    }

    /// Tenants tracked: those with a request held, and those that are remembered a little longer.
    #[must_use]
    pub fn tenants(&self) -> usize {
        self.tenants.len()
    }

    /// How long a held request will wait from now on, as [`Place::estimate`] told it when it came; zero while
    /// its attempt is out. `None` if it is not held. Costs a walk to its place from the nearer end of its lane.
    #[must_use]
    pub fn estimate(&self, ticket: Ticket, now: Timestamp) -> Option<Duration> {
        self.wait_of(ticket, now.max(self.now))
    }

    /// What is held where. Costs a walk over all lanes and a sort.
    #[must_use]
    pub fn snapshot(&self, now: Timestamp) -> Snapshot {
        self.view(now.max(self.now))
    }

    fn tick(&mut self, now: Timestamp) -> Timestamp {
        self.now = self.now.max(now);
        self.now
    }

    fn next_event(&mut self) -> u64 {
        self.event += 1;
        self.event
    }

    fn find_gate(&self, key: GateKey) -> Option<u32> {
        self.gate_index.find(hash(key.0), |gate| self.gates[gate].key == key)
    }

    fn find_tenant(&self, key: TenantKey) -> Option<u32> {
        self.tenant_index.find(hash(key.0), |tenant| self.tenants[tenant].key == key)
    }

    fn find_lane(&self, tenant: u32, gate: u32) -> Option<u32> {
        let is_it = |lane: u32| self.lanes[lane].tenant == tenant && self.lanes[lane].gate == gate;
        // Most tenants have but one lane, and it is about to be read anyway.
        let first = self.tenants[tenant].lanes.head;
        if first != NONE && is_it(first) {
            return Some(first);
        }
        self.lane_index.find(lane_hash(tenant, gate), is_it)
    }

    /// The place of a ticket's request, if it is still held.
    fn find_waiter(&self, ticket: Ticket) -> Option<u32> {
        let waiter = self.waiters.get(ticket.slot)?;
        (waiter.serial == ticket.serial && ticket.serial != 0).then_some(ticket.slot)
    }

    /// The same, if its attempt is out.
    fn find_granted(&self, ticket: Ticket) -> Option<u32> {
        self.find_waiter(ticket).filter(|waiter| self.waiters[*waiter].is_granted())
    }
}

fn lane_hash(tenant: u32, gate: u32) -> u32 {
    hash(u128::from(tenant) << 32 | u128::from(gate))
}
