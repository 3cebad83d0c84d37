//! Limits from configuration: quotas, and the charges of everything that is known beforehand.

use std::{cmp::Reverse, collections::HashMap, sync::Arc};

use fairlane_config::{
    GatewayConfig,
    model::{DimensionLimit, IdentityLimit, Limit, Rate},
};
use fairlane_identity::{Digest, Directory, Hasher, Identity, ModelPattern, ModelRules};
use fairlane_limiter::{Charge, Quota};

use super::{AssembleError, identities, model_range, prefix};
use crate::{
    admission::Limiter,
    dimension::Dimension,
    limits::{
        Buckets, CallerPlan, Charges, EdgeLimits, IdentityLimits, IdentityQuotas, ModelLimits, Period,
        PeriodQuota, QuotaTable, RuleBuckets,
    },
};

/// One quota per period of requests that the limit gives.
pub(super) fn quotas(limit: &Limit) -> Result<Vec<PeriodQuota>, AssembleError> {
    limit.request_rates().map(quota).collect()
}

fn identity_quotas(limit: &IdentityLimit) -> Result<IdentityQuotas, AssembleError> {
    Ok(IdentityQuotas {
        requests: quotas(limit)?,
        tokens: limit.token_rates().map(quota).collect::<Result<_, _>>()?,
    })
}

fn quota(rate: Rate) -> Result<PeriodQuota, AssembleError> {
    let period = Period::lasting(rate.period);
    let period = period.ok_or(AssembleError::Value("a limit is given for a period that has no name"))?;
    Ok(PeriodQuota::new(period, Quota::new(rate.capacity.get(), rate.amount.get(), rate.period)?))
}

/// Buckets that get a place of their own, at the most: those of keys, users, teams and models, each with four periods of
/// requests and three of tokens, and as many again for what is new after a reload.
pub(super) fn known_buckets(config: &GatewayConfig) -> usize {
    const NEW: usize = 4_096;
    const AT_MOST: usize = 65_536;
    let models: usize = config.backends.iter().map(|backend| backend.models.len()).sum();
    let overrides = config.rate_limiting.limits.per_model.overrides.len();
    let known = 3 * config.api_keys.keys.len() + models + overrides + 2;
    // A place is never given back, and must not be at the cost of whom nobody knows beforehand.
    let room = config.rate_limiting.max_buckets.get();
    (7 * known + (7 * known + NEW).min(room / 2)).min(AT_MOST)
}

/// Quotas per identity: those of its override, else the dimension's own.
struct PerIdentity {
    common: IdentityQuotas,
    overrides: HashMap<Digest, IdentityQuotas>,
}

impl PerIdentity {
    fn new<K: Ord>(limit: &DimensionLimit<K>, digest: impl Fn(&K) -> Digest) -> Result<Self, AssembleError> {
        let overrides =
            limit.overrides.iter().map(|(name, limit)| Ok((digest(name), identity_quotas(limit)?)));
        Ok(Self {
            common: identity_quotas(limit)?,
            overrides: overrides.collect::<Result<_, AssembleError>>()?,
        })
    }

    fn of(&self, identity: Digest) -> &IdentityQuotas {
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
    pin(global.as_mut_slice(), limiter);
    let mut client_overrides = limits
        .per_client
        .overrides
        .iter()
        .map(|(range, limit)| Ok((model_range(range), quotas(limit)?)))
        .collect::<Result<Vec<_>, AssembleError>>()?;
    client_overrides.sort_by_key(|(range, _)| Reverse(range.prefix_len()));
    Ok(EdgeLimits { global, client: quotas(&limits.per_client)?, client_overrides, ..nothing })
}

pub(super) fn identity(
    config: &GatewayConfig,
    hasher: &Hasher,
    directory: &Directory,
    limiter: &Limiter,
) -> Result<IdentityLimits, AssembleError> {
    if !config.rate_limiting.enabled {
        return Ok(IdentityLimits::default());
    }
    let limits = &config.rate_limiting.limits;
    let per_key = PerIdentity::new(&limits.per_api_key, |id| hasher.api_key_id(id))?;
    let per_user = PerIdentity::new(&limits.per_user, |name| hasher.user(name.as_str()))?;
    let per_team = PerIdentity::new(&limits.per_team, |name| hasher.team(name.as_str()))?;
    let own: HashMap<Digest, IdentityQuotas> = config
        .api_keys
        .keys
        .iter()
        .filter_map(|key| Some((hasher.api_key_id(&key.id), key.rate_limit.as_ref()?)))
        .map(|(id, limit)| Ok((id, identity_quotas(limit)?)))
        .collect::<Result<_, AssembleError>>()?;
    let tenants = identities::Tenants::new(config, hasher);

    let plan = |identity: &Identity| {
        let key = identity.key().digest();
        let key_quotas = own.get(&key).unwrap_or_else(|| per_key.of(key));
        let mut buckets = Buckets::of_identity(Dimension::ApiKey, key, key_quotas);
        if let Some(user) = identity.user() {
            buckets.push_identity(Dimension::User, user, per_user.of(user));
        }
        if let Some(team) = identity.team() {
            buckets.push_identity(Dimension::Team, team, per_team.of(team));
        }
        // A flood of unknown addresses can fill the store; it must not push those who are known into shared buckets.
        pin(buckets.iter_mut(), limiter);
        let bypass = config.rate_limiting.bypass_keys.iter().any(|id| **id == **identity.key().name());
        CallerPlan { buckets, tenant: tenants.of(identity), bypass }
    };
    let identities = directory.identities().iter();
    let plans = identities.map(|identity| (identity.key().digest(), Arc::new(plan(identity)))).collect();
    Ok(IdentityLimits::new(plans, models(config, hasher, limiter)?))
}

fn models(config: &GatewayConfig, hasher: &Hasher, limiter: &Limiter) -> Result<ModelLimits, AssembleError> {
    let per_model = &config.rate_limiting.limits.per_model;
    let rules = |named: Vec<(String, IdentityQuotas)>| {
        let mut found = RuleBuckets::default();
        let mut patterns = Vec::new();
        for (text, quotas) in named {
            let pattern: ModelPattern =
                text.parse().map_err(|_| AssembleError::Value("a model pattern is not valid"))?;
            let mut buckets = Buckets::of_identity(Dimension::Model, hasher.model(&text), &quotas);
            pin(buckets.iter_mut(), limiter);
            patterns.push(pattern);
            found.buckets.push(buckets);
        }
        found.rules = ModelRules::new(patterns);
        Ok::<_, AssembleError>(found)
    };
    let overrides = per_model
        .overrides
        .iter()
        .map(|(pattern, limit)| Ok((pattern.as_str().to_owned(), identity_quotas(limit)?)))
        .collect::<Result<_, AssembleError>>()?;
    let common = identity_quotas(per_model)?;
    let mut unnamed = Buckets::of_identity(Dimension::Model, hasher.model(""), &common);
    pin(unnamed.iter_mut(), limiter);
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

/// The quotas of all buckets that are known beforehand, and everybody who might have one.
pub(super) fn table(
    config: &GatewayConfig,
    hasher: &Hasher,
    directory: &Directory,
    edge: &EdgeLimits,
    limits: &IdentityLimits,
    backends: &HashMap<Arc<str>, Charges>,
) -> QuotaTable {
    let mut table = QuotaTable::default();
    for identity in directory.identities() {
        let digests = [Some(identity.key().digest()), identity.user(), identity.team()];
        digests.into_iter().flatten().for_each(|digest| table.know(digest));
    }
    let served = config.backends.iter().flat_map(|backend| &backend.models);
    let overrides = config.rate_limiting.limits.per_model.overrides.keys();
    for rule in served.chain(overrides) {
        table.know(hasher.model(rule.as_str()));
    }
    table.know(hasher.model(""));
    config.backends.iter().for_each(|backend| table.know(hasher.backend(&backend.name)));
    table.set(edge.global.as_slice());
    table.set(limits.charges());
    table.set(backends.values().flat_map(Charges::as_slice));
    table
}

/// Gives buckets that are known beforehand a place of their own, found without a look-up.
fn pin<'a>(charges: impl IntoIterator<Item = &'a mut Charge>, limiter: &Limiter) {
    for charge in charges {
        charge.key = limiter.pin(charge.key);
    }
}
