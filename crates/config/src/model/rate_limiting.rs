use std::num::NonZeroUsize;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{DeferredAdmission, DimensionLimit, FairQueuing, IdentityLimit, Limit, MOST_HELD, Redis, Tokens};
use crate::values::{AddressRange, ModelPattern, Name};

/// Limits, and what happens to requests beyond them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RateLimiting {
    /// Whether anything is limited; if `limits` is given, true by default. Changes only at a restart while `storage` is
    /// `redis`.
    pub enabled: bool,
    /// Where the buckets are. Changes only at a restart.
    pub storage: Storage,
    /// The Redis that holds the buckets of a fleet, for `storage: redis`.
    #[schemars(extend("examples" = [{ "url": "${REDIS_URL}", "key_prefix": "fairlane" }]))]
    pub redis: Redis,
    /// Addresses or CIDRs of clients that no limit counts.
    pub whitelist: Vec<AddressRange>,
    /// Ids of keys that no identity limit counts (`global`, `per_client` and `per_backend` still do).
    #[schemars(extend("examples" = [["k1"]]))]
    pub bypass_keys: Vec<String>,
    /// Buckets at most, for `storage: memory` (in Redis every bucket expires by itself). Beyond it, new identities of
    /// a dimension share one bucket. Changes only at a restart.
    #[schemars(range(max = MOST_HELD))]
    pub max_buckets: NonZeroUsize,
    /// The limits, by what they are counted per.
    #[schemars(extend("examples" = [{ "per_user": { "requests_per_second": 5, "burst_capacity": 10 } }]))]
    pub limits: Limits,
    /// How many tokens a request is taken to need until its backend tells how many it used.
    #[schemars(extend("examples" = [{ "default_output": 512, "estimator": "tiktoken" }]))]
    pub tokens: Tokens,
    /// Whether requests beyond an identity's limit of requests wait in a fair queue, and for how long. Who is a tenant,
    /// and of what weight, is said here for `deferred_admission` too.
    #[schemars(extend("examples" = [{ "enabled": true, "max_wait_ms": 5000 }]))]
    pub fair_queuing: FairQueuing,
    /// Whether requests that a token budget refuses for the moment wait until they fit, and for how long. Tenants, their
    /// weights, `max_tenants` and `max_in_flight` are those of `fair_queuing`, whether or not that is enabled.
    #[schemars(extend("examples" = [{ "enabled": true, "max_wait_ms": 5000 }]))]
    pub deferred_admission: DeferredAdmission,
}

/// Where the buckets are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Storage {
    /// In this process, for itself alone.
    #[default]
    Memory,
    /// In Redis, for all gateways with the same `redis.key_prefix`: one exact limit for the fleet. It needs
    /// `identity.hash_key`, the same for all of them.
    Redis,
}

/// The limits, by what they are counted per. An absent one does not limit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// All requests together, before authentication; never queued. Only requests are counted.
    #[serde(skip_serializing_if = "Limit::is_empty")]
    #[schemars(extend("examples" = [{ "requests_per_second": 1000 }]))]
    pub global: Limit,
    /// Requests of one client address, before authentication; never queued. Only requests are counted.
    #[serde(skip_serializing_if = "DimensionLimit::is_empty")]
    #[schemars(extend("examples" = [{ "requests_per_second": 50, "overrides": { "192.0.2.0/24": { "requests_per_second": 200 } } }]))]
    pub per_client: DimensionLimit<AddressRange, Limit>,
    /// Requests to one backend, counted when it is chosen. Only requests are counted.
    #[serde(skip_serializing_if = "DimensionLimit::is_empty")]
    #[schemars(extend("examples" = [{ "overrides": { "primary": { "requests_per_second": 100 } } }]))]
    pub per_backend: DimensionLimit<String, Limit>,
    /// Requests and tokens of one key.
    #[serde(skip_serializing_if = "DimensionLimit::is_empty")]
    #[schemars(extend("examples" = [{ "requests_per_second": 10, "overrides": { "k1": { "requests_per_second": 20 } } }]))]
    pub per_api_key: DimensionLimit<String>,
    /// Requests and tokens of one user.
    #[serde(skip_serializing_if = "DimensionLimit::is_empty")]
    #[schemars(extend("examples" = [{ "tokens_per_minute": 100_000, "overrides": { "alice": { "tokens_per_minute": 500_000 } } }]))]
    pub per_user: DimensionLimit<Name>,
    /// Requests and tokens of one team.
    #[serde(skip_serializing_if = "DimensionLimit::is_empty")]
    #[schemars(extend("examples" = [{ "requests_per_second": 20, "overrides": { "research": { "requests_per_second": 40 } } }]))]
    pub per_team: DimensionLimit<Name>,
    /// Requests and tokens for one model, as named by the override that matches it, else by the entry of a backend's
    /// `models`.
    #[serde(skip_serializing_if = "DimensionLimit::is_empty")]
    #[schemars(extend("examples" = [{ "overrides": { "gpt-4*": { "requests_per_minute": 600 } } }]))]
    pub per_model: DimensionLimit<ModelPattern>,
}

impl Limits {
    /// Whether some limit of an identity (key, user, team, model) counts requests: those queue.
    #[must_use]
    pub fn has_identity_limit(&self) -> bool {
        self.each_identity_limit().any(IdentityLimit::limits_requests)
    }

    /// Whether some limit of an identity counts tokens: those are deferred.
    #[must_use]
    pub fn has_token_limit(&self) -> bool {
        self.each_identity_limit().any(IdentityLimit::limits_tokens)
    }

    fn each_identity_limit(&self) -> impl Iterator<Item = &IdentityLimit> {
        let (key, user) = (self.per_api_key.each(), self.per_user.each());
        let (team, model) = (self.per_team.each(), self.per_model.each());
        key.chain(user).chain(team).chain(model)
    }
}

impl Default for RateLimiting {
    fn default() -> Self {
        Self {
            enabled: false,
            storage: Storage::default(),
            redis: Redis::default(),
            whitelist: Vec::new(),
            bypass_keys: Vec::new(),
            max_buckets: const { NonZeroUsize::new(1_000_000).unwrap() },
            limits: Limits::default(),
            tokens: Tokens::default(),
            fair_queuing: FairQueuing::default(),
            deferred_admission: DeferredAdmission::default(),
        }
    }
}
