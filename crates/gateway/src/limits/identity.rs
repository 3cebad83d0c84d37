//! The limits of whom a request belongs to, and of the model it asks for.

use std::{collections::HashMap, sync::Arc};

use fairlane_fair_queue::GateKey;
use fairlane_identity::{Digest, Identity, ModelRules};

use super::Charges;
use crate::{
    admission::{Tenant, gate_of},
    dimension::Dimension,
};

/// What one API key's requests are charged and queued as: everything that does not depend on the request.
#[derive(Clone, Debug)]
pub struct CallerPlan {
    /// The charges of its `api_key`, `user` and `team`.
    pub charges: Charges,
    /// The tenant its requests wait as.
    pub tenant: Tenant,
    /// Whether the identity limits, the model's among them, leave it alone.
    pub bypass: bool,
}

/// The charges of each configured model rule.
///
/// A bucket belongs to the rule that matched and not to the model, so that inventing names buys no fresh buckets.
#[derive(Debug, Default)]
pub struct ModelLimits {
    /// Rules with limits of their own; they come first.
    pub overrides: RuleCharges,
    /// What backends serve; all under the dimension's common limit.
    pub served: RuleCharges,
    /// Requests that name no model, where no rule is for every model; under the common limit too.
    pub unnamed: Charges,
}

/// Rules and, in their order, their charges.
#[derive(Debug, Default)]
pub struct RuleCharges {
    /// The rules.
    pub rules: ModelRules,
    /// The charges.
    pub charges: Vec<Charges>,
}

impl RuleCharges {
    fn find(&self, model: &str) -> Option<&Charges> {
        self.charges.get(self.rules.find(model)?.index)
    }
}

impl ModelLimits {
    /// What a request for `model` is charged. One that names none meets only rules for every model, or a bucket that all
    /// such requests share.
    #[must_use]
    pub fn charges(&self, model: Option<&str>) -> Option<&Charges> {
        let name = model.unwrap_or_default();
        let ruled = self.overrides.find(name).or_else(|| self.served.find(name));
        ruled.or_else(|| model.is_none().then_some(&self.unnamed))
    }
}

/// The plans of all keys, and the limits of models.
#[derive(Debug, Default)]
pub struct IdentityLimits {
    /// Plans by the digest of the key's id.
    pub plans: HashMap<Digest, Arc<CallerPlan>>,
    /// The limits of models.
    pub models: ModelLimits,
}

impl IdentityLimits {
    /// Which dimension each bucket that somebody may wait for belongs to.
    #[must_use]
    pub fn gates(&self) -> HashMap<GateKey, Dimension> {
        let plans = self.plans.values().map(|plan| &plan.charges);
        let models = self.models.overrides.charges.iter().chain(&self.models.served.charges);
        let charges = plans.chain(models).flat_map(Charges::as_slice);
        charges.filter_map(|charge| Some((gate_of(charge), Dimension::of(&charge.key)?))).collect()
    }

    /// The plan of a key that the directory knows.
    #[must_use]
    pub fn plan(&self, identity: &Identity) -> Option<&Arc<CallerPlan>> {
        self.plans.get(&identity.key().digest())
    }
}
