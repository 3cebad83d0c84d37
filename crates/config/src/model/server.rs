use std::{
    net::{Ipv4Addr, SocketAddr},
    num::{NonZeroU8, NonZeroU32, NonZeroU64, NonZeroUsize},
    time::Duration,
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{MOST, MOST_HELD};
use crate::values::{AddressRange, Secret, duration, schema};

/// Where and how the gateway listens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Server {
    /// Address and port for the callers. `--listen` and `FAIRLANE_LISTEN` go before it. Changes only at
    /// a restart.
    #[schemars(schema_with = "schema::listen")]
    pub listen: SocketAddr,
    /// Address and port of the admin plane; `null` switches it off. `--admin-listen` and
    /// `FAIRLANE_ADMIN_LISTEN` go before it. An address other than loopback needs `admin.token`. Changes only at
    /// a restart.
    #[schemars(schema_with = "schema::optional_listen")]
    pub admin_listen: Option<SocketAddr>,
    /// Addresses or CIDRs of proxies whose `X-Forwarded-For` is believed.
    pub trusted_proxies: Vec<AddressRange>,
    /// The longest request body, in bytes; a longer one is answered 413.
    #[schemars(range(max = MOST))]
    pub max_body_bytes: NonZeroU64,
    /// Open connections in all; more wait in the listen queue.
    #[schemars(range(max = MOST_HELD))]
    pub max_connections: NonZeroUsize,
    /// Open connections of one client address; more are closed.
    #[schemars(range(max = MOST_HELD))]
    pub max_connections_per_client: NonZeroUsize,
    /// The longest request header, in bytes.
    #[schemars(range(min = 8192, max = 16_777_216))]
    pub max_header_bytes: NonZeroU32,
    /// Bodies in memory, in bytes: those of requests that wait, and those that come in several pieces, so much each. Beyond
    /// it nobody is held any more, and a body that is still coming is answered 503.
    #[schemars(range(max = MOST))]
    pub max_buffered_bytes: NonZeroU64,
    /// How long a client may take.
    #[schemars(extend("examples" = [{ "header": "10s", "keep_alive": "75s" }]))]
    pub timeouts: ServerTimeouts,
    /// How many leading bits of an IPv4 address make one client.
    #[schemars(range(max = 32))]
    pub ipv4_prefix: NonZeroU8,
    /// How many leading bits of an IPv6 address make one client.
    #[schemars(range(max = 128))]
    pub ipv6_prefix: NonZeroU8,
    /// Further exact paths to forward, besides the known ones; without a query, which every path takes.
    #[schemars(inner(regex(pattern = r#"^/[!-"$->@-~]*$"#)), extend("examples" = [["/v1/classify"]]))]
    pub paths: Vec<String>,
    /// How long running requests may take to finish when the gateway stops.
    #[serde(with = "duration")]
    #[schemars(schema_with = "schema::duration")]
    pub drain_timeout: Duration,
}

/// How long a client may take.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ServerTimeouts {
    /// From the connection to its first byte.
    #[serde(with = "duration")]
    #[schemars(schema_with = "schema::duration")]
    pub first_byte: Duration,
    /// From the first byte of a request to the end of its header.
    #[serde(with = "duration")]
    #[schemars(schema_with = "schema::duration")]
    pub header: Duration,
    /// Between two pieces of a request body, or of an answer that the caller takes.
    #[serde(with = "duration")]
    #[schemars(schema_with = "schema::duration")]
    pub body_progress: Duration,
    /// How long a connection stays open without a request.
    #[serde(with = "duration")]
    #[schemars(schema_with = "schema::duration")]
    pub keep_alive: Duration,
}

/// The admin plane: health, metrics, queues, effective configuration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Admin {
    /// What callers of the admin plane show as `Authorization: Bearer`. Once set, everything but the health
    /// checks needs it; required when `server.admin_listen` is not loopback. Visible ASCII without spaces.
    #[schemars(extend("default" = crate::defaults::ADMIN_TOKEN))]
    pub token: Secret,
}

/// What the gateway writes to its standard error.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Log {
    /// The form of a line. Changes only at a restart.
    pub format: LogFormat,
    /// The least important lines that are still written.
    pub level: LogLevel,
}

/// The form of a log line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum LogFormat {
    /// For reading.
    #[default]
    Text,
    /// One JSON object per line, for machines.
    Json,
}

/// How important a log line is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// What failed.
    Error,
    /// What an operator should look at.
    Warn,
    /// What happened.
    #[default]
    Info,
    /// What led to it.
    Debug,
    /// Everything.
    Trace,
}

// === defaults ===

impl Default for Server {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 8080)),
            admin_listen: Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 9090))),
            trusted_proxies: Vec::new(),
            max_body_bytes: const { NonZeroU64::new(10 * 1024 * 1024).unwrap() },
            max_connections: const { NonZeroUsize::new(10_000).unwrap() },
            max_connections_per_client: const { NonZeroUsize::new(1000).unwrap() },
            max_header_bytes: const { NonZeroU32::new(64 * 1024).unwrap() },
            max_buffered_bytes: const { NonZeroU64::new(256 * 1024 * 1024).unwrap() },
            timeouts: ServerTimeouts::default(),
            ipv4_prefix: const { NonZeroU8::new(32).unwrap() },
            ipv6_prefix: const { NonZeroU8::new(64).unwrap() },
            paths: Vec::new(),
            drain_timeout: Duration::from_secs(30),
        }
    }
}

impl Default for ServerTimeouts {
    fn default() -> Self {
        Self {
            first_byte: Duration::from_secs(10),
            header: Duration::from_secs(10),
            body_progress: Duration::from_secs(30),
            keep_alive: Duration::from_secs(75),
        }
    }
}
