//! Requests that need room in several buckets at once.

use fairlane_fair_queue::{Action, Demand, FairQueue, GateKey, Request, TenantKey, Timestamp, Weight};

use crate::bucket::{Bucket, SECOND, at};
use crate::driver::{Sim, Source, fair, limits};

fn check_frugal(name: &str, sim: &Sim<FairQueue>) {
    let ratio = sim.attempts_per_admission();
    assert!(ratio <= 1.05, "{name}: {ratio:.3} attempts per admission");
}

#[test]
fn two_contended_buckets_cost_no_more_attempts_than_one() {
    // A model's bucket shared by all, and one of each user's own.
    for (own, latency) in [(2, 0), (4, 0), (2, 20), (4, 20)] {
        let sources = (0..6).map(|user| Source::new(user + 1, 1, 10.0).gates(&[10 + user, 1])).collect();
        let mut sim = fair(sources).bucket(1, Bucket::per_second(10)).latency(latency * 1_000_000, 0);
        for user in 0..6 {
            sim = sim.bucket(10 + user, Bucket::new(own, SECOND, own));
        }
        let sim = sim.run(10, 60);
        check_frugal(&format!("{own}/s each, {latency} ms"), &sim);
        assert!(sim.admissions >= 10 * 60 * 98 / 100, "{own}/s each: {}", sim.admissions);
    }
}

#[test]
fn crossed_demands_are_all_served() {
    // Two busy buckets whose tokens never come at the same moment, and one who needs both.
    for rates in [(10, 10), (10, 7), (9, 31)] {
        let sources = vec![
            Source::new(1, 1, 40.0).gates(&[1]),
            Source::new(2, 1, 40.0).gates(&[2]),
            Source::new(3, 1, 40.0).gates(&[1, 2]),
            Source::new(4, 1, 40.0).gates(&[2, 1]),
        ];
        let sim = fair(sources)
            .bucket(1, Bucket::per_second(rates.0))
            .bucket(2, Bucket::new(rates.1, SECOND, 3))
            .run(10, 120);
        check_frugal(&format!("{rates:?}"), &sim);
        let admitted: Vec<u64> = sim.outcomes.iter().map(|outcome| outcome.admitted).collect();
        // A third of the lesser bucket is due to each. Who needs two tokens at once gets somewhat less, as it
        // can only use those that meet; but it is never starved.
        let least = rates.0.min(rates.1) * 120 / 3;
        for (at, admitted) in admitted.iter().enumerate() {
            assert!(admitted * 10 >= least * 5, "{rates:?}: tenant {at} got {admitted} of {least}");
        }
    }
}

#[test]
fn two_buckets_of_one_unit_never_wait_for_each_other() {
    // Each room that is kept is all there is, and nobody is patient for less than the whole run.
    for (weights, rates, costs) in [
        ([4, 1, 1], (40, 30), (1, 1)),
        ([1, 1, 1], (40, 30), (1, 1)),
        ([1, 4, 2], (2, 1), (1, 1)),
        ([4, 1, 1], (400, 300), (6, 10)),
    ] {
        let capacity = costs.1;
        let source = |tenant: u128, gates: &[u128]| {
            let weight = weights[tenant as usize - 1];
            Source::new(tenant, weight, 100.0).gates(gates).budget(10_000 * SECOND).cost(costs.0, costs.1)
        };
        let sources = vec![source(1, &[2, 1]), source(2, &[1, 2]), source(2, &[2, 1]), source(3, &[1])];
        let sim = fair(sources)
            .bucket(1, Bucket::new(rates.0, SECOND, capacity))
            .bucket(2, Bucket::new(rates.1, SECOND, capacity))
            .run(10, 120);
        let due = rates.1 * 120 / costs.1;
        assert!(sim.admissions * 10 >= due * 7, "{weights:?} {rates:?}: {} of {due}", sim.admissions);
        for (at, outcome) in sim.outcomes.iter().enumerate() {
            let silent = sim.now.saturating_sub(outcome.last_admission);
            assert!(
                silent < 30 * SECOND,
                "{weights:?} {rates:?}: source {at} was served last {silent} ns ago"
            );
        }
    }
}

#[test]
fn a_user_without_room_does_not_hold_up_its_team() {
    // One team, two users: the first has used up its own bucket, the second has not.
    let sources = vec![
        Source::new(1, 1, 20.0).gates(&[11, 1]),
        Source::new(1, 1, 4.0).gates(&[12, 1]).budget(10 * SECOND),
        Source::new(2, 1, 20.0).gates(&[13, 1]),
    ];
    let sim = fair(sources)
        .bucket(1, Bucket::per_second(10))
        .bucket(11, Bucket::new(1, SECOND, 1))
        .bucket(12, Bucket::per_second(100))
        .bucket(13, Bucket::per_second(100))
        .run(10, 120);
    check_frugal("team", &sim);
    let admitted: Vec<u64> = sim.outcomes.iter().map(|outcome| outcome.admitted).collect();
    // The slow user gets its one a second; its team mate nearly all of the rest of their half.
    assert!(admitted[0] >= 100, "{admitted:?}");
    assert!(admitted[1] >= 300, "{admitted:?}");
    assert!(admitted.iter().sum::<u64>() >= 1180, "{admitted:?}");
}

#[test]
fn a_gate_with_slow_attempts_does_not_hold_up_the_others() {
    // The attempts of one gate never come back, and it would take every grant there is. The other's come back
    // within a millisecond, and its bucket has a unit every ten: between them it has no use for a grant.
    let mut queue = FairQueue::new(limits(1000, 8));
    let mut quick = Bucket::new(100, SECOND, 1);
    for gate in [1, 2].repeat(500) {
        let request = Request {
            tenant: TenantKey(gate),
            weight: Weight::MIN,
            demands: &[Demand::request(GateKey(gate))],
            levels: if gate == 2 { &[quick.level(GateKey(2), 0)] } else { &[] },
            arrived: at(0),
            deadline: Timestamp::MAX,
        };
        queue.enqueue(request, at(0)).unwrap();
    }
    let (mut served, mut out) = (0, None);
    for step in 0..2000 {
        let now = step * SECOND / 1000;
        if let Some(ticket) = out.take() {
            quick.settle(-1, now);
            assert!(queue.admitted(ticket, &[quick.level(GateKey(2), now)], at(now)));
            served += 1;
        }
        while let Some(action) = queue.poll(at(now)) {
            let Action::Grant { ticket, gate, .. } = action else { panic!("nobody has a deadline") };
            if gate == GateKey(2) {
                assert!(out.replace(ticket).is_none());
            }
        }
    }
    // Ten milliseconds to refill and one for the answer.
    assert!(served >= 2000 / 11 - 2, "the quick gate was served {served} times");
}
