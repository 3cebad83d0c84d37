//! Pick for pick: the queue serves in the order of the oracles.

use crate::driver::Random;
use crate::oracle::{Nginx, Oracle};
use crate::rig::Rig;

/// Serves a fixed set, each with always somebody waiting.
fn backlogged(weights: &[u32]) -> Rig {
    let mut rig = Rig::new();
    for weight in weights {
        let member = rig.join(*weight);
        rig.enqueue(member, 1);
        rig.enqueue(member, 1);
    }
    rig
}

fn next(rig: &mut Rig) -> usize {
    let (member, _) = rig.serve().unwrap();
    rig.enqueue(member, 1);
    member
}

#[test]
fn five_one_one_is_aabacaa() {
    let mut rig = backlogged(&[5, 1, 1]);
    for _ in 0..100 {
        let picks: Vec<usize> = (0..7).map(|_| next(&mut rig)).collect();
        assert_eq!(picks, [0, 0, 1, 0, 2, 0, 0]);
    }
}

#[test]
fn fixed_sets_are_served_as_nginx_would() {
    let mut random = Random(7);
    for set in 0..300 {
        let size = 1 + random.below(24) as usize;
        let largest = [3, 10, 100, 1_000_000][random.below(4) as usize];
        let weights: Vec<u32> = (0..size).map(|_| 1 + random.below(largest) as u32).collect();
        let mut rig = backlogged(&weights);
        let mut nginx = Nginx::new(&weights);
        for pick in 0..500 {
            assert_eq!(next(&mut rig), nginx.pick(), "set {set} {weights:?}, pick {pick}");
        }
    }
}

#[test]
fn long_runs_do_not_drift() {
    let weights: Vec<u32> = (1..=40).map(|weight| weight * 17 % 97 + 1).collect();
    let mut rig = backlogged(&weights);
    let mut nginx = Nginx::new(&weights);
    for pick in 0..60_000 {
        assert_eq!(next(&mut rig), nginx.pick(), "pick {pick}");
    }
}

/// Members come, go, return, and ask for different costs.
fn churn(seed: u64, largest_weight: u64, largest_cost: u64) {
    let mut random = Random(seed);
    let (mut rig, mut oracle) = (Rig::new(), Oracle::new());
    for _ in 0..3000 {
        let members = oracle.members();
        match random.below(10) {
            0 if members < 60 => {
                let weight = 1 + random.below(largest_weight) as u32;
                let member = oracle.join(weight);
                assert_eq!(rig.join(weight), member);
                rig.enqueue(member, 1 + random.below(largest_cost));
                oracle.ready(member);
            }
            1..=3 if members > 0 => {
                let member = random.below(members as u64) as usize;
                for _ in 0..=random.below(3) {
                    rig.enqueue(member, 1 + random.below(largest_cost));
                }
                if !oracle.is_ready(member) {
                    oracle.ready(member);
                }
            }
            4 if members > 0 => {
                let member = random.below(members as u64) as usize;
                if rig.has(member) {
                    rig.withdraw(member);
                    oracle.unready(member);
                }
            }
            _ => {
                let wanted = oracle.peek();
                let served = rig.serve();
                assert_eq!(served.map(|(member, _)| member), wanted, "seed {seed}");
                if let Some((member, cost)) = served {
                    oracle.pick(cost);
                    if !rig.has(member) {
                        oracle.unready(member);
                    }
                }
            }
        }
    }
}

#[test]
fn changing_sets_are_served_as_the_oracle_would() {
    for seed in 0..12 {
        churn(seed, 5, 1);
        churn(seed + 100, 100, 1);
        churn(seed + 200, 1_000_000, 1);
    }
}

#[test]
fn changing_sets_with_costs_too() {
    for seed in 0..12 {
        churn(seed, 10, 50);
        churn(seed + 100, 100, 100_000);
        churn(seed + 200, 1000, 1_000_000_000_000);
    }
}
