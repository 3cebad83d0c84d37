//! What keys are called.

use smallvec::SmallVec;

use crate::{BucketKey, Dimension};

/// The layout of names and values. Another layout gets another number, so that both can be in use for a while.
const VERSION: &str = "v1";

/// A key, without an allocation for prefixes of usual length.
pub(super) type Key = SmallVec<[u8; 96]>;

/// The name of a settlement's mark, which is longer by the name of a bucket.
pub(super) type Mark = SmallVec<[u8; 192]>;

/// Names keys.
#[derive(Debug)]
pub(super) struct Keys {
    /// `<prefix>:v1:`
    stem: Box<[u8]>,
}

impl Keys {
    pub(super) fn new(prefix: &str) -> Self {
        Self { stem: format!("{prefix}:{VERSION}:").into_bytes().into() }
    }

    /// `<prefix>:v1:<dimension>:<digest in hexadecimal>`
    pub(super) fn bucket(&self, key: &BucketKey) -> Key {
        let mut name = Key::from_slice(&self.stem);
        push_decimal(&mut name, key.dimension().number());
        name.push(b':');
        push_hexadecimal(&mut name, key.digest());
        name
    }

    /// `<prefix>:v1:settled:{<name of a bucket>}:<settlement in hexadecimal>`
    ///
    /// A cluster hashes only what stands in braces, so the mark is in the slot of its bucket.
    pub(super) fn mark(&self, bucket: &BucketKey, settlement: u128) -> Mark {
        let mut name = Mark::from_slice(&self.stem);
        name.extend_from_slice(b"settled:{");
        name.extend_from_slice(&self.bucket(bucket));
        name.extend_from_slice(b"}:");
        push_hexadecimal(&mut name, settlement);
        name
    }

    /// `<prefix>:v1:probe:{<name of a probe's bucket>}`: written to see whether a server can be written to.
    pub(super) fn probe(&self, number: u32) -> Mark {
        let mut name = Mark::from_slice(&self.stem);
        name.extend_from_slice(b"probe:{");
        name.extend_from_slice(&self.bucket(&probe_bucket(number)));
        name.push(b'}');
        name
    }

    /// The length of the longest name of a bucket.
    pub(super) fn longest(&self) -> usize {
        self.stem.len() + "255:".len() + 32
    }
}

/// The bucket of no identity, which probes look at. With the right number it is in any slot of a cluster.
pub(super) const fn probe_bucket(number: u32) -> BucketKey {
    BucketKey::new(Dimension::new(u8::MAX), PROBE_DIGEST | number as u128)
}

const PROBE_DIGEST: u128 = 0x6661_6972_6c61_6e65_7072_6f62_65ff_ffff << 32;

fn push_decimal(name: &mut Key, number: u8) {
    if number >= 100 {
        name.push(b'0' + number / 100);
    }
    if number >= 10 {
        name.push(b'0' + number / 10 % 10);
    }
    name.push(b'0' + number % 10);
}

fn push_hexadecimal<const N: usize>(name: &mut SmallVec<[u8; N]>, number: u128)
where
    [u8; N]: smallvec::Array<Item = u8>,
{
    let mut digits = [0_u8; 32];
    for (eight, bytes) in digits.chunks_exact_mut(8).zip(number.to_be_bytes().chunks_exact(4)) {
        let word = bytes.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
        eight.copy_from_slice(&eight_digits(word).to_be_bytes());
    }
    name.extend_from_slice(&digits);
}

/// The eight digits of a number of 32 bits, the first in the highest byte: all at once, since this is done for every key
/// of every request.
const fn eight_digits(number: u64) -> u64 {
    // Half a word, a quarter, and in the end one digit in each byte.
    let mut digits = (number | number << 16) & 0x0000_ffff_0000_ffff;
    digits = (digits | digits << 8) & 0x00ff_00ff_00ff_00ff;
    digits = (digits | digits << 4) & 0x0f0f_0f0f_0f0f_0f0f;
    let letters = (digits + 0x0606_0606_0606_0606) >> 4 & 0x0101_0101_0101_0101;
    digits + b'0' as u64 * 0x0101_0101_0101_0101 + letters * (b'a' - b'0' - 10) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_hexadecimal() {
        for number in [0, 1, 9, 10, 0x0123_4567, 0x89ab_cdef, 0xa9f0_0f9a, 0xffff_ffff] {
            let digits = eight_digits(number).to_be_bytes();
            assert_eq!(std::str::from_utf8(&digits).unwrap(), format!("{number:08x}"));
        }
    }

    #[test]
    fn names_have_a_version_and_a_digest() {
        let keys = Keys::new("shop");
        let named = |dimension, digest| {
            let name = keys.bucket(&BucketKey::new(Dimension::new(dimension), digest));
            assert!(name.len() <= keys.longest());
            String::from_utf8(name.to_vec()).unwrap()
        };
        assert_eq!(named(0, 0), "shop:v1:0:00000000000000000000000000000000");
        assert_eq!(named(42, 0xab << 120), "shop:v1:42:ab000000000000000000000000000000");
        assert_eq!(named(107, u128::MAX), "shop:v1:107:ffffffffffffffffffffffffffffffff");
        let mark = keys.mark(&BucketKey::new(Dimension::new(7), 1), 2);
        assert_eq!(
            String::from_utf8(mark.to_vec()).unwrap(),
            "shop:v1:settled:{shop:v1:7:00000000000000000000000000000001}:00000000000000000000000000000002"
        );
    }
}
