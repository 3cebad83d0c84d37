//! Token gates: shares are of tokens, nothing is wasted, and a large ask is neither starved nor in the way.
//!
//! The *fair time* of a request is when it would be through if its tenant had, from the moment at which it asked, the
//! rate `refill * weight / weights` to itself: it ends `cost / rate` after it began, or after the tenant's request
//! before it has ended.

use fairlane_fair_queue::GateKey;

use crate::bucket::{Bucket, SECOND};
use crate::driver::{Outcome, Sim, Source, fair};
use crate::scheduler::{FirstCome, NoOp, Scheduler};

const MS: u64 = SECOND / 1000;

/// By how much the latest request came after its fair time, in nanoseconds; below zero if all came before.
///
/// The requests of a tenant are of one source, and so come in the order in which they asked.
fn latest(outcome: &Outcome, rate: f64) -> i64 {
    let (mut through, mut latest) = (0.0_f64, f64::MIN);
    for (asked, admitted, cost) in &outcome.served {
        let takes = *cost as f64 / rate * SECOND as f64;
        through = through.max(*asked as f64) + takes;
        latest = latest.max(*admitted as f64 - through);
    }
    latest as i64
}

/// Runs for a while, and then for so many seconds that count. What is told besides is the part of what flowed in
/// meanwhile that was admitted, and the part that flowed over because the bucket was full, both in percent.
fn saturated<S: Scheduler>(mut sim: Sim<S>, seconds: u64) -> (Sim<S>, f64, f64) {
    let spilt = |sim: &mut Sim<S>| {
        let bucket = sim.store.buckets.get_mut(&GateKey(1)).unwrap();
        (bucket.spilt(sim.now), bucket.refill * seconds)
    };
    sim.run_until(20 * SECOND);
    let (before, _) = spilt(&mut sim);
    let mut sim = sim.run(20, seconds);
    let (after, inflow) = spilt(&mut sim);
    let units: u64 = sim.outcomes.iter().map(|outcome| outcome.units).sum();
    let percent = |amount: u64| 100.0 * amount as f64 / inflow as f64;
    (sim, percent(units), percent(after - before))
}

/// Two tenants of weights 3 and 1 that ask for far more than there is: in tokens 75 to 25, and all of it used.
#[test]
fn tokens_are_shared_by_weight_whatever_the_sizes_and_none_are_wasted() {
    const REFILL: u64 = 3000;
    let small_and_large = [
        ((100, 100), (700, 700)),
        ((700, 700), (100, 100)),
        ((100, 100), (900, 1100)),
        ((1000, 3000), (10, 50)),
        ((50, 500), (50, 500)),
    ];
    for (three, one) in small_and_large {
        let largest = three.1.max(one.1);
        // At once, the bucket may be just as large as the largest ask, and has to be full for it. With a store that takes
        // 20 ms it has to hold what flows in meanwhile, too.
        for (latency, capacity) in [(0, largest), (20, largest + REFILL / 50 + 1), (20, 6 * REFILL)] {
            let rate = |(least, most): (u64, u64)| 4.0 * REFILL as f64 / (least + most) as f64;
            let sources = vec![
                Source::new(1, 3, rate(three)).tokens(three.0, three.1).budget(20 * SECOND),
                Source::new(2, 1, rate(one)).tokens(one.0, one.1).budget(20 * SECOND),
            ];
            let bucket = Bucket::new(REFILL, SECOND, capacity);
            let (sim, used, spilt) = saturated(fair(sources).bucket(1, bucket).latency(latency * MS, 0), 80);
            let name = format!("{three:?} to {one:?}, {latency} ms, {capacity} at most");
            let shares = sim.shares();
            assert!((shares[0] - 75.0).abs() < 2.0, "{name}: {shares:.1?}");
            assert!(used >= 97.0, "{name}: {used:.1} % used");
            assert!(spilt < 0.1, "{name}: {spilt:.2} % flowed over");
            let ratio = sim.attempts_per_admission();
            assert!(ratio <= 1.05, "{name}: {ratio} attempts per admission");
        }
    }
}

/// One asks for five seconds' worth now and then, beside a flood of small ones from others, who always have more to ask.
#[test]
fn a_large_ask_in_a_flood_of_small_ones_is_served_in_its_fair_time() {
    for (others, latency) in [(2, 0), (2, 20), (8, 0)] {
        let mut sources = vec![Source::new(1, 1, 0.02).tokens(5000, 5000).budget(600 * SECOND)];
        let flood = |tenant| Source::new(tenant, 1, 100.0 / others as f64).tokens(10, 20).budget(5 * SECOND);
        sources.extend((0..others).map(|other| flood(other + 2)));
        let bucket = Bucket::new(1000, SECOND, 10_000);
        let (sim, used, _) = saturated(fair(sources).bucket(1, bucket).latency(latency * MS, 0), 800);
        let large = &sim.outcomes[0];
        assert!(large.admitted >= 10 && large.expired == 0 && large.refused.is_empty(), "{large:?}");
        // The small one that is just being served when its turn comes, and the way to the store.
        let late = latest(large, 1000.0 / (others + 1) as f64);
        assert!(late <= (20 + latency) as i64 * MS as i64, "{others} others, {latency} ms: {late} ns late");
        assert!(used >= 97.0, "{others} others, {latency} ms: {used:.1} % used");
    }
}

/// The other way round: some flood the bucket with large ones, and one asks for little, less than its share.
#[test]
fn a_small_ask_waits_for_no_more_than_one_large_turn_beyond_its_fair_time() {
    for (others, size, latency) in [(1, 1000, 0), (1, 5000, 0), (1, 5000, 20), (4, 1000, 0)] {
        let mut sources = vec![Source::new(1, 1, 4.0).tokens(5, 15).budget(60 * SECOND)];
        let flood = |tenant| Source::new(tenant, 1, 10.0).tokens(size, size).budget(60 * SECOND);
        sources.extend((0..others).map(|other| flood(other + 2)));
        let bucket = Bucket::new(1000, SECOND, 10_000);
        let (sim, used, _) = saturated(fair(sources).bucket(1, bucket).latency(latency * MS, 0), 300);
        let (small, name) = (&sim.outcomes[0], format!("{others} others ask for {size}, {latency} ms"));
        assert!(
            small.admitted >= 1000 && small.expired == 0 && small.refused.is_empty(),
            "{name}: {small:?}"
        );
        let late = latest(small, 1000.0 / (others + 1) as f64);
        assert!(late <= ((size + latency) * MS) as i64, "{name}: {late} ns late");
        assert!(used >= 97.0, "{name}: {used:.1} % used");
    }
}

/// Reservations of 10^12 tokens, of buckets that hold 10^15.
#[test]
fn the_largest_numbers_are_shared_as_well_as_small_ones() {
    const MOST: u64 = 1_000_000_000_000;
    for (three, one) in
        [((MOST, MOST), (MOST, MOST)), ((MOST / 2, MOST), (1000, MOST / 5)), ((1, 9), (MOST, MOST))]
    {
        let rate = |(least, most): (u64, u64)| (100.0 * MOST as f64 / (least + most) as f64).min(100.0);
        let sources = vec![
            Source::new(1, 3, rate(three)).tokens(three.0, three.1).budget(200 * SECOND),
            Source::new(2, 1, rate(one)).tokens(one.0, one.1).budget(200 * SECOND),
        ];
        let mut bucket = Bucket::new(10 * MOST, SECOND, 1000 * MOST);
        bucket.settle(-(1000 * MOST as i64), 0);
        let (sim, used, spilt) = saturated(fair(sources).bucket(1, bucket), 100);
        let name = format!("{three:?} to {one:?}");
        assert!(used >= 97.0 && spilt < 0.1, "{name}: {used:.1} % used, {spilt:.2} % flowed over");
        let shares = sim.shares();
        if three.1 > 9 {
            assert!((shares[0] - 75.0).abs() < 2.0, "{name}: {shares:.1?}");
        } else {
            // They never come to their share, and so wait for one large turn at most.
            let small = &sim.outcomes[0];
            assert!(small.admitted + 32 >= small.arrived, "{name}: {} of {}", small.admitted, small.arrived);
            assert!(
                *small.waits.iter().max().unwrap() <= SECOND / 10 + MS,
                "{name}: {:?}",
                small.waits.iter().max()
            );
        }
        let ratio = sim.attempts_per_admission();
        assert!(ratio <= 1.05, "{name}: {ratio} attempts per admission");
    }
}

/// Each user has a bucket of requests of its own, and all share one of tokens. Both refuse, now the one, now the other.
#[test]
fn tokens_are_shared_by_weight_behind_buckets_of_requests_too() {
    for latency in [0, 20] {
        let user = |tenant: u128, weight, rate, size| {
            Source::new(tenant, weight, rate).gates(&[10 + tenant, 1]).tokens(size, size).budget(20 * SECOND)
        };
        // In tokens: three quarters, a quarter; and the third is held to one request a second by its own bucket.
        let sources = vec![user(1, 3, 400.0, 100), user(2, 1, 40.0, 700), user(3, 4, 20.0, 100)];
        let sim = fair(sources)
            .bucket(1, Bucket::new(10_000, SECOND, 20_000))
            .bucket(11, Bucket::per_second(120))
            .bucket(12, Bucket::per_second(5))
            .bucket(13, Bucket::new(1, SECOND, 1))
            .latency(latency * MS, 0);
        let (sim, used, _) = saturated(sim, 40);
        let shares = sim.shares();
        assert!((shares[2] - 1.0).abs() < 0.5, "{latency} ms: {shares:.1?}");
        let of_two = 100.0 * shares[0] / (shares[0] + shares[1]);
        assert!((of_two - 75.0).abs() < 2.0, "{latency} ms: {shares:.1?}");
        assert!(used >= 97.0, "{latency} ms: {used:.1} % used");
        let ratio = sim.attempts_per_admission();
        assert!(ratio <= 1.05, "{latency} ms: {ratio:.3} attempts per admission");
    }
}

/// What is asked above of shares and of small asks is not given by anything that just serves.
#[test]
fn without_fairness_tokens_are_shared_otherwise() {
    fn check<S: Scheduler>(scheduler: S, name: &str) {
        let sources = vec![
            Source::new(1, 3, 400.0).tokens(100, 100).budget(20 * SECOND),
            Source::new(2, 1, 60.0).tokens(700, 700).budget(20 * SECOND),
        ];
        let sim = Sim::new(scheduler, sources).bucket(1, Bucket::new(10_000, SECOND, 10_000));
        let (sim, _, _) = saturated(sim, 20);
        let shares = sim.shares();
        assert!((shares[0] - 75.0).abs() >= 2.0, "{name}: {shares:.1?}");
    }
    check(FirstCome::default(), "first come, first served");
    check(NoOp::default(), "no scheduler at all");
}
