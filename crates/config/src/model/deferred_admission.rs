use std::num::{NonZeroU64, NonZeroUsize};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::MOST_WAITING;

/// Whether requests that a token budget refuses for the moment wait until they fit, and for how long. Tenants, their
/// weights, `max_tenants` and `max_in_flight` are those of `fair_queuing`, whether or not that is enabled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DeferredAdmission {
    /// Whether requests wait for tokens. If not, they are answered 429 at once.
    pub enabled: bool,
    /// Requests that wait for tokens in all at most.
    #[schemars(range(max = MOST_WAITING))]
    pub max_held: NonZeroUsize,
    /// Requests of one tenant that wait for tokens at most.
    #[schemars(range(max = MOST_WAITING))]
    pub max_held_per_tenant: NonZeroUsize,
    /// How long a request may wait for tokens at most, in milliseconds. The total timeout of requests bounds it too. For
    /// one that has queued before, the shorter of both waits holds.
    #[schemars(range(max = 86_400_000))]
    pub max_wait_ms: NonZeroU64,
}

impl Default for DeferredAdmission {
    fn default() -> Self {
        Self {
            enabled: false,
            max_held: const { NonZeroUsize::new(1024).unwrap() },
            max_held_per_tenant: const { NonZeroUsize::new(32).unwrap() },
            max_wait_ms: const { NonZeroU64::new(5000).unwrap() },
        }
    }
}
