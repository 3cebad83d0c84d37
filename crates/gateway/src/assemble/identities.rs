//! API keys and weights from configuration.

use std::{collections::HashMap, num::NonZeroU32, time::UNIX_EPOCH};

use fairlane_config::{
    GatewayConfig,
    model::{ApiKey, ApiKeys, KeyMaterial, TenantDimension as Configured},
};
use fairlane_fair_queue::{TenantKey, Weight};
use fairlane_identity::{
    Directory, Hasher, Identity, KeyEntry, KeySecret, ModelPattern, TenantDimension, TenantId,
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

/// Each tenant's weight: its entry in `weights`, else the largest of its keys' tiers, else the default.
pub(super) struct Weights {
    dimension: TenantDimension,
    entries: HashMap<TenantId, NonZeroU32>,
    tiers: HashMap<TenantId, NonZeroU32>,
    default: NonZeroU32,
}

impl Weights {
    pub(super) fn new(config: &GatewayConfig, directory: &Directory) -> Self {
        let fair = &config.rate_limiting.fair_queuing;
        let dimension = dimension(fair.tenant_dimension);
        let mut entries = HashMap::new();
        for entry in &fair.weights {
            let only = entry.dimension.map(self::dimension);
            for tenant in directory.tenants_named(entry.tenant.as_str(), dimension, only) {
                entries.entry(tenant).or_insert(entry.weight);
            }
        }
        let mut tiers = HashMap::new();
        for identity in directory.identities() {
            let tier = identity.tier().and_then(|tier| config.identity.tiers.get(&**tier));
            if let Some(tier) = tier {
                let largest = tiers.entry(identity.tenant(dimension)).or_insert(tier.weight);
                *largest = tier.weight.max(*largest);
            }
        }
        Self { dimension, entries, tiers, default: fair.default_weight }
    }

    pub(super) fn tenant(&self, identity: &Identity) -> Tenant {
        let tenant = identity.tenant(self.dimension);
        let weight = self.entries.get(&tenant).or_else(|| self.tiers.get(&tenant)).unwrap_or(&self.default);
        Tenant {
            key: TenantKey(u128::from_be_bytes(tenant.digest().to_bytes())),
            // The configuration's range is the scheduler's.
            weight: Weight::new(weight.get()).unwrap_or(Weight::MAX),
        }
    }
}

fn dimension(configured: Configured) -> TenantDimension {
    match configured {
        Configured::User => TenantDimension::User,
        Configured::Team => TenantDimension::Team,
        Configured::ApiKey => TenantDimension::ApiKey,
    }
}
