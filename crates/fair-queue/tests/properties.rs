//! Any sequence of calls: nothing is lost, doubled or leaked, and nothing panics.
//!
//! `PROPTEST_CASES` sets how many sequences are tried.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fairlane_fair_queue::{
    Action, Class, ClassLimits, Demand, FairQueue, GateKey, GateLevel, Limits, Reason, Refusal, Request,
    Requeue, TenantKey, Ticket, Timestamp, Weight,
};
use proptest::prelude::*;

const MAX_WAIT: Duration = Duration::from_millis(2500);

#[derive(Clone, Debug)]
enum Call {
    Enqueue { tenant: u8, weight: u32, gates: Vec<(u8, u64)>, told: Option<i64>, budget: u64 },
    Poll,
    Admitted { which: usize, told: Option<i64> },
    Refused { which: usize, told: Option<i64> },
    Failed(usize),
    Cancel(usize),
    Stale(usize),
    Observed { gate: u8, level: i64 },
    Reconfigure { classes: [Option<(usize, usize)>; 2], tenants: usize, in_flight: u32, weight: Option<u32> },
    Pass(u64),
    Back(u64),
    Contention,
}

/// Bounds for a tenant and in all, or nothing held.
fn class() -> impl Strategy<Value = Option<(usize, usize)>> {
    prop_oneof![4 => (1_usize..6, 1_usize..20).prop_map(Some), 1 => Just(None)]
}

fn call() -> impl Strategy<Value = Call> {
    let told = || prop_oneof![Just(None), (-3_i64..6).prop_map(Some)];
    let gates = prop::collection::vec((0_u8..4, 0_u64..4), 0..6);
    prop_oneof![
        6 => (0_u8..8, 1_u32..6, gates, told(), 0_u64..3000)
            .prop_map(|(tenant, weight, gates, told, budget)| Call::Enqueue { tenant, weight, gates, told, budget }),
        6 => Just(Call::Poll),
        3 => (any::<usize>(), told()).prop_map(|(which, told)| Call::Admitted { which, told }),
        2 => (any::<usize>(), told()).prop_map(|(which, told)| Call::Refused { which, told }),
        1 => any::<usize>().prop_map(Call::Failed),
        1 => any::<usize>().prop_map(Call::Cancel),
        1 => any::<usize>().prop_map(Call::Stale),
        1 => (0_u8..4, -5_i64..10).prop_map(|(gate, level)| Call::Observed { gate, level }),
        1 => (class(), class(), 1_usize..8, 1_u32..5, prop::option::of(1_u32..9)).prop_map(
            |(requests, tokens, tenants, in_flight, weight)| {
                Call::Reconfigure { classes: [requests, tokens], tenants, in_flight, weight }
            }
        ),
        4 => (0_u64..400).prop_map(Call::Pass),
        1 => (0_u64..1000).prop_map(Call::Back),
        2 => Just(Call::Contention),
    ]
}

#[derive(Debug)]
struct Held {
    tenant: u8,
    gates: BTreeSet<u8>,
    deadline: Timestamp,
    /// The class in which it was when its attempt went out.
    granted: Option<Class>,
}

/// What can be known of a queue from outside, kept in the simplest way.
struct Model {
    queue: FairQueue,
    limits: Limits,
    now: u64,
    /// The latest moment ever told.
    latest: Timestamp,
    held: BTreeMap<Ticket, Held>,
    gone: Vec<Ticket>,
    contended: BTreeSet<GateKey>,
    enqueued: usize,
    ended: usize,
}

fn limits(classes: [Option<(usize, usize)>; 2], tenants: usize, in_flight: u32) -> Limits {
    let [requests, tokens] = classes.map(|class| {
        class.map(|(of_tenant, held)| ClassLimits {
            max_held: held.try_into().unwrap(),
            max_held_per_tenant: of_tenant.try_into().unwrap(),
            max_wait: MAX_WAIT,
        })
    });
    Limits {
        requests,
        tokens,
        max_tenants: tenants.try_into().unwrap(),
        max_in_flight: in_flight.try_into().unwrap(),
    }
}

/// The even gates count requests, the odd ones tokens.
fn class_of(gate: u8) -> Class {
    if gate.is_multiple_of(2) { Class::Requests } else { Class::Tokens }
}

fn level(gate: u8, level: i64) -> GateLevel {
    GateLevel {
        gate: GateKey(gate.into()),
        level,
        until_next: Duration::from_millis(70),
        capacity: 5,
        refill: 10,
        period: Duration::from_secs(1),
    }
}

fn levels(told: Option<i64>) -> Vec<GateLevel> {
    told.map(|told| (0..4).map(|gate| level(gate, told + i64::from(gate))).collect()).unwrap_or_default()
}

impl Model {
    fn new() -> Self {
        let limits = limits([Some((4, 16)), Some((3, 10))], 6, 3);
        Self {
            queue: FairQueue::new(limits),
            limits,
            now: 1_000_000,
            latest: Timestamp::ZERO,
            held: BTreeMap::new(),
            gone: Vec::new(),
            contended: BTreeSet::new(),
            enqueued: 0,
            ended: 0,
        }
    }

    fn tell_time(&mut self) -> Timestamp {
        let now = Timestamp::from_nanos(self.now * 1_000_000);
        self.latest = self.latest.max(now);
        // Of no concern to it, but now it knows the time as well.
        self.queue.observed(level(99, 0), now);
        now
    }

    fn nth(&self, which: usize, granted: bool) -> Option<Ticket> {
        let these: Vec<Ticket> = self
            .held
            .iter()
            .filter(|(_, held)| held.granted.is_some() == granted)
            .map(|(ticket, _)| *ticket)
            .collect();
        (!these.is_empty()).then(|| these[which % these.len()])
    }

    fn end(&mut self, ticket: Ticket) {
        self.held.remove(&ticket).unwrap();
        self.gone.push(ticket);
        self.ended += 1;
    }

    fn in_flight(&self) -> usize {
        self.held.values().filter(|held| held.granted.is_some()).count()
    }

    fn make(&mut self, call: Call) {
        let now = self.tell_time();
        match call {
            Call::Enqueue { tenant, weight, gates, told, budget } => {
                self.enqueue(tenant, weight, &gates, told, now + Duration::from_millis(budget), now);
            }
            Call::Poll => {
                if let Some(action) = self.queue.poll(now) {
                    self.act(action);
                }
            }
            Call::Admitted { which, told } => {
                if let Some(ticket) = self.nth(which, true) {
                    assert!(self.queue.admitted(ticket, &levels(told), now));
                    self.end(ticket);
                }
            }
            Call::Refused { which, told } => {
                if let Some(ticket) = self.nth(which, true) {
                    self.refuse(ticket, told, now);
                }
            }
            Call::Failed(which) => {
                if let Some(ticket) = self.nth(which, true) {
                    assert!(self.queue.failed(ticket, now));
                    self.end(ticket);
                }
                // One that only waits has no attempt that could fail.
                if let Some(ticket) = self.nth(which, false) {
                    assert!(!self.queue.failed(ticket, now) && !self.queue.admitted(ticket, &[], now));
                }
            }
            Call::Cancel(which) => {
                if let Some(ticket) = self.nth(which, which % 3 == 0) {
                    assert!(self.queue.cancel(ticket, now));
                    assert!(!self.queue.cancel(ticket, now));
                    self.end(ticket);
                }
            }
            Call::Stale(which) => {
                if !self.gone.is_empty() {
                    let ticket = self.gone[which % self.gone.len()];
                    assert!(!self.queue.cancel(ticket, now) && !self.queue.failed(ticket, now));
                    assert!(!self.queue.admitted(ticket, &levels(Some(3)), now));
                    assert_eq!(self.queue.refused(ticket, &[], now), Requeue::Unknown);
                }
            }
            Call::Observed { gate, level: told } => self.queue.observed(level(gate, told), now),
            Call::Reconfigure { classes, tenants, in_flight, weight } => {
                self.limits = limits(classes, tenants, in_flight);
                self.queue.reconfigure(self.limits, |_| weight.and_then(Weight::new), now);
            }
            Call::Pass(ms) => self.now += ms,
            Call::Back(ms) => self.now -= ms.min(self.now),
            Call::Contention => self.hear_contention(),
        }
        self.check();
    }

    fn enqueue(
        &mut self,
        tenant: u8,
        weight: u32,
        gates: &[(u8, u64)],
        told: Option<i64>,
        deadline: Timestamp,
        now: Timestamp,
    ) {
        let demands: Vec<Demand> = gates
            .iter()
            .map(|(gate, cost)| Demand { gate: GateKey((*gate).into()), class: class_of(*gate), cost: *cost })
            .collect();
        let request = Request {
            tenant: TenantKey(tenant.into()),
            weight: Weight::new(weight).unwrap(),
            demands: &demands,
            levels: &levels(told),
            arrived: self.latest,
            deadline,
        };
        let own = self.held.values().filter(|held| held.tenant == tenant).count();
        let bounds = Class::ALL.map(|class| self.reached_bound(class, tenant));
        match self.queue.enqueue(request, now) {
            Ok(place) => {
                assert_eq!(bounds[place.class as usize], None);
                assert!(place.position >= 1 && place.position <= own + 1, "{place:?}");
                assert!(self.queue.estimate(place.ticket, now).is_some());
                let gates = gates.iter().map(|(gate, _)| *gate).collect();
                // Both classes hold nothing for longer than that.
                let deadline = deadline.min(self.latest + MAX_WAIT);
                let held = Held { tenant, gates, deadline, granted: None };
                assert!(self.held.insert(place.ticket, held).is_none());
                assert!(!self.gone.contains(&place.ticket), "a ticket was issued again");
                self.enqueued += 1;
            }
            Err(refusal) => {
                match bounds[refusal.class as usize] {
                    Some(reason) => assert_eq!(refusal.reason, reason),
                    None if refusal.reason != Reason::WaitExceedsBudget => {
                        let table_full = match refusal.class {
                            Class::Requests => Reason::TenantTableFull,
                            Class::Tokens => Reason::HoldFull,
                        };
                        assert_eq!(refusal.reason, table_full);
                        assert!(own == 0 && self.queue.tenants() >= self.limits.max_tenants.get());
                    }
                    None => {}
                }
                assert_eq!((refusal.waited, refusal.deferred), (Duration::ZERO, Duration::ZERO));
            }
        }
    }

    /// The bound of a class that a tenant's next request would exceed.
    fn reached_bound(&self, class: Class, tenant: u8) -> Option<Reason> {
        let Some(bounds) = self.limits.of(class) else { return Some(Reason::NotHeld) };
        let [full, own_full] = match class {
            Class::Requests => [Reason::QueueFull, Reason::TenantQueueFull],
            Class::Tokens => [Reason::HoldFull, Reason::TenantHoldFull],
        };
        if self.queue.held_in(class) >= bounds.max_held.get() {
            return Some(full);
        }
        let snapshot = self.queue.snapshot(self.latest);
        let lanes = snapshot.gates.iter().filter(|gate| gate.class == class).flat_map(|gate| &gate.lanes);
        let own: usize = lanes
            .filter(|lane| lane.tenant == TenantKey(tenant.into()))
            .map(|lane| lane.waiting + lane.in_flight)
            .sum();
        (own >= bounds.max_held_per_tenant.get()).then_some(own_full)
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Grant { ticket, gate, class, waited, deferred, .. } => {
                assert_eq!(class, class_of(u8::try_from(gate.0).unwrap()));
                assert!(deferred <= waited);
                assert!(self.in_flight() < self.limits.max_in_flight.get() as usize);
                let held = self.held.get_mut(&ticket).unwrap();
                assert!(held.granted.is_none() && held.deadline >= self.latest);
                held.granted = Some(class);
            }
            Action::Refuse { ticket, refusal, .. } => {
                assert!(self.held[&ticket].granted.is_none());
                self.check_end(ticket, &refusal);
                self.end(ticket);
            }
        }
    }

    /// A request that was held is not any more. It has been taken out already.
    fn check_end(&self, ticket: Ticket, refusal: &Refusal) {
        let held = &self.held[&ticket];
        assert!(refusal.deferred <= refusal.waited);
        match refusal.reason {
            Reason::DeadlineExceeded => assert!(held.deadline <= self.latest),
            // Its turn has come at one of its gates, or its attempt was refused, and another will not have room in time.
            Reason::WaitExceedsBudget => {
                assert!(held.granted.is_some() || held.gates.len() > 1);
                assert!(self.latest + refusal.retry_after > held.deadline);
            }
            // It would have had to move into the other class.
            reason => {
                assert_eq!(self.reached_bound(refusal.class, held.tenant), Some(reason));
                assert_ne!(held.granted, Some(refusal.class));
                assert!(
                    Class::ALL.iter().all(|class| held.gates.iter().any(|gate| class_of(*gate) == *class))
                );
            }
        }
    }

    fn refuse(&mut self, ticket: Ticket, told: Option<i64>, now: Timestamp) {
        let bounds = Class::ALL.map(|class| self.reached_bound(class, self.held[&ticket].tenant));
        match self.queue.refused(ticket, &levels(told), now) {
            Requeue::Requeued(place) => {
                assert_eq!(place.ticket, ticket);
                let class = self.held.get_mut(&ticket).unwrap().granted.take();
                assert!(class == Some(place.class) || bounds[place.class as usize].is_none());
            }
            Requeue::Refused(refusal) => {
                self.check_end(ticket, &refusal);
                self.end(ticket);
            }
            Requeue::Unknown => panic!("{ticket:?} was granted"),
        }
    }

    fn hear_contention(&mut self) {
        while let Some((gate, contended)) = self.queue.poll_contention() {
            assert!(if contended { self.contended.insert(gate) } else { self.contended.remove(&gate) });
        }
        for gate in (0..4).map(GateKey) {
            assert_eq!(self.queue.contended(gate), self.contended.contains(&gate));
        }
    }

    fn check(&self) {
        assert_eq!(self.queue.held(), self.held.len());
        assert_eq!(self.enqueued, self.ended + self.held.len());
        let snapshot = self.queue.snapshot(self.latest);
        assert_eq!(snapshot.in_flight, self.in_flight());
        let lanes = || snapshot.gates.iter().flat_map(|gate| &gate.lanes);
        let waiting: usize = lanes().map(|lane| lane.waiting).sum();
        assert_eq!(waiting + snapshot.in_flight, self.held.len());
        assert_eq!((snapshot.queued, snapshot.deferred), {
            let [queued, deferred] = Class::ALL.map(|class| {
                let gates = snapshot.gates.iter().filter(|gate| gate.class == class);
                gates.map(|gate| gate.waiting + gate.in_flight).sum::<usize>()
            });
            (queued, deferred)
        });
        for tenant in 0..8 {
            let own = self.held.values().filter(|held| held.tenant == tenant).count();
            let seen: usize = lanes()
                .filter(|lane| lane.tenant == TenantKey(tenant.into()))
                .map(|lane| lane.waiting + lane.in_flight)
                .sum();
            assert_eq!(seen, own);
        }
        // Nobody waits at a gate that no held request has asked for.
        for gate in snapshot.gates.iter().filter(|gate| gate.waiting > 0) {
            let asks = |held: &Held| {
                held.gates.is_empty() || held.gates.contains(&u8::try_from(gate.gate.0).unwrap())
            };
            assert!(self.held.values().any(asks), "{gate:?}");
        }
    }

    /// Lets all that is left run out: in the end nothing is held, and nothing is remembered.
    fn finish(mut self) {
        self.now += 10_000;
        let now = self.tell_time();
        while let Some(ticket) = self.nth(0, true) {
            assert!(self.queue.admitted(ticket, &[], now));
            self.end(ticket);
        }
        while let Some(action) = self.queue.poll(now) {
            self.act(action);
            while let Some(ticket) = self.nth(0, true) {
                assert!(self.queue.admitted(ticket, &[], now));
                self.end(ticket);
            }
        }
        self.check();
        assert!(self.held.is_empty() && self.queue.is_empty());
        self.hear_contention();
        assert!(self.contended.is_empty());
        for _ in 0..1000 {
            let Some(wakeup) = self.queue.next_wakeup() else { break };
            assert_eq!(self.queue.poll(wakeup), None);
        }
        assert_eq!((self.queue.next_wakeup(), self.queue.tenants()), (None, 0));
        assert_eq!(self.queue.snapshot(Timestamp::MAX).gates, []);
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(400),
        ..ProptestConfig::default()
    })]

    #[test]
    fn every_request_has_one_end_and_only_one(calls in prop::collection::vec(call(), 1..120)) {
        let mut model = Model::new();
        for call in calls {
            model.make(call);
        }
        model.finish();
    }
}
