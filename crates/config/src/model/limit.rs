use std::{collections::BTreeMap, num::NonZeroU64, ops::Deref, time::Duration};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::MOST;

/// The fastest rate is [`MOST`] per minute.
const MOST_PER_SECOND: u64 = MOST / 60;

/// Rates that must all hold, each a bucket of its own. A rate that is absent does not limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Limit {
    /// Requests per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = MOST_PER_SECOND), extend("examples" = [10]))]
    pub requests_per_second: Option<NonZeroU64>,
    /// Requests per minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = MOST), extend("examples" = [600]))]
    pub requests_per_minute: Option<NonZeroU64>,
    /// Requests per hour.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = MOST), extend("examples" = [10_000]))]
    pub requests_per_hour: Option<NonZeroU64>,
    /// Requests per day.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = MOST), extend("examples" = [100_000]))]
    pub requests_per_day: Option<NonZeroU64>,
    /// How many requests may come at once: the capacity of the bucket of the shortest period given. Absent: the
    /// amount of one period.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = MOST), extend("examples" = [20]))]
    pub burst_capacity: Option<NonZeroU64>,
}

/// A limit per identity, with other limits for some of them.
///
/// `K` is what names an identity of the dimension. It reads as a [`Limit`]: that of everybody without an entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DimensionLimit<K: Ord> {
    /// The limit of everybody without an override.
    #[serde(flatten)]
    pub limit: Limit,
    /// Limits in place of the whole limit above, by identity; `{}` lifts it. A key is named by its `id`, a client
    /// by an address or CIDR, a model by its name or a beginning and a final `*`. The most specific entry counts.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub overrides: BTreeMap<K, Limit>,
}

/// One bucket of request counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestRate {
    /// Requests per `period`.
    pub amount: NonZeroU64,
    /// The period.
    pub period: Duration,
    /// How many requests may come at once.
    pub capacity: NonZeroU64,
}

impl Limit {
    /// The buckets of this limit, the one with the shortest period first. None: unlimited.
    pub fn request_rates(&self) -> impl Iterator<Item = RequestRate> + use<> {
        let mut burst = self.burst_capacity;
        [
            (self.requests_per_second, 1),
            (self.requests_per_minute, 60),
            (self.requests_per_hour, 3600),
            (self.requests_per_day, 86_400),
        ]
        .into_iter()
        .filter_map(|(amount, seconds)| amount.map(|amount| (amount, seconds)))
        .map(move |(amount, seconds)| RequestRate {
            amount,
            period: Duration::from_secs(seconds),
            capacity: burst.take().unwrap_or(amount),
        })
    }

    /// Whether nothing at all is given.
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether no rate is given.
    #[must_use]
    pub fn is_unlimited(&self) -> bool {
        self.request_rates().next().is_none()
    }
}

impl<K: Ord> DimensionLimit<K> {
    pub(super) fn is_empty(&self) -> bool {
        self.limit.is_empty() && self.overrides.is_empty()
    }

    /// Whether nobody is limited, overrides included.
    #[must_use]
    pub fn is_unused(&self) -> bool {
        self.limit.is_unlimited() && self.overrides.values().all(Limit::is_unlimited)
    }
}

impl<K: Ord> Default for DimensionLimit<K> {
    fn default() -> Self {
        Self { limit: Limit::default(), overrides: BTreeMap::new() }
    }
}

impl<K: Ord> Deref for DimensionLimit<K> {
    type Target = Limit;

    fn deref(&self) -> &Limit {
        &self.limit
    }
}
