//! Who a request belongs to.

use std::{fmt, sync::Arc};

use crate::{
    hasher::Digest,
    model::ModelRules,
    tenant::{TenantDimension, TenantId},
};

/// Who a request belongs to: its key, and the user and team of that key where it has them.
///
/// Only a [`Directory`](crate::Directory) makes one, from its configuration alone: nothing a caller sends can
/// change whose request it is. It holds digests of users and teams, and of names only its key's and its
/// tier's. It is shared by `Arc`.
pub struct Identity {
    pub(crate) key: KeyId,
    pub(crate) user: Option<Digest>,
    pub(crate) team: Option<Digest>,
    pub(crate) tier: Option<Arc<str>>,
    pub(crate) models: Option<ModelRules>,
}

/// The name of an API key, which says nothing about the key itself.
///
/// `Debug` shows the digest: where tenants are listed, none is listed by name.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct KeyId {
    name: Arc<str>,
    digest: Digest,
}

// === impl Identity ===

impl Identity {
    /// The key's id.
    #[must_use]
    pub const fn key(&self) -> &KeyId {
        &self.key
    }

    /// The digest of the user id, if the key has a user.
    #[must_use]
    pub const fn user(&self) -> Option<Digest> {
        self.user
    }

    /// The digest of the team id, if the key has a team.
    #[must_use]
    pub const fn team(&self) -> Option<Digest> {
        self.team
    }

    /// The name of the key's tier, if it has one.
    #[must_use]
    pub const fn tier(&self) -> Option<&Arc<str>> {
        self.tier.as_ref()
    }

    /// Whether the key may use `model`.
    #[must_use]
    pub fn allows_model(&self, model: &str) -> bool {
        self.models.as_ref().is_none_or(|rules| rules.matches(model))
    }

    /// The tenant by `dimension`; where the key has no such identity, by the first of user, team and API key
    /// that it has.
    ///
    /// Every identity has a key, so there always is a tenant, and the same identity always gives the same one.
    #[must_use]
    pub fn tenant(&self, dimension: TenantDimension) -> TenantId {
        [dimension, TenantDimension::User, TenantDimension::Team]
            .into_iter()
            .find_map(|candidate| Some(TenantId::new(candidate, self.of(candidate)?)))
            .unwrap_or(TenantId::new(TenantDimension::ApiKey, self.key.digest))
    }

    /// The digest of the identity in one dimension, without fallback.
    #[must_use]
    pub const fn of(&self, dimension: TenantDimension) -> Option<Digest> {
        match dimension {
            TenantDimension::User => self.user,
            TenantDimension::Team => self.team,
            TenantDimension::ApiKey => Some(self.key.digest),
        }
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity")
            .field("key", &self.key)
            .field("user", &self.user)
            .field("team", &self.team)
            .field("tier", &self.tier)
            .finish_non_exhaustive()
    }
}

// === impl KeyId ===

impl KeyId {
    pub(crate) const fn new(name: Arc<str>, digest: Digest) -> Self {
        Self { name, digest }
    }

    /// The id as configured. It is meant for look-ups in configuration, not for display.
    #[must_use]
    pub const fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// The digest that stands for the id everywhere else.
    #[must_use]
    pub const fn digest(&self) -> Digest {
        self.digest
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("KeyId").field(&self.digest).finish()
    }
}
