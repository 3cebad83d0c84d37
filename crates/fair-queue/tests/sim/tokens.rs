//! Costs that differ: shares are of units, and a large ask is neither starved nor in the way.

use crate::bucket::{Bucket, SECOND};
use crate::driver::{Sim, Source, fair, mean};

#[test]
fn units_are_shared_by_weight_whatever_the_sizes() {
    let sizes = [((100, 100), (900, 1100)), ((1000, 3000), (10, 50)), ((50, 500), (50, 500))];
    for (three, one) in sizes {
        let sources = vec![
            Source::new(1, 3, 200.0).tokens(three.0, three.1).budget(20 * SECOND),
            Source::new(2, 1, 200.0).tokens(one.0, one.1).budget(20 * SECOND),
        ];
        let sim = fair(sources).bucket(1, Bucket::new(10_000, SECOND, 10_000)).run(20, 200);
        let shares = sim.shares();
        assert!((shares[0] - 75.0).abs() < 2.0, "{three:?} to {one:?}: {shares:.1?}");
        let ratio = sim.attempts_per_admission();
        assert!(ratio <= 1.05, "{three:?} to {one:?}: {ratio} attempts per admission");
        let units: u64 = sim.outcomes.iter().map(|outcome| outcome.units).sum();
        assert!(units >= 10_000 * 198, "{units} units of 2000000");
    }
}

/// One asks for half a bucket now and then, beside a flood of small ones.
fn large_and_small() -> Sim<fairlane_fair_queue::FairQueue> {
    let sources = vec![
        Source::new(1, 1, 0.05).tokens(5000, 5000).budget(60 * SECOND),
        Source::new(2, 1, 100.0).tokens(10, 10).budget(5 * SECOND),
        Source::new(3, 1, 100.0).tokens(10, 10).budget(5 * SECOND),
    ];
    fair(sources).bucket(1, Bucket::new(1000, SECOND, 10_000)).run(60, 1200)
}

#[test]
fn a_large_ask_is_served_in_its_fair_time() {
    let sim = large_and_small();
    let large = &sim.outcomes[0];
    assert!(large.admitted >= 40, "{large:?}");
    assert_eq!(large.expired, 0, "it was told that it could be served in time");
    // Its third of 1000 a second takes 15 s for 5000; what it is owed from before makes it shorter.
    let longest = large.waits.iter().max().unwrap() / SECOND;
    let mean = mean(&large.waits).as_secs();
    assert!(mean <= 20 && longest <= 60, "mean {mean} s, longest {longest} s");
}

#[test]
fn small_asks_are_not_held_behind_anothers_large_ones() {
    // The flood of large asks gets its half; small ones, which need less than their half, wait for one large
    // one at most.
    let sources = vec![
        Source::new(1, 1, 10.0).tokens(1000, 1000).budget(60 * SECOND),
        Source::new(2, 1, 4.0).tokens(10, 10).budget(60 * SECOND),
    ];
    let sim = fair(sources).bucket(1, Bucket::new(1000, SECOND, 2000)).run(60, 600);
    let small = &sim.outcomes[1];
    let wait = mean(&small.waits).as_millis();
    assert!(wait <= 1100, "mean {wait} ms");
    assert!(*small.waits.iter().max().unwrap() <= 2 * SECOND, "{:?}", small.waits.iter().max());
    assert!(small.admitted + 20 >= small.arrived, "{} of {}", small.admitted, small.arrived);
}
