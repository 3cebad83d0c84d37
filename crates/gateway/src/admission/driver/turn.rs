//! What passes between a request and the scheduler.

use std::time::Duration;

use fairlane_fair_queue::{Class, Demand, GateLevel, Place, Refusal};
use fairlane_limiter::Charge;
use smallvec::SmallVec;
use tokio::sync::oneshot;

use super::Handle;
use crate::{
    admission::{Generation, limiter::gate_of},
    dimension::class_of,
    limits::Charges,
};

/// What a held request is told.
#[derive(Debug)]
pub(in crate::admission) enum Turn {
    /// Try the limiter again.
    Attempt(Granted),
    /// The wait is over without one.
    Refused(Refusal),
    /// The gateway is going down.
    ShuttingDown,
}

/// What led to an attempt.
#[derive(Clone, Copy, Debug)]
pub(in crate::admission) struct Granted {
    /// What the request waited for last.
    pub(in crate::admission) class: Class,
    /// How long it has been deferred.
    pub(in crate::admission) deferred: Duration,
}

/// What the limiter told of buckets, by the limits of a generation.
#[derive(Clone, Copy, Debug)]
pub(in crate::admission) struct Told<'a> {
    pub(in crate::admission) levels: &'a [GateLevel],
    pub(in crate::admission) by: Generation,
}

/// The gates of a request, each with what it asks there.
pub(in crate::admission) type Demands = SmallVec<[Demand; 6]>;

pub(in crate::admission) fn demands(charges: &Charges) -> Demands {
    let demand =
        |charge: &Charge| Demand { gate: gate_of(charge), class: class_of(&charge.key), cost: charge.cost };
    charges.as_slice().iter().map(demand).collect()
}
/// A place that a request has been given. It has to be given up through the handle, whatever happens.
#[derive(Debug)]
pub(in crate::admission) struct Joined {
    pub(in crate::admission) scheduler: Handle,
    pub(in crate::admission) place: Place,
    pub(in crate::admission) turn: oneshot::Receiver<Turn>,
    pub(in crate::admission) body_bytes: u64,
}

/// Why a request was not taken into a lane.
#[derive(Debug)]
pub(in crate::admission) enum NotHeld {
    /// The queue says no.
    Refused(Refusal),
    /// The gateway is going down.
    ShuttingDown,
}

/// What became of a request that the limiter refused again.
#[derive(Debug)]
pub(in crate::admission) enum Again {
    /// It waits on.
    Held(Place),
    /// It is refused now.
    Refused(Refusal),
    /// The scheduler does not know it any more.
    Gone,
}
