/// Finds a value's place in a slab by the hash of its key: open addressing, linear probing.
///
/// The standard map is no choice here: its order, and so its speed for a given input, is random. This one
/// is deterministic and nothing ever walks over it, so that its order decides nothing. It holds 32 bits of
/// the hash and the place; the key itself stays with the value, which a caller is about to touch anyway.
#[derive(Debug)]
pub(crate) struct PlaceIndex {
    /// A power of two of them, at most three in four in use: few enough to stay near the processor, and probes stay
    /// within a line of its cache.
    slots: Vec<Slot>,
    used: usize,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    hash: u32,
    place: u32,
}

const EMPTY: Slot = Slot { hash: 0, place: crate::slab::NONE };

impl Slot {
    const fn is_empty(self) -> bool {
        self.place == EMPTY.place
    }
}

/// Spreads a key of 128 bits over 32.
pub(crate) fn hash(key: u128) -> u32 {
    // Two rounds of multiply and fold (the constants are odd fractions of the golden ratio and of pi):
    // enough for digests, and for small counting numbers, which tests like.
    let bytes = key.to_le_bytes();
    let (low, high) = bytes.split_at(8);
    let word = |half: &[u8]| half.iter().rev().fold(0_u64, |word, &byte| (word << 8) | u64::from(byte));
    let mut mixed = word(low) ^ word(high).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(32);
    mixed = (mixed ^ (mixed >> 32)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0x2438_3F6A_8885_A309);
    (mixed >> 32) as u32
}

// === impl PlaceIndex ===

impl PlaceIndex {
    pub(crate) const fn new() -> Self {
        Self { slots: Vec::new(), used: 0 }
    }

    pub(crate) fn find(&self, hash: u32, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        let mask = self.slots.len().checked_sub(1)?;
        let mut at = hash as usize & mask;
        loop {
            let slot = self.slots[at];
            if slot.is_empty() {
                return None;
            }
            if slot.hash == hash && is_it(slot.place) {
                return Some(slot.place);
            }
            at = (at + 1) & mask;
        }
    }

    /// Adds a place that is not there yet.
    pub(crate) fn insert(&mut self, hash: u32, place: u32) {
        if (self.used + 1) * 4 > self.slots.len() * 3 {
            let wider = (self.slots.len() * 2).max(16);
            let slots = std::mem::replace(&mut self.slots, vec![EMPTY; wider]);
            for slot in slots.into_iter().filter(|slot| !slot.is_empty()) {
                self.put(slot);
            }
        }
        self.put(Slot { hash, place });
        self.used += 1;
    }

    fn put(&mut self, slot: Slot) {
        let mask = self.slots.len() - 1;
        let mut at = slot.hash as usize & mask;
        while !self.slots[at].is_empty() {
            at = (at + 1) & mask;
        }
        self.slots[at] = slot;
    }

    /// Takes a place out. Nothing happens if it is not there.
    pub(crate) fn remove(&mut self, hash: u32, place: u32) {
        let Some(mask) = self.slots.len().checked_sub(1) else { return };
        let mut hole = hash as usize & mask;
        while self.slots[hole].place != place {
            if self.slots[hole].is_empty() {
                return;
            }
            hole = (hole + 1) & mask;
        }
        self.used -= 1;
        // Those behind move up, unless that would put them in front of their home: no tombstones, so that
        // lookups stay as short after a long life as at its beginning.
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let slot = self.slots[at];
            if slot.is_empty() {
                break;
            }
            let home = slot.hash as usize & mask;
            if at.wrapping_sub(home) & mask >= at.wrapping_sub(hole) & mask {
                self.slots[hole] = slot;
                hole = at;
            }
        }
        self.slots[hole] = EMPTY;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn agrees_with_an_ordered_map() {
        // Few hash values on purpose: probes run into each other and around the end.
        let mut keys: Vec<Option<u32>> = vec![None; 512];
        let mut model = BTreeMap::new();
        let mut index = PlaceIndex::new();
        let mut state = 1_u32;
        for _ in 0..20_000 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let key = (state >> 8) % 400;
            let hash = (key % 37).wrapping_sub(20);
            let found = index.find(hash, |place| keys[place as usize] == Some(key));
            assert_eq!(found, model.get(&key).copied());
            if let Some(place) = found {
                index.remove(hash, place);
                keys[place as usize] = None;
                model.remove(&key);
            } else {
                let place = keys.iter().position(Option::is_none).unwrap();
                keys[place] = Some(key);
                let place = u32::try_from(place).unwrap();
                index.insert(hash, place);
                model.insert(key, place);
            }
        }
        assert!(index.slots.len() <= 1024);
    }

    #[test]
    fn counting_numbers_spread() {
        let mut seen = std::collections::BTreeSet::new();
        for key in 0..4096_u128 {
            seen.insert(hash(key) & 0xFFFF);
            seen.insert(hash(key << 64) & 0xFFFF);
        }
        assert!(seen.len() > 7500, "{} of 8191 keys fall apart in 16 bits", seen.len());
    }
}
