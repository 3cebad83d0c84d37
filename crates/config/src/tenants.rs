//! Which tenants the keys make, and what each weighs.

use std::{
    collections::{BTreeMap, HashMap},
    num::NonZeroU32,
};

use sha2::{Digest, Sha256};

use crate::{
    model::{ApiKey, GatewayConfig, KeyMaterial, TenantDimension, Weight},
    values::{KeyDigest, Name},
};

/// A tenant: the identity that has a lane of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tenant<'a> {
    /// A user.
    User(&'a Name),
    /// A team.
    Team(&'a Name),
    /// A key, by its id.
    ApiKey(&'a str),
}

impl Tenant<'_> {
    /// The kind of identity.
    #[must_use]
    pub fn dimension(self) -> TenantDimension {
        match self {
            Self::User(_) => TenantDimension::User,
            Self::Team(_) => TenantDimension::Team,
            Self::ApiKey(_) => TenantDimension::ApiKey,
        }
    }
}

/// A tenant and its weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TenantWeight<'a> {
    /// The tenant.
    pub tenant: Tenant<'a>,
    /// Its weight.
    pub weight: NonZeroU32,
}

impl GatewayConfig {
    /// The tenant of requests with a key: its identity of `tenant_dimension`, else the first of user, team and
    /// key that it has.
    #[must_use]
    pub fn tenant_of<'a>(&'a self, key: &'a ApiKey) -> Tenant<'a> {
        let user = key.user.as_ref().map(Tenant::User);
        let team = key.team.as_ref().map(Tenant::Team);
        let itself = Tenant::ApiKey(&key.id);
        let wanted = match self.rate_limiting.fair_queuing.tenant_dimension {
            TenantDimension::User => user,
            TenantDimension::Team => team,
            TenantDimension::ApiKey => Some(itself),
        };
        wanted.or(user).or(team).unwrap_or(itself)
    }

    /// All tenants that the keys make, each with its weight: that of `weights`, else the largest of its keys'
    /// tiers, else `default_weight`.
    #[must_use]
    pub fn tenant_weights(&self) -> Vec<TenantWeight<'_>> {
        let weights = Weights::new(&self.rate_limiting.fair_queuing.weights);
        tenants(self)
            .into_iter()
            .map(|(tenant, keys)| {
                let named = weights.of(tenant, &keys).map(|(_, weight)| weight.weight);
                let by_tier = || tier_weights(self, &keys).max();
                let weight = named.or_else(by_tier).unwrap_or(self.rate_limiting.fair_queuing.default_weight);
                TenantWeight { tenant, weight }
            })
            .collect()
    }
}

/// The tenants with their keys.
pub(crate) fn tenants(config: &GatewayConfig) -> BTreeMap<Tenant<'_>, Vec<&ApiKey>> {
    let mut tenants: BTreeMap<Tenant<'_>, Vec<&ApiKey>> = BTreeMap::new();
    for key in &config.api_keys.keys {
        tenants.entry(config.tenant_of(key)).or_default().push(key);
    }
    tenants
}

/// The weights of the tiers of some keys.
pub(crate) fn tier_weights<'a>(
    config: &'a GatewayConfig,
    keys: &'a [&ApiKey],
) -> impl Iterator<Item = NonZeroU32> + 'a {
    keys.iter().filter_map(|key| Some(config.identity.tiers.get(key.tier.as_ref()?)?.weight))
}

/// The digest of a raw key.
pub(crate) fn digest(raw: &str) -> KeyDigest {
    KeyDigest::from(<[u8; 32]>::from(Sha256::digest(raw)))
}

/// The entries of `weights`, to look up.
pub(crate) struct Weights<'a> {
    by_name: HashMap<(&'a str, Option<TenantDimension>), (usize, &'a Weight)>,
    by_digest: HashMap<[u8; 32], Vec<(usize, &'a Weight)>>,
}

impl<'a> Weights<'a> {
    pub(crate) fn new(weights: &'a [Weight]) -> Self {
        let mut by_digest: HashMap<_, Vec<_>> = HashMap::new();
        for (n, weight) in weights.iter().enumerate() {
            by_digest.entry(*digest(weight.tenant.as_str()).as_bytes()).or_default().push((n, weight));
        }
        let named =
            |(n, weight): (usize, &'a Weight)| ((weight.tenant.as_str(), weight.dimension), (n, weight));
        Self { by_name: weights.iter().enumerate().map(named).collect(), by_digest }
    }

    /// The entry for a tenant, with its index: one that gives the dimension goes before one that does not.
    pub(crate) fn of(&self, tenant: Tenant<'_>, keys: &[&ApiKey]) -> Option<(usize, &'a Weight)> {
        let dimension = tenant.dimension();
        match tenant {
            Tenant::User(name) | Tenant::Team(name) => {
                let entry = |dimension| self.by_name.get(&(name.as_str(), dimension)).copied();
                entry(Some(dimension)).or_else(|| entry(None))
            }
            Tenant::ApiKey(_) => {
                let found = keys.iter().filter_map(|key| {
                    let digest = match key.material()? {
                        KeyMaterial::Raw(raw) => digest(raw.expose()),
                        KeyMaterial::Sha256(digest) => digest.clone(),
                    };
                    self.by_digest.get(digest.as_bytes())
                });
                let fits = |weight: &Weight| weight.dimension.is_none_or(|wanted| wanted == dimension);
                found
                    .flatten()
                    .filter(|(_, weight)| fits(weight))
                    .max_by_key(|(_, weight)| weight.dimension.is_some())
                    .copied()
            }
        }
    }
}
