//! API keys and weights from configuration.

use std::{collections::HashMap, num::NonZeroU32, time::UNIX_EPOCH};

use fairlane_config::{
    GatewayConfig, Tenant as ConfiguredTenant,
    model::{ApiKey, ApiKeys, KeyMaterial, TenantDimension as Configured},
};
use fairlane_fair_queue::{TenantKey, Weight};
use fairlane_identity::{
    Digest, Directory, Hasher, Identity, KeyEntry, KeySecret, ModelPattern, TenantDimension,
};

use super::AssembleError;
use crate::admission::Tenant;

pub(super) fn directory(api_keys: &ApiKeys, hasher: &Hasher) -> Result<Directory, AssembleError> {
    let entries = api_keys.keys.iter().map(entry).collect::<Result<Vec<_>, _>>()?;
    Ok(Directory::new(entries, hasher)?)
}

fn entry(key: &ApiKey) -> Result<KeyEntry, AssembleError> {
    let secret = match key.material() {
        Some(KeyMaterial::Raw(raw)) => KeySecret::Raw(raw.expose().into()),
        Some(KeyMaterial::Sha256(digest)) => KeySecret::Sha256(*digest.as_bytes()),
        None => return Err(AssembleError::Value("an API key has neither `key` nor `sha256`")),
    };
    let models = key.models.iter().map(|pattern| pattern.as_str().parse::<ModelPattern>());
    let models = models.collect::<Result<_, _>>();
    // A time before 1970 is past, whatever it is exactly.
    let seconds = |time: std::time::SystemTime| {
        time.duration_since(UNIX_EPOCH).map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or(i64::MAX))
    };
    Ok(KeyEntry {
        user: key.user.as_ref().map(|name| name.as_str().to_owned()),
        team: key.team.as_ref().map(|name| name.as_str().to_owned()),
        tier: key.tier.clone(),
        enabled: key.enabled,
        expires_at: key.expires_at.map(seconds),
        models: Some(models.map_err(|_| AssembleError::Value("a model pattern is not valid"))?),
        ..KeyEntry::new(key.id.clone(), secret)
    })
}

/// The tenant of each identity, with its weight.
pub(super) struct Tenants {
    dimension: TenantDimension,
    weights: HashMap<Digest, NonZeroU32>,
    default: NonZeroU32,
}

impl Tenants {
    pub(super) fn new(config: &GatewayConfig, hasher: &Hasher) -> Self {
        let fair = &config.rate_limiting.fair_queuing;
        let weights = config.tenant_weights().into_iter().map(|entry| {
            let digest = match entry.tenant {
                ConfiguredTenant::User(name) => hasher.user(name.as_str()),
                ConfiguredTenant::Team(name) => hasher.team(name.as_str()),
                ConfiguredTenant::ApiKey(id) => hasher.api_key_id(id),
            };
            (digest, entry.weight)
        });
        Self {
            dimension: dimension(fair.tenant_dimension),
            weights: weights.collect(),
            default: fair.default_weight,
        }
    }

    pub(super) fn of(&self, identity: &Identity) -> Tenant {
        let digest = identity.tenant(self.dimension).digest();
        let weight = self.weights.get(&digest).unwrap_or(&self.default);
        Tenant {
            key: TenantKey(u128::from_be_bytes(digest.to_bytes())),
            // The configuration's range is the scheduler's.
            weight: Weight::new(weight.get()).unwrap_or(Weight::MAX),
        }
    }
}

/// The weight of every tenant that a key may have.
pub(super) fn weights(
    config: &GatewayConfig,
    hasher: &Hasher,
    directory: &Directory,
) -> HashMap<TenantKey, Weight> {
    let tenants = Tenants::new(config, hasher);
    directory.identities().iter().map(|identity| tenants.of(identity)).map(|it| (it.key, it.weight)).collect()
}

const fn dimension(configured: Configured) -> TenantDimension {
    match configured {
        Configured::User => TenantDimension::User,
        Configured::Team => TenantDimension::Team,
        Configured::ApiKey => TenantDimension::ApiKey,
    }
}
