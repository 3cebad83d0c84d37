use std::time::Duration;

use crate::list::{Linked, Links};
use crate::slab::NONE;
use crate::{Class, Timestamp};

/// The list of a lane's waiters.
pub(crate) const IN_LANE: usize = 0;
/// The list of all waiters by deadline.
pub(crate) const BY_DEADLINE: usize = 1;

/// One held request.
#[derive(Debug)]
pub(crate) struct Waiter {
    /// Arrival number; zero in an empty place.
    pub(crate) serial: u64,
    pub(crate) deadline: Timestamp,
    /// When it came to the driver.
    pub(crate) arrived: Timestamp,
    /// When it was first held.
    pub(crate) since: Timestamp,
    /// For how long it has been deferred, in nanoseconds; while it is, less the moment at which that began.
    pub(crate) deferral: u64,
    /// In which it is held.
    pub(crate) class: Class,
    /// The grant that is out; `NONE` while it waits.
    pub(crate) grant: u32,
    /// The lane where it waits, or waited.
    pub(crate) lane: u32,
    pub(crate) in_lane: Links,
    pub(crate) by_deadline: Links,
    pub(crate) deadline_in_tree: bool,
    pub(crate) wants: Wants,
}

/// How long a request has been held.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Waited {
    pub(crate) all: Duration,
    /// Of that, in the class of tokens.
    pub(crate) deferred: Duration,
}

/// What a waiter wants of one gate, and how far it has got there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Want {
    pub(crate) gate: u32,
    /// Its turn has come here, and it went to wait elsewhere.
    pub(crate) passed: bool,
    /// Room is kept for it here.
    pub(crate) kept: bool,
    pub(crate) cost: u64,
}

/// Most requests touch a handful of buckets at most: these need no allocation.
const INLINE: usize = 4;

#[derive(Debug)]
pub(crate) enum Wants {
    Few { len: u8, wants: [Want; INLINE] },
    Many(Vec<Want>),
}

// === impl Waiter ===

impl Default for Waiter {
    fn default() -> Self {
        Self {
            serial: 0,
            deadline: Timestamp::ZERO,
            arrived: Timestamp::ZERO,
            since: Timestamp::ZERO,
            deferral: 0,
            class: Class::Requests,
            grant: NONE,
            lane: NONE,
            in_lane: Links::default(),
            by_deadline: Links::default(),
            deadline_in_tree: false,
            wants: Wants::default(),
        }
    }
}

impl Waiter {
    /// It is held in this class from now on.
    pub(crate) fn hold_in(&mut self, class: Class, now: Timestamp) {
        if class != self.class {
            self.class = class;
            self.deferral = match class {
                Class::Tokens => self.deferral.wrapping_sub(now.as_nanos()),
                Class::Requests => self.deferral.wrapping_add(now.as_nanos()),
            };
        }
    }

    pub(crate) const fn is_granted(&self) -> bool {
        self.grant != NONE
    }

    pub(crate) const fn waited(&self, now: Timestamp) -> Waited {
        let deferred = match self.class {
            Class::Tokens => self.deferral.wrapping_add(now.as_nanos()),
            Class::Requests => self.deferral,
        };
        Waited { all: now.saturating_duration_since(self.since), deferred: Duration::from_nanos(deferred) }
    }
}

impl Linked<IN_LANE> for Waiter {
    fn links(&self) -> &Links {
        &self.in_lane
    }

    fn links_mut(&mut self) -> &mut Links {
        &mut self.in_lane
    }
}

impl Linked<BY_DEADLINE> for Waiter {
    fn links(&self) -> &Links {
        &self.by_deadline
    }

    fn links_mut(&mut self) -> &mut Links {
        &mut self.by_deadline
    }
}

// === impl Want ===

impl Want {
    pub(crate) const fn new(gate: u32, cost: u64) -> Self {
        Self { gate, passed: false, kept: false, cost }
    }
}

// === impl Wants ===

impl Default for Wants {
    fn default() -> Self {
        Self::Few { len: 0, wants: [Want::new(NONE, 0); INLINE] }
    }
}

impl Wants {
    /// Adds a demand; one at a gate that is there already is added to it.
    pub(crate) fn add(&mut self, gate: u32, cost: u64) {
        if let Some(want) = self.as_mut_slice().iter_mut().find(|want| want.gate == gate) {
            want.cost = want.cost.saturating_add(cost);
            return;
        }
        let want = Want::new(gate, cost);
        match self {
            Self::Few { len, wants } => {
                if let Some(free) = wants.get_mut(usize::from(*len)) {
                    *free = want;
                    *len += 1;
                } else {
                    let mut many = wants.to_vec();
                    many.push(want);
                    *self = Self::Many(many);
                }
            }
            Self::Many(many) => many.push(want),
        }
    }

    pub(crate) fn as_slice(&self) -> &[Want] {
        match self {
            Self::Few { len, wants } => wants.get(..usize::from(*len)).unwrap_or(wants),
            Self::Many(many) => many,
        }
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [Want] {
        match self {
            Self::Few { len, wants } => &mut wants[..usize::from(*len)],
            Self::Many(many) => many,
        }
    }

    pub(crate) fn at(&self, gate: u32) -> Option<&Want> {
        self.as_slice().iter().find(|want| want.gate == gate)
    }

    pub(crate) fn at_mut(&mut self, gate: u32) -> Option<&mut Want> {
        self.as_mut_slice().iter_mut().find(|want| want.gate == gate)
    }
}
