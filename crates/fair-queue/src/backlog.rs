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
/// One group for what has no backlog, and one for each power of two that 64 bits of it can have per weight.
pub(crate) const MAX_GROUPS: usize = 1 + 64 + POINT as usize;

/// Lanes of similar backlog per weight.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Group {
    size: u8,
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

/// The number of binary digits of a lane's backlog per weight: its logarithm, without a division.
fn size(lane: &Lane) -> u8 {
    let Some(digits) = lane.queued.checked_ilog2() else { return 0 };
    let weight = lane.weight.max(1);
    let log = (digits + POINT).saturating_sub(weight.ilog2());
    // The backlog, in parts of 2^log, is the weight or more if the quotient reaches 2^log.
    let parts = if log < POINT { lane.queued << (POINT - log) } else { lane.queued >> (log - POINT) };
    u8::try_from(if parts < u64::from(weight) { log } else { log + 1 }).unwrap_or(u8::MAX)
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
    /// Counts a lane in. Whatever of it is summed up here must not change until it is counted out.
    pub(crate) fn count_in(&mut self, lane: &mut Lane, now: Timestamp) {
        let size = size(lane);
        let at = self.groups.iter().position(|group| group.size == size).unwrap_or_else(|| {
            self.groups.push(Group { size, ..Group::default() });
            self.groups.len() - 1
        });
        self.groups[at].add(lane, now);
        // There is never more than one group for each size.
        lane.group = u8::try_from(at).unwrap_or(u8::MAX);
    }

    pub(crate) fn count_out(&mut self, lane: &Lane, now: Timestamp) {
        self.groups[usize::from(lane.group)].take_out(lane, now);
    }

    /// The groups that have lanes, with `own` left out.
    pub(crate) fn others(&self, own: Option<&Lane>, now: Timestamp) -> impl Iterator<Item = Group> {
        let with_lanes = self.groups.iter().enumerate().filter(|(_, group)| group.lanes > 0);
        with_lanes.map(move |(at, group)| {
            let mut group = *group;
            if let Some(lane) = own
                && at == usize::from(lane.group)
            {
                group.take_out(lane, now);
            }
            group
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_the_digits_of_the_quotient() {
        for queued in [0, 1, 2, 3, 7, 8, 1000, (1 << 40) - 1, 1 << 40, u64::MAX] {
            for weight in [1, 2, 3, 5, 100, 999_999, 1_000_000] {
                let lane = Lane { queued, weight, ..Lane::default() };
                let quotient = (u128::from(queued) << POINT) / u128::from(weight);
                let digits = u128::BITS - quotient.leading_zeros();
                assert_eq!(u32::from(size(&lane)), digits, "{queued} / {weight}");
                assert!(usize::from(size(&lane)) < MAX_GROUPS);
            }
        }
    }
}
