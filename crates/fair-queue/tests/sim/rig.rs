//! A gate whose bucket is never empty: nothing decides but the order of turns.

use std::collections::BTreeMap;
use std::time::Duration;

use fairlane_fair_queue::{
    Action, ClassLimits, Demand, FairQueue, GateKey, Limits, Request, TenantKey, Ticket, Timestamp, Weight,
};

pub(crate) struct Rig {
    pub(crate) queue: FairQueue,
    /// By ticket: whose, and the cost.
    waiting: BTreeMap<Ticket, (usize, u64)>,
    tickets: Vec<Vec<Ticket>>,
    weights: Vec<u32>,
    now: u64,
}

const GATE: GateKey = GateKey(1);

impl Rig {
    pub(crate) fn new() -> Self {
        let class = ClassLimits {
            max_held: 10_000_000.try_into().unwrap(),
            max_held_per_tenant: 1_000_000.try_into().unwrap(),
            max_wait: Duration::MAX,
        };
        let limits = Limits {
            requests: Some(class),
            tokens: Some(class),
            max_tenants: 1_000_000.try_into().unwrap(),
            max_in_flight: 1.try_into().unwrap(),
        };
        let queue = FairQueue::new(limits);
        Self { queue, waiting: BTreeMap::new(), tickets: Vec::new(), weights: Vec::new(), now: 0 }
    }

    pub(crate) fn join(&mut self, weight: u32) -> usize {
        self.weights.push(weight);
        self.tickets.push(Vec::new());
        self.weights.len() - 1
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_nanos(self.now)
    }

    pub(crate) fn enqueue(&mut self, member: usize, cost: u64) {
        let request = Request {
            tenant: TenantKey(member as u128 + 100),
            weight: Weight::new(self.weights[member]).unwrap(),
            demands: &[Demand::tokens(GATE, cost)],
            levels: &[],
            arrived: self.now(),
            deadline: Timestamp::MAX,
        };
        let place = self.queue.enqueue(request, self.now()).unwrap();
        self.waiting.insert(place.ticket, (member, cost));
        self.tickets[member].push(place.ticket);
    }

    /// Takes away all that a member has waiting.
    pub(crate) fn withdraw(&mut self, member: usize) {
        for ticket in std::mem::take(&mut self.tickets[member]) {
            assert!(self.queue.cancel(ticket, self.now()));
            self.waiting.remove(&ticket);
        }
    }

    pub(crate) fn has(&self, member: usize) -> bool {
        !self.tickets[member].is_empty()
    }

    /// Whom the queue serves next, and the cost.
    pub(crate) fn serve(&mut self) -> Option<(usize, u64)> {
        self.now += 1000;
        let Action::Grant { ticket, .. } = self.queue.poll(self.now())? else {
            panic!("nobody has a deadline")
        };
        assert!(self.queue.admitted(ticket, &[], self.now()));
        let (member, cost) = self.waiting.remove(&ticket).unwrap();
        assert_eq!(self.tickets[member].remove(0), ticket, "a lane is first in, first out");
        Some((member, cost))
    }
}
