//! Which brackets are open, in a bit each.

/// Open brackets, each that of a list or of an object. Takes memory from the 64th on: a byte for eight.
#[derive(Debug)]
pub(super) struct Nest {
    /// Of the last 63 at most, the last in the lowest bit; the highest bit that is set stands for none.
    bits: u64,
    /// Those below, in words of 63.
    below: Vec<u64>,
}

const FULL: u64 = 1 << (u64::BITS - 1);

impl Default for Nest {
    fn default() -> Self {
        Self { bits: 1, below: Vec::new() }
    }
}

impl Nest {
    #[inline]
    pub(super) fn push(&mut self, is_list: bool) {
        if self.bits >= FULL {
            self.bits = spill(&mut self.below, self.bits);
        }
        self.bits = self.bits << 1 | u64::from(is_list);
    }

    /// Whether the last is that of a list, if any is open.
    #[inline]
    pub(super) const fn top(&self) -> Option<bool> {
        if self.bits == 1 { None } else { Some(self.bits & 1 == 1) }
    }

    #[inline]
    pub(super) fn pop(&mut self) {
        self.bits >>= 1;
        if self.bits <= 1 {
            self.bits = refill(&mut self.below);
        }
    }
}

/// Puts `bits` below, and gives what stands for none on top of them.
#[cold]
fn spill(below: &mut Vec<u64>, bits: u64) -> u64 {
    below.push(bits);
    1
}

/// Takes up the latest bits below.
#[cold]
fn refill(below: &mut Vec<u64>) -> u64 {
    below.pop().unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_stack(steps in prop::collection::vec(prop_oneof![2 => any::<bool>().prop_map(Some), 1 => Just(None)], 0..600)) {
            let (mut nest, mut stack) = (Nest::default(), Vec::new());
            for step in steps {
                if let Some(is_list) = step {
                    nest.push(is_list);
                    stack.push(is_list);
                } else {
                    nest.pop();
                    stack.pop();
                }
                prop_assert_eq!(nest.top(), stack.last().copied());
            }
        }
    }
}
