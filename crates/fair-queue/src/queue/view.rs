use std::time::Duration;

use super::FairQueue;
use crate::estimate::{self, Ask};
use crate::slab::NONE;
use crate::{Class, GateSnapshot, LaneSnapshot, Snapshot, Ticket, Timestamp, Weight};

impl FairQueue {
    pub(super) fn wait_of(&self, ticket: Ticket, now: Timestamp) -> Option<Duration> {
        let place = self.find_waiter(ticket)?;
        let waiter = &self.waiters[place];
        if waiter.is_granted() {
            return Some(Duration::ZERO);
        }
        let lane = &self.lanes[waiter.lane];
        let (_, _, ahead) = self.seat(place, waiter.lane);
        let cost = waiter.wants.at(lane.gate).map_or(1, |want| want.cost);
        let ask = Ask { lane: Some(lane), weight: lane.weight, ahead, cost };
        let wait = estimate::wait(&self.gates[lane.gate], &ask, now);
        Some(self.whole_wait(place, wait, now))
    }

    pub(super) fn view(&self, now: Timestamp) -> Snapshot {
        let mut lanes: Vec<Vec<LaneSnapshot>> = self.gates.iter().map(|_| Vec::new()).collect();
        for lane in self.lanes.iter().filter(|lane| lane.tenant != NONE) {
            let tenant = &self.tenants[lane.tenant];
            let admitted = self.gates[lane.gate].admitted.counted(now).max(1);
            let head = self.waiters.get(lane.waiters.head);
            lanes[lane.gate as usize].push(LaneSnapshot {
                tenant: tenant.key,
                weight: Weight::new(lane.weight).unwrap_or_default(),
                waiting: lane.waiting as usize,
                in_flight: lane.in_flight as usize,
                recent_share: lane.admitted.counted(now) as f64 / admitted as f64,
                oldest_wait: head.map(|head| now.saturating_duration_since(head.since)),
            });
        }
        // An empty place has neither demand nor lane, and nothing to tell.
        let told = self.gates.iter().zip(lanes).filter(|(gate, lanes)| gate.demands > 0 || !lanes.is_empty());
        let mut gates: Vec<GateSnapshot> = told
            .map(|(gate, mut lanes)| {
                lanes.sort_unstable_by_key(|lane| lane.tenant);
                GateSnapshot {
                    gate: gate.key,
                    class: gate.class,
                    waiting: gate.waiting,
                    in_flight: gate.in_flight,
                    room: gate.mirror.room(now),
                    lanes,
                }
            })
            .collect();
        gates.sort_unstable_by_key(|gate| gate.gate);
        Snapshot {
            gates,
            held: self.held(),
            queued: self.held_in(Class::Requests),
            deferred: self.held_in(Class::Tokens),
            in_flight: self.in_flight as usize,
            tenants: self.tenants(),
        }
    }
}
