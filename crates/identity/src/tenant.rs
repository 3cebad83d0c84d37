//! Whose lane a request waits in.

use std::fmt;

use crate::{hasher::Digest, identity::Identity};

/// The identity that tenants are told apart by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum TenantDimension {
    /// The user.
    #[default]
    User,
    /// The team.
    Team,
    /// The API key.
    ApiKey,
}

/// A tenant: the digest of one identity, and which kind of identity it is.
///
/// Digests of different kinds differ even if the names are equal, so the digest alone may serve as a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TenantId {
    dimension: TenantDimension,
    digest: Digest,
}

/// The tenant of a request, if it is known who sent it; see [`Identity::tenant`].
#[must_use]
pub fn tenant(identity: Option<&Identity>, dimension: TenantDimension) -> Option<TenantId> {
    identity.map(|identity| identity.tenant(dimension))
}

// === impl TenantDimension ===

impl TenantDimension {
    /// Every dimension, in the order of the fallback.
    pub const ALL: [Self; 3] = [Self::User, Self::Team, Self::ApiKey];

    /// The name in configuration, answers and metrics: `user`, `team` or `api_key`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Team => "team",
            Self::ApiKey => "api_key",
        }
    }
}

impl fmt::Display for TenantDimension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

// === impl TenantId ===

impl TenantId {
    pub(crate) const fn new(dimension: TenantDimension, digest: Digest) -> Self {
        Self { dimension, digest }
    }

    /// The kind of identity the tenant resolved to, which by fallback may differ from the configured one.
    #[must_use]
    pub const fn dimension(self) -> TenantDimension {
        self.dimension
    }

    /// The digest of the identity.
    #[must_use]
    pub const fn digest(self) -> Digest {
        self.digest
    }
}

impl fmt::Display for TenantId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.dimension, self.digest)
    }
}
