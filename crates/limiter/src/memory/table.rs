//! A hash table of buckets in which a search reads one run of neighbouring cache lines and nothing else.
//!
//! Open addressing with Robin Hood displacement (Celis, Larson and Munro 1985) and deletion by shifting back. A table
//! with metadata apart from its entries, as most have today, waits for memory twice in a row when it is far larger
//! than the caches. It also leaves marks behind when entries are removed, which in a table that is always nearly full
//! and always changing means to rebuild it again and again; here there are none.

use super::hash::KeyHasher;
use crate::bucket::Bucket;
use crate::key::{BucketKey, Dimension, Pin};
use crate::{Quota, Timestamp};

/// Positions of the smallest table that holds anything.
const SMALLEST: usize = 8;

/// Below so many positions a table is at most half full: that costs no memory worth speaking of, and a search nearly
/// always ends where it began, which the processor can guess.
const ROOMY: usize = 512;

/// One bucket in the map: exactly a cache line.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(super) struct Entry {
    digest: [u64; 2],
    pub(super) bucket: Bucket,
    /// Set where the bucket lives in a slot of its own. Such an entry is never forgotten.
    pub(super) pin: Option<Pin>,
    /// How far from its home the entry is, plus one; zero where there is none.
    distance: u16,
    dimension: Dimension,
}

/// The table. Positions are void after an insertion or a removal.
#[derive(Debug, Default)]
pub(super) struct Table {
    entries: Vec<Entry>,
    count: usize,
}

impl Entry {
    pub(super) const fn new(key: &BucketKey, bucket: Bucket) -> Self {
        Self { digest: key.words(), bucket, dimension: key.dimension(), pin: None, distance: 0 }
    }

    /// What stands in the map for a bucket that lives in a slot.
    pub(super) const fn forwarding(key: &BucketKey, pin: Pin) -> Self {
        Self { pin: Some(pin), ..Self::new(key, Bucket::full(Quota::LEAST, Timestamp::ZERO)) }
    }

    #[inline]
    pub(super) fn is(&self, key: &BucketKey) -> bool {
        self.digest == key.words() && self.dimension == key.dimension()
    }

    fn hash(&self, hasher: &KeyHasher) -> u64 {
        hasher.hash_parts((self.digest, self.dimension))
    }
}

impl Table {
    /// An empty table with this many positions.
    fn with_positions(positions: usize) -> Self {
        let none =
            Entry::new(&BucketKey::new(Dimension::new(0), 0), Bucket::full(Quota::LEAST, Timestamp::ZERO));
        Self { entries: vec![none; positions], count: 0 }
    }

    /// The position of a key's entry.
    #[inline]
    pub(super) fn find(&self, hash: u64, key: &BucketKey) -> Option<usize> {
        let mut position = home(hash, self.entries.len());
        let mut distance = 1;
        loop {
            let entry = self.entries.get(position)?;
            // An entry nearer to its home than the key would be had to make room for the key.
            if entry.distance < distance {
                return None;
            }
            if entry.is(key) {
                return Some(position);
            }
            distance += 1;
            position = next(position, self.entries.len());
        }
    }

    /// Reads where a search with this hash will begin, and nothing more: how far it has to go cannot be guessed, so that
    /// the processor waits for one search to end before it begins another. What was touched before is there by then.
    #[inline]
    pub(super) fn touch(&self, hash: u64) -> u16 {
        let home = home(hash, self.entries.len());
        let read = |position| self.entries.get(position).map_or(0, |entry: &Entry| entry.distance);
        read(home) ^ read(home + 1) ^ read(home + 2)
    }

    /// The entry at a position, which there is not at all of them.
    #[inline]
    pub(super) fn get(&self, position: usize) -> Option<&Entry> {
        self.entries.get(position).filter(|entry| entry.distance > 0)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, position: usize) -> Option<&mut Entry> {
        self.entries.get_mut(position).filter(|entry| entry.distance > 0)
    }

    /// Adds an entry that is not there. Grows when too many positions are taken, by turns by a half and by a third, so
    /// that every power of two is among the sizes.
    pub(super) fn insert(&mut self, hash: u64, entry: Entry, hasher: &KeyHasher) {
        let positions = self.entries.len();
        let eighths = if positions < ROOMY { 4 } else { 7 };
        if (self.count + 1) * 8 > positions * eighths {
            let power = positions.is_power_of_two();
            let larger = if power { positions / 2 * 3 } else { (positions + 1).next_power_of_two() };
            self.resize(larger.max(SMALLEST), hasher);
        }
        self.place(hash, entry);
    }

    fn place(&mut self, hash: u64, mut entry: Entry) {
        let positions = self.entries.len();
        let mut position = home(hash, positions);
        entry.distance = 1;
        while let Some(resident) = self.entries.get_mut(position) {
            if resident.distance < entry.distance {
                std::mem::swap(resident, &mut entry);
                if entry.distance == 0 {
                    self.count += 1;
                    return;
                }
            }
            entry.distance += 1;
            position = next(position, positions);
        }
    }

    /// Removes the entry at a position. Those behind it that are not at home move up by one.
    pub(super) fn remove(&mut self, mut position: usize) {
        let positions = self.entries.len();
        self.count -= 1;
        loop {
            let behind = next(position, positions);
            if self.entries[behind].distance <= 1 {
                self.entries[position].distance = 0;
                return;
            }
            self.entries.swap(position, behind);
            self.entries[position].distance -= 1;
            position = behind;
        }
    }

    /// Moves everything to a table of this many positions.
    pub(super) fn resize(&mut self, positions: usize, hasher: &KeyHasher) {
        let mut table = Self::with_positions(positions);
        for entry in std::mem::take(&mut self.entries) {
            if entry.distance > 0 {
                table.place(entry.hash(hasher), entry);
            }
        }
        *self = table;
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|entry| entry.distance > 0)
    }

    pub(super) const fn len(&self) -> usize {
        self.count
    }

    pub(super) const fn positions(&self) -> usize {
        self.entries.len()
    }

    /// Bytes allocated.
    pub(super) const fn allocated(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>()
    }
}

/// Where an entry with this hash should be, by the low half of the hash; the shard was chosen by bits further up.
#[inline]
#[expect(
    clippy::cast_possible_truncation,
    reason = "the low half of the hash, and a number below `positions`"
)]
const fn home(hash: u64, positions: usize) -> usize {
    ((hash as u32 as u64 * positions as u64) >> 32) as usize
}

#[inline]
const fn next(position: usize, positions: usize) -> usize {
    let next = position + 1;
    if next < positions { next } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const _: () = assert!(size_of::<Entry>() == 64, "an entry is a cache line");

    fn key(number: u64) -> BucketKey {
        BucketKey::new(Dimension::new(0), u128::from(number) << 40)
    }

    fn spent() -> Bucket {
        Bucket::full(Quota::LEAST, Timestamp::ZERO).take(1)
    }

    fn insert(table: &mut Table, number: u64, hasher: &KeyHasher) {
        table.insert(hasher.hash(&key(number)), Entry::new(&key(number), spent()), hasher);
    }

    fn holds(table: &Table, number: u64, hasher: &KeyHasher) -> bool {
        let found = table.find(hasher.hash(&key(number)), &key(number));
        found.and_then(|position| table.get(position)).is_some_and(|entry| entry.is(&key(number)))
    }

    /// Every entry is behind others that are no further from home than one step less: what a search relies on.
    fn check(table: &Table, hasher: &KeyHasher) {
        for position in 0..table.positions() {
            let entry = &table.entries[position];
            let behind = &table.entries[next(position, table.positions())];
            assert!(behind.distance <= entry.distance + 1);
            if entry.distance > 0 {
                let mut at = home(entry.hash(hasher), table.positions());
                (1..entry.distance).for_each(|_| at = next(at, table.positions()));
                assert_eq!(at, position);
            }
        }
        assert_eq!(table.iter().count(), table.len());
    }

    #[test]
    fn it_holds_what_was_inserted_and_not_removed() {
        let hasher = KeyHasher::new();
        let (mut table, mut expected) = (Table::default(), BTreeSet::new());
        assert!(!holds(&table, 0, &hasher));
        let mut random = 1_u64;
        for round in 0..6_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let number = (random >> 33) % 700;
            if expected.remove(&number) {
                let position = table.find(hasher.hash(&key(number)), &key(number)).unwrap();
                table.remove(position);
            } else {
                expected.insert(number);
                insert(&mut table, number, &hasher);
            }
            if round % 100 == 0 {
                check(&table, &hasher);
                (0..700).for_each(|number| {
                    assert_eq!(holds(&table, number, &hasher), expected.contains(&number))
                });
            }
        }
        table.resize(table.len() + 1, &hasher);
        check(&table, &hasher);
        assert!(expected.iter().all(|number| holds(&table, *number, &hasher)));
    }

    #[test]
    fn coming_and_going_does_not_grow_it() {
        let hasher = KeyHasher::new();
        let mut table = Table::default();
        (0..800).for_each(|number| insert(&mut table, number, &hasher));
        let allocated = table.allocated();
        for number in 800..40_000 {
            let gone = key(number - 800);
            let position = table.find(hasher.hash(&gone), &gone).unwrap();
            table.remove(position);
            insert(&mut table, number, &hasher);
        }
        assert_eq!((table.len(), table.allocated()), (800, allocated));
        check(&table, &hasher);
    }

    /// All in one place: the worst that can happen is slow, not wrong.
    #[test]
    fn entries_with_one_home_are_found() {
        let hasher = KeyHasher::new();
        let mut table = Table::with_positions(100);
        for number in 0..80 {
            table.place(u64::MAX, Entry::new(&key(number), spent()));
        }
        assert!((0..80).all(|number| table.find(u64::MAX, &key(number)).is_some()));
        assert!(table.find(u64::MAX, &key(80)).is_none());
        table.resize(200, &hasher);
        check(&table, &hasher);
    }
}
