//! What callers are told, against what they then waited.

use crate::bucket::{Bucket, SECOND};
use crate::driver::{Sim, Source, fair};
use crate::scheduler::Scheduler;

/// The part of the estimates within 25 % of the wait or 50 ms, whichever is more.
fn right<S: Scheduler>(sim: &Sim<S>) -> f64 {
    let all: Vec<_> = sim.outcomes.iter().flat_map(|outcome| &outcome.estimates).collect();
    let near = |(estimate, wait): &&&(u64, u64)| estimate.abs_diff(*wait) <= (wait / 4).max(SECOND / 20);
    assert!(all.len() > 200, "only {} estimates", all.len());
    all.iter().filter(near).count() as f64 / all.len() as f64
}

#[test]
fn in_a_steady_overload_nine_in_ten_estimates_are_right() {
    let equal = |rate: f64| (1..=8).map(|tenant| Source::new(tenant, 1, rate).budget(30 * SECOND)).collect();
    let tiers: Vec<Source> = (0..12)
        .map(|at| Source::new(at + 1, [1, 3, 10][at as usize % 3], 20.0).budget(30 * SECOND))
        .collect();
    let mixed: Vec<Source> = (0..10)
        .map(|at| Source::new(at + 1, 1, if at < 3 { 100.0 } else { 1.0 }).budget(60 * SECOND))
        .collect();
    let two =
        vec![Source::new(1, 3, 100.0).budget(60 * SECOND), Source::new(2, 1, 100.0).budget(60 * SECOND)];
    let loads: Vec<(&str, u64, Vec<Source>)> = vec![
        ("eight equals", 50, equal(20.0)),
        ("three tiers", 50, tiers),
        ("three floods among ten", 20, mixed),
        ("3 : 1", 10, two),
    ];
    for (name, rate, sources) in loads {
        let sim = fair(sources).bucket(1, Bucket::per_second(rate)).run(30, 120);
        let right = right(&sim) * 100.0;
        assert!(right >= 90.0, "{name}: {right:.1} %");
    }
}

#[test]
fn estimates_hold_for_token_costs_too() {
    let sources: Vec<Source> = (0..6)
        .map(|at| Source::new(at + 1, [1, 3][at as usize % 2], 20.0).tokens(50, 150).budget(60 * SECOND))
        .collect();
    let sim = fair(sources).bucket(1, Bucket::new(2000, SECOND, 4000)).run(30, 120);
    let right = right(&sim) * 100.0;
    assert!(right >= 90.0, "{right:.1} %");
}
