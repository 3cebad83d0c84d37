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

use std::time::Duration;

use crate::Timestamp;
use crate::gate::{Gate, turn_cost};
use crate::lane::Lane;
use crate::mirror::{Mirror, Opening};
use crate::virtual_time::{SCALE_BITS, scaled, steps};

/// After so many admissions older ones count half.
const MEMORY: u32 = 64;
/// From so many on what is measured is better than what the refill promises.
const ENOUGH: u32 = 8;
/// A time per unit is told in 2^-24 nanoseconds: some buckets take in a unit in less than one.
const TIME_BITS: u32 = 24;
/// How far ahead in virtual time an estimate looks, in steps. Times all the weight of 2^32 lanes it fits.
const FARTHEST: i128 = 1 << 73;
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

    /// Time per unit, in 2^-24 nanoseconds; zero if nothing is known.
    fn per_unit(&self, mirror: &Mirror) -> u128 {
        let (time, units) = match mirror.refill() {
            Some((refill, period)) if self.samples < ENOUGH => (period, refill),
            _ => (self.time, self.units),
        };
        (u128::from(time) << TIME_BITS).checked_div(u128::from(units)).unwrap_or(0)
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

/// The wait of a request from now on.
pub(crate) fn wait(gate: &Gate, ask: &Ask<'_>, now: Timestamp) -> Duration {
    let until_room = match gate.mirror.opening(ask.cost, now) {
        Opening::Open => 0,
        Opening::At(at) => at.nanos_since(now),
        Opening::Never => return Duration::from_nanos(u64::MAX),
    };
    Duration::from_nanos(until_served(gate, ask, until_room, now))
}

fn until_served(gate: &Gate, ask: &Ask<'_>, until_room: u64, now: Timestamp) -> u64 {
    let per_unit = gate.spacing.per_unit(&gate.mirror);
    let turn = horizon(gate, ask);
    let half_cost = steps(gate.last_cost()) / 2;
    let virtual_now = gate.virtual_steps();

    // Of each group: what waits, what arrives in 2^32 ns, what it can get.
    let shares = |visit: &mut dyn FnMut(u128, u64, u128)| {
        for group in gate.backlog.others(ask.lane, now) {
            let lag = virtual_now.wrapping_mul(i128::from(group.ready_weight)).wrapping_sub(group.served);
            let meanwhile = i128::from(group.weight) * turn;
            let can_get = unsigned(meanwhile + lag);
            // What arrives in the last half turn of its lane comes too late to go before this one.
            let in_time = unsigned(meanwhile - half_cost * i128::from(group.lanes));
            let arriving = fraction(group.arrivals.amount(now), in_time, unsigned(meanwhile));
            visit(u128::from(group.queued) << SCALE_BITS, arriving, can_get);
        }
    };

    let own = u128::from(ask.ahead) << SCALE_BITS;
    let mut before = own;
    shares(&mut |_, _, can_get| before = before.saturating_add(can_get));
    let mut wait = solve(until_room, per_unit, before, 0).unwrap_or(u64::MAX);
    for _ in 0..STEPS {
        let (mut before, mut rate) = (own, 0_u64);
        shares(&mut |waiting, arriving, can_get| {
            let will_have = waiting.saturating_add(u128::from(arriving) * u128::from(wait));
            if will_have < can_get {
                before = before.saturating_add(waiting);
                rate = rate.saturating_add(arriving);
            } else {
                before = before.saturating_add(can_get);
            }
        });
        match solve(until_room, per_unit, before, rate) {
            Some(less) if less < wait => wait = less,
            _ => break,
        }
    }
    wait
}

/// How far virtual time has to move until it is this request's turn, in steps: half a cost before its lane
/// has been served that much, which is where smooth weighted round-robin takes it on average.
fn horizon(gate: &Gate, ask: &Ask<'_>) -> i128 {
    let lag = ask.lane.map_or(0, |lane| gate.lag(lane));
    let due = steps(ask.ahead) + steps(turn_cost(ask.cost)) / 2;
    let steps = (due - lag).clamp(0, FARTHEST);
    // 64 bits hold any count of requests.
    let weight = ask.weight.max(1);
    u64::try_from(steps)
        .map_or_else(|_| steps / i128::from(weight), |steps| i128::from(steps / u64::from(weight)))
}

fn unsigned(value: i128) -> u128 {
    u128::try_from(value).unwrap_or(0)
}

/// `amount * part / whole`, where `part` is at most `whole`; to 32 bits, which spares long divisions.
fn fraction(amount: u64, part: u128, whole: u128) -> u64 {
    let excess = (u128::BITS - whole.leading_zeros()).saturating_sub(u32::BITS);
    let bits = |value: u128| u64::try_from(value >> excess).unwrap_or(u64::MAX);
    match (amount, bits(whole)) {
        (0, _) | (_, 0) => 0,
        (amount, whole) => scaled(amount, bits(part), whole),
    }
}

/// The `T` of `T = until_room + per_unit * (before + rate * T)`, in nanoseconds, with `before` in steps and
/// `rate` in units per 2^32 ns. `None` if it lies at infinity.
fn solve(until_room: u64, per_unit: u128, before: u128, rate: u64) -> Option<u64> {
    // Half the steps' bits are enough here, and leave room for the product.
    let service = (before >> (SCALE_BITS / 2)).saturating_mul(per_unit) >> (SCALE_BITS / 2 + TIME_BITS);
    let fixed = service.saturating_add(u128::from(until_room)).min(u128::from(u64::MAX));
    let busy = per_unit.saturating_mul(u128::from(rate)) >> TIME_BITS;
    let idle = (1_u128 << SCALE_BITS).checked_sub(busy).filter(|idle| *idle > 0)?;
    u64::try_from((fixed << SCALE_BITS) / idle).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn the_equation_is_solved() {
        let per_unit = u128::from(SECOND / 10) << TIME_BITS;
        // Ten ahead at ten a second, nothing arrives.
        assert_eq!(solve(SECOND / 10, per_unit, 10 << SCALE_BITS, 0), Some(SECOND / 10 * 11));
        // Half of what is served meanwhile arrives meanwhile: twice as long.
        let five_a_second = 5 * (1_u64 << 32) / SECOND;
        let twice = solve(0, per_unit, 10 << SCALE_BITS, five_a_second).unwrap();
        assert!(twice.abs_diff(2 * SECOND) < SECOND / 10, "{twice}");
        // More arrives than is served: never.
        assert_eq!(solve(0, per_unit, 10 << SCALE_BITS, 100), None);
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
        assert_eq!(per_unit, u128::from(SECOND / 2) << TIME_BITS);
        spacing.pause();
        spacing.admitted(2, now.after_nanos(1000 * SECOND));
        assert_eq!(spacing.per_unit(&Mirror::default()), per_unit);
    }
}
