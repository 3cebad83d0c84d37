use crate::slab::{NONE, Slab};

/// The neighbours of a value in one list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Links {
    pub(crate) previous: u32,
    pub(crate) next: u32,
}

impl Default for Links {
    fn default() -> Self {
        Self { previous: NONE, next: NONE }
    }
}

/// A value that can stand in the list called `L`: which of its links belong to it.
pub(crate) trait Linked<const L: usize> {
    fn links(&self) -> &Links;
    fn links_mut(&mut self) -> &mut Links;
}

/// A doubly linked list threaded through a slab: any member leaves in constant time, and none costs an
/// allocation. A value knows by other means whether it is a member.
#[derive(Clone, Copy, Debug)]
pub(crate) struct List<const L: usize> {
    pub(crate) head: u32,
    pub(crate) tail: u32,
}

impl<const L: usize> Default for List<L> {
    fn default() -> Self {
        Self::new()
    }
}

// === impl List ===

impl<const L: usize> List<L> {
    pub(crate) const fn new() -> Self {
        Self { head: NONE, tail: NONE }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.head == NONE
    }

    pub(crate) fn push_back<T: Default + Linked<L>>(&mut self, slab: &mut Slab<T>, place: u32) {
        self.insert_after(slab, self.tail, place);
    }

    /// Puts `place` behind `anchor`; first of all if that is `NONE`.
    pub(crate) fn insert_after<T: Default + Linked<L>>(
        &mut self,
        slab: &mut Slab<T>,
        anchor: u32,
        place: u32,
    ) {
        let next = if anchor == NONE { self.head } else { slab[anchor].links().next };
        *slab[place].links_mut() = Links { previous: anchor, next };
        if anchor == NONE {
            self.head = place;
        } else {
            slab[anchor].links_mut().next = place;
        }
        if next == NONE {
            self.tail = place;
        } else {
            slab[next].links_mut().previous = place;
        }
    }

    pub(crate) fn remove<T: Default + Linked<L>>(&mut self, slab: &mut Slab<T>, place: u32) {
        let Links { previous, next } = std::mem::take(slab[place].links_mut());
        if previous == NONE {
            self.head = next;
        } else {
            slab[previous].links_mut().next = next;
        }
        if next == NONE {
            self.tail = previous;
        } else {
            slab[next].links_mut().previous = previous;
        }
    }
}
