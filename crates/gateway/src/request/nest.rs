//! Which brackets are open, in a bit each.

/// Open brackets, each that of a list or of an object. Takes memory from the 65th on: a byte for eight.
#[derive(Debug, Default)]
pub(super) struct Nest {
    /// Of the last 64 at most, the last in the lowest bit; those below in words of 64.
    bits: u64,
    below: Vec<u64>,
    /// How many of `bits` count.
    depth: u32,
}

impl Nest {
    #[inline]
    pub(super) fn push(&mut self, is_list: bool) {
        if self.depth == u64::BITS {
            self.below.push(self.bits);
            self.depth = 0;
        }
        self.bits = self.bits << 1 | u64::from(is_list);
        self.depth += 1;
    }

    /// Whether the last is that of a list, if any is open.
    #[inline]
    pub(super) const fn top(&self) -> Option<bool> {
        if self.depth == 0 { None } else { Some(self.bits & 1 == 1) }
    }

    #[inline]
    pub(super) fn pop(&mut self) {
        self.bits >>= 1;
        self.depth = self.depth.saturating_sub(1);
        if self.depth == 0
            && let Some(bits) = self.below.pop()
        {
            (self.bits, self.depth) = (bits, u64::BITS);
        }
    }
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
