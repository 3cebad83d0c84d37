use std::num::{NonZeroU32, NonZeroU64, NonZeroUsize};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{MOST_HELD, MOST_WAITING, MOST_WEIGHT};
use crate::values::Name;

/// Whether requests beyond an identity's limit of requests wait in a fair queue, and for how long. Who is a tenant, and
/// of what weight, is said here for `deferred_admission` too.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct FairQueuing {
    /// Whether requests wait. If not, they are answered 429 at once.
    pub enabled: bool,
    /// The identity that has a lane of its own. If a request has none of this kind, the first of user, team and
    /// API key that it has.
    pub tenant_dimension: TenantDimension,
    /// The weight of tenants that neither `weights` nor a tier names.
    #[schemars(range(max = MOST_WEIGHT))]
    pub default_weight: NonZeroU32,
    /// The weights of tenants: one of weight 3 is served three times as often as one of weight 1, and of a contended
    /// budget of tokens it gets three times as many.
    #[schemars(extend("examples" = [[{ "tenant": "alice", "weight": 3 }]]))]
    pub weights: Vec<Weight>,
    /// Requests of one tenant that queue at most.
    #[schemars(range(max = MOST_WAITING))]
    pub max_queue_depth_per_tenant: NonZeroUsize,
    /// Requests that queue in all at most.
    #[schemars(range(max = MOST_WAITING))]
    pub max_total_queued: NonZeroUsize,
    /// Tenants with a lane at one time at most, for queuing and deferral together.
    #[schemars(range(max = MOST_HELD))]
    pub max_tenants: NonZeroUsize,
    /// Attempts at admission that run at one time at most, for queuing and deferral together.
    #[schemars(range(max = MOST_HELD))]
    pub max_in_flight: NonZeroUsize,
    /// How long a request may queue at most, in milliseconds. The total timeout of requests bounds it too.
    #[schemars(range(max = 86_400_000))]
    pub max_wait_ms: NonZeroU64,
}

/// The kind of identity that makes a tenant.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum TenantDimension {
    /// The user.
    #[default]
    User,
    /// The team.
    Team,
    /// The API key.
    ApiKey,
}

/// The weight of one tenant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Weight of a tenant")]
pub struct Weight {
    /// The raw user, team or API key.
    #[schemars(extend("examples" = ["alice"]))]
    pub tenant: Name,
    /// The weight.
    #[schemars(range(max = MOST_WEIGHT), extend("examples" = [3]))]
    pub weight: NonZeroU32,
    /// Match only a tenant of this kind; absent: of whatever kind. An entry with it goes before one without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = ["team"]))]
    pub dimension: Option<TenantDimension>,
}

impl TenantDimension {
    /// The name as in the configuration.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Team => "team",
            Self::ApiKey => "api_key",
        }
    }
}

impl Default for FairQueuing {
    fn default() -> Self {
        Self {
            enabled: false,
            tenant_dimension: TenantDimension::default(),
            default_weight: NonZeroU32::MIN,
            weights: Vec::new(),
            max_queue_depth_per_tenant: const { NonZeroUsize::new(32).unwrap() },
            max_total_queued: const { NonZeroUsize::new(4096).unwrap() },
            max_tenants: const { NonZeroUsize::new(1024).unwrap() },
            max_in_flight: const { NonZeroUsize::new(8).unwrap() },
            max_wait_ms: const { NonZeroU64::new(5000).unwrap() },
        }
    }
}
