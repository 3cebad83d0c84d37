//! Cases written out by hand, with the numbers worked out on paper.

use std::time::Duration;

use super::Harness;
use crate::{Balance, BucketKey, Charge, Decision, Denied, Dimension, Quota, Refusal, Settlement, Store};

pub(super) async fn run<H: Harness>(harness: &H) {
    a_bucket_starts_full_and_refills_evenly(harness).await;
    the_wait_told_is_exact(harness).await;
    a_refusal_takes_nothing_from_any_bucket(harness).await;
    every_refusal_is_told_and_the_latest_counts(harness).await;
    more_than_the_capacity_is_impossible(harness).await;
    a_look_takes_nothing(harness).await;
    giving_back_stops_at_the_capacity(harness).await;
    a_debt_delays_by_its_refill_time(harness).await;
    a_changed_quota_keeps_the_content(harness).await;
    a_changed_quota_keeps_the_debt(harness).await;
    a_refused_call_brings_in_a_changed_quota(harness).await;
    a_bucket_that_has_filled_up_is_full_under_any_quota(harness).await;
    charges_on_one_bucket_add_up(harness).await;
    dimensions_do_not_mix(harness).await;
    the_slowest_and_the_fastest_are_exact(harness).await;
    a_year_of_idleness_is_only_full(harness).await;
    frequent_attempts_do_not_stop_the_refill(harness).await;
    a_clock_that_steps_back_gives_nothing(harness).await;
}

const MICRO: Duration = Duration::from_micros(1);
const SECOND: Duration = Duration::from_secs(1);

/// A store and short words for what is done to it.
struct Case<'a, H: Harness> {
    harness: &'a H,
    store: H::Store,
}

impl<'a, H: Harness> Case<'a, H> {
    async fn new(harness: &'a H) -> Self {
        Self { harness, store: harness.empty_store().await }
    }

    async fn take(&self, charges: &[Charge]) -> Decision {
        self.store.take(charges).await.expect("the store answers")
    }

    async fn peek(&self, charges: &[Charge]) -> Decision {
        self.store.peek(charges).await.expect("the store answers")
    }

    async fn grant(&self, charge: Charge) {
        let decision = self.take(&[charge]).await;
        assert!(decision.is_granted(), "{charge:?} should pass: {decision:?}");
    }

    async fn deny(&self, charge: Charge) -> Duration {
        denied(self.take(&[charge]).await).retry_after()
    }

    async fn settle(&self, key: BucketKey, quota: Quota, amount: i64) -> Balance {
        let told =
            self.store.settle(&[Settlement::new(key, quota, amount)]).await.expect("the store answers");
        told.get(0).expect("one balance for one settlement")
    }

    /// What is in the bucket, by a settlement of nothing: a look would tell it only of a bucket without debt.
    async fn balance(&self, key: BucketKey, quota: Quota) -> Balance {
        self.settle(key, quota, 0).await
    }

    async fn remaining(&self, key: BucketKey, quota: Quota) -> i64 {
        self.balance(key, quota).await.remaining
    }

    async fn advance(&self, by: Duration) {
        self.harness.advance(by).await;
    }
}

fn key(dimension: u8, digest: u128) -> BucketKey {
    BucketKey::new(Dimension::new(dimension), digest)
}

fn quota(capacity: u64, refill: u64, period: Duration) -> Quota {
    Quota::new(capacity, refill, period).expect("a valid quota")
}

fn denied(decision: Decision) -> Denied {
    let Decision::Denied(denied) = decision else { panic!("should be denied: {decision:?}") };
    denied
}

async fn a_bucket_starts_full_and_refills_evenly<H: Harness>(harness: &H) {
    let case = Case::new(harness).await;
    let ten = quota(10, 4, SECOND);
    let decision = case.take(&[Charge::new(key(0, 1), ten, 3)]).await;
    let told = decision.granted().and_then(|granted| granted.balances().get(0));
    let quarter = SECOND / 4;
    assert_eq!(
        told,
        Some(Balance { remaining: 7, until_next: quarter, until_full: 3 * quarter }),
        "after 3 of 10"
    );
    case.advance(Duration::from_millis(100)).await;
    let told = case.balance(key(0, 1), ten).await;
    let (until_next, until_full) = (Duration::from_millis(150), Duration::from_millis(650));
    assert_eq!(told, Balance { remaining: 7, until_next, until_full }, "0.4 units later");
    case.advance(until_full - MICRO).await;
    assert_eq!(case.remaining(key(0, 1), ten).await, 9, "a microsecond before it is full");
    case.advance(MICRO).await;
    let full = Balance { remaining: 10, until_next: Duration::ZERO, until_full: Duration::ZERO };
    assert_eq!(case.balance(key(0, 1), ten).await, full, "full");
}

async fn the_wait_told_is_exact<H: Harness>(harness: &H) {
    // The last is in no clean ratio with a microsecond: one unit takes 17279.996544 of them.
    for (quota, cost) in [
        (quota(5, 5, SECOND), 1),
        (quota(5, 5, SECOND), 4),
        (quota(3, 1, Duration::from_secs(86_400)), 2),
        (quota(100, 5_000_001, Duration::from_secs(86_400)), 1),
        (quota(100, 5_000_001, Duration::from_secs(86_400)), 99),
        (quota(1_000_000, 7_777_777, Duration::from_secs(60)), 123_457),
    ] {
        let case = Case::new(harness).await;
        case.grant(Charge::new(key(0, 1), quota, quota.capacity())).await;
        let wait = case.deny(Charge::new(key(0, 1), quota, cost)).await;
        case.advance(wait - MICRO).await;
        let rest = case.deny(Charge::new(key(0, 1), quota, cost)).await;
        assert_eq!(rest, MICRO, "one microsecond before the wait of {wait:?} for {cost} under {quota:?}");
        case.advance(MICRO).await;
        case.grant(Charge::new(key(0, 1), quota, cost)).await;
    }
}

async fn a_refusal_takes_nothing_from_any_bucket<H: Harness>(harness: &H) {
    let case = Case::new(harness).await;
    let (everybody, one) =
        (quota(10, 1, Duration::from_secs(3_600)), quota(1, 1, Duration::from_secs(3_600)));
    let charges = [Charge::new(key(0, 0), everybody, 1), Charge::new(key(1, 7), one, 1)];
    assert!(case.take(&charges).await.is_granted(), "the first passes");
    for _ in 0..20 {
        denied(case.take(&charges).await);
    }
    assert_eq!(
        case.remaining(key(0, 0), everybody).await,
        9,
        "the shared bucket after 1 grant and 20 refusals"
    );
}

async fn every_refusal_is_told_and_the_latest_counts<H: Harness>(harness: &H) {
    let case = Case::new(harness).await;
    let (fast, slow, wide) = (quota(2, 2, SECOND), quota(5, 1, 2 * SECOND), quota(100, 1, SECOND));
    let charges =
        [Charge::new(key(0, 1), fast, 2), Charge::new(key(1, 1), wide, 2), Charge::new(key(2, 1), slow, 4)];
    assert!(case.take(&charges).await.is_granted(), "all are full");
    let denied = denied(case.take(&charges).await);
    let refusals: Vec<_> = denied.refusals().collect();
    let expected = [Refusal { index: 0, retry_after: SECOND }, Refusal { index: 2, retry_after: 6 * SECOND }];
    assert_eq!(refusals, expected, "who refuses, and for how long");
    assert_eq!(denied.retry_after(), 6 * SECOND, "the latest of them");
    let levels: Vec<_> = denied.balances().iter().map(|balance| balance.remaining).collect();
    assert_eq!(levels, [0, 98, 1], "the levels of all, untouched");
    case.advance(6 * SECOND).await;
    assert!(case.take(&charges).await.is_granted(), "after the latest");
}

async fn more_than_the_capacity_is_impossible<H: Harness>(harness: &H) {
    let case = Case::new(harness).await;
    let small = quota(5, 1, SECOND);
    let charges = [
        Charge::new(key(0, 1), small, 5),
        Charge::new(key(1, 1), small, 6),
        Charge::new(key(2, 1), small, u64::MAX),
    ];
    for decision in [case.take(&charges).await, case.peek(&charges).await] {
        let Decision::Impossible(impossible) = decision else { panic!("should be impossible: {decision:?}") };
        assert_eq!(impossible.exceeding(), [1, 2], "which ones");
    }
    assert_eq!(case.remaining(key(0, 1), small).await, 5, "nothing was taken");
}

async fn a_look_takes_nothing<H: Harness>(harness: &H) {
    let case = Case::new(harness).await;
    let charge = Charge::new(key(0, 1), quota(5, 1, SECOND), 5);
    for _ in 0..3 {
        let decision = case.peek(&[charge]).await;
        let told = decision.granted().and_then(|granted| granted.balances().get(0));
        assert_eq!(told.map(|balance| balance.remaining), Some(5), "the level before the charge");
    }
    case.grant(charge).await;
    let looked = denied(case.peek(&[charge]).await);
    let taken = denied(case.take(&[charge]).await);
    assert_eq!(looked, taken, "a look and an attempt that are refused");
}

async fn giving_back_stops_at_the_capacity<H: Harness>(harness: &H) {
    let case = Case::new(harness).await;
    let ten = quota(10, 1, Duration::from_secs(60));
    case.grant(Charge::new(key(0, 1), ten, 8)).await;
    assert_eq!(case.settle(key(0, 1), ten, 3).await.remaining, 5, "3 given back");
    for amount in [6, 1, i64::MAX] {
        assert_eq!(case.settle(key(0, 1), ten, amount).await.remaining, 10, "{amount} given back");
    }
    assert_eq!(case.settle(key(0, 2), ten, 4).await.remaining, 10, "given back to a full bucket");
}

async fn a_debt_delays_by_its_refill_time<H: Harness>(harness: &H) {
    let case = Case::new(harness).await;
    let ten = quota(10, 1, SECOND);
    let told = case.settle(key(0, 1), ten, -14).await;
    assert_eq!(told, Balance { remaining: -4, until_next: SECOND, until_full: 14 * SECOND }, "4 in debt");
    assert_eq!(case.deny(Charge::new(key(0, 1), ten, 0)).await, 4 * SECOND, "not even nothing from a debt");
    assert_eq!(
        case.deny(Charge::new(key(0, 1), ten, 2)).await,
        6 * SECOND,
        "its refill time, then that of the ask"
    );
    case.advance(Duration::from_millis(2_500)).await;
    assert_eq!(case.remaining(key(0, 1), ten).await, -2, "a debt is rounded to the worse");
    assert_eq!(case.settle(key(0, 1), ten, 1).await.remaining, -1, "given back into a debt");
    case.advance(Duration::from_millis(2_500)).await;
    case.grant(Charge::new(key(0, 1), ten, 2)).await;
    assert_eq!(
        case.settle(key(0, 1), ten, i64::MIN).await.remaining,
        -1_440_000_000_000_000,
        "the deepest debt"
    );
}

async fn a_changed_quota_keeps_the_content<H: Harness>(harness: &H) {
    let case = Case::new(harness).await;
    let (slow, fast) = (quota(10, 1, SECOND), quota(1_000, 1_000, SECOND));
    case.grant(Charge::new(key(0, 1), slow, 10)).await;
    case.advance(5 * SECOND).await;
    // What flowed in until now came at the old rate. The new one would have brought 1,000.
    assert_eq!(case.remaining(key(0, 1), fast).await, 5, "raised");
    case.advance(SECOND / 10).await;
    assert_eq!(case.remaining(key(0, 1), fast).await, 105, "the new rate from then on");
    assert_eq!(case.remaining(key(0, 1), slow).await, 10, "lowered: cut to the new capacity");
    case.grant(Charge::new(key(0, 1), slow, 6)).await;
    for _ in 0..3 {
        assert_eq!(case.remaining(key(0, 1), slow).await, 4, "an unchanged quota adds nothing");
    }
    let (half, other) = (quota(10, 2, SECOND), quota(10, 7, SECOND));
    case.grant(Charge::new(key(0, 2), half, 10)).await;
    case.advance(Duration::from_micros(750_001)).await;
    let told = case.balance(key(0, 2), other).await;
    // 1.500002 units: at 7 per second the missing 0.499998 take 71,428.28 microseconds.
    assert_eq!((told.remaining, told.until_next), (1, Duration::from_micros(71_429)), "fractions are kept");
}

async fn a_changed_quota_keeps_the_debt<H: Harness>(harness: &H) {
    let case = Case::new(harness).await;
    let (slow, fast) = (quota(10, 1, SECOND), quota(10, 1_000, SECOND));
    case.settle(key(0, 1), slow, -20).await;
    assert_eq!(case.remaining(key(0, 1), fast).await, -10, "raised");
    assert_eq!(
        case.deny(Charge::new(key(0, 1), fast, 1)).await,
        Duration::from_millis(11),
        "at the new rate"
    );
    assert_eq!(case.remaining(key(0, 1), slow).await, -10, "lowered");
    assert_eq!(case.deny(Charge::new(key(0, 1), slow, 1)).await, 11 * SECOND, "at the old rate again");
}

async fn a_refused_call_brings_in_a_changed_quota<H: Harness>(harness: &H) {
    let (slow, fast) = (quota(10, 1, SECOND), quota(10, 1_000, SECOND));
    for look in [false, true] {
        let case = Case::new(harness).await;
        case.settle(key(0, 1), slow, -20).await;
        let charge = Charge::new(key(0, 1), fast, 1);
        let decision = if look { case.peek(&[charge]).await } else { case.take(&[charge]).await };
        let wait = denied(decision).retry_after();
        assert_eq!(wait, Duration::from_millis(11), "told at the new rate");
        case.advance(wait).await;
        case.grant(charge).await;
    }
}

async fn a_bucket_that_has_filled_up_is_full_under_any_quota<H: Harness>(harness: &H) {
    let case = Case::new(harness).await;
    let (small, large) = (quota(10, 10, SECOND), quota(1_000, 1, SECOND));
    case.grant(Charge::new(key(0, 1), small, 1)).await;
    case.grant(Charge::new(key(0, 2), small, 1)).await;
    case.advance(SECOND / 10 - MICRO).await;
    assert_eq!(case.remaining(key(0, 1), large).await, 9, "a microsecond before it is full");
    case.advance(MICRO).await;
    assert_eq!(case.remaining(key(0, 2), large).await, 1_000, "full, and so forgotten");
}

async fn charges_on_one_bucket_add_up<H: Harness>(harness: &H) {
    let case = Case::new(harness).await;
    let five = quota(5, 1, SECOND);
    let twice = |cost, other| {
        [
            Charge::new(key(0, 1), five, cost),
            Charge::new(key(1, 1), five, 1),
            Charge::new(key(0, 1), five, other),
        ]
    };
    let decision = case.take(&twice(2, 4)).await;
    let Decision::Impossible(impossible) = decision else {
        panic!("6 of 5 should be impossible: {decision:?}")
    };
    assert_eq!(impossible.exceeding(), [0, 2], "both");
    let decision = case.take(&twice(1, 3)).await;
    let told: Vec<_> =
        decision.granted().expect("4 of 5").balances().iter().map(|one| one.remaining).collect();
    assert_eq!(told, [1, 4, 1], "one balance for both");
    let denied = denied(case.take(&twice(1, 1)).await);
    let expected = [0, 2].map(|index| Refusal { index, retry_after: SECOND });
    assert_eq!(denied.refusals().collect::<Vec<_>>(), expected, "2 of 1 is missing 1");
    let both = [Settlement::new(key(0, 1), five, 3), Settlement::new(key(0, 1), five, -1)];
    let told = case.store.settle(&both).await.expect("the store answers");
    assert_eq!(told.iter().map(|one| one.remaining).collect::<Vec<_>>(), [3, 3], "the sum is applied");
}

async fn dimensions_do_not_mix<H: Harness>(harness: &H) {
    let case = Case::new(harness).await;
    let one = quota(1, 1, SECOND);
    for (dimension, digest) in [(0, 1), (1, 1), (255, 1), (0, 2), (0, 1 << 64), (0, u128::MAX)] {
        case.grant(Charge::new(key(dimension, digest), one, 1)).await;
    }
    case.deny(Charge::new(key(0, 1), one, 1)).await;
}

async fn the_slowest_and_the_fastest_are_exact<H: Harness>(harness: &H) {
    let case = Case::new(harness).await;
    let day = Duration::from_secs(86_400);
    let slowest = quota(1, 1, day);
    case.grant(Charge::new(key(0, 1), slowest, 1)).await;
    case.advance(day - MICRO).await;
    assert_eq!(case.deny(Charge::new(key(0, 1), slowest, 1)).await, MICRO, "1 per day");
    case.advance(MICRO).await;
    case.grant(Charge::new(key(0, 1), slowest, 1)).await;

    let fastest = Quota::per_minute(1_000_000_000_000).expect("the fastest that is accepted");
    case.grant(Charge::new(key(0, 2), fastest, 1_000_000_000_000)).await;
    case.advance(MICRO).await;
    // 16,666.67 units in a microsecond.
    assert_eq!(case.remaining(key(0, 2), fastest).await, 16_666, "10^12 per minute");
    let wait = case.deny(Charge::new(key(0, 2), fastest, 999_999_999_999)).await;
    assert_eq!(wait, Duration::from_secs(60) - MICRO, "and nearly all of it");

    let largest = quota(Quota::MAX_CAPACITY, 5_000_001, day);
    case.grant(Charge::new(key(0, 3), largest, Quota::MAX_CAPACITY)).await;
    case.advance(day - MICRO).await;
    assert_eq!(case.remaining(key(0, 3), largest).await, 5_000_000, "5,000,001 per day, less the last unit");
    case.advance(MICRO).await;
    assert_eq!(case.remaining(key(0, 3), largest).await, 5_000_001, "and with it");
}

async fn a_year_of_idleness_is_only_full<H: Harness>(harness: &H) {
    let case = Case::new(harness).await;
    let (few, fastest) = (quota(7, 3, SECOND), Quota::per_minute(1_000_000_000_000).expect("a valid quota"));
    case.grant(Charge::new(key(0, 1), few, 7)).await;
    case.settle(key(0, 2), fastest, -1_440_000_000_000_000).await;
    case.advance(Duration::from_secs(366 * 86_400)).await;
    case.grant(Charge::new(key(0, 1), few, 7)).await;
    assert_eq!(
        case.deny(Charge::new(key(0, 1), few, 1)).await,
        Duration::from_micros(333_334),
        "no more than full"
    );
    assert_eq!(case.remaining(key(0, 2), fastest).await, 1_000_000_000_000, "a debt is paid off long since");
}

async fn frequent_attempts_do_not_stop_the_refill<H: Harness>(harness: &H) {
    let case = Case::new(harness).await;
    let one = quota(1, 1, SECOND);
    case.grant(Charge::new(key(0, 1), one, 1)).await;
    let mut granted = 0;
    for _ in 0..500 {
        case.advance(Duration::from_millis(10)).await;
        granted += u32::from(case.take(&[Charge::new(key(0, 1), one, 1)]).await.is_granted());
    }
    assert_eq!(granted, 5, "grants in 5 s at 1 per second, asking every 10 ms");
}

async fn a_clock_that_steps_back_gives_nothing<H: Harness>(harness: &H) {
    let case = Case::new(harness).await;
    let ten = quota(10, 1, SECOND);
    case.advance(Duration::from_secs(10_000)).await;
    case.grant(Charge::new(key(0, 1), ten, 4)).await;
    if !harness.step_back(Duration::from_secs(3_600)).await {
        return;
    }
    assert_eq!(case.remaining(key(0, 1), ten).await, 6, "an hour back");
    case.grant(Charge::new(key(0, 1), ten, 6)).await;
    let wait = case.deny(Charge::new(key(0, 1), ten, 1)).await;
    assert_eq!(wait, Duration::from_secs(3_601), "the clock must return, then a unit flow in");
    let mut granted = 0;
    for _ in 0..10 {
        case.advance(Duration::from_secs(3_600)).await;
        granted += u32::from(case.take(&[Charge::new(key(0, 1), ten, 1)]).await.is_granted());
        assert!(harness.step_back(Duration::from_secs(3_600)).await, "it could before");
    }
    assert_eq!(granted, 0, "grants from a clock that goes back and forth");
    case.advance(Duration::from_secs(3_601)).await;
    case.grant(Charge::new(key(0, 1), ten, 1)).await;
}
