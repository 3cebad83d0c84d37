//! Who will be asked for soon is fetched from memory in good time.
//!
//! With many tenants hardly anything that a turn reads is in a cache, and each read leads to the next: from the lane to
//! its first request, and from there to that one's neighbours. One after the other, at 60 to 260 ns each, these would be
//! most of what a turn costs. So at each grant one such step is made for every one of the lanes that come next: by its
//! turn, each has been through them all, and nobody has waited for memory.

use super::FairQueue;
use crate::run::Upcoming;

impl FairQueue {
    /// A turn has been granted to a lane: those of its weight have moved up by one. Decides nothing.
    pub(super) fn look_ahead(&self, gate: u32, lane: u32) {
        let weight = self.lanes[lane].weight;
        let Some((first, Upcoming { next, later })) = self.gates[gate].upcoming(weight) else { return };
        for lane in later {
            self.lanes.prefetch(lane);
        }
        for lane in next.into_iter().filter_map(|lane| self.lanes.get(lane)) {
            self.tenants.prefetch(lane.tenant);
            self.waiters.prefetch(lane.waiters.head);
        }
        if let Some(lane) = self.lanes.get(first)
            && let Some(waiter) = self.waiters.get(lane.waiters.head)
        {
            self.waiters.prefetch(waiter.in_lane.next);
            self.waiters.prefetch(waiter.by_deadline.previous);
            self.waiters.prefetch(waiter.by_deadline.next);
        }
    }
}
