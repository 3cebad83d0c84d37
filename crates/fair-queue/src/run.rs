use std::collections::{BTreeSet, VecDeque};

use crate::slab::NONE;

/// A ready lane: service received, then who came first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Entry {
    pub(crate) served: i128,
    pub(crate) order: u64,
    pub(crate) lane: u32,
}

/// Lanes that will be the first of their weight before long, if nothing changes; `NONE` where there is none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Upcoming {
    pub(crate) next: [u32; 2],
    pub(crate) later: [u32; 2],
}

/// How far from the end of the row an entry is put in before the tree is asked.
const NEAR: usize = 8;
/// Gaps in the row that are not worth closing up.
const SPARE: usize = 16;

/// Ready lanes of one weight, in order.
///
/// A lane that stays goes from the front to the end, so most entries come in order and leave from the front: those
/// stand in a row, where both take constant time and touch nothing that lies far off. What comes far out of order goes
/// to a tree, so that no pattern costs more than O(log n). An entry that leaves from the middle of the row leaves a
/// gap, its lane being `NONE`; when half of the row is gaps it is closed up.
#[derive(Debug, Default)]
pub(crate) struct Run {
    /// Starts with no gap.
    row: VecDeque<Entry>,
    gaps: usize,
    /// The first out of order, kept out of the tree: whether its turn has come is asked often.
    stray: Option<Entry>,
    tree: BTreeSet<Entry>,
}

// === impl Run ===

impl Run {
    /// Adds an entry that comes before all others.
    pub(crate) fn push_front(&mut self, entry: Entry) {
        self.row.push_front(entry);
    }

    pub(crate) fn insert(&mut self, entry: Entry) {
        let behind = self.row.iter().rev().take(NEAR + 1).take_while(|other| entry < **other).count();
        if behind <= NEAR {
            self.row.insert(self.row.len() - behind, entry);
            return;
        }
        match &mut self.stray {
            None => self.stray = Some(entry),
            Some(first) => {
                let later = if entry < *first { std::mem::replace(first, entry) } else { entry };
                self.tree.insert(later);
            }
        }
    }

    /// Takes out an entry that is there.
    pub(crate) fn remove(&mut self, entry: &Entry) {
        // A gap stands where its entry would, and behind its like.
        let Ok(at) = self.row.binary_search(entry) else {
            self.remove_stray(entry);
            return;
        };
        self.row[at].lane = NONE;
        self.gaps += 1;
        if self.gaps > SPARE + self.row.len() / 2 {
            self.row.retain(|entry| entry.lane != NONE);
            self.gaps = 0;
        }
        self.drop_gaps();
    }

    pub(crate) fn pop_first(&mut self) -> Option<Entry> {
        if let Some(stray) = self.stray
            && self.row.front().is_none_or(|first| stray < *first)
        {
            self.stray = self.tree.pop_first();
            return Some(stray);
        }
        let first = self.row.pop_front();
        self.drop_gaps();
        first
    }

    /// Who comes next and who comes later, of the row and of those out of order.
    pub(crate) fn upcoming(&self) -> Upcoming {
        let lane = |entry: Option<&Entry>| entry.map_or(NONE, |entry| entry.lane);
        Upcoming {
            next: [lane(self.row.front()), lane(self.stray.as_ref())],
            later: [lane(self.row.get(2)), lane(self.tree.iter().nth(1))],
        }
    }

    fn remove_stray(&mut self, entry: &Entry) {
        if self.stray.as_ref() == Some(entry) {
            self.stray = self.tree.pop_first();
        } else {
            self.tree.remove(entry);
        }
    }

    /// The first in the row is never a gap.
    fn drop_gaps(&mut self) {
        while self.row.front().is_some_and(|entry| entry.lane == NONE) {
            self.row.pop_front();
            self.gaps -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against an ordered set, with entries that come and go in and out of order, and some again and again.
    #[test]
    fn agrees_with_an_ordered_set() {
        for (seed, spread) in [(1_u64, 1), (2, 10), (3, 100), (4, 1000)] {
            let (mut run, mut model) = (Run::default(), BTreeSet::new());
            let mut state = seed;
            let mut random = |below: u64| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 33) % below
            };
            let mut largest = 0;
            for turn in 0..20_000_u64 {
                let lane = u32::try_from(random(50)).unwrap();
                let served = i128::from(turn / 50 * 10 / spread + random(spread));
                let entry = Entry { served, order: u64::from(lane), lane };
                match random(4) {
                    0 if !model.is_empty() => {
                        let nth = usize::try_from(random(model.len() as u64)).unwrap();
                        let entry: Entry = *model.iter().nth(nth).unwrap();
                        run.remove(&entry);
                        model.remove(&entry);
                    }
                    1 => assert_eq!(run.pop_first(), model.pop_first(), "seed {seed}, turn {turn}"),
                    2 if model.first().is_none_or(|first| entry < *first) => {
                        run.push_front(entry);
                        model.insert(entry);
                    }
                    _ => {
                        if model.insert(entry) {
                            run.insert(entry);
                        }
                    }
                }
                largest = largest.max(model.len());
                assert!(run.row.len() <= 2 * (largest + SPARE) + 2, "{} for {largest}", run.row.len());
                assert_eq!(run.gaps, run.row.iter().filter(|entry| entry.lane == NONE).count());
            }
            while let Some(first) = model.pop_first() {
                assert_eq!(run.pop_first(), Some(first));
            }
            assert_eq!(run.pop_first(), None);
        }
    }
}
