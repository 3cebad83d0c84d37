use crate::backlog::Backlog;
use crate::debts::{Debt, Debts};
use crate::estimate::Spacing;
use crate::lane::Lane;
use crate::list::{Linked, Links};
use crate::mirror::Mirror;
use crate::ready::Ready;
use crate::run::{Entry, Upcoming};
use crate::virtual_time::{MAX_TURN, VirtualTime, steps};
use crate::window::Window;
use crate::{Class, GateKey, Timestamp};

/// The list of gates whose turn it is.
pub(crate) const OPEN: usize = 0;
/// The list of gates with news about contention.
pub(crate) const NEWS: usize = 1;
/// The list of gates with debts that no longer bind anybody.
pub(crate) const LAPSED: usize = 2;

/// Grants over which the largest cost "lately" granted is looked for: between one and two times so many.
const LATELY: u32 = 256;

/// One bucket, as the scheduler sees it: who waits for it, in what order, and what it holds.
#[derive(Debug)]
pub(crate) struct Gate {
    pub(crate) key: GateKey,
    pub(crate) class: Class,
    /// Held requests with a demand here.
    pub(crate) demands: usize,
    /// Lanes here, idle ones too.
    pub(crate) lanes: usize,
    pub(crate) waiting: usize,
    pub(crate) in_flight: usize,
    pub(crate) mirror: Mirror,
    pub(crate) backlog: Backlog,
    pub(crate) spacing: Spacing,
    pub(crate) admitted: Window,
    virtual_time: VirtualTime,
    ready: Ready,
    largest: Largest,
    last_cost: u64,
    /// Of idle lanes that are ahead of their due.
    pub(crate) debts: Debts,
    pub(crate) turn: Turn,
    /// While it is closed: the cost for which it waits to have room.
    pub(crate) awaits: u64,
    pub(crate) is_open: Links,
    /// Room is kept here for a waiter that waits elsewhere.
    pub(crate) keeps: bool,
    /// Contended, as far as the driver has been told.
    pub(crate) told: bool,
    pub(crate) has_news: bool,
    pub(crate) news: Links,
    pub(crate) has_lapsed: bool,
    pub(crate) lapsed: Links,
}

/// How a gate stands in the round of gates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Nothing to do here until something happens.
    Resting,
    /// In the list of gates to look at that have no attempt out.
    Fresh,
    /// In the list of those that have.
    Busy,
    /// Closed until then.
    Closed(Timestamp),
}

/// The largest cost lately granted, by two windows of grants.
#[derive(Clone, Copy, Debug)]
struct Largest {
    previous: u64,
    current: u64,
    grants: u32,
}

// === impl Largest ===

impl Largest {
    fn see(&mut self, cost: u64) {
        if self.grants == LATELY {
            *self = Self { previous: self.current, current: 1, grants: 0 };
        }
        self.current = self.current.max(cost);
        self.grants += 1;
    }

    fn cost(self) -> u64 {
        self.current.max(self.previous)
    }
}

/// What a request of this cost is charged of its tenant's turns.
pub(crate) fn turn_cost(cost: u64) -> u64 {
    cost.clamp(1, MAX_TURN)
}

/// The least power of two that is no less than the cost of a turn.
fn power_of_two(cost: u64) -> u8 {
    // Of a turn at most 40.
    u8::try_from(cost.next_power_of_two().trailing_zeros()).unwrap_or(0)
}

// === impl Gate ===

impl Default for Gate {
    fn default() -> Self {
        Self::new(GateKey(0), Class::Requests)
    }
}

impl Gate {
    pub(crate) fn new(key: GateKey, class: Class) -> Self {
        Self {
            key,
            class,
            demands: 0,
            lanes: 0,
            waiting: 0,
            in_flight: 0,
            mirror: Mirror::default(),
            backlog: Backlog::default(),
            spacing: Spacing::default(),
            admitted: Window::default(),
            virtual_time: VirtualTime::default(),
            ready: Ready::default(),
            largest: Largest { previous: 1, current: 1, grants: 0 },
            last_cost: 1,
            debts: Debts::default(),
            turn: Turn::Resting,
            awaits: 0,
            is_open: Links::default(),
            keeps: false,
            told: false,
            has_news: false,
            news: Links::default(),
            has_lapsed: false,
            lapsed: Links::default(),
        }
    }

    /// Does somebody wait here, or is trying from here right now?
    pub(crate) const fn is_contended(&self) -> bool {
        self.waiting > 0 || self.in_flight > 0
    }

    /// The sum of the lags of ready lanes, in steps, from the sums of their weights and of their tallies.
    pub(crate) fn lag_of_all(&self, weight: u64, tallies: i128) -> i128 {
        self.virtual_time.whole().wrapping_mul(i128::from(weight)).wrapping_sub(tallies)
    }

    /// The typical cost here: that of the last grant.
    pub(crate) const fn last_cost(&self) -> u64 {
        self.last_cost
    }

    /// The lane whose turn it is, by what virtual time will be when one more like the last has been served.
    pub(crate) fn pick(&self) -> Option<u32> {
        let mut then = self.virtual_time;
        then.advance(self.last_cost, self.ready.total());
        self.ready.pick(&then)
    }

    /// The first lane of a weight, and those that will be.
    pub(crate) fn upcoming(&self, weight: u32) -> Option<(u32, Upcoming)> {
        self.ready.upcoming(weight)
    }

    pub(crate) const fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// The lag of a lane, in steps: what it was due, less what it got. Clamped if it is not ready, as it
    /// will be on its return.
    pub(crate) fn lag(&self, lane: &Lane) -> i128 {
        if lane.is_ready() {
            self.virtual_time.due(lane.weight).wrapping_sub(lane.tally)
        } else {
            self.clamped(lane)
        }
    }

    /// The lag with which a lane that is not ready will be back.
    ///
    /// What it is owed is cut down to one turn, as large as they are here of late: more would be a burst. So is its debt
    /// (what it takes from other gates adds up here), but not below the turn that it had: or else whoever asks for
    /// much, and lets a while of small turns pass before it asks again, would never pay.
    fn clamped(&self, lane: &Lane) -> i128 {
        let most = self.largest.cost();
        lane.tally.clamp(-steps(most.max(1 << lane.largest)), steps(most))
    }

    /// The lane gets its first waiter (which the caller then counts): it comes back with its lag.
    pub(crate) fn enter(&mut self, place: u32, lane: &mut Lane) {
        lane.tally = self.virtual_time.due(lane.weight).wrapping_sub(self.clamped(lane));
        self.ready.insert(lane.weight, entry(place, lane));
    }

    /// The lane has lost its last waiter: it keeps its lag.
    pub(crate) fn leave(&mut self, place: u32, lane: &mut Lane) {
        self.ready.remove(lane.weight, &entry(place, lane));
        lane.tally = self.virtual_time.due(lane.weight).wrapping_sub(lane.tally);
    }

    /// Charges a turn of this cost to a lane. What is returned is wanted to take it back.
    pub(crate) fn charge(&mut self, place: u32, lane: &mut Lane, cost: u64) -> u64 {
        let cost = turn_cost(cost);
        let ready = lane.is_ready();
        let total = self.ready.total() + if ready { 0 } else { u64::from(lane.weight) };
        let before = self.virtual_time.due(lane.weight);
        let lag = if ready { before.wrapping_sub(lane.tally) } else { lane.tally };
        let power = power_of_two(cost);
        lane.largest = if lag < 0 { lane.largest.max(power) } else { power };
        self.virtual_time.advance(cost, total);
        if ready {
            let tally = lane.tally.wrapping_add(steps(cost));
            self.ready.retally(lane.weight, &entry(place, lane), tally);
            lane.tally = tally;
        } else {
            let gained = self.virtual_time.due(lane.weight).wrapping_sub(before);
            lane.tally = lane.tally.wrapping_add(gained).wrapping_sub(steps(cost));
        }
        self.last_cost = cost;
        self.largest.see(cost);
        total
    }

    /// Takes a charge back: the lane's service and the virtual time that went with it.
    pub(crate) fn take_back(&mut self, place: u32, lane: &mut Lane, cost: u64, total: u64) {
        let cost = turn_cost(cost);
        let before = self.virtual_time.due(lane.weight);
        self.virtual_time.retreat(cost, total);
        if lane.is_ready() {
            let tally = lane.tally.wrapping_sub(steps(cost));
            self.ready.retally(lane.weight, &entry(place, lane), tally);
            lane.tally = tally;
        } else {
            let lost = before.wrapping_sub(self.virtual_time.due(lane.weight));
            lane.tally = lane.tally.wrapping_sub(lost).wrapping_add(steps(cost));
        }
    }

    /// Gives a lane another weight; its lag stays what it was.
    pub(crate) fn reweigh(&mut self, place: u32, lane: &mut Lane, weight: u32) {
        if lane.is_ready() {
            let lag = self.virtual_time.due(lane.weight).wrapping_sub(lane.tally);
            self.ready.remove(lane.weight, &entry(place, lane));
            lane.weight = weight;
            lane.tally = self.virtual_time.due(weight).wrapping_sub(lag);
            self.ready.insert(weight, entry(place, lane));
        } else {
            lane.weight = weight;
        }
    }

    /// Notes that an idle lane is ahead of its due, if it is. True if so.
    pub(crate) fn owe(&mut self, place: u32, lane: &mut Lane, mark: u64) -> bool {
        if lane.tally >= 0 {
            return false;
        }
        let debt = self.clamped(lane).unsigned_abs();
        let weight = u64::from(lane.weight);
        // 64 bits hold the debt of any request count.
        let time = u64::try_from(debt)
            .map_or_else(|_| debt.div_ceil(u128::from(weight)), |debt| u128::from(debt.div_ceil(weight)));
        let caught_up = self.virtual_time.whole().wrapping_add(time.cast_signed());
        self.debts.push(Debt { caught_up, lane: place, mark });
        lane.debt = mark;
        true
    }

    /// Is there a debt that binds nobody any more: caught up by virtual time, or the gate has fallen quiet and
    /// there is nobody left to whom anything could be owed?
    pub(crate) fn has_lapsed_debt(&self) -> bool {
        let lapsed = |debt: &Debt| debt.caught_up <= self.virtual_time.whole() || !self.is_contended();
        self.debts.first().is_some_and(lapsed)
    }
}

fn entry(place: u32, lane: &Lane) -> Entry {
    Entry { served: lane.tally, order: lane.order, lane: place }
}

impl Linked<OPEN> for Gate {
    fn links(&self) -> &Links {
        &self.is_open
    }

    fn links_mut(&mut self) -> &mut Links {
        &mut self.is_open
    }
}

impl Linked<NEWS> for Gate {
    fn links(&self) -> &Links {
        &self.news
    }

    fn links_mut(&mut self) -> &mut Links {
        &mut self.news
    }
}

impl Linked<LAPSED> for Gate {
    fn links(&self) -> &Links {
        &self.lapsed
    }

    fn links_mut(&mut self) -> &mut Links {
        &mut self.lapsed
    }
}
