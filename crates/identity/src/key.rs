//! One API key as configured.

use std::fmt;

use secrecy::{ExposeSecret, SecretString};

use crate::{model::ModelPattern, secret};

/// One API key, with whom it belongs to and what it may do.
///
/// An empty `user`, `team` or `tier` counts as absent: a placeholder is nobody's identity.
#[derive(Clone)]
pub struct KeyEntry {
    /// The key's public name, unique in its directory.
    pub id: String,
    /// The key.
    pub secret: KeySecret,
    /// The raw id of the user the key belongs to.
    pub user: Option<String>,
    /// The raw id of the team the key belongs to.
    pub team: Option<String>,
    /// The name of the key's tier.
    pub tier: Option<String>,
    /// Whether the key is accepted at all.
    pub enabled: bool,
    /// The first second since the Unix epoch at which the key is no longer accepted; `None` for never.
    pub expires_at: Option<i64>,
    /// The models the key may use; `None` for all of them, an empty list for none.
    pub models: Option<Vec<ModelPattern>>,
}

/// An API key, raw or as its SHA-256. The raw form is wiped from memory when dropped.
#[derive(Clone)]
pub enum KeySecret {
    /// The key itself.
    Raw(SecretString),
    /// The SHA-256 of the key.
    Sha256([u8; 32]),
}

/// A text is not the SHA-256 of anything: 64 hexadecimal digits are due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a sha-256 has 64 hexadecimal digits")]
pub struct InvalidSha256;

// === impl KeyEntry ===

impl KeyEntry {
    /// An enabled key that never expires, belongs to nobody, and may use every model.
    #[must_use]
    pub const fn new(id: String, secret: KeySecret) -> Self {
        Self { id, secret, user: None, team: None, tier: None, enabled: true, expires_at: None, models: None }
    }
}

impl fmt::Debug for KeyEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyEntry")
            .field("tier", &self.tier)
            .field("enabled", &self.enabled)
            .field("expires_at", &self.expires_at)
            .field("models", &self.models)
            .finish_non_exhaustive()
    }
}

// === impl KeySecret ===

impl KeySecret {
    /// Reads a SHA-256 in hexadecimal digits of either case.
    ///
    /// # Errors
    ///
    /// [`InvalidSha256`] unless there are 64 of them.
    pub fn from_sha256_hex(text: &str) -> Result<Self, InvalidSha256> {
        let mut sha256 = [0; 32];
        hex::decode_to_slice(text, &mut sha256).map_err(|_| InvalidSha256)?;
        Ok(Self::Sha256(sha256))
    }

    /// The key's SHA-256, or `None` for a raw key that no header can carry.
    pub(crate) fn sha256(&self) -> Option<[u8; 32]> {
        match self {
            Self::Raw(key) => {
                let key = key.expose_secret().as_bytes();
                (!key.is_empty() && secret::is_visible(key)).then(|| secret::sha256(key))
            }
            Self::Sha256(sha256) => Some(*sha256),
        }
    }
}

impl fmt::Debug for KeySecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Raw(_) => "Raw(redacted)",
            Self::Sha256(_) => "Sha256(redacted)",
        })
    }
}
