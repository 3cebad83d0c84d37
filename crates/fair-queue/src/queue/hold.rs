//! Into a lane and out of it.

use super::FairQueue;
use super::choice::Candidate;
use crate::estimate::{self, Ask};
use crate::gate::turn_cost;
use crate::slab::NONE;
use crate::waiter::{Waited, Waiter, Wants};
use crate::{Class, Demand, GateKey, Place, Reason, Refusal, Request, Ticket, Timestamp};

/// Where a request with no demand waits for its turn.
const NOWHERE: GateKey = GateKey(0);

impl FairQueue {
    pub(super) fn hold(&mut self, request: &Request<'_>, now: Timestamp) -> Result<Place, Refusal> {
        let wants = self.claim(request.demands);
        let candidate = self.newcomer(request, &wants, now);
        let (tenant, gate) = (candidate.tenant, self.longest_wait(&candidate, now));
        let class = self.gates[gate].class;
        let deadline = self.first_deadline(class, request.deadline, now);
        if let Some(reason) = self.reason_against(&candidate, gate, deadline, true, now) {
            return Err(self.turn_down(reason, &candidate, gate, now));
        }

        let tenant = match tenant {
            Some(tenant) => {
                self.reweigh(tenant, request.weight.get(), now);
                tenant
            }
            None => self.new_tenant(request.tenant, request.weight),
        };
        self.counts[class] += 1;
        self.tenants[tenant].held[class] += 1;
        self.tenant_changed(tenant);
        let lane = self.lane_or_new(tenant, gate);
        self.serial += 1;
        let serial = self.serial;
        let waiter = self.waiters.insert(Waiter {
            serial,
            deadline,
            arrived: request.arrived,
            since: now,
            lane,
            wants,
            ..Waiter::default()
        });
        self.waiters[waiter].hold_in(class, now);
        self.deadlines.insert(&mut self.waiters, waiter);
        let mut place = self.link(waiter, lane, true, now);
        place.estimate = self.whole_wait(waiter, place.estimate, now);
        self.sweep(now);
        Ok(place)
    }

    /// The refusal of a request that there is no room for, whatever the bounds say.
    pub(super) fn refuse_newcomer(&mut self, request: &Request<'_>, now: Timestamp) -> Refusal {
        let wants = self.claim(request.demands);
        let candidate = self.newcomer(request, &wants, now);
        let gate = self.longest_wait(&candidate, now);
        let class = self.gates[gate].class;
        let deadline = self.first_deadline(class, request.deadline, now);
        let reason = self.reason_against(&candidate, gate, deadline, false, now);
        self.turn_down(reason.unwrap_or(Reason::full(class)), &candidate, gate, now)
    }

    /// A request that has just come, and that wants this. What the limiter told of its buckets is believed.
    fn newcomer<'a>(&mut self, request: &Request<'_>, wants: &'a Wants, now: Timestamp) -> Candidate<'a> {
        for level in request.levels {
            // What concerns none of its gates need not be remembered.
            if let Some(gate) = self.find_gate(level.gate) {
                self.believe(gate, level, now);
            }
        }
        Candidate {
            wants,
            tenant: self.find_tenant(request.tenant),
            weight: request.weight.get(),
            is_told: !request.levels.is_empty(),
        }
    }

    /// Gives a newcomer its refusal, and its gates up.
    fn turn_down(&mut self, reason: Reason, candidate: &Candidate<'_>, gate: u32, now: Timestamp) -> Refusal {
        let refusal = self.refusal(reason, candidate, gate, None, Waited::default(), now);
        for want in candidate.wants.as_slice() {
            self.unclaim(want.gate);
        }
        self.sweep(now);
        refusal
    }

    /// What a request wants, its gates being of use to somebody from here on.
    pub(super) fn claim(&mut self, demands: &[Demand]) -> Wants {
        let mut wants = Wants::default();
        for demand in demands {
            let gate = self.gate_or_new(demand.gate, demand.class);
            wants.add(gate, demand.cost.max(1));
        }
        if demands.is_empty() {
            let gate = self.gate_or_new(NOWHERE, Class::Requests);
            wants.add(gate, 1);
        }
        for want in wants.as_slice() {
            self.gates[want.gate].demands += 1;
        }
        wants
    }

    /// A request is gone, or was not held: a gate of its may be of no use to anybody now.
    pub(super) fn unclaim(&mut self, gate: u32) {
        self.gates[gate].demands -= 1;
        self.release_gate(gate);
    }

    /// The refusal of a request that is not in a lane (any more). `position` is the one it had, if it had.
    pub(super) fn refusal(
        &self,
        reason: Reason,
        candidate: &Candidate<'_>,
        gate: u32,
        position: Option<usize>,
        waited: Waited,
        now: Timestamp,
    ) -> Refusal {
        let behind = self.lane_of(candidate, gate).map_or(0, |lane| self.lanes[lane].waiting as usize);
        let alone = self.earliest(candidate, None, now).saturating_duration_since(now);
        let own_lane = self.earliest(candidate, Some(gate), now).saturating_duration_since(now);
        Refusal {
            reason,
            class: self.gates[gate].class,
            gate: self.gates[gate].key,
            position: position.unwrap_or(behind + 1),
            waited: waited.all,
            deferred: waited.deferred,
            retry_after: self.wait_at(candidate, gate, now).clamp(alone, own_lane.max(alone)),
        }
    }

    /// Puts a waiter into a lane, in the order of arrival. The estimate is of the moment before.
    pub(super) fn link(&mut self, waiter: u32, lane: u32, is_new: bool, now: Timestamp) -> Place {
        // Nobody is behind a newcomer, and who is before it need not be fetched from memory to know that.
        let (anchor, position, ahead) = if is_new { self.end(lane) } else { self.seat(waiter, lane) };
        let Self { waiters, lanes, gates, .. } = self;
        let to = &mut lanes[lane];
        let gate_place = to.gate;
        let gate = &mut gates[gate_place];
        let cost = waiters[waiter].wants.at(gate_place).map_or(1, |want| want.cost);
        let ask = Ask { lane: Some(&*to), weight: to.weight, ahead, cost };
        let estimate = estimate::wait(gate, &ask, now);

        gate.backlog.count_out(to, now);
        if is_new {
            to.arrivals.add(turn_cost(cost), now);
        }
        if to.waiting == 0 {
            gate.enter(lane, to);
        }
        to.waiting += 1;
        to.queued += turn_cost(cost);
        gate.backlog.count_in(to, now);
        gate.waiting += 1;
        if gate.waiting == 1 {
            self.gates_waiting += 1;
        }
        waiters[waiter].lane = lane;
        to.waiters.insert_after(waiters, anchor, waiter);
        let place = Place {
            ticket: Ticket { serial: waiters[waiter].serial, slot: waiter },
            gate: gate.key,
            class: gate.class,
            position,
            estimate,
        };
        let is_head = position == 1;
        self.lane_changed(lane, now);
        self.gate_changed(gate_place);
        if is_head {
            self.wake_for(gate_place, turn_cost(cost));
        }
        place
    }

    /// The same as [`Self::seat`] for whoever comes last.
    fn end(&self, lane: u32) -> (u32, usize, u64) {
        let lane = &self.lanes[lane];
        (lane.waiters.tail, lane.waiting as usize + 1, lane.queued)
    }

    /// Where a waiter belongs in a lane, or stands in it: behind whom, at which position, behind what cost.
    ///
    /// A newcomer belongs at the end. One that moves in from elsewhere is senior to most, so it is looked for
    /// from both ends at once.
    pub(super) fn seat(&self, waiter: u32, lane: u32) -> (u32, usize, u64) {
        let lane = &self.lanes[lane];
        let serial = self.waiters[waiter].serial;
        let cost =
            |place: u32| self.waiters[place].wants.at(lane.gate).map_or(1, |want| turn_cost(want.cost));
        let (mut front, mut back) = (lane.waiters.head, lane.waiters.tail);
        let (mut before, mut ahead) = (0_usize, 0_u64);
        let (mut after, mut behind) = (0_usize, 0_u64);
        loop {
            if back == NONE || self.waiters[back].serial < serial {
                let position = (lane.waiting as usize).saturating_sub(after) + 1;
                return (back, position, lane.queued.saturating_sub(behind));
            }
            if self.waiters[front].serial >= serial {
                return (self.waiters[front].in_lane.previous, before + 1, ahead);
            }
            (before, ahead) = (before + 1, ahead + cost(front));
            (after, behind) = (after + 1, behind + cost(back));
            (front, back) = (self.waiters[front].in_lane.next, self.waiters[back].in_lane.previous);
        }
    }

    /// Takes a waiter out of the lane in which it waits, because it leaves.
    pub(super) fn unlink(&mut self, waiter: u32, now: Timestamp) {
        self.take_out(waiter, false, now);
    }

    /// Takes a waiter out of the lane in which it waits, and charges the lane for its turn: what is returned is
    /// wanted to give the turn back.
    pub(super) fn unlink_charged(&mut self, waiter: u32, now: Timestamp) -> u64 {
        self.take_out(waiter, true, now)
    }

    fn take_out(&mut self, waiter: u32, is_charged: bool, now: Timestamp) -> u64 {
        let Self { waiters, lanes, gates, .. } = self;
        let lane = waiters[waiter].lane;
        let from = &mut lanes[lane];
        let gate_place = from.gate;
        let gate = &mut gates[gate_place];
        let cost = waiters[waiter].wants.at(gate_place).map_or(1, |want| turn_cost(want.cost));
        let was_head = from.waiters.head == waiter;
        from.waiters.remove(waiters, waiter);
        gate.backlog.count_out(from, now);
        // A charge comes to the same before and after, and a lane that empties need not be put in order first.
        if from.waiting == 1 {
            gate.leave(lane, from);
        }
        from.waiting -= 1;
        from.queued -= cost;
        let charged_at = if is_charged { gate.charge(lane, from, cost) } else { 0 };
        gate.backlog.count_in(from, now);
        gate.waiting -= 1;
        if gate.waiting == 0 {
            gate.spacing.pause();
            self.gates_waiting -= 1;
        }
        let next = waiters.get(from.waiters.head);
        let next_cost = next.and_then(|next| next.wants.at(gate_place)).map(|want| turn_cost(want.cost));
        self.lane_changed(lane, now);
        self.gate_changed(gate_place);
        // After a grant the gate is woken in any case.
        if was_head && !is_charged {
            match next_cost {
                Some(cost) => self.wake_for(gate_place, cost),
                // Perhaps the bucket was saved up for this one, and has room for what others ask.
                None => self.wake(gate_place),
            }
        }
        charged_at
    }
}
