//! The arithmetic of one bucket against one that is worked out otherwise.
#![expect(clippy::unwrap_used, clippy::cast_possible_wrap, reason = "a test fails by panicking")]

use std::time::Duration;

use fairlane_limiter::{Bucket, Quota, Timestamp};
use proptest::prelude::*;

/// A bucket whose content is counted in fractions of its own period: cruder than ours, which has one fraction for
/// all quotas, and so wrong in other ways if it is wrong.
#[derive(Clone, Copy, Debug)]
struct Naive {
    capacity: i128,
    refill: i128,
    period_micros: i128,
    parts: i128,
    at: i128,
}

impl Naive {
    fn full(capacity: u64, refill: u64, period: Duration, now: u64) -> Self {
        let period_micros = i128::try_from(period.as_micros()).unwrap();
        let capacity = i128::from(capacity);
        Self {
            capacity,
            refill: i128::from(refill),
            period_micros,
            parts: capacity * period_micros,
            at: now.into(),
        }
    }

    fn pass(&mut self, now: u64) {
        let now = i128::from(now);
        self.parts =
            (self.parts + self.refill * (now - self.at).max(0)).min(self.capacity * self.period_micros);
        self.at = self.at.max(now);
    }

    fn take(&mut self, cost: u64) -> bool {
        let parts = i128::from(cost) * self.period_micros;
        let passes = self.parts >= parts;
        if passes {
            self.parts -= parts;
        }
        passes
    }

    fn settle(&mut self, amount: i64) {
        let changed = self.parts + i128::from(amount) * self.period_micros;
        self.parts = changed.min(self.capacity * self.period_micros);
    }

    fn remaining(&self) -> i128 {
        self.parts.div_euclid(self.period_micros)
    }

    fn wait(&self, cost: u64, now: u64) -> Duration {
        let missing = i128::from(cost) * self.period_micros - self.parts;
        if missing <= 0 {
            return Duration::ZERO;
        }
        let flow = (missing + self.refill - 1) / self.refill;
        let wait = flow + (self.at - i128::from(now)).max(0);
        // Cut off where ours is.
        Duration::from_micros(u64::try_from(wait.min(1 << 52)).unwrap())
    }
}

/// Capacity, refill and period, from one per day to 10^12 per minute.
fn values() -> impl Strategy<Value = (u64, u64, Duration)> {
    let millis = prop::sample::select(vec![1_u64, 20, 1_000, 15_000, 60_000, 3_600_000, 86_400_000]);
    (skewed(1_000_000_000_000), skewed(1_000_000_000_000), millis).prop_map(|(capacity, refill, millis)| {
        let fastest = 1_000_000_000_000_u128 * u128::from(millis) / 60_000;
        let refill = u128::from(refill).min(fastest).max(1);
        (capacity.max(1), u64::try_from(refill).unwrap(), Duration::from_millis(millis))
    })
}

/// All sizes alike, not nearly always the largest.
fn skewed(most: u64) -> impl Strategy<Value = u64> {
    (0..=most.ilog2() + 1, any::<u64>())
        .prop_map(move |(bits, number)| (number & ((1 << bits) - 1)).min(most))
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Forward(u64),
    Back(u64),
    Take(u64),
    Settle(i64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => skewed(40_000_000_000_000).prop_map(Step::Forward),
        1 => skewed(100_000_000).prop_map(Step::Back),
        5 => skewed(1_000_000_000_000).prop_map(Step::Take),
        2 => skewed(1_000_000_000_000).prop_map(|amount| Step::Settle(amount as i64)),
        2 => skewed(1_000_000_000_000).prop_map(|amount| Step::Settle(-(amount as i64))),
    ];
    prop::collection::vec(step, 1..60)
}

fn at(micros: u64) -> Timestamp {
    Timestamp::from_micros(micros)
}

proptest! {
    #[test]
    fn a_bucket_agrees_with_one_counted_otherwise((capacity, refill, period) in values(), steps in steps()) {
        let quota = Quota::new(capacity, refill, period).unwrap();
        let mut now = 1_000_000_000_u64;
        let mut ours = Bucket::full(quota, at(now));
        let mut naive = Naive::full(capacity, refill, period, now);
        for step in steps {
            match step {
                Step::Forward(micros) => now += micros,
                Step::Back(micros) => now -= micros.min(now),
                Step::Take(cost) => {
                    ours = Bucket::observe(Some(ours), quota, at(now));
                    naive.pass(now);
                    let passes = naive.take(cost);
                    prop_assert_eq!(ours.holds(cost), passes);
                    if passes {
                        ours = ours.take(cost);
                    } else if cost <= capacity {
                        prop_assert_eq!(ours.wait_for(cost, at(now)), naive.wait(cost, now));
                    }
                }
                Step::Settle(amount) => {
                    ours = Bucket::observe(Some(ours), quota, at(now)).settle(amount);
                    naive.pass(now);
                    naive.settle(amount);
                }
            }
            let seen = Bucket::observe(Some(ours), quota, at(now)).balance(at(now));
            // A look records nothing, not even its time.
            let mut naive = naive;
            naive.pass(now);
            prop_assert_eq!(i128::from(seen.remaining), naive.remaining());
            prop_assert_eq!(seen.until_full, naive.wait(capacity, now));
            prop_assert_eq!(seen.until_full.is_zero(), seen.until_next.is_zero());
            prop_assert!(seen.until_next <= seen.until_full);
        }
    }

    /// Refilling in any number of steps is refilling in one: there is nothing that could drift.
    #[test]
    fn many_steps_are_one((capacity, refill, period) in values(), times in prop::collection::vec(skewed(1 << 40), 1..40)) {
        let quota = Quota::new(capacity, refill, period).unwrap();
        let start = Bucket::full(quota, at(0)).take(capacity);
        let mut stepped = start;
        let mut now = 0;
        for micros in times {
            now += micros;
            stepped = Bucket::observe(Some(stepped), quota, at(now));
        }
        prop_assert_eq!(stepped, Bucket::observe(Some(start), quota, at(now)));
    }

    /// The wait told is the shortest that helps, whatever the quota.
    #[test]
    fn a_wait_is_exact((capacity, refill, period) in values(), cost in skewed(1_000_000_000_000), debt in skewed(1_000_000)) {
        let cost = cost.min(capacity);
        let quota = Quota::new(capacity, refill, period).unwrap();
        let empty = Bucket::full(quota, at(0)).take(capacity).settle(-(debt as i64));
        prop_assume!(!empty.holds(cost));
        let wait = u64::try_from(empty.wait_for(cost, at(0)).as_micros()).unwrap();
        // Beyond this a wait is cut off.
        prop_assume!(wait < 1 << 52);
        prop_assert!(Bucket::observe(Some(empty), quota, at(wait)).holds(cost));
        prop_assert!(!Bucket::observe(Some(empty), quota, at(wait - 1)).holds(cost));
    }

    /// Whatever times a clock tells, a bucket gives no more than its capacity and what flowed in over their span.
    #[test]
    fn no_order_of_times_hands_out_tokens(
        (capacity, refill, period) in values(),
        times in prop::collection::vec(skewed(1 << 40), 1..60),
    ) {
        let quota = Quota::new(capacity, refill, period).unwrap();
        let mut bucket = None;
        let mut taken = 0_u128;
        for micros in &times {
            let observed = Bucket::observe(bucket, quota, at(*micros));
            let most = u64::try_from(observed.balance(at(*micros)).remaining.max(0)).unwrap();
            taken += u128::from(most);
            bucket = Some(observed.take(most));
        }
        let span = u128::from(times.iter().max().unwrap() - times.iter().min().unwrap());
        let flow = u128::from(refill) * span / period.as_micros();
        prop_assert!(taken <= u128::from(capacity) + flow, "{} taken", taken);
    }

    /// A changed quota keeps what is in the bucket, to the grain, up to its capacity; and any debt.
    #[test]
    fn a_changed_quota_keeps_the_content(
        (capacity, refill, period) in values(),
        (other_capacity, other_refill, other_period) in values(),
        taken in skewed(1_000_000_000_000),
        debt in skewed(1_000_000),
        passed in skewed(1 << 40),
    ) {
        let old = Quota::new(capacity, refill, period).unwrap();
        let new = Quota::new(other_capacity, other_refill, other_period).unwrap();
        let bucket = Bucket::full(old, at(0)).take(taken.min(capacity)).settle(-(debt as i64));
        let before = Bucket::observe(Some(bucket), old, at(passed));
        let after = Bucket::observe(Some(bucket), new, at(passed));
        if before.is_full(at(passed)) {
            prop_assert!(after.is_full(at(passed)));
            return Ok(());
        }
        let kept = before.balance(at(passed)).remaining.min(i64::try_from(other_capacity).unwrap());
        prop_assert_eq!(after.balance(at(passed)).remaining, kept);
        // There and back again, nothing is lost unless the new capacity cut it off.
        if !after.is_full(at(passed)) {
            prop_assert_eq!(Bucket::observe(Some(after), old, at(passed)), before);
        }
    }

    /// Giving back what was taken restores the bucket; giving back more never lifts it above its capacity.
    #[test]
    fn giving_back_restores_and_stops_at_full(
        (capacity, refill, period) in values(),
        first in skewed(1_000_000_000_000),
        cost in skewed(1_000_000_000_000),
        extra in any::<i64>(),
    ) {
        let quota = Quota::new(capacity, refill, period).unwrap();
        let bucket = Bucket::full(quota, at(0)).take(first.min(capacity));
        let cost = cost.min(capacity - first.min(capacity));
        prop_assert_eq!(bucket.take(cost).settle(cost as i64), bucket);
        prop_assert_eq!(bucket.settle(-(cost as i64)), bucket.take(cost));
        let settled = bucket.settle(extra).balance(at(0)).remaining;
        prop_assert!(settled <= i64::try_from(capacity).unwrap());
    }

    /// No number that a caller can pass does harm.
    #[test]
    fn extremes_do_not_overflow(
        capacity in any::<u64>(),
        refill in any::<u64>(),
        period in any::<u64>(),
        now in any::<u64>(),
        later in any::<u64>(),
        cost in any::<u64>(),
        amount in any::<i64>(),
    ) {
        let quota = Quota::new(capacity, refill, Duration::from_nanos(period))
            .or_else(|_| Quota::new(capacity % Quota::MAX_CAPACITY + 1, refill % Quota::MAX_REFILL_PER_DAY + 1, Duration::from_secs(86_400)))
            .unwrap();
        let bucket = Bucket::full(quota, at(now)).settle(amount).take(cost).settle(amount);
        let bucket = Bucket::observe(Some(bucket), quota, at(later));
        let told = bucket.balance(at(later));
        prop_assert!(told.remaining <= i64::try_from(quota.capacity()).unwrap());
        prop_assert!(told.until_full <= Duration::from_micros(1 << 52));
        prop_assert!(!bucket.holds(cost) || i128::from(cost) <= i128::from(told.remaining));
    }
}

/// Takes at the very rate of the refill for ever so long: not one unit is gained or lost.
#[test]
fn nothing_drifts_over_many_operations() {
    let operations =
        std::env::var("FAIRLANE_DRIFT_OPERATIONS").map_or(1_000_000, |count| count.parse().unwrap());
    for (capacity, refill, period, step_micros) in [
        (5, 3, Duration::from_secs(1), 333_333),
        (10, 1, Duration::from_secs(86_400), 86_400_000_000),
        (100, 5_000_001, Duration::from_secs(86_400), 17_279),
        (1_000_000_000_000, 1_000_000_000_000, Duration::from_secs(60), 1),
    ] {
        let quota = Quota::new(capacity, refill, period).unwrap();
        let mut bucket = Bucket::full(quota, at(0)).take(capacity);
        let mut now = 0_u64;
        let mut taken = 0_u128;
        // A day a step reaches the end of time after 200 million.
        for _ in 0..operations.min(u64::MAX / step_micros) {
            now += step_micros;
            bucket = Bucket::observe(Some(bucket), quota, at(now));
            let all = u64::try_from(bucket.balance(at(now)).remaining).unwrap();
            bucket = bucket.take(all);
            taken += u128::from(all);
        }
        // In the last step the bucket held less than one unit, so all that flowed in was taken.
        assert_eq!(
            taken,
            u128::from(refill) * u128::from(now) / period.as_micros(),
            "{refill} per {period:?}"
        );
    }
}

/// A thousand million operations in one jump: the same sum, by the property that steps add up.
#[test]
fn nothing_drifts_over_a_thousand_million_operations_at_once() {
    let operations = 1_000_000_000_u64;
    let quota = Quota::new(1_440_000_000_000_000, 5_000_001, Duration::from_secs(86_400)).unwrap();
    let step = 17_279;
    let empty = Bucket::full(quota, at(0)).take(quota.capacity());
    let after = Bucket::observe(Some(empty), quota, at(step * operations)).balance(at(step * operations));
    assert_eq!(i128::from(after.remaining), 5_000_001 * i128::from(step * operations) / 86_400_000_000);
}

/// Every rate lets through exactly what it says, polled at odd intervals.
#[test]
fn every_rate_is_kept() {
    for (refill, period_secs) in
        [(1, 86_400), (2, 86_400), (1, 3_600), (7, 60), (1, 1), (999, 1), (1_000_000_007, 1)]
    {
        let quota = Quota::new(refill, refill, Duration::from_secs(period_secs)).unwrap();
        let mut bucket = Bucket::full(quota, at(0));
        let mut taken = 0;
        for tick in 0..=1_000_u64 {
            let now = tick * period_secs * 9_973;
            bucket = Bucket::observe(Some(bucket), quota, at(now));
            let all = u64::try_from(bucket.balance(at(now)).remaining).unwrap();
            bucket = bucket.take(all);
            taken += all;
        }
        let periods_in_millionths = 1_000 * 9_973;
        let expected = u128::from(refill) + u128::from(refill) * periods_in_millionths / 1_000_000;
        assert_eq!(u128::from(taken), expected, "{refill} per {period_secs} s");
    }
}
