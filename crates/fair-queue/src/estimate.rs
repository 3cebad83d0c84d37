//! How long a request will wait.
//!
//! Until the gate can serve its cost, plus the spacing of grants times what is served before it: its own
//! lane's requests ahead, and of every other lane the lesser of what that lane will have (waiting now, or
//! expected to arrive meanwhile) and what that lane can get, by weight and lag, until virtual time has
//! reached this request's turn.
//!
//! What arrives meanwhile depends on the wait itself, so the wait is the solution of `T = f(T)`. `f` is
//! concave (a sum of lesser-ofs of lines and constants) and positive at zero, so there is one solution;
//! from the right, where every lane gets all it can, Newton's steps fall towards it and never past it.
//!
//! Nothing here decides whose turn it is, so it is reckoned in floats: a tie need not be exact, and ranges need no
//! care. The four operations and comparisons, which are all that is used, give the same bits on every machine.

#![expect(
    clippy::suboptimal_flops,
    reason = "fused operations are calls into a library where the processor has none"
)]

use std::time::Duration;

use crate::Timestamp;
use crate::backlog::{Group, MAX_GROUPS};
use crate::gate::{Gate, turn_cost};
use crate::lane::Lane;
use crate::mirror::{Mirror, Opening};
use crate::virtual_time::units;
use crate::window::WINDOW;

/// After so many admissions older ones count half.
const MEMORY: u32 = 64;
/// From so many on what is measured is better than what the refill promises.
const ENOUGH: u32 = 8;
/// As good as for ever, in nanoseconds.
const NEVER: f64 = u64::MAX as f64;
/// Newton's steps; three are enough in practice.
const STEPS: usize = 8;

/// The time that one unit takes at a gate: a moving average over admissions that somebody waited for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spacing {
    time: u64,
    units: u64,
    samples: u32,
    last: Option<Timestamp>,
}

// === impl Spacing ===

impl Spacing {
    /// An admission while others wait.
    pub(crate) fn admitted(&mut self, cost: u64, now: Timestamp) {
        if let Some(last) = self.last {
            self.time = self.time.saturating_add(now.nanos_since(last));
            self.units = self.units.saturating_add(turn_cost(cost));
            self.samples += 1;
            if self.samples == MEMORY {
                (self.time, self.units, self.samples) = (self.time / 2, self.units.div_ceil(2), MEMORY / 2);
            }
        }
        self.last = Some(now);
    }

    /// Nobody waits: the time until the next admission says nothing of the bucket.
    pub(crate) fn pause(&mut self) {
        self.last = None;
    }

    /// The quota has changed: what was measured is over.
    pub(crate) fn forget(&mut self) {
        *self = Self { last: self.last, ..Self::default() };
    }

    /// Nanoseconds per unit; zero if nothing is known.
    fn per_unit(&self, mirror: &Mirror) -> f64 {
        let (time, units) = match mirror.refill() {
            Some((refill, period)) if self.samples < ENOUGH => (period, refill),
            _ => (self.time, self.units),
        };
        if units == 0 { 0.0 } else { time as f64 / units as f64 }
    }
}

/// What is asked about: a request of a tenant, at a gate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask<'a> {
    /// The tenant's lane there, if it has one.
    pub(crate) lane: Option<&'a Lane>,
    pub(crate) weight: u32,
    /// Cost of those before it in that lane.
    pub(crate) ahead: u64,
    pub(crate) cost: u64,
}

/// What a group of lanes may be served before this request: the lesser of what it will have and can get.
#[derive(Clone, Copy, Default)]
struct Share {
    /// Units that wait.
    waiting: f64,
    /// Units that arrive in a nanosecond, in time to go first.
    arriving: f64,
    /// Units that its weight and its lag give it.
    can_get: f64,
}

// === impl Share ===

impl Share {
    /// `turn` and `half_cost` as in [`until_served`].
    fn of(group: &Group, gate: &Gate, turn: f64, half_cost: f64, now: Timestamp) -> Self {
        let meanwhile = group.weight as f64 * turn;
        // What arrives in the last half turn of its lane comes too late to go before this one.
        let in_time = meanwhile - half_cost * group.lanes as f64;
        // Whole units a window, rounded down: the lesser of two sums is at least the sum of the lesser ones, so
        // what is reckoned by groups is rather too much already.
        let arrivals =
            if in_time > 0.0 { whole(group.arrivals.amount(now) as f64 * (in_time / meanwhile)) } else { 0 };
        Self {
            waiting: group.queued as f64,
            arriving: arrivals as f64 / WINDOW,
            can_get: (meanwhile + units(gate.lag_of_all(group.ready_weight, group.served))).max(0.0),
        }
    }
}

/// The wait of a request from now on.
pub(crate) fn wait(gate: &Gate, ask: &Ask<'_>, now: Timestamp) -> Duration {
    let until_room = match gate.mirror.opening(ask.cost, now) {
        Opening::Open => 0,
        Opening::At(at) => at.nanos_since(now),
        Opening::Never => return Duration::from_nanos(u64::MAX),
    };
    Duration::from_nanos(whole(until_served(gate, ask, until_room as f64, now) + 0.5))
}

/// In nanoseconds.
fn until_served(gate: &Gate, ask: &Ask<'_>, until_room: f64, now: Timestamp) -> f64 {
    let per_unit = gate.spacing.per_unit(&gate.mirror);
    let turn = horizon(gate, ask);
    let half_cost = gate.last_cost() as f64 / 2.0;

    let mut shares = [Share::default(); MAX_GROUPS];
    let mut groups = 0;
    let mut most = 0.0;
    for (share, group) in shares.iter_mut().zip(gate.backlog.others(ask.lane, now)) {
        *share = Share::of(&group, gate, turn, half_cost, now);
        most += share.can_get;
        groups += 1;
    }
    let shares = &shares[..groups];

    let own = ask.ahead as f64;
    let mut wait = solve(until_room, per_unit, own + most, 0.0).unwrap_or(NEVER);
    for _ in 0..STEPS {
        let (mut before, mut rate) = (own, 0.0);
        for share in shares {
            if share.waiting + share.arriving * wait < share.can_get {
                before += share.waiting;
                rate += share.arriving;
            } else {
                before += share.can_get;
            }
        }
        match solve(until_room, per_unit, before, rate) {
            Some(less) if less < wait => wait = less,
            _ => break,
        }
    }
    wait
}

/// How far virtual time has to move until it is this request's turn, in units: half a cost before its lane
/// has been served that much, which is where smooth weighted round-robin takes it on average.
fn horizon(gate: &Gate, ask: &Ask<'_>) -> f64 {
    let lag = ask.lane.map_or(0.0, |lane| units(gate.lag(lane)));
    let due = ask.ahead as f64 + turn_cost(ask.cost) as f64 / 2.0;
    ((due - lag) / f64::from(ask.weight.max(1))).max(0.0)
}

/// The `T` of `T = until_room + per_unit * (before + rate * T)`, in nanoseconds; `before` in units and `rate` in
/// units per nanosecond. `None` if it lies at infinity.
fn solve(until_room: f64, per_unit: f64, before: f64, rate: f64) -> Option<f64> {
    let idle = 1.0 - per_unit * rate;
    (idle > 0.0).then(|| (until_room + per_unit * before) / idle)
}

/// Rounded down; what does not fit in 64 bits becomes the most that does.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "this cast saturates at both ends"
)]
const fn whole(value: f64) -> u64 {
    value as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn the_equation_is_solved() {
        let per_unit = SECOND as f64 / 10.0;
        let solved = |before, rate| solve(per_unit, per_unit, before, rate).map(|wait| whole(wait + 0.5));
        // Ten ahead at ten a second, nothing arrives.
        assert_eq!(solved(10.0, 0.0), Some(SECOND / 10 * 11));
        // Half of what is served meanwhile arrives meanwhile: twice as long.
        assert_eq!(solved(10.0, 5.0 / SECOND as f64), Some(SECOND / 10 * 22));
        // More arrives than is served: never.
        assert_eq!(solved(10.0, 100.0 / SECOND as f64), None);
        assert_eq!(whole(NEVER), u64::MAX);
    }

    #[test]
    fn spacing_is_measured_only_while_somebody_waits() {
        let mut spacing = Spacing::default();
        let mut now = Timestamp::ZERO;
        for _ in 0..20 {
            now = now.after_nanos(SECOND);
            spacing.admitted(2, now);
        }
        let per_unit = spacing.per_unit(&Mirror::default());
        assert_eq!(whole(per_unit), SECOND / 2);
        spacing.pause();
        spacing.admitted(2, now.after_nanos(1000 * SECOND));
        assert_eq!(whole(spacing.per_unit(&Mirror::default())), SECOND / 2);
    }
}
