use crate::{
    Action, GateKey, GateLevel, Limits, Place, Refusal, Request, Requeue, Snapshot, TenantKey, Ticket,
    Timestamp, Weight,
};

/// A weighted fair queue of requests that wait for rate-limited buckets.
#[derive(Debug)]
pub struct FairQueue {
    limits: Limits,
}

impl FairQueue {
    /// An empty queue.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self { limits }
    }

    /// Holds a request.
    ///
    /// # Errors
    ///
    /// The refusal to answer with.
    pub fn enqueue(&mut self, request: Request<'_>, now: Timestamp) -> Result<Place, Refusal> {
        let _ = now;
        Err(Refusal {
            reason: crate::Reason::QueueFull,
            gate: request.demands.first().map_or(GateKey(0), |demand| demand.gate),
            position: 1,
            waited: std::time::Duration::ZERO,
            retry_after: std::time::Duration::ZERO,
        })
    }

    /// The attempt was accepted. False if no such attempt is out.
    pub fn admitted(&mut self, _ticket: Ticket, _levels: &[GateLevel], _now: Timestamp) -> bool {
        false
    }

    /// The attempt was refused by the limiter.
    pub fn refused(&mut self, _ticket: Ticket, _levels: &[GateLevel], _now: Timestamp) -> Requeue {
        Requeue::Unknown
    }

    /// The attempt came to nothing. False if no such attempt is out.
    pub fn failed(&mut self, _ticket: Ticket, _now: Timestamp) -> bool {
        false
    }

    /// The caller has gone. False if no such request is held.
    pub fn cancel(&mut self, _ticket: Ticket, _now: Timestamp) -> bool {
        false
    }

    /// Something else told what a bucket holds.
    pub fn observed(&mut self, _level: GateLevel, _now: Timestamp) {}

    /// New bounds and weights, live; `None` keeps a tenant's weight.
    pub fn reconfigure(
        &mut self,
        limits: Limits,
        _weights: impl Fn(TenantKey) -> Option<Weight>,
        _now: Timestamp,
    ) {
        self.limits = limits;
    }

    /// The next thing to do; call it until there is nothing.
    pub fn poll(&mut self, _now: Timestamp) -> Option<Action> {
        None
    }

    /// When to poll again if nothing else happens.
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Timestamp> {
        None
    }

    /// Must a newcomer with a charge at this gate queue?
    #[must_use]
    pub fn contended(&self, _gate: GateKey) -> bool {
        false
    }

    /// The next gate that has become contended (true) or free (false) since it was last told.
    pub fn poll_contention(&mut self) -> Option<(GateKey, bool)> {
        None
    }

    /// Is nothing held?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.held() == 0
    }

    /// Requests held, waiting and in flight.
    #[must_use]
    pub fn held(&self) -> usize {
        0
    }

    /// Tenants tracked.
    #[must_use]
    pub fn tenants(&self) -> usize {
        0
    }

    /// A read-only view.
    #[must_use]
    pub fn snapshot(&self, _now: Timestamp) -> Snapshot {
        Snapshot::default()
    }
}
