//! From a key to a table position.

use std::hash::{BuildHasher, RandomState};

use crate::key::{BucketKey, Dimension};

/// Mixes a digest with a seed of this process.
///
/// Digests are hashes already, so one folded multiplication (as in wyhash, Wang Yi 2019) is enough to spread them
/// whichever of their bits vary. The seed keeps those who can choose digests from aiming at one shard.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeyHasher {
    seed: [u64; 2],
}

impl KeyHasher {
    /// A hasher with a random seed.
    pub(super) fn new() -> Self {
        let state = RandomState::new();
        Self { seed: [state.hash_one(0_u64), state.hash_one(1_u64)] }
    }

    #[inline]
    pub(super) fn hash(&self, key: &BucketKey) -> u64 {
        self.hash_parts((key.words(), key.dimension()))
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the two halves are folded")]
    pub(super) fn hash_parts(&self, ([low, high], dimension): ([u64; 2], Dimension)) -> u64 {
        let dimension = u64::from(dimension.number()).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let product = u128::from(low ^ self.seed[0]) * u128::from(high ^ self.seed[1] ^ dimension);
        product as u64 ^ (product >> 64) as u64
    }
}

/// The shard of a hash, from bits that a shard's table does not look at: it uses the lowest and the topmost seven.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "a middle window of the hash is what is wanted")]
pub(super) const fn shard_of(hash: u64, shards: u32) -> u32 {
    ((((hash >> 20) as u32) as u64 * shards as u64) >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Digests that vary in a few bits only must still use all shards evenly.
    #[test]
    fn any_few_bits_spread_over_shards() {
        let hasher = KeyHasher::new();
        for shift in [0, 20, 52, 64, 90, 112] {
            let mut counts = [0_u32; 64];
            for n in 0..64_u128 * 100 {
                let key = BucketKey::new(Dimension::new(3), n << shift);
                counts[shard_of(hasher.hash(&key), 64) as usize] += 1;
            }
            assert!(counts.iter().all(|count| (30..=200).contains(count)), "shift {shift}: {counts:?}");
        }
    }
}
