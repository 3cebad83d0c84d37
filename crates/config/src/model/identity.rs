use std::{collections::BTreeMap, num::NonZeroU32};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::MOST_WEIGHT;
use crate::values::Secret;

/// How users, teams and keys become tenants.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Identity {
    /// The key with which identities are hashed before they are stored or shown anywhere. Empty: a new one for
    /// each process, with a warning. Visible ASCII without spaces. Changes only at a restart.
    #[schemars(extend("default" = crate::defaults::HASH_KEY))]
    pub hash_key: Secret,
    /// Named classes of keys. The tier of a key gives its tenant's weight, unless
    /// `rate_limiting.fair_queuing.weights` names the tenant.
    #[schemars(extend("examples" = [{ "gold": { "weight": 4 } }]))]
    pub tiers: BTreeMap<String, Tier>,
}

/// A class of keys.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Tier")]
pub struct Tier {
    /// The weight of tenants whose keys are of this tier.
    #[schemars(range(max = MOST_WEIGHT), extend("examples" = [4]))]
    pub weight: NonZeroU32,
}
