//! What waits at a gate, summed up for the estimate.
//!
//! The estimate needs, over all lanes, the sum of min(what the lane will have to be served, what it can get
//! meanwhile). Lane by lane that would cost O(n). But what decides which of the two is the lesser is the
//! lane's backlog per unit of weight, so lanes whose backlog per weight is alike, to a factor of two, are
//! added up beforehand: a few dozen groups at most, whatever the number of tenants and of weights.

use crate::Timestamp;
use crate::lane::Lane;
use crate::window::Window;

/// Weights are at most 2^20: with so many bits in front of the point no backlog per weight is below one.
const POINT: u32 = 20;

/// Lanes of similar backlog per weight.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Group {
    size: u32,
    pub(crate) lanes: u64,
    pub(crate) weight: u64,
    /// Cost waiting.
    pub(crate) queued: u64,
    /// Sum of the tallies of those that are ready, in steps.
    pub(crate) served: i128,
    /// Sum of their weights.
    pub(crate) ready_weight: u64,
    /// Cost that has come in of late.
    pub(crate) arrivals: Window,
}

#[derive(Debug, Default)]
pub(crate) struct Backlog {
    groups: Vec<Group>,
}

fn size(lane: &Lane) -> u32 {
    let per_weight = (u128::from(lane.queued) << POINT) / u128::from(lane.weight.max(1));
    per_weight.checked_ilog2().map_or(0, |log| log + 1)
}

// === impl Group ===

impl Group {
    fn add(&mut self, lane: &Lane, now: Timestamp) {
        self.lanes += 1;
        self.weight += u64::from(lane.weight);
        self.queued += lane.queued;
        if lane.is_ready() {
            self.served = self.served.wrapping_add(lane.tally);
            self.ready_weight += u64::from(lane.weight);
        }
        self.arrivals.include(lane.arrivals, now);
    }

    fn take_out(&mut self, lane: &Lane, now: Timestamp) {
        self.lanes -= 1;
        self.weight -= u64::from(lane.weight);
        self.queued -= lane.queued;
        if lane.is_ready() {
            self.served = self.served.wrapping_sub(lane.tally);
            self.ready_weight -= u64::from(lane.weight);
        }
        self.arrivals.exclude(lane.arrivals, now);
    }
}

// === impl Backlog ===

impl Backlog {
    fn group(&mut self, size: u32) -> &mut Group {
        let at = self.groups.iter().position(|group| group.size == size).unwrap_or_else(|| {
            self.groups.push(Group { size, ..Group::default() });
            self.groups.len() - 1
        });
        &mut self.groups[at]
    }

    /// Counts a lane in. Whatever of it is summed up here must not change until it is counted out.
    pub(crate) fn count_in(&mut self, lane: &Lane, now: Timestamp) {
        self.group(size(lane)).add(lane, now);
    }

    pub(crate) fn count_out(&mut self, lane: &Lane, now: Timestamp) {
        self.group(size(lane)).take_out(lane, now);
    }

    /// The groups that have lanes, with `own` left out.
    pub(crate) fn others(&self, own: Option<&Lane>, now: Timestamp) -> impl Iterator<Item = Group> {
        let own = own.map(|lane| (size(lane), lane));
        self.groups.iter().filter(|group| group.lanes > 0).map(move |group| {
            let mut group = *group;
            if let Some((size, lane)) = own
                && size == group.size
            {
                group.take_out(lane, now);
            }
            group
        })
    }
}
