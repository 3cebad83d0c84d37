use crate::class::Counts;
use crate::list::{Linked, Links, List};
use crate::slab::NONE;
use crate::waiter::IN_LANE;
use crate::window::Window;
use crate::{TenantKey, Timestamp};

/// The list of a tenant's lanes.
pub(crate) const OF_TENANT: usize = 0;
/// The list of lanes with nothing in them, longest idle first.
pub(crate) const IDLE: usize = 1;
/// The list of tenants that can be forgotten, longest so first.
pub(crate) const FORGETTABLE: usize = 2;

/// One tenant's FIFO at one gate.
///
/// A lane outlives its waiters for a while: what it remembers, its lag, is what makes the shares of a tenant
/// come out right whose requests come one at a time.
#[derive(Debug)]
pub(crate) struct Lane {
    /// `NONE` in an empty place.
    pub(crate) tenant: u32,
    pub(crate) gate: u32,
    /// Which came first: decides ties.
    pub(crate) order: u64,
    pub(crate) weight: u32,
    /// While requests wait here, the service received, as `Gate::due` counts what is due; otherwise the lag
    /// with which the last one left. Both in steps.
    pub(crate) tally: i128,
    pub(crate) waiters: List<IN_LANE>,
    pub(crate) waiting: u32,
    pub(crate) in_flight: u32,
    /// Cost of all that wait here.
    pub(crate) queued: u64,
    /// The group of the gate's backlog in which it is counted.
    pub(crate) group: u8,
    /// No turn charged since it was last not ahead of its due was larger than two to this power: a debt may be as large as
    /// that. A byte, because a lane takes just so many lines of the processor's cache.
    pub(crate) largest: u8,
    pub(crate) arrivals: Window,
    pub(crate) admitted: Window,
    /// While it is idle and ahead of its due: the mark of its entry among the gate's debts. Else zero.
    pub(crate) debt: u64,
    /// In the list of idle lanes, since then.
    pub(crate) is_listed: bool,
    pub(crate) idle_since: Timestamp,
    pub(crate) of_tenant: Links,
    pub(crate) idle: Links,
}

/// One tenant, at whatever gates.
///
/// Aligned so that each takes one line of the processor's cache and not two halves: with many tenants it has to come
/// from memory at every turn.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Tenant {
    pub(crate) key: TenantKey,
    pub(crate) weight: u32,
    /// Requests held: waiting and in flight.
    pub(crate) held: Counts,
    /// Lanes whose lag has not been caught up.
    pub(crate) debts: u32,
    pub(crate) lanes: List<OF_TENANT>,
    pub(crate) is_tracked: bool,
    pub(crate) is_forgettable: bool,
    pub(crate) forgettable: Links,
}

// === impl Lane ===

impl Default for Lane {
    fn default() -> Self {
        Self {
            tenant: NONE,
            gate: NONE,
            order: 0,
            weight: 1,
            tally: 0,
            waiters: List::default(),
            waiting: 0,
            in_flight: 0,
            queued: 0,
            group: 0,
            largest: 0,
            arrivals: Window::default(),
            admitted: Window::default(),
            debt: 0,
            is_listed: false,
            idle_since: Timestamp::ZERO,
            of_tenant: Links::default(),
            idle: Links::default(),
        }
    }
}

impl Lane {
    pub(crate) const fn is_ready(&self) -> bool {
        self.waiting > 0
    }

    pub(crate) const fn is_idle(&self) -> bool {
        self.waiting == 0 && self.in_flight == 0
    }
}

impl Linked<OF_TENANT> for Lane {
    fn links(&self) -> &Links {
        &self.of_tenant
    }

    fn links_mut(&mut self) -> &mut Links {
        &mut self.of_tenant
    }
}

impl Linked<IDLE> for Lane {
    fn links(&self) -> &Links {
        &self.idle
    }

    fn links_mut(&mut self) -> &mut Links {
        &mut self.idle
    }
}

// === impl Tenant ===

impl Default for Tenant {
    fn default() -> Self {
        Self {
            key: TenantKey(0),
            weight: 1,
            held: Counts::new(),
            debts: 0,
            lanes: List::default(),
            is_tracked: false,
            is_forgettable: false,
            forgettable: Links::default(),
        }
    }
}

impl Linked<FORGETTABLE> for Tenant {
    fn links(&self) -> &Links {
        &self.forgettable
    }

    fn links_mut(&mut self) -> &mut Links {
        &mut self.forgettable
    }
}
