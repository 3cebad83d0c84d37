//! Which of several candidates comes next, so that shares follow weights without a lock.

use std::sync::atomic::{AtomicU64, Ordering};

/// Hands out the numbers from which choices are made.
///
/// The n-th choice lies at the fractional part of n times the golden ratio. That sequence fills the unit interval
/// more evenly than chance does (it is the additive recurrence of lowest discrepancy; see L. Kuipers and
/// H. Niederreiter, "Uniform Distribution of Sequences", 1974), so after any number of choices each
/// candidate has had its share to within a few, and no two threads need to agree on anything but a counter.
///
/// There are several counters, and a set of candidates always uses the same one: with a single counter, two models
/// whose requests arrive in a regular pattern would each see a regular, and no longer even, part of the sequence.
#[derive(Debug)]
pub(super) struct Rotation {
    counters: [AtomicU64; COUNTERS],
}

/// A point of the unit interval, in units of 2^-64.
#[derive(Debug, Clone, Copy)]
pub(super) struct Point(u64);

const COUNTERS: usize = 16;

/// 2^64 divided by the golden ratio, made odd.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

// === impl Rotation ===

impl Rotation {
    pub(super) fn new() -> Self {
        Self { counters: std::array::from_fn(|_| AtomicU64::new(0)) }
    }

    /// Another one that goes on from here.
    pub(super) fn resumed(&self) -> Self {
        let turn = |counter: &AtomicU64| AtomicU64::new(counter.load(Ordering::Relaxed));
        Self { counters: self.counters.each_ref().map(turn) }
    }

    /// The next point for a set of candidates; `set` tells sets apart.
    pub(super) fn next(&self, set: u64) -> Point {
        // The top bits of a product with an odd constant are a fair hash of a small set.
        let shard = usize::try_from(set.wrapping_mul(GOLDEN) >> 60).unwrap_or(0) % COUNTERS;
        let turn = self.counters[shard].fetch_add(1, Ordering::Relaxed);
        Point(turn.wrapping_mul(GOLDEN))
    }
}

// === impl Point ===

impl Point {
    /// Chooses among candidates by weight. `None` if there are none.
    ///
    /// What is left of the point, its place within the interval of the chosen one, is again a point, for choosing
    /// among the others if that one cannot take the request. The next number of the sequence would not do: it
    /// follows from this one, and would send whatever one candidate refuses to the same other.
    pub(super) fn choose(self, weights: impl Iterator<Item = u32> + Clone) -> Option<(usize, Self)> {
        let total: u128 = weights.clone().map(u128::from).sum();
        let mut place = u128::from(self.0) * total;
        for (index, weight) in weights.enumerate() {
            let share = u128::from(weight) << 64;
            if place < share {
                // Below 2^64, as `place` is below `share`.
                let rest = u64::try_from(place / u128::from(weight)).unwrap_or(u64::MAX);
                return Some((index, Self(rest)));
            }
            place -= share;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(weights: &[u32], turns: u32) -> Vec<u32> {
        let rotation = Rotation::new();
        let mut counts = vec![0; weights.len()];
        for _ in 0..turns {
            counts[rotation.next(7).choose(weights.iter().copied()).unwrap().0] += 1;
        }
        counts
    }

    #[test]
    fn shares_follow_weights_at_every_length() {
        for weights in [&[1, 1][..], &[3, 1], &[1, 2, 3, 4], &[100, 1], &[7, 7, 7, 5, 1]] {
            let total: u32 = weights.iter().sum();
            for turns in [1, 10, 97, 1_000, 100_000] {
                for (count, weight) in shares(weights, turns).into_iter().zip(weights) {
                    let due = f64::from(turns) * f64::from(*weight) / f64::from(total);
                    let off = (f64::from(count) - due).abs();
                    assert!(off <= 4.0, "{weights:?}, {turns} turns: {count} rather than {due}");
                }
            }
        }
    }

    #[test]
    fn two_sets_in_a_regular_pattern_do_not_disturb_each_other() {
        let rotation = Rotation::new();
        let (mut first, mut rare) = ([0_u32; 2], [0_u32; 2]);
        for turn in 0..89_000 {
            if turn % 89 == 0 {
                rare[rotation.next(0b110).choose([1, 1].into_iter()).unwrap().0] += 1;
            } else {
                first[rotation.next(0b011).choose([1, 1].into_iter()).unwrap().0] += 1;
            }
        }
        assert!(first[0].abs_diff(first[1]) <= 4 && rare[0].abs_diff(rare[1]) <= 4, "{first:?} {rare:?}");
    }

    #[test]
    fn what_one_refuses_is_shared_by_the_others() {
        let rotation = Rotation::new();
        let mut counts = [0_u32; 4];
        for _ in 0..60_000 {
            let (first, rest) = rotation.next(1).choose([2, 1, 1, 2].into_iter()).unwrap();
            let taken = match first {
                0 => 1 + rest.choose([1, 1, 2].into_iter()).unwrap().0,
                other => other,
            };
            counts[taken] += 1;
        }
        for (count, due) in counts.into_iter().zip([0, 15_000, 15_000, 30_000]) {
            assert!(count.abs_diff(due) <= 20, "{counts:?}");
        }
    }

    #[test]
    fn none_is_chosen_of_none() {
        assert!(Rotation::new().next(0).choose(std::iter::empty()).is_none());
    }
}
