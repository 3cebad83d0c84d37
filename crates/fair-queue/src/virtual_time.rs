//! The gate's clock, which service moves.
//!
//! Serving cost `c` while tenants of total weight `W` are ready moves virtual time by `c / W`: it is the
//! service that an ideal fluid would have given by then to each unit of weight. A lane of weight `w` that
//! has been served `s` is therefore ahead of or behind its due by the *lag* `w * V - s`.
//!
//! # Exactness
//!
//! One unit is 2^32 steps ([`SCALE_BITS`]). `V` is kept as whole steps and a remainder over the `W` of the last
//! advance, so as long as `W` stays, nothing is ever rounded: a thousand picks among weights 5, 1, 1 leave
//! `V` at 1000/7 exactly, and lags that are equal compare as equal. When `W` changes, the remainder is
//! re-expressed over the new one, and what is lost is less than 1/W of a step. Each advance is at least
//! 2^32/W steps, and at most one loss goes with it, so the loss stays below one part in 2^32 of the service
//! given, whatever the load: it is an error of `V` that cannot build up against what it measures. A lane's
//! own side has no error at all, because lanes are compared by `w * V - s`, never by `s / w`.
//!
//! # No overflow
//!
//! The cost of a turn is at most 2^40 units (10^12 a minute is more than any bucket here refills), so one
//! advance is less than 2^72 steps and the quotient below is taken of less than 2^73. Steps are kept in 127
//! bits: times a weight of at most 2^20 they last for 2^75 units of service at a single gate, seventy
//! thousand years of 10^12 units a minute. Beyond that arithmetic wraps: order is lost, nothing panics.

/// Steps in one unit.
pub(crate) const SCALE_BITS: u32 = 32;

/// The most that one turn is charged.
pub(crate) const MAX_TURN: u64 = 1 << 40;

/// A cost in steps.
pub(crate) const fn steps(cost: u64) -> i128 {
    (cost as i128) << SCALE_BITS
}

/// Steps in units, for what need not be exact: to 2^-16 of a unit, and up to 2^47 units.
pub(crate) fn units(steps: i128) -> f64 {
    const COARSE_BITS: u32 = 16;
    const COARSE: f64 = 1.0 / (1_u64 << (SCALE_BITS - COARSE_BITS)) as f64;
    let most = if steps < 0 { i64::MIN } else { i64::MAX };
    // A conversion from 64 bits takes a tenth of the time of one from 128.
    i64::try_from(steps >> COARSE_BITS).unwrap_or(most) as f64 * COARSE
}

/// A moment in virtual time: `whole + part / total` steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VirtualTime {
    whole: i128,
    part: u64,
    total: u64,
}

impl Default for VirtualTime {
    fn default() -> Self {
        Self { whole: 0, part: 0, total: 1 }
    }
}

/// `left * right / divisor`, in 64 bits where that is enough (it nearly always is, and is much faster).
pub(crate) fn scaled(left: u64, right: u64, divisor: u64) -> u64 {
    if let Some(product) = left.checked_mul(right) {
        return product / divisor;
    }
    u64::try_from(u128::from(left) * u128::from(right) / u128::from(divisor)).unwrap_or(u64::MAX)
}

/// `cost` in steps, divided by `total`: quotient and remainder of what is added to `part`.
fn divided(part: u64, cost: u64, total: u64) -> (i128, u64) {
    let sum = u128::from(part) + (u128::from(cost) << SCALE_BITS);
    if let Ok(sum) = u64::try_from(sum) {
        return (i128::from(sum / total), sum % total);
    }
    let total = u128::from(total);
    let rest = u64::try_from(sum % total).unwrap_or(0);
    ((sum / total).cast_signed(), rest)
}

// === impl VirtualTime ===

impl VirtualTime {
    /// Whole steps.
    pub(crate) const fn whole(&self) -> i128 {
        self.whole
    }

    /// The service due by now to a lane of this weight that has been here from the beginning, in steps.
    pub(crate) fn due(&self, weight: u32) -> i128 {
        let part = scaled(self.part, u64::from(weight), self.total);
        self.whole.wrapping_mul(i128::from(weight)).wrapping_add(i128::from(part))
    }

    /// A bound for [`due`](Self::due) from above, at most `weight` steps off.
    pub(crate) fn due_at_most(&self, weight: u32) -> i128 {
        self.whole.wrapping_add(1).wrapping_mul(i128::from(weight))
    }

    /// The part of a step that [`due`](Self::due) leaves out, for the comparison of near ties: it is over
    /// the same total for all weights.
    pub(crate) fn due_rest(&self, weight: u32) -> u128 {
        u128::from(self.part) * u128::from(weight) % u128::from(self.total)
    }

    /// Serves `cost` while `total` is ready.
    pub(crate) fn advance(&mut self, cost: u64, total: u64) {
        let total = total.max(1);
        self.express_over(total);
        let (whole, part) = divided(self.part, cost, total);
        self.whole = self.whole.wrapping_add(whole);
        self.part = part;
    }

    /// Takes back an advance of `cost` that was made while `total` was ready.
    pub(crate) fn retreat(&mut self, cost: u64, total: u64) {
        let total = total.max(1);
        let (whole, part) = divided(0, cost, total);
        let part = if total == self.total { part } else { scaled(part, self.total, total) };
        self.whole = self.whole.wrapping_sub(whole);
        if let Some(rest) = self.part.checked_sub(part) {
            self.part = rest;
        } else {
            self.whole = self.whole.wrapping_sub(1);
            self.part += self.total - part;
        }
    }

    fn express_over(&mut self, total: u64) {
        if self.total != total {
            self.part = scaled(self.part, total, self.total);
            self.total = total;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost_while_the_total_stays() {
        let mut time = VirtualTime::default();
        for _ in 0..7_000 {
            time.advance(1, 7);
        }
        assert_eq!((time.whole, time.part), (steps(1000), 0));
    }

    #[test]
    fn an_advance_is_taken_back_exactly() {
        let mut time = VirtualTime::default();
        time.advance(1, 7);
        let before = time;
        time.advance(5, 7);
        time.retreat(5, 7);
        assert_eq!(time, before);
        // With another total in between it is off by less than a step.
        time.advance(5, 7);
        time.advance(3, 11);
        time.retreat(5, 7);
        time.retreat(3, 11);
        assert!((time.whole - before.whole).abs() <= 1);
    }

    #[test]
    fn changing_totals_lose_less_than_a_step_each() {
        let mut time = VirtualTime::default();
        let mut exact = 0.0;
        for turn in 0..100_000_u64 {
            let total = 1 + turn * 7919 % 1009;
            time.advance(1, total);
            exact += (1_u64 << SCALE_BITS) as f64 / total as f64;
        }
        let error = (time.whole as f64 - exact).abs() / exact;
        assert!(error < 1e-9, "{error}");
    }

    #[test]
    fn the_largest_turn_fits() {
        let mut time = VirtualTime::default();
        for _ in 0..1000 {
            time.advance(MAX_TURN, 1);
        }
        assert_eq!(time.due(1_000_000), steps(MAX_TURN) * 1000 * 1_000_000);
    }
}
