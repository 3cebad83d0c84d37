//! From a key to a table position.

use std::hash::{BuildHasher, RandomState};

use crate::key::{BucketKey, Dimension};

/// An odd number without a pattern: 2^64 divided by the golden ratio.
const ODD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Mixes a digest with a seed of this process.
///
/// Digests are hashes already, so two folded multiplications (as in wyhash, Wang Yi 2019) are enough to spread them,
/// whichever of their bits vary; one of them leaves counting digests unevenly spread. The seed keeps those who can
/// choose digests from aiming at one shard.
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
    pub(super) const fn hash_parts(&self, ([low, high], dimension): ([u64; 2], Dimension)) -> u64 {
        let dimension = (dimension.number() as u64).wrapping_mul(ODD);
        let mixed = folded(low ^ self.seed[0], high ^ self.seed[1] ^ dimension);
        folded(mixed, ODD)
    }
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the two halves are folded")]
const fn folded(one: u64, other: u64) -> u64 {
    let product = one as u128 * other as u128;
    product as u64 ^ (product >> 64) as u64
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

    /// Digests that vary in a few bits only must still use all shards, and all of a table, evenly.
    #[test]
    fn any_few_bits_spread_over_shards_and_tables() {
        for seed in [[1, 2], [0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210], [0x5851_f42d_4c95_7f2d, 3 << 60]]
        {
            let hasher = KeyHasher { seed };
            for shift in (0..116).step_by(4) {
                let (mut shards, mut homes) = ([0_u32; 64], [0_u32; 64]);
                for n in 0..64_u128 * 100 {
                    let hash = hasher.hash(&BucketKey::new(Dimension::new(3), n << shift));
                    shards[shard_of(hash, 64) as usize] += 1;
                    homes[(hash & 0xffff_ffff) as usize >> 26] += 1;
                }
                for counts in [shards, homes] {
                    assert!(
                        counts.iter().all(|count| (50..=160).contains(count)),
                        "shift {shift}: {counts:?}"
                    );
                }
            }
        }
    }
}
