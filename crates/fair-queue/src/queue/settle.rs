//! What came of an attempt, and what was heard of a bucket on the way.

use super::FairQueue;
use super::choice::Candidate;
use crate::mirror::Opening;
use crate::slab::NONE;
use crate::waiter::Want;
use crate::{Demand, GateLevel, Requeue, Ticket, Timestamp};

/// What an attempt was, once it is over.
struct Ended {
    waiter: u32,
    tenant: u32,
    /// The gate it was granted from.
    gate: u32,
    /// The event of its grant.
    sent: u64,
}

impl FairQueue {
    pub(super) fn settle_admitted(&mut self, ticket: Ticket, levels: &[GateLevel], now: Timestamp) -> bool {
        let Some(waiter) = self.find_granted(ticket) else { return false };
        self.count_admission(waiter, now);
        let ended = self.end_attempt(waiter, false, now);
        self.hear(&ended, levels, true, now);
        self.drop_waiter(waiter, ended.tenant);
        self.sweep(now);
        true
    }

    pub(super) fn settle_refused(
        &mut self,
        ticket: Ticket,
        demands: Option<&[Demand]>,
        levels: &[GateLevel],
        now: Timestamp,
    ) -> Requeue {
        let Some(waiter) = self.find_granted(ticket) else { return Requeue::Unknown };
        let ended = self.end_attempt(waiter, true, now);
        if let Some(demands) = demands {
            self.want_otherwise(waiter, demands);
        }
        self.hear(&ended, levels, false, now);
        let tenant = ended.tenant;
        let refused = Candidate { is_told: !levels.is_empty(), ..self.candidate(waiter, tenant) };
        let is_open = |want: &Want| {
            let opening = self.gates[want.gate].mirror.opening(want.cost, now);
            opening == Opening::Open || !self.binds(&refused, want)
        };
        let is_unexplained = refused.wants.as_slice().iter().all(is_open);
        if is_unexplained && let Some(&want) = refused.wants.at(ended.gate) {
            self.gates[ended.gate].mirror.doubt(want.cost, now);
        }

        let refused = Candidate { is_told: !levels.is_empty(), ..self.candidate(waiter, tenant) };
        let gate = self.longest_wait(&refused, now);
        if let Some(reason) = self.reason_to_leave(waiter, tenant, gate, now) {
            let refused = Candidate { is_told: !levels.is_empty(), ..self.candidate(waiter, tenant) };
            let position = self.find_lane(tenant, gate).map_or(1, |lane| self.seat(waiter, lane).1);
            let waited = self.waiters[waiter].waited(now);
            let refusal = self.refusal(reason, &refused, gate, Some(position), waited, now);
            self.drop_waiter(waiter, tenant);
            self.sweep(now);
            return Requeue::Refused(refusal);
        }
        self.deadlines.insert(&mut self.waiters, waiter);
        let lane = self.lane_or_new(tenant, gate);
        let mut place = self.link(waiter, lane, false, now);
        place.estimate = self.whole_wait(waiter, place.estimate, now);
        self.sweep(now);
        Requeue::Requeued(place)
    }

    pub(super) fn settle_failed(&mut self, ticket: Ticket, now: Timestamp) -> bool {
        let Some(waiter) = self.find_granted(ticket) else { return false };
        let ended = self.end_attempt(waiter, true, now);
        self.drop_waiter(waiter, ended.tenant);
        self.sweep(now);
        true
    }

    pub(super) fn settle_cancelled(&mut self, ticket: Ticket, now: Timestamp) -> bool {
        let Some(waiter) = self.find_waiter(ticket) else { return false };
        if self.waiters[waiter].is_granted() {
            return self.settle_failed(ticket, now);
        }
        let tenant = self.lanes[self.waiters[waiter].lane].tenant;
        self.unlink(waiter, now);
        self.deadlines.remove(&mut self.waiters, waiter);
        self.drop_waiter(waiter, tenant);
        self.sweep(now);
        true
    }

    /// A waiter that is in no lane, and has no attempt out, wants something else from here on.
    fn want_otherwise(&mut self, waiter: u32, demands: &[Demand]) {
        // What stays wanted is claimed before it is let go.
        let wants = self.claim(demands);
        let before = std::mem::replace(&mut self.waiters[waiter].wants, wants);
        for want in before.as_slice() {
            self.unclaim(want.gate);
        }
    }

    /// An attempt is over: what it held of mirrors and grants is free, and, if wanted, its turns are given
    /// back.
    fn end_attempt(&mut self, waiter: u32, give_back: bool, now: Timestamp) -> Ended {
        let lane = self.waiters[waiter].lane;
        let (tenant, gate) = (self.lanes[lane].tenant, self.lanes[lane].gate);
        let grant = self.waiters[waiter].grant;
        for at in 0..self.waiters[waiter].wants.as_slice().len() {
            let want = self.waiters[waiter].wants.as_slice()[at];
            self.gates[want.gate].mirror.give_back(want.cost);
            let charged_at = self.grants.charged_at(grant, at);
            if give_back && charged_at != 0 {
                // A lane that has been forgotten meanwhile has nothing to be given back.
                let charged = if want.gate == gate { Some(lane) } else { self.find_lane(tenant, want.gate) };
                if let Some(charged) = charged {
                    self.take_back(charged, want.cost, charged_at, now);
                }
            }
            self.waiters[waiter].wants.as_mut_slice()[at].passed = false;
        }
        let sent = self.grants.close(grant);
        self.waiters[waiter].grant = NONE;
        self.in_flight -= 1;
        self.gates[gate].in_flight -= 1;
        self.lanes[lane].in_flight -= 1;
        self.lane_changed(lane, now);
        self.gate_changed(gate);
        for at in 0..self.waiters[waiter].wants.as_slice().len() {
            let gate = self.waiters[waiter].wants.as_slice()[at].gate;
            self.wake(gate);
        }
        Ended { waiter, tenant, gate, sent }
    }

    fn take_back(&mut self, lane: u32, cost: u64, total: u64, now: Timestamp) {
        let charged = &mut self.lanes[lane];
        let gate = &mut self.gates[charged.gate];
        gate.backlog.count_out(charged, now);
        gate.take_back(lane, charged, cost, total);
        gate.backlog.count_in(charged, now);
    }

    fn count_admission(&mut self, waiter: u32, now: Timestamp) {
        let lane = self.waiters[waiter].lane;
        let (tenant, from) = (self.lanes[lane].tenant, self.lanes[lane].gate);
        for at in 0..self.waiters[waiter].wants.as_slice().len() {
            let want = self.waiters[waiter].wants.as_slice()[at];
            let gate = &mut self.gates[want.gate];
            if gate.waiting > 0 {
                gate.spacing.admitted(want.cost, now);
            }
            if self.grants.charged_at(self.waiters[waiter].grant, at) == 0 {
                continue;
            }
            gate.admitted.add(want.cost, now);
            let charged = if want.gate == from { Some(lane) } else { self.find_lane(tenant, want.gate) };
            if let Some(charged) = charged {
                self.lanes[charged].admitted.add(want.cost, now);
            }
        }
    }

    /// What an attempt brought home. Its gates have been woken already, when it ended.
    fn hear(&mut self, ended: &Ended, levels: &[GateLevel], accepted: bool, now: Timestamp) {
        let event = self.next_event();
        for at in 0..self.waiters[ended.waiter].wants.as_slice().len() {
            let want = self.waiters[ended.waiter].wants.as_slice()[at];
            let gate = &mut self.gates[want.gate];
            if let Some(told) = levels.iter().find(|told| told.gate == gate.key) {
                if gate.mirror.hear(told, ended.sent, event, now) {
                    gate.spacing.forget();
                }
            } else if accepted {
                gate.mirror.spend(want.cost, now);
            }
        }
    }

    /// Takes a word on a bucket that came from elsewhere.
    pub(super) fn believe(&mut self, gate: u32, told: &GateLevel, now: Timestamp) {
        let event = self.next_event();
        let believer = &mut self.gates[gate];
        if believer.mirror.believe(told, event, now) {
            believer.spacing.forget();
        }
        self.wake(gate);
    }
}
