//! What the rest of the crate may do with an API key: hash it, and ask whether a header can carry it.

use sha2::{Digest as _, Sha256};

/// The SHA-256 of an API key: the only form in which one is kept and compared.
pub(crate) fn sha256(key: &[u8]) -> [u8; 32] {
    Sha256::digest(key).into()
}

/// Whether every byte is visible ASCII, as in a token that both header forms can carry unchanged.
pub(crate) fn is_visible(key: &[u8]) -> bool {
    // Without a way out in the middle, so that many bytes are looked at in one instruction.
    key.iter().fold(true, |all, byte| all & byte.is_ascii_graphic())
}
