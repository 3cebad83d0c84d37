//! From an API key to whom it belongs.

use std::{
    collections::{HashMap, HashSet},
    fmt,
    sync::Arc,
};

use subtle::{Choice, ConstantTimeEq};

use crate::{
    credential::Credential,
    hasher::{Digest, DigestMap, Hasher},
    identity::{Identity, KeyId},
    key::KeyEntry,
    model::ModelRules,
    secret,
    tenant::{TenantDimension, TenantId},
};

/// All API keys of one configuration, ready for look-up.
///
/// A directory never changes. To reload, build a new one and swap it for the old; requests that hold an
/// [`Identity`] of the old one keep it, and as long as the [`Hasher`] is the same, the same names give the same
/// tenants in both.
///
/// # Timing
///
/// A presented key is found by a keyed digest of its SHA-256, then its SHA-256 is compared with the stored one in
/// constant time. The look-up itself is not constant in time, and need not be: how far two table keys agree says
/// something about digests that nobody without the hash key can compute or steer, and so nothing about the stored
/// keys. That a look-up missed is what the answer says anyway.
pub struct Directory {
    hasher: Hasher,
    identities: Vec<Arc<Identity>>,
    by_id: HashMap<Arc<str>, usize>,
    by_secret: DigestMap<Record>,
    /// Every user, team and key of every entry.
    known: HashSet<TenantId>,
    /// What the entries resolve to, by the configured dimension.
    resolved: HashSet<(TenantDimension, TenantId)>,
}

struct Record {
    sha256: [u8; 32],
    enabled: bool,
    expires_at: Option<i64>,
    identity: Arc<Identity>,
}

/// A list of keys cannot be a directory. Entries are told by their place in the list, from 0, never by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DirectoryError {
    /// The id of an entry is empty.
    #[error("the id of key {index} is empty")]
    EmptyId {
        /// The entry.
        index: usize,
    },
    /// Two entries have the same id.
    #[error("keys {first} and {second} have the same id")]
    DuplicateId {
        /// The earlier entry.
        first: usize,
        /// The later entry.
        second: usize,
    },
    /// Two entries have the same key, so that whose request it is would depend on their order.
    #[error("keys {first} and {second} have the same secret")]
    DuplicateSecret {
        /// The earlier entry.
        first: usize,
        /// The later entry.
        second: usize,
    },
    /// A raw key is empty or holds characters that no request can present.
    #[error("the secret of key {index} is empty or holds characters other than visible ascii")]
    UnusableSecret {
        /// The entry.
        index: usize,
    },
}

/// A key is not accepted.
///
/// The variants are for tests and counters. All of them print alike and are to be answered alike: a caller who
/// could tell them apart could find out which keys exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the api key is not valid")]
#[non_exhaustive]
pub enum AuthError {
    /// No entry has this key.
    Unknown,
    /// The key's entry is disabled.
    Disabled,
    /// The key has expired.
    Expired,
}

// === impl Directory ===

impl Directory {
    /// Hashes every name and key once.
    ///
    /// # Errors
    ///
    /// [`DirectoryError`] for the first entry that has no id or no usable key, or shares either with another.
    pub fn new(entries: impl IntoIterator<Item = KeyEntry>, hasher: &Hasher) -> Result<Self, DirectoryError> {
        let mut directory = Self {
            hasher: hasher.clone(),
            identities: Vec::new(),
            by_id: HashMap::new(),
            by_secret: DigestMap::default(),
            known: HashSet::new(),
            resolved: HashSet::new(),
        };
        let mut secrets = HashMap::new();
        for (index, entry) in entries.into_iter().enumerate() {
            if entry.id.is_empty() {
                return Err(DirectoryError::EmptyId { index });
            }
            let sha256 = entry.secret.sha256().ok_or(DirectoryError::UnusableSecret { index })?;
            if let Some(first) = secrets.insert(sha256, index) {
                return Err(DirectoryError::DuplicateSecret { first, second: index });
            }
            directory.insert(index, sha256, entry)?;
        }
        Ok(directory)
    }

    fn insert(&mut self, index: usize, sha256: [u8; 32], entry: KeyEntry) -> Result<(), DirectoryError> {
        let present = |name: Option<String>| name.filter(|name| !name.is_empty());
        let id: Arc<str> = entry.id.into();
        if let Some(first) = self.by_id.insert(Arc::clone(&id), index) {
            return Err(DirectoryError::DuplicateId { first, second: index });
        }
        let digest = self.hasher.api_key_id(&id);
        let identity = Arc::new(Identity {
            key: KeyId::new(id, digest),
            user: present(entry.user).map(|user| self.hasher.user(&user)),
            team: present(entry.team).map(|team| self.hasher.team(&team)),
            tier: present(entry.tier).map(Into::into),
            models: entry.models.map(ModelRules::new),
        });
        for dimension in TenantDimension::ALL {
            self.known.extend(identity.of(dimension).map(|digest| TenantId::new(dimension, digest)));
            self.resolved.insert((dimension, identity.tenant(dimension)));
        }
        self.identities.push(Arc::clone(&identity));
        let record = Record { sha256, enabled: entry.enabled, expires_at: entry.expires_at, identity };
        self.by_secret.insert(self.hasher.api_key_sha256(&sha256), record);
        Ok(())
    }

    /// Tells whose key was presented. `now` is in seconds since the Unix epoch.
    ///
    /// # Errors
    ///
    /// [`AuthError`] if the key is unknown, disabled, or expired at `now`.
    pub fn authenticate(&self, credential: &Credential, now: i64) -> Result<&Arc<Identity>, AuthError> {
        let record = self.record(credential.sha256()).ok_or(AuthError::Unknown)?;
        if !record.enabled {
            return Err(AuthError::Disabled);
        }
        if record.expires_at.is_some_and(|expires_at| now >= expires_at) {
            return Err(AuthError::Expired);
        }
        Ok(&record.identity)
    }

    fn record(&self, sha256: &[u8; 32]) -> Option<&Record> {
        let record = self.by_secret.get(&self.hasher.api_key_sha256(sha256))?;
        bool::from(is_same(&record.sha256, sha256)).then_some(record)
    }

    /// The identity behind a key's id, for settings that name keys.
    #[must_use]
    pub fn by_id(&self, id: &str) -> Option<&Arc<Identity>> {
        self.by_id.get(id).map(|&index| &self.identities[index])
    }

    /// The identities of all entries, in their order, disabled and expired ones too.
    #[must_use]
    pub fn identities(&self) -> &[Arc<Identity>] {
        &self.identities
    }

    /// Whether some entry has the identity, so that a setting that names it can have an effect.
    #[must_use]
    pub fn knows(&self, dimension: TenantDimension, digest: Digest) -> bool {
        self.known.contains(&TenantId::new(dimension, digest))
    }

    /// The tenants that a raw name in configuration stands for, where tenants are told apart by `dimension`.
    ///
    /// The name may be the id of a user, a team or a key, or the very text of a key. Only tenants that some entry
    /// resolves to count, and only those of kind `only` if it is given; none means that a setting for the name has
    /// no effect. A key that belongs to a user, say, is no tenant of its own unless `dimension` is the API key.
    #[must_use]
    pub fn tenants_named(
        &self,
        name: &str,
        dimension: TenantDimension,
        only: Option<TenantDimension>,
    ) -> Vec<TenantId> {
        let by_secret = self.record(&secret::sha256(name.as_bytes()));
        let candidates = [
            (TenantDimension::User, Some(self.hasher.user(name))),
            (TenantDimension::Team, Some(self.hasher.team(name))),
            (TenantDimension::ApiKey, Some(self.hasher.api_key_id(name))),
            (TenantDimension::ApiKey, by_secret.map(|record| record.identity.key().digest())),
        ];
        let mut tenants: Vec<_> = candidates
            .into_iter()
            .filter_map(|(kind, digest)| Some(TenantId::new(kind, digest?)))
            .filter(|tenant| only.is_none_or(|only| only == tenant.dimension()))
            .filter(|tenant| self.resolved.contains(&(dimension, *tenant)))
            .collect();
        // A key whose id is its own text was found twice, side by side.
        tenants.dedup();
        tenants
    }
}

/// Compares in constant time, by words: a fence round every byte would cost four times as much.
fn is_same(one: &[u8; 32], other: &[u8; 32]) -> Choice {
    let ((one, _), (other, _)) = (one.as_chunks::<8>(), other.as_chunks::<8>());
    let words = one.iter().zip(other);
    words.fold(Choice::from(1), |same, (one, other)| {
        same & u64::from_le_bytes(*one).ct_eq(&u64::from_le_bytes(*other))
    })
}

impl fmt::Debug for Directory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Directory").field("keys", &self.identities.len()).finish_non_exhaustive()
    }
}
