//! Where a request has to wait, and how long.

use std::time::Duration;

use super::FairQueue;
use crate::estimate::{self, Ask};
use crate::lane::Lane;
use crate::mirror::Opening;
use crate::slab::NONE;
use crate::waiter::{Waiter, Want, Wants};
use crate::{Class, Timestamp};

/// What is asked for, once the names have been looked up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate<'a> {
    pub(super) wants: &'a Wants,
    pub(super) tenant: Option<u32>,
    pub(super) weight: u32,
    /// The limiter has just told what its buckets hold.
    pub(super) is_told: bool,
}

/// A gate that a request cannot just pass.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bar {
    pub(super) gate: u32,
    pub(super) class: Class,
    /// It has no room for the request; otherwise others wait there.
    pub(super) lacks_room: bool,
}

impl FairQueue {
    /// A request that is held already.
    pub(super) fn candidate(&self, waiter: u32, tenant: u32) -> Candidate<'_> {
        let Waiter { wants, .. } = &self.waiters[waiter];
        Candidate { wants, tenant: Some(tenant), weight: self.tenants[tenant].weight, is_told: false }
    }

    /// The gate at which a request has to wait, of those that are contended or have no room for it. The first one that it
    /// could wait at if there are none.
    pub(super) fn longest_wait(&self, candidate: &Candidate<'_>, now: Timestamp) -> u32 {
        let wants = candidate.wants.as_slice();
        if let [only] = wants {
            return only.gate;
        }
        let bars = wants.iter().filter_map(|want| self.bar(candidate, want, now));
        self.first_to_wait_at(candidate, bars, now).unwrap_or_else(|| {
            let can_wait = |want: &&Want| self.is_held(self.gates[want.gate].class);
            wants.iter().find(can_wait).or(wants.first()).map_or(NONE, |want| want.gate)
        })
    }

    /// How a gate bars a request, if it does.
    fn bar(&self, candidate: &Candidate<'_>, want: &Want, now: Timestamp) -> Option<Bar> {
        let gate = &self.gates[want.gate];
        let lacks_room = self.binds(candidate, want) && gate.mirror.opening(want.cost, now) != Opening::Open;
        let bar = Bar { gate: want.gate, class: gate.class, lacks_room };
        (lacks_room || gate.is_contended()).then_some(bar)
    }

    /// The gate at which a request waits first, of those that bar it: where requests are counted before where tokens
    /// are, though for want of room rather than for those who wait there; and among its like where it waits longest.
    pub(super) fn first_to_wait_at(
        &self,
        candidate: &Candidate<'_>,
        bars: impl Iterator<Item = Bar> + Clone,
        now: Timestamp,
    ) -> Option<u32> {
        let lacking = bars.clone().filter(|bar| bar.lacks_room).map(|bar| bar.class).min();
        let class = lacking.or_else(|| bars.clone().map(|bar| bar.class).min())?;
        let mut bars = bars.filter(|bar| bar.class == class);
        let mut longest = (bars.next()?.gate, None);
        for bar in bars {
            // An only one needs no estimate.
            let known = longest.1.unwrap_or_else(|| self.wait_at(candidate, longest.0, now));
            let wait = self.wait_at(candidate, bar.gate, now);
            longest = if wait > known { (bar.gate, Some(wait)) } else { (longest.0, Some(known)) };
        }
        Some(longest.0)
    }

    /// How long a waiter will wait in all, if it is for so long in the lane where it is: perhaps longer, at a gate of the
    /// other class, which it comes to only after this one.
    pub(super) fn whole_wait(&self, waiter: u32, here: Duration, now: Timestamp) -> Duration {
        let Waiter { wants, lane, .. } = &self.waiters[waiter];
        let wants = wants.as_slice();
        // Most have but one gate.
        if wants.len() == 1 {
            return here;
        }
        let Lane { tenant, gate, .. } = self.lanes[*lane];
        let (candidate, class) = (self.candidate(waiter, tenant), self.gates[gate].class);
        let others = wants.iter().filter(|want| self.gates[want.gate].class != class);
        let bars = others.filter_map(|want| self.bar(&candidate, want, now));
        bars.map(|bar| self.wait_at(&candidate, bar.gate, now)).max().map_or(here, |wait| wait.max(here))
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
