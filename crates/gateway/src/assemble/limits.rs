//! Limits from configuration: quotas, and the charges of everything that is known beforehand.

use std::{cmp::Reverse, collections::HashMap, sync::Arc};

use fairlane_config::{
    GatewayConfig,
    model::{DimensionLimit, Limit},
};
use fairlane_identity::{Digest, Directory, Hasher, Identity, ModelPattern, ModelRules};
use fairlane_limiter::{Quota, QuotaError};

use super::{AssembleError, identities, model_range, prefix};
use crate::{
    admission::Limiter,
    dimension::Dimension,
    limits::{CallerPlan, Charges, EdgeLimits, IdentityLimits, ModelLimits, RuleCharges},
};

/// One quota per period that the limit gives.
pub(super) fn quotas(limit: &Limit) -> Result<Vec<Quota>, QuotaError> {
    limit
        .request_rates()
        .map(|rate| Quota::new(rate.capacity.get(), rate.amount.get(), rate.period))
        .collect()
}

/// Buckets that get a place of their own, at the most: those of keys, users, teams and models, four periods each.
pub(super) fn known_buckets(config: &GatewayConfig) -> usize {
    const AT_MOST: usize = 65_536;
    let models: usize = config.backends.iter().map(|backend| backend.models.len()).sum();
    let overrides = config.rate_limiting.limits.per_model.overrides.len();
    let known = 3 * config.api_keys.keys.len() + models + overrides + 2;
    (4 * known).min(AT_MOST)
}

/// Quotas per identity: those of its override, else the dimension's own.
struct PerIdentity {
    common: Vec<Quota>,
    overrides: HashMap<Digest, Vec<Quota>>,
}

impl PerIdentity {
    fn new<K: Ord>(limit: &DimensionLimit<K>, digest: impl Fn(&K) -> Digest) -> Result<Self, QuotaError> {
        let overrides = limit.overrides.iter().map(|(name, limit)| Ok((digest(name), quotas(limit)?)));
        Ok(Self { common: quotas(limit)?, overrides: overrides.collect::<Result<_, QuotaError>>()? })
    }

    fn of(&self, identity: Digest) -> &[Quota] {
        self.overrides.get(&identity).unwrap_or(&self.common)
    }
}

pub(super) fn edge(
    config: &GatewayConfig,
    hasher: &Hasher,
    limiter: &Limiter,
) -> Result<EdgeLimits, AssembleError> {
    let rate_limiting = &config.rate_limiting;
    let nothing = EdgeLimits {
        global: Charges::default(),
        client: Vec::new(),
        client_overrides: Vec::new(),
        prefix: prefix(config)?,
        whitelist: rate_limiting.whitelist.iter().map(model_range).collect(),
        hasher: hasher.clone(),
    };
    if !rate_limiting.enabled {
        return Ok(nothing);
    }
    let limits = &rate_limiting.limits;
    let mut global = Charges::of_everybody(&quotas(&limits.global)?);
    pin(&mut global, limiter);
    let mut client_overrides = limits
        .per_client
        .overrides
        .iter()
        .map(|(range, limit)| Ok((model_range(range), quotas(limit)?)))
        .collect::<Result<Vec<_>, QuotaError>>()?;
    client_overrides.sort_by_key(|(range, _)| Reverse(range.prefix_len()));
    Ok(EdgeLimits { global, client: quotas(&limits.per_client)?, client_overrides, ..nothing })
}

pub(super) fn identity(
    config: &GatewayConfig,
    hasher: &Hasher,
    directory: &Directory,
    limiter: &Limiter,
) -> Result<IdentityLimits, AssembleError> {
    let limits = &config.rate_limiting.limits;
    let per_key = PerIdentity::new(&limits.per_api_key, |id| hasher.api_key_id(id))?;
    let per_user = PerIdentity::new(&limits.per_user, |name| hasher.user(name.as_str()))?;
    let per_team = PerIdentity::new(&limits.per_team, |name| hasher.team(name.as_str()))?;
    let own: HashMap<Digest, Vec<Quota>> = config
        .api_keys
        .keys
        .iter()
        .filter_map(|key| Some((hasher.api_key_id(&key.id), key.rate_limit.as_ref()?)))
        .map(|(id, limit)| Ok((id, quotas(limit)?)))
        .collect::<Result<_, QuotaError>>()?;
    let tenants = identities::Tenants::new(config, hasher);

    let plan = |identity: &Identity| {
        let key = identity.key().digest();
        let key_quotas = own.get(&key).map_or_else(|| per_key.of(key), Vec::as_slice);
        let mut charges = Charges::of_identity(Dimension::ApiKey, key, key_quotas);
        if let Some(user) = identity.user() {
            charges.push_identity(Dimension::User, user, per_user.of(user));
        }
        if let Some(team) = identity.team() {
            charges.push_identity(Dimension::Team, team, per_team.of(team));
        }
        // A flood of unknown addresses can fill the store; it must not push those who are known into shared buckets.
        pin(&mut charges, limiter);
        let bypass = config.rate_limiting.bypass_keys.iter().any(|id| **id == **identity.key().name());
        CallerPlan { charges, tenant: tenants.of(identity), bypass }
    };
    Ok(IdentityLimits {
        plans: directory
            .identities()
            .iter()
            .map(|identity| (identity.key().digest(), Arc::new(plan(identity))))
            .collect(),
        models: models(config, hasher, limiter)?,
    })
}

fn models(config: &GatewayConfig, hasher: &Hasher, limiter: &Limiter) -> Result<ModelLimits, AssembleError> {
    let per_model = &config.rate_limiting.limits.per_model;
    let rules = |named: Vec<(String, Vec<Quota>)>| {
        let mut found = RuleCharges::default();
        let mut patterns = Vec::new();
        for (text, quotas) in named {
            let pattern: ModelPattern =
                text.parse().map_err(|_| AssembleError::Value("a model pattern is not valid"))?;
            let mut charges = Charges::of_identity(Dimension::Model, hasher.model(&text), &quotas);
            pin(&mut charges, limiter);
            patterns.push(pattern);
            found.charges.push(charges);
        }
        found.rules = ModelRules::new(patterns);
        Ok::<_, AssembleError>(found)
    };
    let overrides = per_model
        .overrides
        .iter()
        .map(|(pattern, limit)| Ok((pattern.as_str().to_owned(), quotas(limit)?)))
        .collect::<Result<_, QuotaError>>()?;
    let common = quotas(per_model)?;
    let mut unnamed = Charges::of_identity(Dimension::Model, hasher.model(""), &common);
    pin(&mut unnamed, limiter);
    let mut served: Vec<String> = config
        .backends
        .iter()
        .flat_map(|backend| &backend.models)
        .map(|pattern| pattern.as_str().to_owned())
        .collect();
    served.sort_unstable();
    served.dedup();
    Ok(ModelLimits {
        overrides: rules(overrides)?,
        served: rules(served.into_iter().map(|text| (text, common.clone())).collect())?,
        unnamed,
    })
}

/// Gives buckets that are known beforehand a place of their own, found without a look-up.
fn pin(charges: &mut Charges, limiter: &Limiter) {
    for charge in charges.as_mut_slice() {
        charge.key = limiter.pin(charge.key);
    }
}
