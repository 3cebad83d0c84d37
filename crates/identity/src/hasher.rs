//! Keyed, domain-separated digests of names.
//!
//! User ids, team ids and addresses have little entropy: a plain hash of one is undone by hashing a list of
//! guesses. A keyed hash cannot be undone without the key, so a [`Digest`] may be shown, logged and stored where
//! the name may not.

use std::{
    collections::HashMap,
    fmt,
    hash::{self, BuildHasherDefault},
    sync::Arc,
};

use secrecy::{ExposeSecret, SecretBox};

use crate::{address::ClientNetwork, secret};

/// What kind of thing a digest stands for.
///
/// Each domain hashes under a key of its own, derived from the [`Hasher`]'s: the digest of a user says nothing
/// about, and is never taken for, the digest of a team of the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Domain {
    /// A user id.
    User,
    /// A team id.
    Team,
    /// The id of an API key: its public name, not the key.
    ApiKey,
    /// An API key itself.
    ApiKeySecret,
    /// The network that counts as one client.
    Client,
    /// A model, or the rule for models that matched.
    Model,
    /// A backend.
    Backend,
}

impl Domain {
    /// Every domain, in the order of their discriminants.
    pub const ALL: [Self; 7] =
        [Self::User, Self::Team, Self::ApiKey, Self::ApiKeySecret, Self::Client, Self::Model, Self::Backend];

    /// The context string of BLAKE3's key derivation. It names the application, the version and the purpose, as
    /// the BLAKE3 paper asks (section 2.3, "Key derivation"); changing one changes every digest of the domain.
    const fn context(self) -> &'static str {
        match self {
            Self::User => "fairlane-identity 1 digest of a user id",
            Self::Team => "fairlane-identity 1 digest of a team id",
            Self::ApiKey => "fairlane-identity 1 digest of an api key id",
            Self::ApiKeySecret => "fairlane-identity 1 digest of an api key",
            Self::Client => "fairlane-identity 1 digest of a client network",
            Self::Model => "fairlane-identity 1 digest of a model",
            Self::Backend => "fairlane-identity 1 digest of a backend",
        }
    }
}

/// A keyed 128-bit digest that stands for a name.
///
/// It is not a secret, so it compares, sorts and prints like any value. `Display` writes 32 hexadecimal digits;
/// a precision shortens that (`{:.12}`), which is enough to tell tenants apart on a page for people.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; Self::LENGTH]);

impl Digest {
    /// How many bytes a digest has. By the birthday bound a billion names collide with a chance below 2⁻⁶⁸.
    pub const LENGTH: usize = 16;

    /// The bytes, for use as a key elsewhere.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; Self::LENGTH] {
        &self.0
    }

    /// The bytes, by value.
    #[must_use]
    pub const fn to_bytes(self) -> [u8; Self::LENGTH] {
        self.0
    }
}

/// A table by digest.
///
/// A digest is uniform, and nobody without the hash key can steer it: eight of its bytes are a hash already.
pub type DigestMap<V> = HashMap<Digest, V, BuildHasherDefault<DigestHash>>;

/// What a [`DigestMap`] hashes digests with: some of their bytes, as they are. Of no use for anything else.
#[derive(Clone, Copy, Debug, Default)]
pub struct DigestHash(u64);

/// Makes the digests of one installation.
///
/// The same key gives the same digests in every process and every release, so replicas that share a store agree.
/// A clone is one more pointer to the same keys, which are wiped when the last one goes.
///
/// # Examples
///
/// ```
/// use fairlane_identity::Hasher;
///
/// let hasher = Hasher::new(b"32 random bytes, kept by the operator")?;
/// assert_eq!(hasher.user("alice"), hasher.user("alice"));
/// assert_ne!(hasher.user("alice"), hasher.team("alice"));
/// # Ok::<(), fairlane_identity::EmptyHashKey>(())
/// ```
#[derive(Clone)]
pub struct Hasher {
    keys: Arc<SecretBox<DomainKeys>>,
}

type DomainKeys = [[u8; blake3::KEY_LEN]; Domain::ALL.len()];

/// The key of a [`Hasher`] was empty: its digests could be undone by anybody.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the hash key is empty")]
pub struct EmptyHashKey;

// === impl Hasher ===

impl Hasher {
    /// Derives the keys of all domains from key material of any length.
    ///
    /// The digests are as hard to undo as the material is to guess: 32 bytes of randomness are best. Where an
    /// operator gives none, pass random bytes; the digests then live as long as the process.
    ///
    /// # Errors
    ///
    /// [`EmptyHashKey`] if there are no bytes.
    pub fn new(key: &[u8]) -> Result<Self, EmptyHashKey> {
        if key.is_empty() {
            return Err(EmptyHashKey);
        }
        let keys = SecretBox::init_with_mut(|keys: &mut DomainKeys| {
            for domain in Domain::ALL {
                keys[domain as usize] = blake3::derive_key(domain.context(), key);
            }
        });
        Ok(Self { keys: Arc::new(keys) })
    }

    /// The digest of `value` in `domain`.
    #[must_use]
    pub fn digest(&self, domain: Domain, value: &[u8]) -> Digest {
        let hash = blake3::keyed_hash(&self.keys.expose_secret()[domain as usize], value);
        let mut digest = [0; Digest::LENGTH];
        digest.copy_from_slice(&hash.as_bytes()[..Digest::LENGTH]);
        Digest(digest)
    }

    /// The digest of a raw user id.
    #[must_use]
    pub fn user(&self, id: &str) -> Digest {
        self.digest(Domain::User, id.as_bytes())
    }

    /// The digest of a raw team id.
    #[must_use]
    pub fn team(&self, id: &str) -> Digest {
        self.digest(Domain::Team, id.as_bytes())
    }

    /// The digest of an API key's id: what a tenant of kind `api_key` is known by.
    #[must_use]
    pub fn api_key_id(&self, id: &str) -> Digest {
        self.digest(Domain::ApiKey, id.as_bytes())
    }

    /// The digest of an API key itself.
    ///
    /// It goes through the key's SHA-256, so that a key configured raw and one configured as its SHA-256 agree.
    #[must_use]
    pub fn api_key_secret(&self, key: &str) -> Digest {
        self.api_key_sha256(&secret::sha256(key.as_bytes()))
    }

    /// The digest of an API key that is known by its SHA-256.
    #[must_use]
    pub fn api_key_sha256(&self, sha256: &[u8; 32]) -> Digest {
        self.digest(Domain::ApiKeySecret, sha256)
    }

    /// The digest of a client network.
    #[must_use]
    pub fn client(&self, network: ClientNetwork) -> Digest {
        self.digest(Domain::Client, &network.encode())
    }

    /// The digest of a model name, or of the rule that matched it.
    #[must_use]
    pub fn model(&self, name: &str) -> Digest {
        self.digest(Domain::Model, name.as_bytes())
    }

    /// The digest of a backend's name.
    #[must_use]
    pub fn backend(&self, name: &str) -> Digest {
        self.digest(Domain::Backend, name.as_bytes())
    }
}

impl fmt::Debug for Hasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hasher").finish_non_exhaustive()
    }
}

// === impl DigestHash ===

impl hash::Hasher for DigestHash {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        let word = bytes.first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
        self.0 ^= word;
    }

    // A length, which is the same for all digests.
    fn write_usize(&mut self, _: usize) {}
}

// === impl Digest ===

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [0; 2 * Self::LENGTH];
        hex::encode_to_slice(self.0, &mut text).map_err(|_| fmt::Error)?;
        // `pad` honours width and precision.
        f.pad(str::from_utf8(&text).map_err(|_| fmt::Error)?)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self:.12}…)")
    }
}
