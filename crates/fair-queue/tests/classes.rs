//! Two classes of what is held, queued and deferred: bounds and reasons of their own, one place and one deadline at a time.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use std::time::Duration;

use fairlane_fair_queue::{
    Action, Class, ClassLimits, Demand, FairQueue, GateKey, GateLevel, Limits, Place, Reason, Refusal,
    Request, Requeue, TenantKey, Ticket, Timestamp, Weight,
};

/// Counts requests: ten a second, ten at most.
const REQUESTS: GateKey = GateKey(1);
/// Counts tokens: a thousand a second, ten thousand at most.
const TOKENS: GateKey = GateKey(2);

fn at(ms: u64) -> Timestamp {
    Timestamp::from_nanos(ms * 1_000_000)
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn bounds(held: usize, of_tenant: usize, max_wait: u64) -> ClassLimits {
    ClassLimits {
        max_held: held.try_into().unwrap(),
        max_held_per_tenant: of_tenant.try_into().unwrap(),
        max_wait: ms(max_wait),
    }
}

fn limits(requests: Option<ClassLimits>, tokens: Option<ClassLimits>) -> Limits {
    Limits { requests, tokens, ..Limits::default() }
}

/// More than any test needs.
fn ample() -> ClassLimits {
    bounds(100, 100, 60_000)
}

fn requests(level: i64) -> GateLevel {
    GateLevel {
        gate: REQUESTS,
        level,
        until_next: ms(100),
        capacity: 10,
        refill: 10,
        period: Duration::from_secs(1),
    }
}

fn tokens(level: i64) -> GateLevel {
    GateLevel { gate: TOKENS, level, until_next: ms(1), capacity: 10_000, refill: 1000, ..requests(0) }
}

/// Asks for one request and so many tokens, at the moment of its arrival. No tokens: it is charged none.
fn ask(
    queue: &mut FairQueue,
    tenant: u128,
    cost: u64,
    levels: &[GateLevel],
    now: u64,
) -> Result<Place, Refusal> {
    arrived_at(queue, tenant, cost, levels, now, now)
}

fn arrived_at(
    queue: &mut FairQueue,
    tenant: u128,
    cost: u64,
    levels: &[GateLevel],
    arrived: u64,
    now: u64,
) -> Result<Place, Refusal> {
    let demands = [Demand::request(REQUESTS), Demand::tokens(TOKENS, cost)];
    let request = Request {
        tenant: TenantKey(tenant),
        weight: Weight::MIN,
        demands: if cost == 0 { &demands[..1] } else { &demands },
        levels,
        arrived: at(arrived),
        deadline: Timestamp::MAX,
    };
    queue.enqueue(request, at(now))
}

fn counts(queue: &FairQueue) -> (usize, usize) {
    let counts = (queue.held_in(Class::Requests), queue.held_in(Class::Tokens));
    let snapshot = queue.snapshot(Timestamp::ZERO);
    assert_eq!((snapshot.queued, snapshot.deferred), counts);
    assert_eq!(queue.held(), counts.0 + counts.1);
    let waiting = |class| {
        let gates = snapshot.gates.iter().filter(|gate| gate.class == class);
        gates.map(|gate| gate.waiting + gate.in_flight).sum::<usize>()
    };
    assert_eq!((waiting(Class::Requests), waiting(Class::Tokens)), counts);
    counts
}

#[track_caller]
fn granted(action: Option<Action>) -> Ticket {
    match action {
        Some(Action::Grant { ticket, .. }) => ticket,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn turned_out(action: Option<Action>) -> Refusal {
    match action {
        Some(Action::Refuse { refusal, .. }) => refusal,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn requeued(requeue: Requeue) -> Place {
    match requeue {
        Requeue::Requeued(place) => place,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn refused(requeue: Requeue) -> Refusal {
    match requeue {
        Requeue::Refused(refusal) => refusal,
        other => panic!("{other:?}"),
    }
}

/// A queue with one request queued, whose attempt is out since 100 ms.
fn with_attempt(limits: Limits, cost: u64) -> (FairQueue, Ticket) {
    let mut queue = FairQueue::new(limits);
    let place = ask(&mut queue, 1, cost, &[requests(0), tokens(10_000)], 0).unwrap();
    assert_eq!((place.class, place.gate), (Class::Requests, REQUESTS));
    assert_eq!(granted(queue.poll(at(100))), place.ticket);
    (queue, place.ticket)
}

#[test]
fn each_class_has_bounds_and_reasons_of_its_own() {
    let mut queue = FairQueue::new(limits(Some(bounds(2, 1, 60_000)), Some(bounds(3, 2, 60_000))));
    let (no_request, no_token) = ([requests(0), tokens(10_000)], [requests(10), tokens(0)]);
    let reason = |asked: Result<Place, Refusal>| asked.map_err(|refusal| (refusal.class, refusal.reason));
    let queued = |queue: &mut FairQueue, tenant| reason(ask(queue, tenant, 0, &no_request, 0));
    // Tokens alone, so that the requests that are queued are not in the way.
    let deferred = |queue: &mut FairQueue, tenant| {
        let request = Request {
            tenant: TenantKey(tenant),
            weight: Weight::MIN,
            demands: &[Demand::tokens(TOKENS, 100)],
            levels: &no_token,
            arrived: at(0),
            deadline: Timestamp::MAX,
        };
        reason(queue.enqueue(request, at(0)))
    };
    assert_eq!(queued(&mut queue, 1).unwrap().class, Class::Requests);
    assert_eq!(queued(&mut queue, 1), Err((Class::Requests, Reason::TenantQueueFull)));
    assert_eq!(deferred(&mut queue, 1).unwrap().class, Class::Tokens);
    assert_eq!(deferred(&mut queue, 1).unwrap().position, 2);
    assert_eq!(deferred(&mut queue, 1), Err((Class::Tokens, Reason::TenantHoldFull)));
    queued(&mut queue, 2).unwrap();
    assert_eq!(queued(&mut queue, 3), Err((Class::Requests, Reason::QueueFull)));
    deferred(&mut queue, 2).unwrap();
    assert_eq!(deferred(&mut queue, 3), Err((Class::Tokens, Reason::HoldFull)));
    assert_eq!(
        deferred(&mut queue, 1),
        Err((Class::Tokens, Reason::HoldFull)),
        "before the tenant's own bound"
    );
    assert_eq!(counts(&queue), (2, 3));
}

#[test]
fn a_full_table_of_tenants_is_a_full_hold_for_tokens() {
    let one = std::num::NonZeroUsize::MIN;
    let mut queue = FairQueue::new(Limits { max_tenants: one, ..limits(Some(ample()), Some(ample())) });
    ask(&mut queue, 1, 100, &[requests(10), tokens(0)], 0).unwrap();
    let refusal = ask(&mut queue, 2, 100, &[], 0).unwrap_err();
    assert_eq!((refusal.class, refusal.reason), (Class::Tokens, Reason::HoldFull));
    queue.reconfigure(limits(Some(ample()), Some(bounds(100, 100, 100))), |_| None, at(0));
    assert_eq!(ask(&mut queue, 2, 101, &[], 0).unwrap_err().reason, Reason::WaitExceedsBudget);
    let names: Vec<_> = Reason::of(Class::Tokens).iter().map(|reason| reason.as_str()).collect();
    assert_eq!(names, ["hold_full", "tenant_hold_full", "wait_exceeds_budget", "deadline_exceeded"]);
}

#[test]
fn a_request_is_queued_first_and_deferred_afterwards() {
    let mut queue = FairQueue::new(limits(Some(ample()), Some(ample())));
    // Both refuse; it is queued, and told the longer of the two waits.
    let place = ask(&mut queue, 1, 700, &[requests(0), tokens(0)], 0).unwrap();
    assert_eq!((place.gate, place.class, place.estimate), (REQUESTS, Class::Requests, ms(700)));
    assert_eq!(queue.estimate(place.ticket, at(0)), Some(ms(700)));
    assert_eq!(counts(&queue), (1, 0));
    // Its turn comes where requests are counted, and no attempt is wasted on it.
    assert_eq!(queue.poll(at(100)), None);
    assert_eq!(counts(&queue), (0, 1));
    assert!(queue.contended(TOKENS) && !queue.contended(REQUESTS));
    assert_eq!(queue.next_wakeup(), Some(at(700)));
    let grant = queue.poll(at(700));
    let Some(Action::Grant { ticket, gate, class, waited, deferred, .. }) = grant else {
        panic!("{grant:?}")
    };
    assert_eq!((ticket, gate, class), (place.ticket, TOKENS, Class::Tokens));
    assert_eq!((waited, deferred), (ms(700), ms(600)));
    assert_eq!(counts(&queue), (0, 1), "it is held until its attempt has ended");
    assert!(queue.admitted(ticket, &[requests(0), tokens(0)], at(700)));
    assert_eq!(counts(&queue), (0, 0));
}

#[test]
fn a_refused_attempt_moves_to_the_class_that_refused_it() {
    let (mut queue, ticket) = with_attempt(limits(Some(ample()), Some(ample())), 700);
    let place = requeued(queue.refused(ticket, &[requests(1), tokens(-300)], at(100)));
    assert_eq!((place.ticket, place.gate, place.class), (ticket, TOKENS, Class::Tokens));
    assert_eq!((place.position, place.estimate), (1, ms(1000)));
    assert_eq!(counts(&queue), (0, 1));
    // And back: somebody else had the request.
    assert_eq!(granted(queue.poll(at(1100))), ticket);
    let place = requeued(queue.refused(ticket, &[requests(0), tokens(700)], at(1150)));
    assert_eq!((place.gate, place.class), (REQUESTS, Class::Requests));
    assert_eq!(counts(&queue), (1, 0));
    let grant = queue.poll(at(1250));
    let Some(Action::Grant { class, waited, deferred, .. }) = grant else { panic!("{grant:?}") };
    assert_eq!((class, waited, deferred), (Class::Requests, ms(1250), ms(1050)));
}

#[test]
fn who_finds_the_other_class_full_is_refused_with_its_reason() {
    for (tight, reason) in
        [(bounds(1, 9, 60_000), Reason::HoldFull), (bounds(9, 1, 60_000), Reason::TenantHoldFull)]
    {
        let fill = |queue: &mut FairQueue, now| {
            let request = Request {
                tenant: TenantKey(1),
                weight: Weight::MIN,
                demands: &[Demand::tokens(TOKENS, 400)],
                levels: &[],
                arrived: at(now),
                deadline: Timestamp::MAX,
            };
            assert_eq!(queue.enqueue(request, at(now)).unwrap().class, Class::Tokens);
        };
        // Refused by the limiter.
        let (mut queue, ticket) = with_attempt(limits(Some(ample()), Some(tight)), 700);
        fill(&mut queue, 100);
        let refusal = refused(queue.refused(ticket, &[requests(1), tokens(0)], at(150)));
        assert_eq!((refusal.reason, refusal.class, refusal.gate), (reason, Class::Tokens, TOKENS));
        assert_eq!((refusal.waited, refusal.deferred), (ms(150), Duration::ZERO));
        // It had come before the other one.
        assert_eq!(refusal.position, 1);
        assert!((ms(700)..=ms(1100)).contains(&refusal.retry_after), "{refusal:?}");
        assert_eq!(counts(&queue), (0, 1));

        // Its turn comes while there is no room for its tokens.
        let mut queue = FairQueue::new(limits(Some(ample()), Some(tight)));
        ask(&mut queue, 1, 700, &[requests(0), tokens(0)], 0).unwrap();
        fill(&mut queue, 50);
        let refusal = turned_out(queue.poll(at(100)));
        assert_eq!((refusal.reason, refusal.class, refusal.waited), (reason, Class::Tokens, ms(100)));
        assert_eq!(counts(&queue), (0, 1));
        // Nothing is left of it: the other one has its turn in time.
        assert!(matches!(queue.poll(at(400)), Some(Action::Grant { class: Class::Tokens, .. })));
    }
}

#[test]
fn the_first_hold_sets_the_deadline_and_the_other_can_only_shorten_it() {
    // Queued for 5 s at most from 1 s on, having arrived at 0: the hold would allow 2, 5.5 or 60 s from its arrival.
    for (hold, deadline) in [(2000, 2000), (5500, 5500), (60_000, 6000)] {
        let mut queue = FairQueue::new(limits(Some(bounds(9, 9, 5000)), Some(bounds(9, 9, hold))));
        let levels = [requests(0), tokens(0)];
        let place = arrived_at(&mut queue, 1, 700, &levels, 0, 1000).unwrap();
        assert_eq!(queue.poll(at(1100)), None);
        assert_eq!(counts(&queue), (0, 1));
        queue.observed(tokens(-100_000), at(1200));
        assert_eq!(queue.poll(at(1200)), None);
        assert_eq!(queue.next_wakeup(), Some(at(deadline)));
        let refusal = turned_out(queue.poll(at(deadline)));
        assert_eq!((refusal.reason, refusal.class), (Reason::DeadlineExceeded, Class::Tokens));
        assert_eq!((refusal.waited, refusal.deferred), (ms(deadline - 1000), ms(deadline - 1100)));
        assert!(!queue.cancel(place.ticket, at(deadline)));
    }
    // And the other way round.
    for (queue_wait, deadline) in [(2000, 2000), (60_000, 6000)] {
        let mut queue = FairQueue::new(limits(Some(bounds(9, 9, queue_wait)), Some(bounds(9, 9, 5000))));
        let levels = [requests(10), tokens(600)];
        let place = arrived_at(&mut queue, 1, 700, &levels, 0, 1000).unwrap();
        assert_eq!(place.class, Class::Tokens);
        assert_eq!(granted(queue.poll(at(1100))), place.ticket);
        let place = requeued(queue.refused(place.ticket, &[requests(0), tokens(700)], at(1100)));
        assert_eq!(place.class, Class::Requests);
        queue.observed(requests(-1000), at(1100));
        assert_eq!(queue.poll(at(1100)), None);
        assert_eq!(queue.next_wakeup(), Some(at(deadline)));
        assert_eq!(turned_out(queue.poll(at(deadline))).class, Class::Requests);
    }
}

#[test]
fn the_callers_own_deadline_holds_in_both_classes() {
    let mut queue = FairQueue::new(limits(Some(ample()), Some(ample())));
    let request = Request {
        tenant: TenantKey(1),
        weight: Weight::MIN,
        demands: &[Demand::request(REQUESTS), Demand::tokens(TOKENS, 700)],
        levels: &[requests(0), tokens(0)],
        arrived: at(0),
        deadline: at(800),
    };
    queue.enqueue(request, at(0)).unwrap();
    assert_eq!(queue.poll(at(100)), None);
    queue.observed(tokens(-5000), at(200));
    assert_eq!(queue.poll(at(200)), None);
    assert_eq!(queue.next_wakeup(), Some(at(800)));
    assert_eq!(turned_out(queue.poll(at(800))).reason, Reason::DeadlineExceeded);
}

#[test]
fn what_cannot_fit_is_told_at_once_with_the_time_for_its_size() {
    let mut queue = FairQueue::new(limits(Some(ample()), Some(bounds(9, 9, 1000))));
    // By itself: a token more than flows in within the budget.
    let refusal = ask(&mut queue, 1, 1001, &[requests(10), tokens(0)], 0).unwrap_err();
    assert_eq!((refusal.reason, refusal.class), (Reason::WaitExceedsBudget, Class::Tokens));
    assert_eq!((refusal.retry_after, refusal.waited), (ms(1001), Duration::ZERO));
    assert!(ask(&mut queue, 1, 1000, &[requests(10), tokens(0)], 0).is_ok());
    // In debt, and for another tenant.
    let refusal = ask(&mut queue, 2, 300, &[requests(10), tokens(-800)], 0).unwrap_err();
    assert_eq!((refusal.reason, refusal.class), (Reason::WaitExceedsBudget, Class::Tokens));
    assert!(refusal.retry_after >= ms(1100), "{refusal:?}");

    // After an attempt that the limiter refused, with what is left of the budget.
    let (mut queue, ticket) = with_attempt(limits(Some(ample()), Some(bounds(9, 9, 1000))), 700);
    let refusal = refused(queue.refused(ticket, &[requests(1), tokens(-201)], at(100)));
    assert_eq!((refusal.reason, refusal.class), (Reason::WaitExceedsBudget, Class::Tokens));
    assert_eq!((refusal.retry_after, refusal.waited), (ms(901), ms(100)));

    // When its turn comes, without an attempt.
    let mut queue = FairQueue::new(limits(Some(ample()), Some(bounds(9, 9, 1000))));
    ask(&mut queue, 1, 700, &[requests(0), tokens(0)], 0).unwrap();
    queue.observed(tokens(-500), at(50));
    let refusal = turned_out(queue.poll(at(100)));
    assert_eq!((refusal.reason, refusal.class), (Reason::WaitExceedsBudget, Class::Tokens));
    assert_eq!((refusal.retry_after, refusal.waited), (ms(1150), ms(100)));
}

#[test]
fn where_a_class_is_not_held_the_limiter_has_the_word() {
    let mut queue = FairQueue::new(limits(Some(ample()), None));
    // Tokens are refused, and nothing is deferred.
    let refusal = ask(&mut queue, 1, 700, &[requests(10), tokens(0)], 0).unwrap_err();
    assert_eq!((refusal.reason, refusal.class, refusal.gate), (Reason::NotHeld, Class::Tokens, TOKENS));
    assert_eq!(refusal.retry_after, ms(700));
    // Requests are refused too: that comes first.
    let first = ask(&mut queue, 1, 700, &[requests(0), tokens(0)], 0).unwrap();
    assert_eq!((first.class, first.estimate), (Class::Requests, ms(100)));
    // What was once heard of the tokens is no reason against one who comes later: they may have been given back.
    queue.observed(tokens(-100_000), at(0));
    let second = ask(&mut queue, 1, 700, &[], 0).unwrap();
    assert_eq!(second.class, Class::Requests);
    // Its turn comes, and it is the limiter who says no.
    assert_eq!(granted(queue.poll(at(100))), first.ticket);
    let refusal = refused(queue.refused(first.ticket, &[requests(1), tokens(0)], at(100)));
    assert_eq!((refusal.reason, refusal.class, refusal.waited), (Reason::NotHeld, Class::Tokens, ms(100)));
    assert_eq!(granted(queue.poll(at(100))), second.ticket);
    assert!(queue.admitted(second.ticket, &[requests(0), tokens(0)], at(100)));
    assert_eq!(counts(&queue), (0, 0));

    // The same with the classes exchanged.
    let mut queue = FairQueue::new(limits(None, Some(ample())));
    let refusal = ask(&mut queue, 1, 700, &[requests(0), tokens(0)], 0).unwrap_err();
    assert_eq!((refusal.reason, refusal.class), (Reason::NotHeld, Class::Requests));
    let place = ask(&mut queue, 1, 700, &[requests(10), tokens(0)], 0).unwrap();
    assert_eq!(granted(queue.poll(at(700))), place.ticket);
    let refusal = refused(queue.refused(place.ticket, &[requests(0), tokens(700)], at(700)));
    assert_eq!((refusal.reason, refusal.class), (Reason::NotHeld, Class::Requests));
    assert_eq!((refusal.waited, refusal.deferred), (ms(700), ms(700)));
    assert!(queue.is_empty());
}

#[test]
fn a_class_that_is_switched_off_keeps_whom_it_has() {
    let mut queue = FairQueue::new(limits(Some(ample()), Some(ample())));
    let place = ask(&mut queue, 1, 700, &[requests(10), tokens(0)], 0).unwrap();
    queue.reconfigure(limits(Some(ample()), None), |_| None, at(0));
    assert_eq!(counts(&queue), (0, 1));
    // Nobody passes it, and nobody joins it.
    let refusal = ask(&mut queue, 2, 100, &[], 0).unwrap_err();
    assert_eq!((refusal.reason, refusal.class), (Reason::NotHeld, Class::Tokens));
    assert_eq!(granted(queue.poll(at(700))), place.ticket);
    let place = requeued(queue.refused(place.ticket, &[requests(10), tokens(600)], at(700)));
    assert_eq!(granted(queue.poll(at(800))), place.ticket);
    assert!(queue.admitted(place.ticket, &[], at(800)));
    assert_eq!(counts(&queue), (0, 0));
}

#[test]
fn who_leaves_in_the_other_class_leaves_no_count_behind() {
    let (mut queue, ticket) =
        with_attempt(limits(Some(bounds(1, 1, 60_000)), Some(bounds(1, 1, 60_000))), 700);
    requeued(queue.refused(ticket, &[requests(1), tokens(0)], at(100)));
    assert_eq!(counts(&queue), (0, 1));
    assert!(queue.cancel(ticket, at(150)));
    assert_eq!(counts(&queue), (0, 0));
    let place = ask(&mut queue, 1, 700, &[requests(10), tokens(0)], 200).unwrap();
    assert_eq!(granted(queue.poll(at(900))), place.ticket);
    assert!(queue.failed(place.ticket, at(900)));
    assert_eq!(counts(&queue), (0, 0));
    assert!(ask(&mut queue, 1, 700, &[requests(0), tokens(0)], 900).is_ok());
    assert_eq!(counts(&queue), (1, 0));
}
