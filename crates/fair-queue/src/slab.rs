use std::ops::{Index, IndexMut};

use prefetch_index::prefetch_index;

/// "No such place": the end of a list, an absent link.
pub(crate) const NONE: u32 = u32::MAX;

/// Values kept at fixed places, whose numbers are the links between them.
///
/// Places that have become free are used again, the last one first, so that a queue in a steady state
/// touches the same memory over and over and allocates nothing. What a removed value leaves behind is
/// `T::default()`; each type can tell by itself that such a place is empty.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    places: Vec<T>,
    free: Vec<u32>,
}

// === impl Slab ===

impl<T> Slab<T> {
    pub(crate) const fn new() -> Self {
        Self { places: Vec::new(), free: Vec::new() }
    }
}

impl<T: Default> Slab<T> {
    pub(crate) fn insert(&mut self, value: T) -> u32 {
        if let Some(place) = self.free.pop() {
            self[place] = value;
            return place;
        }
        // 2^32 - 1 places of a hundred bytes and more: memory ends long before the numbers do.
        let place = u32::try_from(self.places.len()).unwrap_or(NONE);
        self.places.push(value);
        place
    }

    pub(crate) fn remove(&mut self, place: u32) -> T {
        self.free.push(place);
        std::mem::take(&mut self[place])
    }

    pub(crate) fn get(&self, place: u32) -> Option<&T> {
        self.places.get(place as usize)
    }

    /// Has a value fetched from memory by the time it is read, and goes on meanwhile: its first line of the processor's
    /// cache and its last. The processor fetches lines in pairs, so that hardly one is left out. `NONE` fetches nothing.
    pub(crate) fn prefetch(&self, place: u32) {
        if place == NONE {
            return;
        }
        prefetch_index(&self.places, place as usize);
        prefetch_index(&self.places, place as usize + 1);
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// All places in order, the empty ones too.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.places.iter()
    }

    /// How many places there are, the empty ones too.
    pub(crate) fn places(&self) -> u32 {
        u32::try_from(self.places.len()).unwrap_or(NONE)
    }
}

impl<T> Index<u32> for Slab<T> {
    type Output = T;

    fn index(&self, place: u32) -> &T {
        &self.places[place as usize]
    }
}

impl<T> IndexMut<u32> for Slab<T> {
    fn index_mut(&mut self, place: u32) -> &mut T {
        &mut self.places[place as usize]
    }
}
