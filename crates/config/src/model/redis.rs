use std::{num::NonZeroU64, path::PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::values::RedisUrl;

/// The Redis that holds the buckets of a fleet, for `storage: redis`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Redis {
    /// Where it is, in the form of its `mode`: `redis://user:password@host:6379/0` for one server (credentials and
    /// database only if there are any), `redis://host1:6379,host2:6379` for a cluster (some of its nodes),
    /// `redis+sentinel://host1:26379,host2:26379/name` for sentinels and the name of the master. `rediss` and
    /// `rediss+sentinel` are the same over TLS. Take a password from the environment; characters such as `@`, `/`
    /// and `%` are percent-encoded in it. Changes only at a restart.
    #[schemars(extend("default" = crate::defaults::REDIS_URL))]
    pub url: RedisUrl,
    /// How Redis is run. Changes only at a restart.
    pub mode: RedisMode,
    /// What the name of every key in Redis begins with: gateways with the same one share their limits. 1 to 64
    /// visible ASCII characters, without `{` and `}`. Changes only at a restart.
    #[schemars(length(min = 1), regex(pattern = KEY_PREFIX_PATTERN))]
    pub key_prefix: String,
    /// How long one decision may take in Redis at most, connecting included, in milliseconds. A longer one counts as
    /// an outage. Changes only at a restart.
    #[schemars(range(max = 60_000))]
    pub timeout_ms: NonZeroU64,
    /// What happens to requests while Redis cannot decide. Changes only at a restart.
    pub outage: Outage,
    /// A PEM file with the certificate authorities to trust for a `rediss` URL, in place of the system's. A
    /// relative path starts at the folder of the configuration file. Changes only at a restart.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1), extend("examples" = ["ca.pem"]))]
    pub ca_file: Option<PathBuf>,
}

/// Visible ASCII without braces: what stands between braces decides on the node of a key in a cluster.
pub(crate) const KEY_PREFIX_PATTERN: &str = "^[!-z|~]{1,64}$";

/// How Redis is run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum RedisMode {
    /// One server.
    #[default]
    Standalone,
    /// A master and its replicas; sentinels tell which server is the master.
    Sentinel,
    /// A cluster, over whose nodes the buckets are spread.
    Cluster,
}

/// What happens to requests while Redis cannot decide.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Outage {
    /// They are answered 503 with the code `rate_limit_store_unavailable`: nothing passes unmetered.
    #[default]
    FailClosed,
    /// They pass unmetered, which `rate_limit_fail_open_total` counts.
    FailOpen,
}

impl RedisMode {
    /// The name as in the configuration.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Standalone => "standalone",
            Self::Sentinel => "sentinel",
            Self::Cluster => "cluster",
        }
    }
}

impl Default for Redis {
    fn default() -> Self {
        Self {
            url: RedisUrl::local(),
            mode: RedisMode::default(),
            key_prefix: "fairlane".to_owned(),
            timeout_ms: const { NonZeroU64::new(50).unwrap() },
            outage: Outage::default(),
            ca_file: None,
        }
    }
}
