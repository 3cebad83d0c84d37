//! Bounds and refusals, deadlines, departures, reconfiguration, and clocks that misbehave.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use std::time::Duration;

use fairlane_fair_queue::{
    Action, Class, ClassLimits, Demand, FairQueue, GateKey, GateLevel, Limits, Place, Reason, Refusal,
    Request, Requeue, TenantKey, Ticket, Timestamp, Weight,
};

const GATE: GateKey = GateKey(1);

fn at(ms: u64) -> Timestamp {
    Timestamp::from_nanos(ms * 1_000_000)
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn limits(depth: usize, total: usize, tenants: usize, in_flight: u32) -> Limits {
    let class = ClassLimits {
        max_held: total.try_into().unwrap(),
        max_held_per_tenant: depth.try_into().unwrap(),
        max_wait: Duration::MAX,
    };
    Limits {
        requests: Some(class),
        tokens: Some(class),
        max_tenants: tenants.try_into().unwrap(),
        max_in_flight: in_flight.try_into().unwrap(),
    }
}

/// As by default, but for the longest wait, which each request tells by itself.
fn patient() -> Limits {
    limits(32, 4096, 1024, 8)
}

/// Ten a second, at most ten; empty but for `level`, and the next comes in 100 ms.
fn level(level: i64) -> GateLevel {
    GateLevel {
        gate: GATE,
        level,
        until_next: ms(100),
        capacity: 10,
        refill: 10,
        period: Duration::from_secs(1),
    }
}

fn ask(queue: &mut FairQueue, tenant: u128, deadline: u64, now: u64) -> Result<Place, Refusal> {
    let request = Request {
        tenant: TenantKey(tenant),
        weight: Weight::MIN,
        demands: &[Demand::request(GATE)],
        levels: if queue.contended(GATE) { &[] } else { &[level(0)] },
        arrived: at(now),
        deadline: at(deadline),
    };
    queue.enqueue(request, at(now))
}

fn granted(action: Option<Action>) -> Ticket {
    match action {
        Some(Action::Grant { ticket, .. }) => ticket,
        other => panic!("{other:?}"),
    }
}

#[test]
fn each_bound_refuses_with_its_own_reason_and_place() {
    let mut queue = FairQueue::new(limits(2, 3, 2, 8));
    assert_eq!(ask(&mut queue, 1, 5000, 0).unwrap().position, 1);
    assert_eq!(ask(&mut queue, 1, 5000, 0).unwrap().position, 2);
    let refusal = ask(&mut queue, 1, 5000, 0).unwrap_err();
    assert_eq!(
        (refusal.reason, refusal.position, refusal.waited),
        (Reason::TenantQueueFull, 3, Duration::ZERO)
    );
    assert_eq!(refusal.retry_after, ms(300), "behind its own two");
    assert_eq!(ask(&mut queue, 2, 5000, 0).unwrap().position, 1);
    let refusal = ask(&mut queue, 3, 5000, 0).unwrap_err();
    assert_eq!((refusal.reason, refusal.position), (Reason::QueueFull, 1));
    queue.reconfigure(limits(2, 4, 2, 8), |_| None, at(0));
    let refusal = ask(&mut queue, 3, 5000, 0).unwrap_err();
    assert_eq!((refusal.reason, refusal.position), (Reason::TenantTableFull, 1));
    queue.reconfigure(limits(2, 4, 3, 8), |_| None, at(0));
    let refusal = ask(&mut queue, 3, 99, 0).unwrap_err();
    assert_eq!((refusal.reason, refusal.position), (Reason::WaitExceedsBudget, 1));
    assert_eq!((queue.held(), queue.tenants()), (3, 2));
}

#[test]
fn whom_there_is_no_room_for_is_told_what_a_full_queue_tells() {
    let mut queue = FairQueue::new(limits(9, 9, 9, 8));
    for _ in 0..6 {
        ask(&mut queue, 1, 60_000, 0).unwrap();
    }
    let before = queue.snapshot(at(0));
    let turn_away = |queue: &mut FairQueue, tenant, deadline| {
        let request = Request {
            tenant: TenantKey(tenant),
            weight: Weight::MIN,
            demands: &[Demand::request(GATE)],
            levels: &[],
            arrived: at(0),
            deadline: at(deadline),
        };
        queue.turn_away(request, at(0))
    };
    let refusals = [1, 2].map(|tenant| turn_away(&mut queue, tenant, 60_000));
    assert_eq!(refusals.map(|refusal| refusal.position), [7, 1]);
    assert_eq!(refusals[1].retry_after, ms(100), "behind nobody of its own, though others wait");
    assert_eq!(queue.snapshot(at(0)), before);
    queue.reconfigure(limits(9, 6, 9, 8), |_| None, at(0));
    let full = [1, 2].map(|tenant| ask(&mut queue, tenant, 60_000, 0).unwrap_err());
    assert_eq!(refusals, full);
    queue.reconfigure(limits(6, 9, 1, 8), |_| None, at(0));
    assert_eq!(turn_away(&mut queue, 1, 60_000).reason, Reason::TenantQueueFull, "the first that applies");
    assert_eq!(turn_away(&mut queue, 2, 60_000).reason, Reason::QueueFull);
}

#[test]
fn the_bounds_are_checked_in_order() {
    // All four apply; each bound that is lifted shows the next.
    let mut queue = FairQueue::new(limits(1, 2, 2, 8));
    ask(&mut queue, 1, 5000, 0).unwrap();
    ask(&mut queue, 2, 5000, 0).unwrap();
    assert_eq!(ask(&mut queue, 1, 0, 0).unwrap_err().reason, Reason::QueueFull);
    queue.reconfigure(limits(1, 9, 2, 8), |_| None, at(0));
    assert_eq!(ask(&mut queue, 1, 0, 0).unwrap_err().reason, Reason::TenantQueueFull);
    assert_eq!(ask(&mut queue, 3, 0, 0).unwrap_err().reason, Reason::TenantTableFull);
    queue.reconfigure(limits(2, 9, 9, 8), |_| None, at(0));
    assert_eq!(ask(&mut queue, 1, 0, 0).unwrap_err().reason, Reason::WaitExceedsBudget);
    assert_eq!(ask(&mut queue, 3, 0, 0).unwrap_err().reason, Reason::WaitExceedsBudget);
    let names: Vec<_> = Reason::of(Class::Requests).iter().map(|reason| reason.as_str()).collect();
    let spelled =
        ["queue_full", "tenant_queue_full", "tenant_table_full", "wait_exceeds_budget", "deadline_exceeded"];
    assert_eq!(names, spelled);
}

#[test]
fn what_fits_the_budget_to_the_nanosecond_is_held_and_served() {
    let mut queue = FairQueue::new(patient());
    // The third of a lane can be served at 300 ms, not a nanosecond earlier.
    for (deadline, position) in [(100, 1), (200, 2), (300, 3)] {
        let (told, demands) = ([level(0)], [Demand::request(GATE)]);
        let request = |deadline: Timestamp| Request {
            tenant: TenantKey(1),
            weight: Weight::MIN,
            demands: &demands,
            levels: &told,
            arrived: at(0),
            deadline,
        };
        let too_early = Timestamp::from_nanos(at(deadline).as_nanos() - 1);
        let refusal = queue.enqueue(request(too_early), at(0)).unwrap_err();
        assert_eq!((refusal.reason, refusal.position), (Reason::WaitExceedsBudget, position));
        assert_eq!(refusal.retry_after, ms(deadline));
        assert_eq!(queue.enqueue(request(at(deadline)), at(0)).unwrap().position, position);
    }
    assert_eq!(queue.poll(at(0)), None);
    for now in [100, 200, 300] {
        assert_eq!(queue.next_wakeup(), Some(at(now)));
        let ticket = granted(queue.poll(at(now)));
        assert!(queue.admitted(ticket, &[level(0)], at(now)));
        assert_eq!(queue.poll(at(now)), None);
    }
    assert!(queue.is_empty());
}

#[test]
fn debt_and_size_count_against_the_budget() {
    let mut queue = FairQueue::new(patient());
    let mut ask = |cost: u64, told: i64, deadline: u64| {
        let request = Request {
            tenant: TenantKey(1),
            weight: Weight::MIN,
            demands: &[Demand::tokens(GATE, cost)],
            levels: &[level(told)],
            arrived: at(0),
            deadline: at(deadline),
        };
        queue.enqueue(request, at(0)).map_err(|refusal| (refusal.reason, refusal.retry_after))
    };
    // In debt by five, ten are there after 1.5 s; more than ten never are.
    assert_eq!(ask(10, -5, 1499), Err((Reason::WaitExceedsBudget, ms(1500))));
    assert_eq!(ask(11, 10, 60_000).unwrap_err().0, Reason::WaitExceedsBudget);
    assert!(ask(10, -5, 1500).is_ok());
}

#[test]
fn a_deadline_is_answered_by_the_timer() {
    let mut queue = FairQueue::new(patient());
    let first = ask(&mut queue, 1, 1000, 0).unwrap();
    // The bucket turns out to be in debt.
    queue.observed(level(-50), at(10));
    assert_eq!(queue.poll(at(10)), None);
    assert_eq!(queue.next_wakeup(), Some(at(1000)));
    assert_eq!(queue.poll(at(999)), None);
    let Some(Action::Refuse { ticket, tenant, refusal }) = queue.poll(at(1000)) else { panic!("it is late") };
    assert_eq!((ticket, tenant), (first.ticket, TenantKey(1)));
    assert_eq!((refusal.reason, refusal.position), (Reason::DeadlineExceeded, 1));
    assert_eq!((refusal.waited, refusal.gate), (ms(1000), GATE));
    assert!(queue.is_empty());
    assert!(!queue.cancel(first.ticket, at(1000)));
}

#[test]
fn deadlines_out_of_order_are_answered_in_order() {
    let mut queue = FairQueue::new(limits(1000, 1000, 10, 8));
    let mut due = Vec::new();
    for number in 0..200_u64 {
        let deadline = 20_100 + number * 7919 % 10_000;
        due.push(deadline);
        ask(&mut queue, u128::from(number % 3), deadline, 0).unwrap();
    }
    queue.observed(level(-10_000), at(0));
    due.sort_unstable();
    assert_eq!(queue.poll(at(0)), None);
    for deadline in due {
        let wakeup = queue.next_wakeup().unwrap();
        assert_eq!(wakeup, at(deadline));
        assert!(matches!(queue.poll(wakeup), Some(Action::Refuse { .. })));
        assert_eq!(queue.poll(wakeup), None);
    }
    assert!(queue.is_empty());
}

#[test]
fn those_behind_move_up_when_one_leaves() {
    let mut queue = FairQueue::new(patient());
    let places: Vec<Place> = (0..4).map(|_| ask(&mut queue, 1, 5000, 0).unwrap()).collect();
    assert!(queue.cancel(places[1].ticket, at(0)));
    assert!(!queue.cancel(places[1].ticket, at(0)), "it has left already");
    assert_eq!(ask(&mut queue, 1, 5000, 0).unwrap().position, 4);
    assert!(queue.cancel(places[0].ticket, at(0)));
    assert_eq!(granted(queue.poll(at(100))), places[2].ticket);
    // One whose caller goes while its attempt is out gives back what it had.
    assert!(queue.cancel(places[2].ticket, at(100)));
    assert!(!queue.admitted(places[2].ticket, &[], at(100)));
    assert_eq!(queue.refused(places[2].ticket, &[], at(100)), Requeue::Unknown);
    assert!(!queue.failed(places[2].ticket, at(100)));
    assert_eq!(granted(queue.poll(at(100))), places[3].ticket);
}

#[test]
fn an_estimate_can_be_asked_for_again() {
    let mut queue = FairQueue::new(patient());
    let places: Vec<Place> = (0..5).map(|_| ask(&mut queue, 1, 5000, 0).unwrap()).collect();
    let estimates = |queue: &FairQueue, now: u64| {
        places.iter().map(|place| queue.estimate(place.ticket, at(now))).collect::<Vec<_>>()
    };
    let all = |waits: [u64; 5]| waits.map(|wait| Some(ms(wait))).to_vec();
    assert_eq!(estimates(&queue, 0), all([100, 200, 300, 400, 500]));
    assert_eq!(estimates(&queue, 30), all([70, 170, 270, 370, 470]));
    // One that leaves has none, one whose attempt is out waits no longer, and the others move up.
    assert!(queue.cancel(places[3].ticket, at(30)));
    assert_eq!(granted(queue.poll(at(100))), places[0].ticket);
    let told = estimates(&queue, 100);
    assert_eq!((told[0], told[3]), (Some(Duration::ZERO), None));
    assert!(told[1] < told[2] && told[2] < told[4], "{told:?}");
}

#[test]
fn a_newcomer_asks_again_and_hears_the_same() {
    let mut queue = FairQueue::new(limits(1000, 1000, 100, 8));
    for turn in 0..200_u64 {
        let now = turn * 37;
        let place = ask(&mut queue, u128::from(turn * turn % 7), now + 60_000, now).unwrap();
        assert_eq!(queue.estimate(place.ticket, at(now)), Some(place.estimate), "turn {turn}");
        while let Some(action) = queue.poll(at(now)) {
            assert!(queue.admitted(granted(Some(action)), &[], at(now)));
        }
    }
    assert!(queue.held() > 50, "{} wait", queue.held());
}

#[test]
fn a_refused_attempt_waits_again_at_the_head_or_is_told_at_once() {
    let mut queue = FairQueue::new(patient());
    let first = ask(&mut queue, 1, 1000, 0).unwrap();
    let second = ask(&mut queue, 1, 1000, 0).unwrap();
    assert_eq!(granted(queue.poll(at(100))), first.ticket);
    let Requeue::Requeued(place) = queue.refused(first.ticket, &[level(0)], at(100)) else {
        panic!("it fits")
    };
    assert_eq!((place.ticket, place.position), (first.ticket, 1));
    assert_eq!(queue.poll(at(199)), None);
    assert_eq!(granted(queue.poll(at(200))), first.ticket);
    let Requeue::Refused(refusal) = queue.refused(first.ticket, &[level(-20)], at(200)) else {
        panic!("too late")
    };
    assert_eq!((refusal.reason, refusal.waited), (Reason::WaitExceedsBudget, ms(200)));
    assert!(refusal.retry_after >= ms(2100));
    queue.observed(level(1), at(300));
    assert_eq!(granted(queue.poll(at(300))), second.ticket);
    let refused = queue.refused(second.ticket, &[level(0)], at(1000));
    assert!(matches!(refused, Requeue::Refused(Refusal { reason: Reason::DeadlineExceeded, .. })));
    assert!(queue.is_empty());
}

#[test]
fn a_refused_attempt_that_asked_for_other_buckets_waits_for_those() {
    const OTHER: GateKey = GateKey(2);
    let mut queue = FairQueue::new(patient());
    let first = ask(&mut queue, 1, 60_000, 0).unwrap();
    let second = ask(&mut queue, 1, 60_000, 0).unwrap();
    assert_eq!(granted(queue.poll(at(100))), first.ticket);
    let slow = Duration::from_secs(50);
    let empty = GateLevel { gate: OTHER, until_next: ms(5_000), period: slow, ..level(0) };
    let Requeue::Requeued(place) =
        queue.refused_otherwise(first.ticket, &[Demand::request(OTHER)], &[empty], at(100))
    else {
        panic!("it fits")
    };
    assert_eq!((place.gate, place.position), (OTHER, 1));
    assert!(queue.contended(OTHER));
    // The one behind it moves up, and takes what it would have had.
    assert_eq!(granted(queue.poll(at(100))), second.ticket);
    assert!(queue.admitted(second.ticket, &[level(0)], at(100)));
    assert!(!queue.contended(GATE));
    assert_eq!(queue.poll(at(5_099)), None);
    assert_eq!(granted(queue.poll(at(5_100))), first.ticket);
    assert!(queue.admitted(first.ticket, &[], at(5_100)));
    assert!(queue.is_empty() && !queue.contended(OTHER));
}

#[test]
fn a_refusal_that_tells_nothing_is_no_loop() {
    let mut queue = FairQueue::new(patient());
    for levels in [&[][..], &[level(0)]] {
        let request = Request {
            tenant: TenantKey(1),
            weight: Weight::MIN,
            demands: &[Demand::request(GATE)],
            levels,
            arrived: at(0),
            deadline: at(60_000),
        };
        queue.enqueue(request, at(0)).unwrap();
    }
    let mut attempts = 0;
    for now in 0..1000 {
        while let Some(action) = queue.poll(at(now)) {
            attempts += 1;
            assert!(matches!(queue.refused(granted(Some(action)), &[], at(now)), Requeue::Requeued(_)));
        }
    }
    assert!((2..=20).contains(&attempts), "{attempts} attempts in a second");
}

#[test]
fn a_request_without_demands_waits_for_nothing() {
    let mut queue = FairQueue::new(patient());
    let request = Request {
        tenant: TenantKey(1),
        weight: Weight::MIN,
        demands: &[],
        levels: &[],
        arrived: at(0),
        deadline: at(0),
    };
    let place = queue.enqueue(request, at(0)).unwrap();
    assert_eq!(granted(queue.poll(at(0))), place.ticket);
}

#[test]
fn contention_is_told_once_at_each_change() {
    let mut queue = FairQueue::new(patient());
    assert_eq!(queue.poll_contention(), None);
    let first = ask(&mut queue, 1, 5000, 0).unwrap();
    ask(&mut queue, 2, 5000, 0).unwrap();
    assert_eq!(queue.poll_contention(), Some((GATE, true)));
    assert_eq!(queue.poll_contention(), None);
    assert!(queue.cancel(first.ticket, at(0)));
    assert_eq!(queue.poll_contention(), None);
    let second = granted(queue.poll(at(100)));
    assert!(queue.contended(GATE), "an attempt is out");
    assert!(queue.admitted(second, &[], at(100)));
    assert_eq!(queue.poll_contention(), Some((GATE, false)));
    // There and back again unseen: nothing to tell.
    let third = ask(&mut queue, 1, 5000, 100).unwrap();
    assert!(queue.failed(third.ticket, at(100)) || queue.cancel(third.ticket, at(100)));
    assert_eq!(queue.poll_contention(), None);
}

#[test]
fn weights_and_bounds_change_live_without_a_dip() {
    let mut queue = FairQueue::new(limits(100, 1000, 10, 1));
    let now = at(0);
    let open = GateLevel { level: 1_000_000, capacity: 1_000_000, ..level(0) };
    let enqueue = |queue: &mut FairQueue, tenant: u128| {
        let request = Request {
            tenant: TenantKey(tenant),
            weight: Weight::MIN,
            demands: &[Demand::request(GATE)],
            levels: &[open],
            arrived: at(0),
            deadline: Timestamp::MAX,
        };
        queue.enqueue(request, now)
    };
    for tenant in [1, 2, 3].repeat(90) {
        enqueue(&mut queue, tenant).unwrap();
    }
    let serve = |queue: &mut FairQueue| {
        let Some(Action::Grant { ticket, tenant, .. }) = queue.poll(now) else { panic!("all wait") };
        assert!(queue.admitted(ticket, &[], now));
        tenant.0
    };
    let first: Vec<u128> = (0..31).map(|_| serve(&mut queue)).collect();
    assert_eq!(first[..6], [1, 2, 3, 1, 2, 3]);
    let held = queue.held();
    let weights = |tenant: TenantKey| if tenant.0 == 1 { Weight::new(4) } else { None };
    queue.reconfigure(limits(1, 1, 1, 1), weights, now);
    assert_eq!(queue.held(), held, "nobody who waits is dropped");
    assert_eq!(enqueue(&mut queue, 1).unwrap_err().reason, Reason::QueueFull);
    // From the very next turns on the new weights hold, and nobody pauses or bursts.
    let mut last = [0_usize; 4];
    for turn in 1..=60 {
        let tenant = usize::try_from(serve(&mut queue)).unwrap();
        let gap = turn - last[tenant];
        assert!(gap <= if tenant == 1 { 3 } else { 9 }, "tenant {tenant} paused for {gap} turns");
        last[tenant] = turn;
    }
    let snapshot = queue.snapshot(now);
    let waiting: Vec<usize> = snapshot.gates[0].lanes.iter().map(|lane| lane.waiting).collect();
    let served: Vec<usize> = waiting.iter().map(|waiting| 90 - waiting).collect();
    assert!(served[0].abs_diff(11 + 40) <= 1 && served[1].abs_diff(10 + 10) <= 1, "{served:?}");
}

#[test]
fn a_clock_that_runs_backwards_stands_still() {
    let mut queue = FairQueue::new(patient());
    let place = ask(&mut queue, 1, 5000, 1000).unwrap();
    assert_eq!(queue.poll(at(0)), None);
    assert_eq!(ask(&mut queue, 1, 5000, 500).unwrap().estimate, ms(200));
    assert_eq!(queue.next_wakeup(), Some(at(1100)));
    assert_eq!(granted(queue.poll(at(1100))), place.ticket);
    assert!(queue.admitted(place.ticket, &[level(0)], at(3)));
    queue.observed(level(0), at(2));
    queue.reconfigure(patient(), |_| None, at(1));
    assert_eq!(queue.poll(at(0)), None);
    assert_eq!(queue.held(), 1);
}

#[test]
fn nothing_is_remembered_for_ever() {
    let mut queue = FairQueue::new(limits(4, 10_000, 1000, 8));
    for round in 0..20_u64 {
        for number in 0..500_u64 {
            let number = u128::from(round * 500 + number);
            let gate = GateKey(number + 10);
            let request = Request {
                tenant: TenantKey(number),
                weight: Weight::MIN,
                demands: &[Demand::request(gate), Demand::request(GATE)],
                levels: &[GateLevel { gate, ..level(1) }, level(5)],
                arrived: at(round),
                deadline: at(1_000_000),
            };
            queue.enqueue(request, at(round)).unwrap();
        }
        while let Some(action) = queue.poll(at(round)) {
            assert!(queue.admitted(granted(Some(action)), &[level(9)], at(round)));
        }
        while queue.poll_contention().is_some() {}
        assert!(queue.tenants() <= 1000, "{} tenants", queue.tenants());
    }
    assert!(queue.is_empty());
    // What is left goes by the timer.
    let mut wakeups = 0;
    while let Some(wakeup) = queue.next_wakeup() {
        assert_eq!(queue.poll(wakeup), None);
        wakeups += 1;
        assert!(wakeups < 1000, "{} tenants remain", queue.tenants());
    }
    assert_eq!((queue.tenants(), queue.snapshot(at(100)).gates.len()), (0, 0));
}

#[test]
fn a_tenant_in_debt_is_not_forgotten_for_a_newcomer_but_one_that_is_quits_is() {
    let mut queue = FairQueue::new(limits(8, 100, 2, 1));
    let open = GateLevel { level: 1000, capacity: 1000, ..level(0) };
    let enqueue = |queue: &mut FairQueue, tenant: u128| {
        let request = Request {
            tenant: TenantKey(tenant),
            weight: Weight::MIN,
            demands: &[Demand::request(GATE)],
            levels: &[open],
            arrived: at(0),
            deadline: Timestamp::MAX,
        };
        queue.enqueue(request, at(0)).map_err(|refusal| refusal.reason)
    };
    for tenant in [1, 2, 2, 2] {
        enqueue(&mut queue, tenant).unwrap();
    }
    // The first has been served ahead of the second, and has gone: it owes half a turn.
    let ticket = granted(queue.poll(at(0)));
    assert!(queue.admitted(ticket, &[], at(0)));
    assert_eq!(enqueue(&mut queue, 3), Err(Reason::TenantTableFull));
    // One more turn, and it is quits.
    let ticket = granted(queue.poll(at(0)));
    assert!(queue.admitted(ticket, &[], at(0)));
    assert!(enqueue(&mut queue, 3).is_ok());
    assert_eq!(queue.tenants(), 2);
}

#[test]
fn a_snapshot_tells_what_is_held_where() {
    let mut queue = FairQueue::new(patient());
    let open = GateLevel { level: 8, ..level(0) };
    for (tenant, weight) in [1_u32, 1, 1, 1, 2, 2, 2].map(|tenant| (tenant, 4 - tenant)) {
        let request = Request {
            tenant: TenantKey(tenant.into()),
            weight: Weight::new(weight).unwrap(),
            demands: &[Demand::request(GATE)],
            levels: &[open],
            arrived: at(0),
            deadline: at(60_000),
        };
        queue.enqueue(request, at(0)).unwrap();
    }
    for _ in 0..4 {
        let ticket = granted(queue.poll(at(500)));
        assert!(queue.admitted(ticket, &[], at(500)));
    }
    let out = granted(queue.poll(at(500)));
    let snapshot = queue.snapshot(at(2000));
    assert_eq!((snapshot.held, snapshot.in_flight, snapshot.tenants), (3, 1, 2));
    let [gate] = &snapshot.gates[..] else { panic!("{snapshot:?}") };
    // Full long since, less the one that is out.
    assert_eq!((gate.gate, gate.waiting, gate.in_flight, gate.room), (GATE, 2, 1, Some(9)));
    let [first, second] = &gate.lanes[..] else { panic!("{gate:?}") };
    assert_eq!(
        (first.tenant, first.weight.get(), second.tenant, second.weight.get()),
        (TenantKey(1), 3, TenantKey(2), 2)
    );
    assert_eq!((first.waiting + second.waiting, first.in_flight + second.in_flight), (2, 1));
    assert!((first.recent_share + second.recent_share - 1.0).abs() < 1e-9);
    assert!((first.recent_share - 0.5).abs() < 0.26, "{first:?}");
    assert_eq!(second.oldest_wait, Some(ms(2000)));
    assert!(queue.failed(out, at(2000)));
    assert_eq!(queue.snapshot(at(2000)).in_flight, 0);
}
