//! The configuration as structs: one file per section, fields named as the keys, defaults as documented.
//!
//! The doc comment of a field is what an editor shows for its key, so it is written for the operator.

mod api_keys;
mod backend;
mod deferred_admission;
mod fair_queuing;
mod identity;
mod limit;
mod rate_limiting;
mod redis;
mod server;
mod timeouts;
mod tokens;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use api_keys::{ApiKey, ApiKeys, AuthMode, KeyMaterial};
pub use backend::{Auth, Backend, Health};
pub use deferred_admission::DeferredAdmission;
pub use fair_queuing::{FairQueuing, TenantDimension, Weight};
pub use identity::{Identity, Tier};
pub use limit::{DimensionLimit, IdentityLimit, Limit, Rate};
pub use rate_limiting::{Limits, RateLimiting, Storage};
pub(crate) use redis::KEY_PREFIX_PATTERN;
pub use redis::{Outage, Redis, RedisMode};
pub use server::{Admin, Log, LogFormat, LogLevel, Server, ServerTimeouts};
pub use timeouts::{RequestTimeouts, StandardTimeouts, StreamingTimeouts, Timeouts};
pub use tokens::{TokenEstimator, Tokens};

/// The largest amount of any rate or capacity: what the buckets count exactly.
pub(crate) const MOST: u64 = 1_000_000_000_000;

/// The largest bound on things held in memory.
pub(crate) const MOST_HELD: usize = 1_000_000_000;
/// The most requests that may wait: so many costs of the largest requests still add up to less than 2^64.
pub(crate) const MOST_WAITING: usize = (1 << 24) - 1;

/// The largest weight.
pub(crate) const MOST_WEIGHT: u32 = 1_000_000;

/// The configuration of the Fairlane gateway.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Fairlane configuration")]
pub struct GatewayConfig {
    /// Where and how the gateway listens.
    #[serde(default)]
    #[schemars(extend("examples" = [{ "listen": "0.0.0.0:8080", "max_body_bytes": 10_485_760 }]))]
    pub server: Server,
    /// The admin plane: health, metrics, queues, effective configuration.
    #[serde(default)]
    #[schemars(extend("examples" = [{ "token": "${FAIRLANE_ADMIN_TOKEN}" }]))]
    pub admin: Admin,
    /// The servers that answer the requests, at least one. Among the healthy ones that serve the model, one is
    /// chosen by weight.
    #[schemars(length(min = 1), extend("examples" = [[
        { "name": "primary", "url": "http://127.0.0.1:8000", "models": ["*"] }
    ]]))]
    pub backends: Vec<Backend>,
    /// What the gateway writes to its standard error.
    #[serde(default)]
    #[schemars(extend("examples" = [{ "format": "json", "level": "info" }]))]
    pub log: Log,
    /// How long the gateway waits for backends.
    #[serde(default)]
    #[schemars(extend("examples" = [{ "connect": "5s", "request": { "standard": { "total": "3m" } } }]))]
    pub timeouts: Timeouts,
    /// How users, teams and keys become tenants.
    #[serde(default)]
    #[schemars(extend("examples" = [{ "hash_key": "${FAIRLANE_HASH_KEY}", "tiers": { "gold": { "weight": 4 } } }]))]
    pub identity: Identity,
    /// The keys that callers show, as `Authorization: Bearer` or `x-api-key`.
    #[serde(default)]
    #[schemars(extend("examples" = [{
        "keys": [{ "id": "k1", "key": "${ALICE_KEY}", "user": "alice" }]
    }]))]
    pub api_keys: ApiKeys,
    /// Limits, and what happens to requests beyond them.
    #[serde(default)]
    #[schemars(extend("examples" = [{
        "limits": { "per_user": { "requests_per_second": 5, "burst_capacity": 10 } },
        "fair_queuing": { "enabled": true }
    }]))]
    pub rate_limiting: RateLimiting,
}
