use std::time::Duration;

use crate::{Class, GateKey, TenantKey, Ticket, Timestamp, Weight};

/// What one request wants of one bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    /// The bucket's gate.
    pub gate: GateKey,
    /// What its units are. A gate has but one class: if it is named with both, the one it was first named with counts,
    /// for as long as the gate is known.
    pub class: Class,
    /// Units: 1 for a request count, the reservation for tokens. Zero counts as one, so that nothing is free
    /// of turns; and a turn is never charged more than 2^40, about 10^12.
    pub cost: u64,
}

// === impl Demand ===

impl Demand {
    /// One request of a bucket that counts requests.
    #[must_use]
    pub const fn request(gate: GateKey) -> Self {
        Self { gate, class: Class::Requests, cost: 1 }
    }

    /// A reservation of tokens.
    #[must_use]
    pub const fn tokens(gate: GateKey, tokens: u64) -> Self {
        Self { gate, class: Class::Tokens, cost: tokens }
    }
}

/// What the limiter said of one bucket: what it holds, and how it refills.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GateLevel {
    /// The bucket's gate.
    pub gate: GateKey,
    /// Whole units in it; below zero it is in debt.
    pub level: i64,
    /// Time until it holds one whole unit more. Of no meaning when it is full.
    pub until_next: Duration,
    /// The most it ever holds, in units.
    pub capacity: u64,
    /// Units that flow in per `period`, continuously.
    pub refill: u64,
    /// The time in which `refill` units flow in.
    pub period: Duration,
}

/// A request that asks to be held.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Whose it is.
    pub tenant: TenantKey,
    /// The tenant's weight, as of now: the latest word counts, for its waiting requests too.
    pub weight: Weight,
    /// Everything that it must be granted at once; a gate named twice is asked for the sum. With no demand at
    /// all it has nothing to wait for but its turn among others like it, in the class of requests.
    pub demands: &'a [Demand],
    /// What the limiter's refusal told of the demanded buckets; empty when the limiter was not asked because
    /// one of the gates is contended.
    pub levels: &'a [GateLevel],
    /// When it came to the driver: what is taken off the budget of a class that it moves into after it was held in the
    /// other.
    pub arrived: Timestamp,
    /// When it must have its answer, however long the classes would hold it.
    pub deadline: Timestamp,
}

/// Where a held request stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The request's name from here on.
    pub ticket: Ticket,
    /// The gate at which it waits.
    pub gate: GateKey,
    /// The class in which it is held, which is that of the gate.
    pub class: Class,
    /// Its place in its own tenant's lane at that gate, counted from 1.
    pub position: usize,
    /// How long it will wait from now on, if the load stays as it is.
    pub estimate: Duration,
}
