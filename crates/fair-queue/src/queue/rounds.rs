//! What to do next: who has run out of time, and whose turn it is.

use super::FairQueue;
use super::choice::Bar;
use super::forget::MEMORY;
use crate::gate::Turn;
use crate::lane::Lane;
use crate::mirror::Opening;
use crate::slab::NONE;
use crate::waiter::Waited;
use crate::{Action, Reason, Ticket, Timestamp};

impl FairQueue {
    pub(super) fn next_action(&mut self, now: Timestamp) -> Option<Action> {
        if let Some(action) = self.expire(|deadline| deadline < now, now) {
            return Some(action);
        }
        while let Some(&(at, gate)) = self.closed.first()
            && at <= now
        {
            self.wake(gate);
        }
        while let Some(gate) = self.next_gate() {
            if let Some(action) = self.try_gate(gate, now) {
                return Some(action);
            }
        }
        // Whoever could be served in the very last moment has been.
        let action = self.expire(|deadline| deadline <= now, now);
        if action.is_none() {
            self.sweep(now);
        }
        action
    }

    pub(super) fn next_moment(&self) -> Option<Timestamp> {
        if self.next_gate().is_some() {
            return Some(self.now);
        }
        let deadline = self.deadlines.first(&self.waiters).map(|(deadline, _)| deadline);
        // While no grant can go out it does not matter which gate opens: a settlement comes first.
        let opening = self.closed.first().map(|(at, _)| *at).filter(|_| self.free_grants() > 0);
        let memory = self.lanes.get(self.idle.head).map(|lane| lane.idle_since.after_nanos(MEMORY));
        [deadline, opening, memory].into_iter().flatten().min()
    }

    const fn free_grants(&self) -> u32 {
        self.limits.max_in_flight.get().saturating_sub(self.in_flight)
    }

    /// The gate whose turn it is to be looked at.
    ///
    /// Gates without an attempt out come first, and the last free grant is theirs alone, unless there is but
    /// one gate with waiters: otherwise a gate whose attempts are slow would soon have all the grants.
    fn next_gate(&self) -> Option<u32> {
        let free = self.free_grants();
        if free == 0 {
            return None;
        }
        if !self.fresh.is_empty() {
            return Some(self.fresh.head);
        }
        (!self.busy.is_empty() && (free > 1 || self.gates_waiting == 1)).then_some(self.busy.head)
    }

    /// Grants the turn at this gate, or moves its next one elsewhere, or closes it.
    fn try_gate(&mut self, place: u32, now: Timestamp) -> Option<Action> {
        let gate = &self.gates[place];
        if !gate.has_ready() {
            self.rest(place);
            return None;
        }
        // Without room for one unit it need not be known whose turn it is.
        let opening = gate.mirror.opening(1, now);
        if opening != Opening::Open {
            self.close(place, 1, opening);
            return None;
        }
        let Some(lane) = gate.pick() else {
            self.rest(place);
            return None;
        };
        let Lane { tenant, waiters, .. } = &self.lanes[lane];
        // Read while the waiter is on its way from memory, and not only after it: with many tenants this counts.
        let tenant = self.tenants[*tenant].key;
        let waiter = waiters.head;
        let cost = self.waiters[waiter].wants.at(place).map_or(1, |want| want.cost);
        // A larger ask whose turn it is: the bucket is saved up for it.
        let opening = if cost > 1 { gate.mirror.opening(cost, now) } else { opening };
        if opening != Opening::Open {
            self.close(place, cost, opening);
            return None;
        }
        if let Some(elsewhere) = self.detour(waiter, place, now) {
            return self.move_to(waiter, place, elsewhere, now);
        }
        let ticket = self.grant(waiter, place, now);
        let (gate, class) = (self.gates[place].key, self.gates[place].class);
        let Waited { all: waited, deferred } = self.waiters[waiter].waited(now);
        Some(Action::Grant { ticket, tenant, gate, class, waited, deferred })
    }

    /// Where a waiter has to go whose turn has come here: to a gate that has no room for it, or where others
    /// wait and it has not had its turn yet. To the one where it waits next, if there are several. A gate in whose class
    /// nothing is held is no such place: there the limiter has to say no.
    ///
    /// It cannot go round in circles: a turn that it has had is remembered until an attempt of its is
    /// refused, and a gate without room gives it no turn until its bucket has changed.
    fn detour(&self, waiter: u32, here: u32, now: Timestamp) -> Option<u32> {
        let wants = self.waiters[waiter].wants.as_slice();
        let bars = wants.iter().filter(|want| want.gate != here && !want.kept).filter_map(|want| {
            let gate = &self.gates[want.gate];
            let lacks_room = gate.mirror.opening(want.cost, now) != Opening::Open;
            let is_bar = (lacks_room || (gate.waiting > 0 && !want.passed)) && self.is_held(gate.class);
            is_bar.then_some(Bar { gate: want.gate, class: gate.class, lacks_room })
        });
        // Mostly there are none, and nothing more need be looked at.
        bars.clone().next()?;
        let tenant = self.lanes[self.waiters[waiter].lane].tenant;
        self.first_to_wait_at(&self.candidate(waiter, tenant), bars, now)
    }

    /// Moves a waiter into its tenant's lane at another gate. What is returned is its answer, if it cannot be held there.
    fn move_to(&mut self, waiter: u32, here: u32, elsewhere: u32, now: Timestamp) -> Option<Action> {
        // Nobody keeps room at one gate while waiting for another that somebody else keeps: two such waiters would wait
        // for each other for ever. As room is kept only on the way to a gate that nobody keeps, no circle can close.
        let is_kept_there = self.gates[elsewhere].keeps;
        if is_kept_there {
            self.release_kept(waiter);
        }
        let wants = &mut self.waiters[waiter].wants;
        let returns = wants.at(elsewhere).is_some_and(|want| want.passed);
        if let Some(want) = wants.at_mut(here) {
            want.passed = true;
            // It has had its turn at both, but never both had room at once. Two busy gates could keep it
            // going to and fro for ever; so the one it leaves keeps room for it. One waiter at a time can
            // have that of a gate, so that no more than its cost ever lies idle.
            let gate = &mut self.gates[here];
            if returns && !gate.keeps && !is_kept_there {
                want.kept = true;
                gate.keeps = true;
                gate.mirror.take(want.cost);
            }
        }
        let tenant = self.lanes[self.waiters[waiter].lane].tenant;
        self.unlink(waiter, now);
        self.deadlines.remove(&mut self.waiters, waiter);
        if let Some(reason) = self.reason_to_leave(waiter, tenant, elsewhere, now) {
            return Some(self.turn_out(waiter, tenant, elsewhere, None, reason, now));
        }
        self.deadlines.insert(&mut self.waiters, waiter);
        let lane = self.lane_or_new(tenant, elsewhere);
        self.link(waiter, lane, false, now);
        None
    }

    /// The answer of a waiter that is in no lane and no deadline list any more, and that leaves for good.
    fn turn_out(
        &mut self,
        waiter: u32,
        tenant: u32,
        gate: u32,
        position: Option<usize>,
        reason: Reason,
        now: Timestamp,
    ) -> Action {
        let waited = self.waiters[waiter].waited(now);
        let candidate = self.candidate(waiter, tenant);
        let position =
            position.or_else(|| self.find_lane(tenant, gate).map(|lane| self.seat(waiter, lane).1));
        let action = Action::Refuse {
            ticket: Ticket { serial: self.waiters[waiter].serial, slot: waiter },
            tenant: self.tenants[tenant].key,
            refusal: self.refusal(reason, &candidate, gate, position, waited, now),
        };
        self.drop_waiter(waiter, tenant);
        action
    }

    /// Gives up the room that gates keep for a waiter.
    fn release_kept(&mut self, waiter: u32) {
        for at in 0..self.waiters[waiter].wants.as_slice().len() {
            let want = &mut self.waiters[waiter].wants.as_mut_slice()[at];
            if std::mem::take(&mut want.kept) {
                let (gate, cost) = (want.gate, want.cost);
                self.gates[gate].keeps = false;
                self.gates[gate].mirror.give_back(cost);
                self.wake(gate);
            }
        }
    }

    fn grant(&mut self, waiter: u32, place: u32, now: Timestamp) -> Ticket {
        let event = self.next_event();
        let grant = self.grants.open(event);
        self.deadlines.remove(&mut self.waiters, waiter);
        let lane = self.waiters[waiter].lane;
        let tenant = self.lanes[lane].tenant;
        self.in_flight += 1;
        self.gates[place].in_flight += 1;
        self.lanes[lane].in_flight += 1;
        let charged_here = self.unlink_charged(waiter, now);
        for at in 0..self.waiters[waiter].wants.as_slice().len() {
            let want = self.waiters[waiter].wants.as_slice()[at];
            let gate = &mut self.gates[want.gate];
            if want.kept {
                gate.keeps = false;
            } else {
                gate.mirror.take(want.cost);
            }
            // What it takes where others wait is a turn there too.
            let charged_at = if want.gate == place {
                charged_here
            } else if gate.waiting > 0 {
                let other = self.lane_or_new(tenant, want.gate);
                let charged_at = self.charge(other, want.cost, now);
                self.lane_changed(other, now);
                charged_at
            } else {
                0
            };
            self.grants.charge(grant, charged_at);
            self.waiters[waiter].wants.as_mut_slice()[at].kept = false;
        }
        self.look_ahead(place, lane);
        self.settle_debts(place);
        let granted = &mut self.waiters[waiter];
        granted.grant = grant;
        let ticket = Ticket { serial: granted.serial, slot: waiter };
        // To the end of the round.
        self.rest(place);
        self.wake(place);
        ticket
    }

    fn charge(&mut self, lane: u32, cost: u64, now: Timestamp) -> u64 {
        let charged = &mut self.lanes[lane];
        let gate = &mut self.gates[charged.gate];
        gate.backlog.count_out(charged, now);
        let total = gate.charge(lane, charged, cost);
        gate.backlog.count_in(charged, now);
        total
    }

    fn expire(&mut self, due: impl Fn(Timestamp) -> bool, now: Timestamp) -> Option<Action> {
        let (_, waiter) = self.deadlines.first(&self.waiters).filter(|(deadline, _)| due(*deadline))?;
        let lane = self.waiters[waiter].lane;
        let (tenant, gate) = (self.lanes[lane].tenant, self.lanes[lane].gate);
        let (_, position, _) = self.seat(waiter, lane);
        self.unlink(waiter, now);
        self.deadlines.remove(&mut self.waiters, waiter);
        Some(self.turn_out(waiter, tenant, gate, Some(position), Reason::DeadlineExceeded, now))
    }

    /// A gate has nothing to be looked at any more.
    pub(super) fn rest(&mut self, place: u32) {
        match self.gates[place].turn {
            Turn::Resting => {}
            Turn::Fresh => self.fresh.remove(&mut self.gates, place),
            Turn::Busy => self.busy.remove(&mut self.gates, place),
            Turn::Closed(at) => {
                self.closed.remove(&(at, place));
            }
        }
        self.gates[place].turn = Turn::Resting;
    }

    fn close(&mut self, place: u32, cost: u64, opening: Opening) {
        self.rest(place);
        self.gates[place].awaits = cost;
        if let Opening::At(at) = opening {
            self.closed.insert((at, place));
            self.gates[place].turn = Turn::Closed(at);
        }
    }

    /// Something has changed at a gate: it has to be looked at, if somebody waits there.
    pub(super) fn wake(&mut self, place: u32) {
        let gate = &self.gates[place];
        let turn = if gate.in_flight == 0 { Turn::Fresh } else { Turn::Busy };
        if gate.turn == turn {
            return;
        }
        let ready = gate.has_ready();
        self.rest(place);
        if ready {
            self.gates[place].turn = turn;
            let round = if turn == Turn::Fresh { &mut self.fresh } else { &mut self.busy };
            round.push_back(&mut self.gates, place);
        }
    }

    /// A request of this cost has come to the head of its lane: a gate that is closed for want of room for no
    /// less stays closed.
    pub(super) fn wake_for(&mut self, place: u32, cost: u64) {
        let gate = &self.gates[place];
        if !matches!(gate.turn, Turn::Closed(_)) || cost < gate.awaits {
            self.wake(place);
        }
    }

    /// A waiter that is in no lane any more leaves for good.
    pub(super) fn drop_waiter(&mut self, waiter: u32, tenant: u32) {
        debug_assert!(self.waiters[waiter].lane != NONE);
        for at in 0..self.waiters[waiter].wants.as_slice().len() {
            let want = self.waiters[waiter].wants.as_slice()[at];
            if want.kept {
                self.gates[want.gate].keeps = false;
                self.gates[want.gate].mirror.give_back(want.cost);
                self.wake(want.gate);
            }
            self.unclaim(want.gate);
        }
        let class = self.waiters[waiter].class;
        self.counts[class] -= 1;
        self.tenants[tenant].held[class] -= 1;
        self.tenant_changed(tenant);
        self.waiters.remove(waiter);
    }
}
