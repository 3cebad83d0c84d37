//! The loads for which the obvious way is unfair, end to end on a real bucket.

use fairlane_fair_queue::FairQueue;

use crate::bucket::{Bucket, SECOND};
use crate::driver::{Sim, Source, fair, limits, mean};
use crate::scheduler::{FirstCome, NoOp, Scheduler};

/// Sources, and the shares they should get, in percent.
type Load = (&'static str, Vec<Source>, Vec<f64>);

fn loads() -> Vec<Load> {
    vec![
        ("3 : 1, both flooding", vec![Source::new(1, 3, 100.0), Source::new(2, 1, 100.0)], vec![75.0, 25.0]),
        (
            "four equals, one floods",
            vec![
                Source::new(1, 1, 1000.0),
                Source::new(2, 1, 20.0),
                Source::new(3, 1, 10.0),
                Source::new(4, 1, 5.0),
            ],
            vec![25.0; 4],
        ),
        (
            "a light one beside a flood",
            vec![Source::new(1, 1, 3.0), Source::new(2, 1, 1000.0)],
            vec![30.0, 70.0],
        ),
    ]
}

fn run<S: Scheduler>(scheduler: S, sources: Vec<Source>, seconds: u64) -> Sim<S> {
    Sim::new(scheduler, sources).bucket(1, Bucket::per_second(10)).run(5, seconds)
}

/// The farthest that a share is off, in points.
fn worst(shares: &[f64], wanted: &[f64]) -> f64 {
    shares.iter().zip(wanted).map(|(share, wanted)| (share - wanted).abs()).fold(0.0, f64::max)
}

/// Is this fair? The complaint, if not.
fn check<S: Scheduler>(sim: &Sim<S>, name: &str, wanted: &[f64]) -> Result<(), String> {
    let mut wanted = wanted.to_vec();
    if name.starts_with("a light") {
        let light = &sim.outcomes[0];
        // All that it sent, which is 3 a second give or take chance.
        wanted[0] = 100.0 * light.arrived as f64 / sim.admissions as f64;
        wanted[1] = 100.0 - wanted[0];
        let wait = mean(&light.waits).as_millis();
        if wait > 400 {
            return Err(format!("{name}: waits {wait} ms"));
        }
        if light.admitted + 3 < light.arrived {
            return Err(format!("{name}: {} of {} served", light.admitted, light.arrived));
        }
    }
    let shares = sim.shares();
    if worst(&shares, &wanted) >= 2.0 {
        return Err(format!("{name}: {shares:.1?}, wanted {wanted:.1?}"));
    }
    Ok(())
}

#[test]
fn every_share_is_within_two_points() {
    for (name, sources, wanted) in loads() {
        let sim = run(FairQueue::new(limits(32, 8)), sources, 60);
        assert_eq!(check(&sim, name, &wanted), Ok(()));
        let ratio = sim.attempts_per_admission();
        assert!(ratio <= 1.05, "{name}: {ratio} attempts per admission");
        // The whole bucket is used.
        assert!(sim.admissions >= 599, "{name}: {} of 600", sim.admissions);
    }
}

#[test]
fn without_fairness_the_same_check_fails() {
    for (name, sources, wanted) in loads() {
        let sim = run(FirstCome::default(), sources.clone(), 15);
        assert!(check(&sim, name, &wanted).is_err(), "{name}: first come, first served passes");
        let sim = run(NoOp::default(), sources, 15);
        assert!(check(&sim, name, &wanted).is_err(), "{name}: no scheduler at all passes");
    }
}

#[test]
fn attempts_stay_scarce_when_the_store_is_slow() {
    for (rate, latency, jitter) in [(10, 50, 0), (200, 20, 0), (200, 20, 20), (50, 5, 100)] {
        let sources = vec![Source::new(1, 3, rate as f64 * 4.0), Source::new(2, 1, rate as f64 * 4.0)];
        let sim = fair(sources)
            .bucket(1, Bucket::per_second(rate))
            .latency(latency * 1_000_000, jitter * 1_000_000)
            .run(5, 20);
        let ratio = sim.attempts_per_admission();
        assert!(ratio <= 1.05, "{rate}/s, {latency}+{jitter} ms: {ratio} attempts per admission");
        let shares = sim.shares();
        assert!(worst(&shares, &[75.0, 25.0]) < 2.0, "{rate}/s, {latency}+{jitter} ms: {shares:.1?}");
        let whole = rate * 20;
        assert!(
            sim.admissions * 100 >= whole * 98,
            "{rate}/s, {latency}+{jitter} ms: {} of {whole}",
            sim.admissions
        );
    }
}

#[test]
fn turns_lost_to_other_replicas_are_given_back() {
    for rivals in [10, 50] {
        let sources = vec![Source::new(1, 3, 100.0), Source::new(2, 1, 100.0)];
        let sim = fair(sources).bucket(1, Bucket::per_second(10)).rivals(rivals).run(10, 300);
        let shares = sim.shares();
        assert!(worst(&shares, &[75.0, 25.0]) < 2.0, "{rivals} %: {shares:.1?}");
        assert!(sim.attempts_per_admission() > 1.05, "{rivals} %: nobody was in the way");
    }
}

#[test]
fn a_lone_tenant_gets_the_whole_bucket() {
    let sim = fair(vec![Source::new(1, 1, 100.0)]).bucket(1, Bucket::per_second(10)).run(10, 60);
    assert!(sim.admissions >= 599, "{}", sim.admissions);
    assert!(sim.outcomes[0].longest_gap <= SECOND / 10 + 1, "{}", sim.outcomes[0].longest_gap);
}
