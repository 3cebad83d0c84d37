//! Values that must never be shown.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize, Serializer};

use super::ValueError;

/// What can stand in a header: visible ASCII. A blank or a line end, easily taken along from a file, would never match.
pub(crate) const PATTERN: &str = "^[!-~]*$";

/// A SHA-256 digest in hexadecimal.
pub(crate) const DIGEST_PATTERN: &str = "^[0-9A-Fa-f]{64}$";

/// What stands in place of a secret or an identity wherever one would be shown.
pub const MASK: &str = "***";

/// A secret: an API key, a token, a hashing key.
///
/// It can be read with [`expose`](Self::expose) only. `Debug` and `Serialize` show a mask (an empty
/// secret, which means "none", is shown as empty).
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// Wraps a raw value.
    pub fn new(raw: impl Into<String>) -> Self {
        Self(raw.into())
    }

    /// The raw value. Do not log it, do not put it into an error.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether nothing is set, which means "none".
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_empty() { "Secret()" } else { "Secret(***)" })
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(if self.is_empty() { "" } else { MASK })
    }
}

/// The SHA-256 digest of an API key, given instead of the key.
///
/// `Debug` and `Serialize` show a mask: a digest of a short key can be guessed.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyDigest([u8; 32]);

impl KeyDigest {
    /// The 32 bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl From<[u8; 32]> for KeyDigest {
    fn from(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

impl FromStr for KeyDigest {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let problem = || ValueError::new("a SHA-256 digest has 64 hexadecimal digits");
        let digits: Vec<u8> = text
            .chars()
            .map(|c| c.to_digit(16).and_then(|digit| u8::try_from(digit).ok()).ok_or_else(problem))
            .collect::<Result<_, _>>()?;
        let bytes: Vec<u8> =
            digits.chunks(2).map(|pair| pair.iter().fold(0, |byte, d| byte << 4 | d)).collect();
        if digits.len() != 64 {
            return Err(problem());
        }
        bytes.try_into().map(Self).map_err(|_| problem())
    }
}

impl fmt::Debug for KeyDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyDigest(***)")
    }
}

impl Serialize for KeyDigest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(MASK)
    }
}

/// The raw name of a user, a team or a tenant.
///
/// Names of people and teams belong in the configuration and in hashed form nowhere else, so `Debug` and
/// `Serialize` show a mask; read it with [`as_str`](Self::as_str). (A tenant may even be a raw API key.)
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(transparent)]
pub struct Name(String);

impl Name {
    /// Wraps a raw name.
    pub fn new(raw: impl Into<String>) -> Self {
        Self(raw.into())
    }

    /// The raw name. Do not log it, do not put it into an error.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::borrow::Borrow<str> for Name {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl FromStr for Name {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        if text.is_empty() { Err(ValueError::new("a name cannot be empty")) } else { Ok(Self::new(text)) }
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Name(***)")
    }
}

impl Serialize for Name {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(MASK)
    }
}
