use std::{collections::BTreeMap, num::NonZeroU64, ops::Deref, time::Duration};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::MOST;

/// The fastest rate is [`MOST`] per minute.
const MOST_PER_SECOND: u64 = MOST / 60;

/// Rates of requests that must all hold, each a bucket of its own. A rate that is absent does not limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(title = "Limit")]
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

/// Rates of requests and budgets of tokens that must all hold, each a bucket of its own, for identities: a key, a
/// user, a team or a model. It reads as a [`Limit`]: that of requests alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(title = "Limit")]
pub struct IdentityLimit {
    /// The rates of requests.
    #[serde(flatten)]
    pub requests: Limit,
    /// Tokens per minute: those of the prompt and those of the answer together.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = MOST), extend("examples" = [100_000]))]
    pub tokens_per_minute: Option<NonZeroU64>,
    /// Tokens per hour.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = MOST), extend("examples" = [1_000_000]))]
    pub tokens_per_hour: Option<NonZeroU64>,
    /// Tokens per day.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = MOST), extend("examples" = [5_000_000]))]
    pub tokens_per_day: Option<NonZeroU64>,
    /// How many tokens may be taken at once: the capacity of the bucket of the shortest period of tokens given, and
    /// so the largest request that it ever admits. Absent: the amount of one period.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = MOST), extend("examples" = [200_000]))]
    pub token_burst_capacity: Option<NonZeroU64>,
}

/// A limit per identity, with other limits for some of them.
///
/// `K` is what names an identity of the dimension, and `L` what is limited. It reads as a limit: that of everybody
/// without an entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DimensionLimit<K: Ord, L: Default = IdentityLimit> {
    /// The limit of everybody without an override.
    #[serde(flatten)]
    pub limit: L,
    /// Limits in place of the whole limit above, by identity; `{}` lifts it. A key is named by its `id`, a client
    /// by an address or CIDR, a model by its name or a beginning and a final `*`. The most specific entry counts.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub overrides: BTreeMap<K, L>,
}

/// One bucket, of requests or of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Requests or tokens per `period`.
    pub amount: NonZeroU64,
    /// The period.
    pub period: Duration,
    /// How many may be taken at once.
    pub capacity: NonZeroU64,
}

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(86_400);

/// One bucket for each amount that is given; the first of them holds `burst`.
fn rates<const N: usize>(
    amounts: [(Option<NonZeroU64>, Duration); N],
    mut burst: Option<NonZeroU64>,
) -> impl Iterator<Item = Rate> {
    let given = amounts.into_iter().filter_map(|(amount, period)| Some((amount?, period)));
    given.map(move |(amount, period)| Rate { amount, period, capacity: burst.take().unwrap_or(amount) })
}

// === impl Limit ===

impl Limit {
    /// The buckets of requests, the one with the shortest period first. None: unlimited.
    pub fn request_rates(&self) -> impl Iterator<Item = Rate> + use<> {
        let amounts = [
            (self.requests_per_second, SECOND),
            (self.requests_per_minute, MINUTE),
            (self.requests_per_hour, HOUR),
            (self.requests_per_day, DAY),
        ];
        rates(amounts, self.burst_capacity)
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

// === impl IdentityLimit ===

impl IdentityLimit {
    /// The buckets of tokens, the one with the shortest period first. None: as many as one likes.
    pub fn token_rates(&self) -> impl Iterator<Item = Rate> + use<> {
        let amounts =
            [(self.tokens_per_minute, MINUTE), (self.tokens_per_hour, HOUR), (self.tokens_per_day, DAY)];
        rates(amounts, self.token_burst_capacity)
    }

    /// Whether requests are limited.
    #[must_use]
    pub fn limits_requests(&self) -> bool {
        self.request_rates().next().is_some()
    }

    /// Whether tokens are limited.
    #[must_use]
    pub fn limits_tokens(&self) -> bool {
        self.token_rates().next().is_some()
    }

    /// Whether neither requests nor tokens are limited.
    #[must_use]
    pub fn is_unlimited(&self) -> bool {
        !(self.limits_requests() || self.limits_tokens())
    }
}

impl Deref for IdentityLimit {
    type Target = Limit;

    fn deref(&self) -> &Limit {
        &self.requests
    }
}

// === impl DimensionLimit ===

impl<K: Ord> DimensionLimit<K> {
    /// Everybody's limit, then those of the overrides.
    pub fn each(&self) -> impl Iterator<Item = &IdentityLimit> {
        std::iter::once(&self.limit).chain(self.overrides.values())
    }
}

impl<K: Ord, L: Default + PartialEq> DimensionLimit<K, L> {
    pub(super) fn is_empty(&self) -> bool {
        self.limit == L::default() && self.overrides.is_empty()
    }
}

impl<K: Ord, L: Default> Default for DimensionLimit<K, L> {
    fn default() -> Self {
        Self { limit: L::default(), overrides: BTreeMap::new() }
    }
}

impl<K: Ord, L: Default> Deref for DimensionLimit<K, L> {
    type Target = L;

    fn deref(&self) -> &L {
        &self.limit
    }
}
