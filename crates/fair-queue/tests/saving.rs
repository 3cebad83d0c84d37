//! A bucket is saved up for a large ask whose turn it is, and for no longer than it is there.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use std::time::Duration;

use fairlane_fair_queue::{
    Action, ClassLimits, Demand, FairQueue, GateKey, GateLevel, Limits, Reason, Request, TenantKey, Ticket,
    Timestamp, Weight,
};

const GATE: GateKey = GateKey(1);
/// Until then 100 have come to be 500.
const SAVED_UP: u64 = 40_000;

fn at(ms: u64) -> Timestamp {
    Timestamp::from_nanos(ms * 1_000_000)
}

fn queue() -> FairQueue {
    let tokens = ClassLimits { max_wait: Duration::from_secs(60), ..ClassLimits::default() };
    FairQueue::new(Limits { tokens: Some(tokens), ..Limits::default() })
}

/// Holds 100, and gets ten a second.
fn level() -> GateLevel {
    GateLevel {
        gate: GATE,
        level: 100,
        until_next: Duration::from_millis(100),
        capacity: 1000,
        refill: 10,
        period: Duration::from_secs(1),
    }
}

fn ask(queue: &mut FairQueue, tenant: u128, tokens: u64, deadline: u64) -> Ticket {
    let request = Request {
        tenant: TenantKey(tenant),
        weight: Weight::MIN,
        demands: &[Demand::tokens(GATE, tokens)],
        levels: &[level()],
        arrived: at(0),
        deadline: at(deadline),
    };
    queue.enqueue(request, at(0)).unwrap().ticket
}

/// A large ask whose turn it is, and a small one behind it that there would be room for.
fn saving(deadline: u64) -> (FairQueue, Ticket, Ticket) {
    let mut queue = queue();
    let large = ask(&mut queue, 1, 500, deadline);
    assert_eq!(queue.poll(at(0)), None);
    let small = ask(&mut queue, 2, 10, SAVED_UP + 10_000);
    assert_eq!(queue.poll(at(0)), None);
    (queue, large, small)
}

fn granted(action: Option<Action>) -> Option<Ticket> {
    match action? {
        Action::Grant { ticket, .. } => Some(ticket),
        Action::Refuse { .. } => None,
    }
}

#[test]
fn it_waits_until_the_bucket_has_so_much() {
    let (mut queue, large, _) = saving(SAVED_UP + 1);
    assert_eq!(queue.next_wakeup(), Some(at(SAVED_UP)));
    assert_eq!(granted(queue.poll(at(SAVED_UP))), Some(large));
}

#[test]
fn when_it_leaves_the_next_one_is_served_at_once() {
    let (mut queue, large, small) = saving(SAVED_UP + 1);
    assert!(queue.cancel(large, at(10)));
    assert_eq!(granted(queue.poll(at(10))), Some(small));
}

#[test]
fn when_its_time_runs_out_the_next_one_is_served_at_once() {
    let deadline = SAVED_UP + 1;
    let (mut queue, large, small) = saving(deadline);
    // Others have used more than was thought: there is not going to be enough for it.
    queue.observed(GateLevel { level: 50, ..level() }, at(0));
    assert_eq!(queue.poll(at(SAVED_UP)), None);
    let refused = queue.poll(at(deadline));
    assert!(
        matches!(refused, Some(Action::Refuse { ticket, refusal, .. })
            if ticket == large && refusal.reason == Reason::DeadlineExceeded),
        "{refused:?}"
    );
    assert_eq!(granted(queue.poll(at(deadline))), Some(small));
}
