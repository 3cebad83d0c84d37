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
    for (pair, byte) in digits.chunks_exact_mut(2).zip(number.to_be_bytes()) {
        pair.copy_from_slice(&[HEXADECIMAL[usize::from(byte >> 4)], HEXADECIMAL[usize::from(byte & 15)]]);
    }
    name.extend_from_slice(&digits);
}

const HEXADECIMAL: &[u8; 16] = b"0123456789abcdef";

#[cfg(test)]
mod tests {
    use super::*;

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
