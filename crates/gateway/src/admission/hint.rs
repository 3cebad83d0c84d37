//! Which gates may be contended, readable without the scheduler's lock.

use std::sync::atomic::{AtomicU32, Ordering};

use fairlane_fair_queue::GateKey;

const CELLS: usize = 1_024;

/// Counts contended gates by the low bits of their keys.
///
/// A cell at zero proves that none of its gates is contended, so that a request whose buckets nobody waits for never
/// touches the scheduler; a cell above zero only says that it is worth asking.
#[derive(Debug)]
pub(super) struct ContentionHint {
    cells: Box<[AtomicU32]>,
}

impl ContentionHint {
    pub(super) fn new() -> Self {
        Self { cells: (0..CELLS).map(|_| AtomicU32::new(0)).collect() }
    }

    /// Whether somebody may be waiting at the gate.
    pub(super) fn may_be_contended(&self, gate: GateKey) -> bool {
        self.cell(gate).is_some_and(|cell| cell.load(Ordering::Acquire) > 0)
    }

    /// A gate got its first waiter, or lost its last one. Called under the scheduler's lock, in order.
    pub(super) fn turned(&self, gate: GateKey, contended: bool) {
        let Some(cell) = self.cell(gate) else { return };
        if contended {
            cell.fetch_add(1, Ordering::AcqRel);
        } else {
            cell.fetch_sub(1, Ordering::AcqRel);
        }
    }

    fn cell(&self, gate: GateKey) -> Option<&AtomicU32> {
        // The key is a keyed digest: its low bits are as good as any hash of it. The modulus makes the cast exact.
        let index = gate.0 % (CELLS as u128);
        self.cells.get(usize::try_from(index).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_contended_while_any_of_its_gates_is() {
        let hint = ContentionHint::new();
        let (gate, twin, other) = (GateKey(5), GateKey(5 + CELLS as u128), GateKey(6));
        hint.turned(gate, true);
        hint.turned(twin, true);
        assert!(hint.may_be_contended(gate) && !hint.may_be_contended(other));
        hint.turned(gate, false);
        assert!(hint.may_be_contended(gate), "its twin still is");
        hint.turned(twin, false);
        assert!(!hint.may_be_contended(gate));
    }
}
