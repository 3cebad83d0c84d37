use crate::Timestamp;

/// One window is 2^32 nanoseconds, about 4.3 seconds: then to divide by it is to shift.
const WINDOW_BITS: u32 = 32;
/// The same in nanoseconds.
pub(crate) const WINDOW: f64 = (1_u64 << WINDOW_BITS) as f64;

/// An amount that has come in of late: an exact count of this window and of the one before it.
///
/// Windows start at the same moments for everybody, so that the counts of many lanes can be added up, and
/// taken out of the sum again, to the unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Window {
    epoch: u64,
    previous: u64,
    current: u64,
}

// === impl Window ===

impl Window {
    fn roll(&mut self, now: Timestamp) {
        let epoch = now.as_nanos() >> WINDOW_BITS;
        if epoch > self.epoch {
            self.previous = if epoch - self.epoch == 1 { self.current } else { 0 };
            self.current = 0;
            self.epoch = epoch;
        }
    }

    pub(crate) fn add(&mut self, amount: u64, now: Timestamp) {
        self.roll(now);
        self.current = self.current.saturating_add(amount);
    }

    /// Adds another's counts to these.
    pub(crate) fn include(&mut self, mut other: Self, now: Timestamp) {
        self.roll(now);
        other.roll(now);
        self.previous = self.previous.saturating_add(other.previous);
        self.current = self.current.saturating_add(other.current);
    }

    /// Takes counts out that were included before.
    pub(crate) fn exclude(&mut self, mut other: Self, now: Timestamp) {
        self.roll(now);
        other.roll(now);
        self.previous = self.previous.saturating_sub(other.previous);
        self.current = self.current.saturating_sub(other.current);
    }

    /// What came in during the last whole window: all of the present one, and of the one before it the part
    /// that is not that old yet.
    pub(crate) fn amount(&self, now: Timestamp) -> u64 {
        let mut rolled = *self;
        rolled.roll(now);
        let passed = now.as_nanos() & ((1 << WINDOW_BITS) - 1);
        let left = u128::from((1_u64 << WINDOW_BITS) - passed);
        let of_previous = (u128::from(rolled.previous) * left) >> WINDOW_BITS;
        rolled.current.saturating_add(u64::try_from(of_previous).unwrap_or(u64::MAX))
    }

    /// All that is counted, up to two windows back.
    pub(crate) fn counted(&self, now: Timestamp) -> u64 {
        let mut rolled = *self;
        rolled.roll(now);
        rolled.current.saturating_add(rolled.previous)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_stream_is_measured_wherever_in_the_window_one_looks() {
        let mut window = Window::default();
        let step = (1 << WINDOW_BITS) / 100;
        for tick in 0..1000 {
            let now = Timestamp::from_nanos(tick * step);
            window.add(3, now);
            if tick > 200 {
                assert!(window.amount(now).abs_diff(300) <= 6, "{} at {tick}", window.amount(now));
            }
        }
        assert_eq!(window.amount(Timestamp::from_nanos(1 << 40)), 0);
    }

    #[test]
    fn what_was_included_can_be_excluded() {
        let (early, late) = (Timestamp::from_nanos(0), Timestamp::from_nanos(1 << WINDOW_BITS));
        let mut part = Window::default();
        part.add(5, early);
        let mut sum = part;
        sum.add(2, late);
        sum.exclude(part, late);
        assert_eq!(sum.counted(late), 2);
    }
}
