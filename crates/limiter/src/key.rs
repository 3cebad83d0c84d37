//! The name of a bucket: which dimension, and which identity in it.

use std::fmt;
use std::hash::{Hash, Hasher};

/// What a limit is counted per, as a small number that the caller gives a meaning.
///
/// The crate knows no names of dimensions: a service numbers its own. Kinds of limits that count different things
/// for one identity (requests and tokens of a user, say) are different dimensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Dimension(u8);

impl Dimension {
    /// The dimension of this number.
    #[must_use]
    pub const fn new(number: u8) -> Self {
        Self(number)
    }

    /// The number it was made from.
    #[must_use]
    pub const fn number(self) -> u8 {
        self.0
    }
}

/// The opaque name of one bucket: a dimension and the digest of an identity in it.
///
/// The digest should come from a hash that callers cannot steer (a keyed one, if identities are theirs to choose):
/// two identities with one digest share a bucket. It never has to be a secret, and is shown in full by `Debug`.
///
/// Equality, order and hash look at dimension and digest only. A key may also carry where a memory store keeps its
/// bucket (see [`MemoryStore::pin`](crate::MemoryStore::pin)), which changes the speed of a decision and nothing
/// else; other stores ignore it.
#[derive(Clone, Copy)]
pub struct BucketKey {
    // Two words rather than a `u128`, which would align every charge to 16 bytes.
    digest: [u64; 2],
    dimension: Dimension,
    pin: Option<Pin>,
}

/// Where a pinned bucket stands. Only a hint: the store that reads it compares the key.
pub(crate) type Pin = std::num::NonZeroU32;

impl BucketKey {
    /// Names the bucket of the identity with this digest in this dimension.
    #[must_use]
    pub const fn new(dimension: Dimension, digest: u128) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "the two halves are what is wanted")]
        let digest = [digest as u64, (digest >> 64) as u64];
        Self { digest, dimension, pin: None }
    }

    /// The dimension.
    #[must_use]
    pub const fn dimension(&self) -> Dimension {
        self.dimension
    }

    /// The digest of the identity.
    #[must_use]
    pub const fn digest(&self) -> u128 {
        (self.digest[1] as u128) << 64 | self.digest[0] as u128
    }

    pub(crate) const fn words(&self) -> [u64; 2] {
        self.digest
    }

    pub(crate) const fn pin(&self) -> Option<Pin> {
        self.pin
    }

    pub(crate) const fn pinned_at(self, pin: Pin) -> Self {
        Self { pin: Some(pin), ..self }
    }
}

// === impl BucketKey ===

impl PartialEq for BucketKey {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest && self.dimension == other.dimension
    }
}

impl Eq for BucketKey {}

impl PartialOrd for BucketKey {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for BucketKey {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.dimension, self.digest()).cmp(&(other.dimension, other.digest()))
    }
}

impl Hash for BucketKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.dimension.hash(state);
        self.digest.hash(state);
    }
}

impl fmt::Debug for BucketKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BucketKey({}:{:032x})", self.dimension.0, self.digest())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_gives_back_what_it_was_made_from() {
        let digest = 0x0123_4567_89ab_cdef_fedc_ba98_7654_3210;
        let key = BucketKey::new(Dimension::new(7), digest);
        assert_eq!((key.dimension().number(), key.digest()), (7, digest));
        assert_eq!(format!("{key:?}"), "BucketKey(7:0123456789abcdeffedcba9876543210)");
    }

    #[test]
    fn a_pin_does_not_make_another_key() {
        let key = BucketKey::new(Dimension::new(1), 5);
        let pinned = key.pinned_at(Pin::MIN);
        assert_eq!(key, pinned);
        assert_eq!(key.cmp(&pinned), std::cmp::Ordering::Equal);
    }
}
