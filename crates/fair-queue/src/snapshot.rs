use std::time::Duration;

use crate::{Class, GateKey, TenantKey, Weight};

/// What a queue holds, for metrics and people. Costs a walk over all lanes.
#[derive(Clone, Debug, PartialEq, Default)]
#[non_exhaustive]
pub struct Snapshot {
    /// The gates with something to tell, by key.
    pub gates: Vec<GateSnapshot>,
    /// Requests held, waiting and in flight.
    pub held: usize,
    /// Of those, the ones held in the class of requests.
    pub queued: usize,
    /// Of those, the ones held in the class of tokens.
    pub deferred: usize,
    /// Grants out.
    pub in_flight: usize,
    /// Tenants tracked.
    pub tenants: usize,
}

/// One gate.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct GateSnapshot {
    /// Its key.
    pub gate: GateKey,
    /// What its units are.
    pub class: Class,
    /// Requests waiting here.
    pub waiting: usize,
    /// Grants out from here.
    pub in_flight: usize,
    /// Whole units that its bucket holds, as far as known, less the attempts in flight.
    pub room: Option<i64>,
    /// Its lanes, by tenant.
    pub lanes: Vec<LaneSnapshot>,
}

/// One tenant at one gate.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct LaneSnapshot {
    /// The tenant.
    pub tenant: TenantKey,
    /// Its weight.
    pub weight: Weight,
    /// Its requests waiting here.
    pub waiting: usize,
    /// Its grants out from here.
    pub in_flight: usize,
    /// Its part, 0 to 1, of the units admitted from this gate of late (the last 4 to 9 seconds).
    pub recent_share: f64,
    /// How long the request at the head has been held; `None` if nothing waits.
    pub oldest_wait: Option<Duration>,
}
