//! Where a request has to wait, and how long.

use std::cmp::Ordering;
use std::time::Duration;

use super::FairQueue;
use crate::Timestamp;
use crate::estimate::{self, Ask};
use crate::mirror::Opening;
use crate::slab::NONE;
use crate::waiter::{Waiter, Want, Wants};

/// What is asked for, once the names have been looked up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate<'a> {
    pub(super) wants: &'a Wants,
    pub(super) tenant: Option<u32>,
    pub(super) weight: u32,
    /// The limiter has just told what its buckets hold.
    pub(super) is_told: bool,
}

impl FairQueue {
    /// A request that is held already.
    pub(super) fn candidate(&self, waiter: u32, tenant: u32) -> Candidate<'_> {
        let Waiter { wants, .. } = &self.waiters[waiter];
        Candidate { wants, tenant: Some(tenant), weight: self.tenants[tenant].weight, is_told: false }
    }

    /// The gate at which a request has to wait: of those that are contended or have no room for it, the one
    /// where it would wait longest. The first one that it could wait at if there are none.
    pub(super) fn longest_wait(&self, candidate: &Candidate<'_>, now: Timestamp) -> u32 {
        let wants = candidate.wants.as_slice();
        let barred = wants.iter().filter(|want| self.is_barred(candidate, want, now));
        if let Some(longest) = self.longest_of(candidate, barred, now) {
            return longest;
        }
        let can_wait = |want: &&Want| self.is_held(self.gates[want.gate].class);
        wants.iter().find(can_wait).or(wants.first()).map_or(NONE, |want| want.gate)
    }

    fn is_barred(&self, candidate: &Candidate<'_>, want: &Want, now: Timestamp) -> bool {
        let gate = &self.gates[want.gate];
        let lacks_room = || gate.mirror.opening(want.cost, now) != Opening::Open;
        gate.is_contended() || (self.binds(candidate, want) && lacks_room())
    }

    /// Of these gates the one where a request waits next: one that counts requests before any that counts tokens, and
    /// among its like the one with the longest wait.
    pub(super) fn longest_of<'a>(
        &self,
        candidate: &Candidate<'_>,
        gates: impl Iterator<Item = &'a Want>,
        now: Timestamp,
    ) -> Option<u32> {
        let mut longest: Option<(u32, Option<Duration>)> = None;
        for gate in gates.map(|want| want.gate) {
            let Some((other, known)) = longest else {
                longest = Some((gate, None));
                continue;
            };
            longest = match self.gates[gate].class.cmp(&self.gates[other].class) {
                Ordering::Less => Some((gate, None)),
                Ordering::Greater => longest,
                Ordering::Equal => {
                    // An only one needs no estimate.
                    let known = known.unwrap_or_else(|| self.wait_at(candidate, other, now));
                    let wait = self.wait_at(candidate, gate, now);
                    Some(if wait > known { (gate, Some(wait)) } else { (other, Some(known)) })
                }
            };
        }
        longest.map(|(gate, _)| gate)
    }

    /// How long a request that waits at `here` would wait, by itself, at gates of the other class, which it comes to only
    /// after this one.
    pub(super) fn wait_afterwards(&self, candidate: &Candidate<'_>, here: u32, now: Timestamp) -> Duration {
        let class = self.gates[here].class;
        let is_other = |want: &&Want| self.gates[want.gate].class != class;
        let others = candidate.wants.as_slice().iter().filter(is_other);
        let barred = others.filter(|want| self.is_barred(candidate, want, now));
        barred.map(|want| self.wait_at(candidate, want.gate, now)).max().unwrap_or_default()
    }

    /// How long a request would wait at a gate, behind what its tenant has there.
    pub(super) fn wait_at(&self, candidate: &Candidate<'_>, gate: u32, now: Timestamp) -> Duration {
        let lane = self.lane_of(candidate, gate).map(|lane| &self.lanes[lane]);
        let ask = Ask {
            lane,
            weight: candidate.weight,
            ahead: lane.map_or(0, |lane| lane.queued),
            cost: candidate.wants.at(gate).map_or(1, |want| want.cost),
        };
        estimate::wait(&self.gates[gate], &ask, now)
    }

    pub(super) fn lane_of(&self, candidate: &Candidate<'_>, gate: u32) -> Option<u32> {
        candidate.tenant.and_then(|tenant| self.find_lane(tenant, gate))
    }

    /// The earliest moment at which all its buckets can have served it, as if no other tenant waited: behind
    /// its own lane at `gate`, and alone at the others.
    pub(super) fn earliest(&self, candidate: &Candidate<'_>, gate: Option<u32>, now: Timestamp) -> Timestamp {
        let binding = candidate.wants.as_slice().iter().filter(|want| self.binds(candidate, want));
        let moment = |want: &Want| {
            let lane = if Some(want.gate) == gate { self.lane_of(candidate, want.gate) } else { None };
            let ahead = lane.map_or(0, |lane| self.lanes[lane].queued);
            self.gates[want.gate].mirror.earliest(ahead, want.cost, now).moment(now)
        };
        binding.map(moment).max().unwrap_or(now)
    }
}
