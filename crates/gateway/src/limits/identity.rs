//! The limits of whom a request belongs to, and of the model it asks for.

use std::{collections::HashMap, sync::Arc};

use fairlane_fair_queue::GateKey;
use fairlane_identity::{Digest, DigestMap, Identity, ModelRules};
use fairlane_limiter::Charge;

use super::{Charges, PeriodQuota};
use crate::{
    admission::{Tenant, gate_of},
    dimension::Dimension,
};

/// The quotas of one identity in one dimension, one for each period that is given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdentityQuotas {
    /// Of requests.
    pub requests: Vec<PeriodQuota>,
    /// Of tokens.
    pub tokens: Vec<PeriodQuota>,
}

/// The buckets of one identity, or of all that a request belongs to.
#[derive(Clone, Debug, Default)]
pub struct Buckets {
    /// Those that count requests, each charged one.
    pub requests: Charges,
    /// Those that count tokens; what they are charged depends on the request.
    pub tokens: Charges,
}

impl Buckets {
    /// The buckets of an identity in a dimension.
    #[must_use]
    pub fn of_identity(dimension: Dimension, identity: Digest, quotas: &IdentityQuotas) -> Self {
        let mut buckets = Self::default();
        buckets.push_identity(dimension, identity, quotas);
        buckets
    }

    /// Adds an identity's buckets in a dimension.
    pub fn push_identity(&mut self, dimension: Dimension, identity: Digest, quotas: &IdentityQuotas) {
        self.requests.push_identity(dimension, identity, &quotas.requests);
        self.tokens.push_tokens(dimension, identity, &quotas.tokens);
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Charge> {
        self.requests.as_slice().iter().chain(self.tokens.as_slice())
    }

    /// All of them, to change where they are found.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Charge> {
        self.requests.as_mut_slice().iter_mut().chain(self.tokens.as_mut_slice())
    }
}

/// What one API key's requests are charged and queued as: everything that does not depend on the request.
#[derive(Clone, Debug)]
pub struct CallerPlan {
    /// The buckets of its `api_key`, `user` and `team`.
    pub buckets: Buckets,
    /// The tenant its requests wait as.
    pub tenant: Tenant,
    /// Whether the identity limits, the model's among them, leave it alone.
    pub bypass: bool,
}

/// The buckets of each configured model rule.
///
/// A bucket belongs to the rule that matched and not to the model, so that inventing names buys no fresh buckets.
#[derive(Debug, Default)]
pub struct ModelLimits {
    /// Rules with limits of their own; they come first.
    pub overrides: RuleBuckets,
    /// What backends serve; all under the dimension's common limit.
    pub served: RuleBuckets,
    /// Requests that name no model, where no rule is for every model; under the common limit too.
    pub unnamed: Buckets,
}

/// Rules and, in their order, their buckets.
#[derive(Debug, Default)]
pub struct RuleBuckets {
    /// The rules.
    pub rules: ModelRules,
    /// The buckets.
    pub buckets: Vec<Buckets>,
}

impl RuleBuckets {
    fn find(&self, model: &str) -> Option<&Buckets> {
        self.buckets.get(self.rules.find(model)?.index)
    }
}

impl ModelLimits {
    /// What a request for `model` meets. One that names none meets only rules for every model, or buckets that all such
    /// requests share.
    #[must_use]
    pub fn buckets(&self, model: Option<&str>) -> Option<&Buckets> {
        let name = model.unwrap_or_default();
        let ruled = self.overrides.find(name).or_else(|| self.served.find(name));
        ruled.or_else(|| model.is_none().then_some(&self.unnamed))
    }

    fn all(&self) -> impl Iterator<Item = &Buckets> {
        self.overrides.buckets.iter().chain(&self.served.buckets).chain([&self.unnamed])
    }

    /// Whether the tokens of some model are counted.
    #[must_use]
    pub fn count_tokens(&self) -> bool {
        self.all().any(|buckets| !buckets.tokens.is_empty())
    }
}

/// The plans of all keys, and the limits of models.
#[derive(Debug, Default)]
pub struct IdentityLimits {
    /// Plans by the digest of the key's id.
    plans: DigestMap<Arc<CallerPlan>>,
    /// The limits of models.
    models: ModelLimits,
    models_count_tokens: bool,
    plans_count_tokens: bool,
}

impl IdentityLimits {
    /// The limits of keys, by the digest of their ids, and of models.
    #[must_use]
    pub fn new(plans: DigestMap<Arc<CallerPlan>>, models: ModelLimits) -> Self {
        let models_count_tokens = models.count_tokens();
        let plans_count_tokens = plans.values().any(|plan| !plan.buckets.tokens.is_empty());
        Self { plans, models, models_count_tokens, plans_count_tokens }
    }

    /// Every bucket of keys, users, teams and models.
    pub fn charges(&self) -> impl Iterator<Item = &Charge> {
        let plans = self.plans.values().map(|plan| &plan.buckets);
        plans.chain(self.models.all()).flat_map(Buckets::iter)
    }

    /// Which dimension each bucket that somebody may wait for belongs to.
    #[must_use]
    pub fn gates(&self) -> HashMap<GateKey, Dimension> {
        self.charges().filter_map(|charge| Some((gate_of(charge), Dimension::of(&charge.key)?))).collect()
    }

    /// The plan of a key that the directory knows.
    #[must_use]
    pub fn plan(&self, identity: &Identity) -> Option<&Arc<CallerPlan>> {
        self.plans.get(&identity.key().digest())
    }

    /// The buckets of a model; see [`ModelLimits::buckets`].
    #[must_use]
    pub fn model(&self, model: Option<&str>) -> Option<&Buckets> {
        self.models.buckets(model)
    }

    /// Whether anybody is charged tokens.
    #[must_use]
    pub const fn count_tokens(&self) -> bool {
        self.models_count_tokens || self.plans_count_tokens
    }

    /// Whether a caller with this plan may be charged tokens, as long as the model is not known.
    #[must_use]
    pub fn may_count_tokens(&self, plan: Option<&CallerPlan>) -> bool {
        match plan {
            Some(plan) => !plan.bypass && (self.models_count_tokens || !plan.buckets.tokens.is_empty()),
            None => self.models_count_tokens,
        }
    }
}
