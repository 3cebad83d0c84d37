//! The lanes of a gate that have somebody waiting, ordered so that the next turn is found quickly.
//!
//! Among lanes of one weight the one with the largest lag is the one with the least service, whatever the
//! virtual time: their order never changes while they wait. So each distinct weight has an ordered set of
//! its own, and a pick compares only the first lane of each: O(K + log n) for K distinct weights.

use std::cmp::Ordering;

use crate::run::{Entry, Run, Upcoming};
use crate::slab::NONE;
use crate::virtual_time::VirtualTime;

/// The first lane of one weight; without a lane, `NONE`, if there is none.
#[derive(Clone, Copy, Debug)]
struct Head {
    served: i128,
    order: u64,
    lane: u32,
    weight: u32,
}

#[derive(Debug, Default)]
pub(crate) struct Ready {
    /// By weight. One that has become empty stays, since it is likely to be needed again, until too many
    /// of them are empty. These lie close together: they are all that a pick reads.
    heads: Vec<Head>,
    /// Of each weight, those behind the head.
    rests: Vec<Run>,
    empty: usize,
    total: u64,
}

/// Empty classes that are not worth clearing away.
const SPARE_CLASSES: usize = 8;

// === impl Head ===

impl Head {
    const fn new(weight: u32, Entry { served, order, lane }: Entry) -> Self {
        Self { served, order, lane, weight }
    }

    const fn entry(&self) -> Entry {
        Entry { served: self.served, order: self.order, lane: self.lane }
    }

    const fn is_empty(&self) -> bool {
        self.lane == NONE
    }
}

// === impl Ready ===

impl Ready {
    /// The sum of the weights.
    pub(crate) const fn total(&self) -> u64 {
        self.total
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.total == 0
    }

    fn find(&self, weight: u32) -> Result<usize, usize> {
        self.heads.binary_search_by_key(&weight, |head| head.weight)
    }

    pub(crate) fn insert(&mut self, weight: u32, entry: Entry) {
        self.total += u64::from(weight);
        let at = match self.find(weight) {
            Ok(at) => at,
            Err(at) => {
                self.heads.insert(at, Head::new(weight, entry));
                self.rests.insert(at, Run::default());
                return;
            }
        };
        let head = &mut self.heads[at];
        if head.is_empty() {
            *head = Head::new(weight, entry);
            self.empty -= 1;
        } else if entry < head.entry() {
            self.rests[at].push_front(head.entry());
            *head = Head::new(weight, entry);
        } else {
            self.rests[at].insert(entry);
        }
    }

    /// Takes out a lane that is there.
    pub(crate) fn remove(&mut self, weight: u32, entry: &Entry) {
        let Ok(at) = self.find(weight) else { return };
        self.total -= u64::from(weight);
        let head = &mut self.heads[at];
        if head.lane != entry.lane {
            self.rests[at].remove(entry);
        } else if let Some(next) = self.rests[at].pop_first() {
            *head = Head::new(weight, next);
        } else {
            head.lane = NONE;
            self.empty += 1;
            self.clear_away();
        }
    }

    /// Gives a lane that is there more or less service.
    pub(crate) fn retally(&mut self, weight: u32, entry: &Entry, served: i128) {
        self.remove(weight, entry);
        self.insert(weight, Entry { served, ..*entry });
    }

    /// The first lane of a weight, and those that will be.
    pub(crate) fn upcoming(&self, weight: u32) -> Option<(u32, Upcoming)> {
        let at = self.find(weight).ok()?;
        Some((self.heads[at].lane, self.rests[at].upcoming()))
    }

    fn clear_away(&mut self) {
        if self.empty > SPARE_CLASSES && self.empty * 2 > self.heads.len() {
            let mut heads = self.heads.iter();
            self.rests.retain(|_| heads.next().is_some_and(|head| !head.is_empty()));
            self.heads.retain(|head| !head.is_empty());
            self.empty = 0;
        }
    }

    /// The lane whose lag will be largest at virtual time `then`; of equals the one that came first.
    pub(crate) fn pick(&self, then: &VirtualTime) -> Option<u32> {
        let mut best: Option<&Head> = None;
        let mut best_lag = i128::MIN;
        for head in self.heads.iter().filter(|head| !head.is_empty()) {
            // Most are out of the question even with the largest remainder: no division for those.
            let at_most = then.due_at_most(head.weight).wrapping_sub(head.served);
            if at_most < best_lag {
                continue;
            }
            // Whole steps of the lag, rounded down.
            let lag = then.due(head.weight).wrapping_sub(head.served);
            let is_better = best.is_none_or(|best| match lag.cmp(&best_lag) {
                Ordering::Less => false,
                Ordering::Greater => true,
                // A tie to the step: the rests decide, and then the arrival.
                Ordering::Equal => match then.due_rest(head.weight).cmp(&then.due_rest(best.weight)) {
                    Ordering::Less => false,
                    Ordering::Greater => true,
                    Ordering::Equal => head.order < best.order,
                },
            });
            if is_better {
                (best, best_lag) = (Some(head), lag);
            }
        }
        best.map(|head| head.lane)
    }
}
