use std::collections::BTreeSet;

use crate::Timestamp;
use crate::list::List;
use crate::slab::{NONE, Slab};
use crate::waiter::{BY_DEADLINE, Waiter};

/// How far from the end a deadline is inserted before the tree is asked.
const NEAR: u32 = 8;

/// All held requests that wait, by deadline.
///
/// Requests get much the same budget, so most deadlines come in order: those stand in a list, appended (or
/// nearly) in constant time. What is far out of order goes to a tree, so that no order of arrivals costs
/// more than O(log n).
#[derive(Debug)]
pub(crate) struct Deadlines {
    list: List<BY_DEADLINE>,
    tree: BTreeSet<(Timestamp, u32)>,
}

// === impl Deadlines ===

impl Deadlines {
    pub(crate) const fn new() -> Self {
        Self { list: List::new(), tree: BTreeSet::new() }
    }

    pub(crate) fn insert(&mut self, waiters: &mut Slab<Waiter>, place: u32) {
        let deadline = waiters[place].deadline;
        let mut anchor = self.list.tail;
        for _ in 0..NEAR {
            if anchor == NONE || waiters[anchor].deadline <= deadline {
                break;
            }
            anchor = waiters[anchor].by_deadline.previous;
        }
        let in_order = anchor == NONE || waiters[anchor].deadline <= deadline;
        waiters[place].deadline_in_tree = !in_order;
        if in_order {
            self.list.insert_after(waiters, anchor, place);
        } else {
            self.tree.insert((deadline, place));
        }
    }

    pub(crate) fn remove(&mut self, waiters: &mut Slab<Waiter>, place: u32) {
        if waiters[place].deadline_in_tree {
            self.tree.remove(&(waiters[place].deadline, place));
        } else {
            self.list.remove(waiters, place);
        }
    }

    /// The next deadline, and whose it is.
    pub(crate) fn first(&self, waiters: &Slab<Waiter>) -> Option<(Timestamp, u32)> {
        let listed = (self.list.head != NONE).then(|| (waiters[self.list.head].deadline, self.list.head));
        match (listed, self.tree.first().copied()) {
            (Some(listed), Some(treed)) => Some(if treed.0 < listed.0 { treed } else { listed }),
            (listed, treed) => listed.or(treed),
        }
    }
}
