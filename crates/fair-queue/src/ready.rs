//! The lanes of a gate that have somebody waiting, ordered so that the next turn is found quickly.
//!
//! Among lanes of one weight the one with the largest lag is the one with the least service, whatever the
//! virtual time: their order never changes while they wait. So each distinct weight has an ordered set of
//! its own, and a pick compares only the first lane of each: O(K + log n) for K distinct weights.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use crate::virtual_time::VirtualTime;

/// A ready lane: service received, then who came first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Entry {
    pub(crate) served: i128,
    pub(crate) order: u64,
    pub(crate) lane: u32,
}

#[derive(Debug)]
struct Class {
    weight: u32,
    /// The first of its lanes, kept out of the set: a pick then reads nothing but this array.
    first: Option<Entry>,
    rest: BTreeSet<Entry>,
}

#[derive(Debug, Default)]
pub(crate) struct Ready {
    /// By weight. One that has become empty stays, since it is likely to be needed again, until too many
    /// of them are empty.
    classes: Vec<Class>,
    empty: usize,
    total: u64,
}

/// Empty classes that are not worth clearing away.
const SPARE_CLASSES: usize = 8;

// === impl Ready ===

impl Ready {
    /// The sum of the weights.
    pub(crate) const fn total(&self) -> u64 {
        self.total
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.total == 0
    }

    pub(crate) fn insert(&mut self, weight: u32, entry: Entry) {
        self.total += u64::from(weight);
        let class = match self.classes.binary_search_by_key(&weight, |class| class.weight) {
            Ok(at) => &mut self.classes[at],
            Err(at) => {
                self.classes.insert(at, Class { weight, first: Some(entry), rest: BTreeSet::new() });
                return;
            }
        };
        match class.first.as_mut() {
            None => {
                class.first = Some(entry);
                self.empty -= 1;
            }
            Some(first) if entry < *first => {
                let second = std::mem::replace(first, entry);
                class.rest.insert(second);
            }
            Some(_) => {
                class.rest.insert(entry);
            }
        }
    }

    /// Takes out a lane that is there.
    pub(crate) fn remove(&mut self, weight: u32, entry: &Entry) {
        let Ok(at) = self.classes.binary_search_by_key(&weight, |class| class.weight) else { return };
        self.total -= u64::from(weight);
        let class = &mut self.classes[at];
        if class.first.as_ref() != Some(entry) {
            class.rest.remove(entry);
            return;
        }
        class.first = class.rest.pop_first();
        if class.first.is_none() {
            self.empty += 1;
            if self.empty > SPARE_CLASSES && self.empty * 2 > self.classes.len() {
                self.classes.retain(|class| class.first.is_some());
                self.empty = 0;
            }
        }
    }

    /// The lane whose lag will be largest at virtual time `then`; of equals the one that came first.
    pub(crate) fn pick(&self, then: &VirtualTime) -> Option<u32> {
        let mut best: Option<(i128, u32, Entry)> = None;
        for class in &self.classes {
            let Some(first) = class.first else { continue };
            // Most are out of the question even with the largest remainder: no division for those.
            let at_least = then.due_at_least(class.weight).wrapping_sub(first.served);
            if let Some((best_lag, _, _)) = &best
                && at_least.wrapping_add(i128::from(class.weight)) < *best_lag
            {
                continue;
            }
            // Whole steps of the lag, rounded down.
            let lag = then.due(class.weight).wrapping_sub(first.served);
            let better = match &best {
                None => true,
                Some((best_lag, best_weight, best_first)) => match lag.cmp(best_lag) {
                    Ordering::Less => false,
                    Ordering::Greater => true,
                    // A tie to the step: the rests decide, and then the arrival.
                    Ordering::Equal => match then.due_rest(class.weight).cmp(&then.due_rest(*best_weight)) {
                        Ordering::Less => false,
                        Ordering::Greater => true,
                        Ordering::Equal => first.order < best_first.order,
                    },
                },
            };
            if better {
                best = Some((lag, class.weight, first));
            }
        }
        best.map(|(_, _, first)| first.lane)
    }
}
