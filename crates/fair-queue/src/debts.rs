use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Entries that are struck off and not worth clearing away.
const SPARE: usize = 16;

/// An idle lane that is ahead of its due: the virtual time that catches up with it, lane, mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Debt {
    pub(crate) caught_up: i128,
    pub(crate) lane: u32,
    pub(crate) mark: u64,
}

/// The debts at a gate, in the order in which virtual time catches up with them.
///
/// One that is struck off before its time stays where it is: the lane no longer bears its mark. When most are of that
/// kind they are cleared away together, so that a lane that comes and goes a thousand times leaves a handful of
/// entries and not a thousand.
#[derive(Debug, Default)]
pub(crate) struct Debts {
    heap: BinaryHeap<Reverse<Debt>>,
    struck: usize,
}

// === impl Debts ===

impl Debts {
    pub(crate) fn push(&mut self, debt: Debt) {
        self.heap.push(Reverse(debt));
    }

    pub(crate) fn first(&self) -> Option<&Debt> {
        self.heap.peek().map(|Reverse(debt)| debt)
    }

    /// Takes out the first one, which `is_owed` or has been struck off already.
    pub(crate) fn pop(&mut self, is_owed: impl Fn(&Debt) -> bool) -> Option<Debt> {
        let Reverse(debt) = self.heap.pop()?;
        if is_owed(&debt) {
            return Some(debt);
        }
        self.struck = self.struck.saturating_sub(1);
        None
    }

    /// One that is still here has been struck off.
    pub(crate) fn strike(&mut self, is_owed: impl Fn(&Debt) -> bool) {
        self.struck += 1;
        if self.struck > SPARE + self.heap.len() / 2 {
            self.heap.retain(|Reverse(debt)| is_owed(debt));
            self.struck = 0;
        }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.heap.len()
    }
}
