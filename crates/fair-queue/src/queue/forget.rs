//! How gates, lanes and tenants come to be, and how they are forgotten.
//!
//! A lane with nothing in it is remembered for a while, for its lag. A tenant lives as long as it has a
//! request held or a lane remembered; a gate, as long as a held request demands it or a lane is there. Each
//! call forgets at most a few of what is due, so that a burst is cleared away over as many calls as it took.

use super::{FairQueue, lane_hash};
use crate::debts::Debt;
use crate::gate::Gate;
use crate::index::hash;
use crate::lane::{Lane, Tenant};
use crate::slab::{NONE, Slab};
use crate::{Class, GateKey, TenantKey, Timestamp, Weight};

/// How long an idle lane's lag is remembered, in nanoseconds: ten seconds. A lag is at most the largest cost
/// lately granted, so what is lost with it is one turn.
pub(super) const MEMORY: u64 = 10_000_000_000;

/// Idle lanes looked at by one call: more than one call can add.
const LANES_AT_A_TIME: usize = 8;
/// Debts struck off by one call.
const DEBTS_AT_A_TIME: usize = 16;

impl FairQueue {
    pub(super) fn gate_or_new(&mut self, key: GateKey, class: Class) -> u32 {
        if let Some(gate) = self.find_gate(key) {
            return gate;
        }
        let gate = self.gates.insert(Gate::new(key, class));
        self.gate_index.insert(hash(key.0), gate);
        gate
    }

    pub(super) fn new_tenant(&mut self, key: TenantKey, weight: Weight) -> u32 {
        let tenant = Tenant { key, weight: weight.get(), is_tracked: true, ..Tenant::default() };
        let tenant = self.tenants.insert(tenant);
        self.tenant_index.insert(hash(key.0), tenant);
        tenant
    }

    pub(super) fn lane_or_new(&mut self, tenant: u32, gate: u32) -> u32 {
        if let Some(lane) = self.find_lane(tenant, gate) {
            return lane;
        }
        self.serial += 1;
        let weight = self.tenants[tenant].weight;
        let mut lane = Lane { tenant, gate, order: self.serial, weight, ..Lane::default() };
        self.gates[gate].backlog.count_in(&mut lane, self.now);
        self.gates[gate].lanes += 1;
        let lane = self.lanes.insert(lane);
        self.lane_index.insert(lane_hash(tenant, gate), lane);
        self.tenants[tenant].lanes.push_back(&mut self.lanes, lane);
        lane
    }

    pub(super) fn reweigh(&mut self, tenant: u32, weight: u32, now: Timestamp) {
        if self.tenants[tenant].weight == weight {
            return;
        }
        self.tenants[tenant].weight = weight;
        let mut place = self.tenants[tenant].lanes.head;
        while place != NONE {
            let lane = &mut self.lanes[place];
            let gate_place = lane.gate;
            let gate = &mut self.gates[gate_place];
            gate.backlog.count_out(lane, now);
            gate.reweigh(place, lane, weight);
            gate.backlog.count_in(lane, now);
            place = lane.of_tenant.next;
            self.wake(gate_place);
        }
    }

    /// A lane may have become idle, or have ceased to be.
    pub(super) fn lane_changed(&mut self, place: u32, now: Timestamp) {
        let lane = &mut self.lanes[place];
        if lane.is_idle() == lane.is_listed {
            return;
        }
        let tenant = lane.tenant;
        if lane.is_listed {
            lane.is_listed = false;
            self.idle_lanes -= 1;
            self.cancel_debt(place);
            self.idle.remove(&mut self.lanes, place);
        } else {
            (lane.is_listed, lane.idle_since) = (true, now);
            self.idle_lanes += 1;
            self.serial += 1;
            if self.gates[lane.gate].owe(place, lane, self.serial) {
                self.tenants[tenant].debts += 1;
            }
            self.idle.push_back(&mut self.lanes, place);
        }
        self.tenant_changed(tenant);
    }

    /// A lane that has a debt comes back or goes for good.
    fn cancel_debt(&mut self, place: u32) {
        let lane = &self.lanes[place];
        if lane.debt != 0 {
            let gate = lane.gate;
            self.strike_debt(place);
            let Self { gates, lanes, .. } = self;
            gates[gate].debts.strike(|debt| is_owed(lanes, debt));
        }
    }

    /// A lane's debt, if it has one, binds it no more.
    fn strike_debt(&mut self, place: u32) {
        let lane = &mut self.lanes[place];
        if lane.debt != 0 {
            lane.debt = 0;
            let tenant = lane.tenant;
            self.tenants[tenant].debts -= 1;
            self.tenant_changed(tenant);
        }
    }

    /// A tenant can be forgotten when it has nothing held and its lag has been caught up.
    pub(super) fn tenant_changed(&mut self, place: u32) {
        let tenant = &mut self.tenants[place];
        let is_forgettable = tenant.held.all() == 0 && tenant.debts == 0;
        if is_forgettable == tenant.is_forgettable {
            return;
        }
        tenant.is_forgettable = is_forgettable;
        if is_forgettable {
            self.forgettable.push_back(&mut self.tenants, place);
        } else {
            self.forgettable.remove(&mut self.tenants, place);
        }
    }

    /// A gate's waiters or grants have changed in number.
    pub(super) fn gate_changed(&mut self, place: u32) {
        let gate = &mut self.gates[place];
        let is_news = gate.is_contended() != gate.told;
        if is_news != gate.has_news {
            gate.has_news = is_news;
            if is_news {
                self.news.push_back(&mut self.gates, place);
            } else {
                self.news.remove(&mut self.gates, place);
            }
        }
        self.note_lapsed(place);
    }

    pub(super) fn next_news(&mut self) -> Option<(GateKey, bool)> {
        let place = self.news.head;
        if place == NONE {
            return None;
        }
        self.news.remove(&mut self.gates, place);
        let gate = &mut self.gates[place];
        gate.has_news = false;
        gate.told = gate.is_contended();
        let news = (gate.key, gate.told);
        self.release_gate(place);
        Some(news)
    }

    fn note_lapsed(&mut self, place: u32) {
        let gate = &mut self.gates[place];
        if !gate.has_lapsed && gate.has_lapsed_debt() {
            gate.has_lapsed = true;
            self.lapsed.push_back(&mut self.gates, place);
        }
    }

    /// Virtual time has moved at a gate: strikes off debts that it has caught up with.
    pub(super) fn settle_debts(&mut self, place: u32) {
        for _ in 0..DEBTS_AT_A_TIME {
            if !self.gates[place].has_lapsed_debt() {
                return;
            }
            self.strike_first(place);
        }
        self.note_lapsed(place);
    }

    fn strike_first(&mut self, gate: u32) {
        let Self { gates, lanes, .. } = self;
        if let Some(debt) = gates[gate].debts.pop(|debt| is_owed(lanes, debt)) {
            self.strike_debt(debt.lane);
        }
    }

    /// Strikes off the next debt that has lapsed anywhere. False if there is none.
    fn strike_lapsed(&mut self) -> bool {
        while self.lapsed.head != NONE {
            let place = self.lapsed.head;
            if self.gates[place].has_lapsed_debt() {
                self.strike_first(place);
                return true;
            }
            self.gates[place].has_lapsed = false;
            self.lapsed.remove(&mut self.gates, place);
        }
        false
    }

    pub(super) fn can_forget_one(&mut self) -> bool {
        while self.forgettable.is_empty() {
            if !self.strike_lapsed() {
                return false;
            }
        }
        true
    }

    /// Forgets the tenant that has been forgettable for longest.
    pub(super) fn forget_one(&mut self) {
        let tenant = self.forgettable.head;
        if tenant == NONE {
            return;
        }
        while self.tenants[tenant].lanes.head != NONE {
            self.forget_lane(self.tenants[tenant].lanes.head);
        }
    }

    /// A step of tidying up.
    pub(super) fn sweep(&mut self, now: Timestamp) {
        for _ in 0..DEBTS_AT_A_TIME {
            if !self.strike_lapsed() {
                break;
            }
        }
        for _ in 0..LANES_AT_A_TIME {
            let place = self.idle.head;
            let Some(lane) = self.lanes.get(place) else { return };
            let too_many = self.idle_lanes > self.limits.max_tenants.get();
            if !too_many && now < lane.idle_since.after_nanos(MEMORY) {
                return;
            }
            if too_many || lane.debt == 0 {
                self.forget_lane(place);
            } else {
                // Still ahead of its due where others wait: asked again later.
                self.idle.remove(&mut self.lanes, place);
                self.lanes[place].idle_since = now;
                self.idle.push_back(&mut self.lanes, place);
            }
        }
    }

    fn forget_lane(&mut self, place: u32) {
        self.cancel_debt(place);
        self.idle.remove(&mut self.lanes, place);
        self.idle_lanes -= 1;
        let tenant = self.lanes[place].tenant;
        self.tenants[tenant].lanes.remove(&mut self.lanes, place);
        let lane = self.lanes.remove(place);
        self.lane_index.remove(lane_hash(tenant, lane.gate), place);
        let gate = &mut self.gates[lane.gate];
        gate.backlog.count_out(&lane, self.now);
        gate.lanes -= 1;
        self.release_gate(lane.gate);
        if self.tenants[tenant].lanes.is_empty() && self.tenants[tenant].held.all() == 0 {
            self.forget_tenant(tenant);
        }
    }

    fn forget_tenant(&mut self, place: u32) {
        if self.tenants[place].is_forgettable {
            self.forgettable.remove(&mut self.tenants, place);
        }
        let tenant = self.tenants.remove(place);
        self.tenant_index.remove(hash(tenant.key.0), place);
    }

    /// Forgets a gate if nobody needs it any more and the driver knows that it is free.
    pub(super) fn release_gate(&mut self, place: u32) {
        let gate = &self.gates[place];
        if gate.demands > 0 || gate.lanes > 0 || gate.has_news {
            return;
        }
        if gate.has_lapsed {
            self.lapsed.remove(&mut self.gates, place);
        }
        self.rest(place);
        let gate = self.gates.remove(place);
        self.gate_index.remove(hash(gate.key.0), place);
    }
}

/// The lane may have come back or gone for good since; then the mark is another.
fn is_owed(lanes: &Slab<Lane>, debt: &Debt) -> bool {
    lanes.get(debt.lane).is_some_and(|lane| lane.debt == debt.mark)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Demand, Limits, Request};

    #[test]
    fn a_lane_that_comes_and_goes_leaves_no_trail() {
        let mut queue = FairQueue::new(Limits::default());
        let now = Timestamp::ZERO;
        let gate = GateKey(1);
        let enqueue = |queue: &mut FairQueue, tenant: u128| {
            let request = Request {
                tenant: TenantKey(tenant),
                weight: Weight::MIN,
                demands: &[Demand::request(gate)],
                levels: &[],
                arrived: now,
                deadline: now + std::time::Duration::from_secs(1),
            };
            queue.enqueue(request, now).unwrap().ticket
        };
        // The first is served once, and is ahead of its due while the second waits.
        let served = enqueue(&mut queue, 1);
        enqueue(&mut queue, 2);
        assert!(queue.poll(now).is_some());
        assert!(queue.admitted(served, &[], now));
        for _ in 0..1000 {
            let ticket = enqueue(&mut queue, 1);
            queue.cancel(ticket, now);
        }
        let place = queue.find_gate(gate).unwrap();
        assert!(queue.gates[place].debts.len() <= 64, "{}", queue.gates[place].debts.len());
        assert_eq!(queue.tenants.iter().map(|tenant| tenant.debts).sum::<u32>(), 1);
    }
}
