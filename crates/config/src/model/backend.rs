use std::{num::NonZeroU32, path::PathBuf, time::Duration};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::MOST_WEIGHT;
use crate::values::{BackendUrl, ModelPattern, Secret, duration, schema};

/// One server that answers requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Backend")]
pub struct Backend {
    /// A unique name, for logs, metrics and `per_backend.overrides`.
    #[schemars(regex(pattern = r"^[!-~]+$"), extend("examples" = ["primary"]))]
    pub name: String,
    /// Where it is: `http://…` or `https://…`, with a base path if its API needs one (the path of a request,
    /// such as `/v1/chat/completions`, is appended; a `/v1` at the end is not doubled). Or `builtin:echo`, an embedded OpenAI-compatible backend for
    /// trying things out; `builtin:echo?latency_ms=50&chunk_ms=10` waits before the first byte and between the
    /// chunks of a stream (in milliseconds, by default 0).
    pub url: BackendUrl,
    /// The models it serves: exact names, or the beginning of names and a final `*`.
    #[schemars(length(min = 1))]
    pub models: Vec<ModelPattern>,
    /// The credential that it is sent in place of the caller's; empty sends none. Visible ASCII without spaces.
    #[serde(default)]
    #[schemars(extend("examples" = ["${UPSTREAM_API_KEY:-}"]))]
    pub api_key: Secret,
    /// The form in which it is sent its credential.
    #[serde(default)]
    pub auth: Auth,
    /// Its share of the requests, relative to the other backends that serve the model.
    #[serde(default = "one")]
    #[schemars(range(max = MOST_WEIGHT))]
    pub weight: NonZeroU32,
    /// How it is found out whether the backend can serve.
    #[serde(default)]
    #[schemars(extend("examples" = [{ "path": "/health", "interval": "10s", "failures": 3 }]))]
    pub health: Health,
    /// A PEM file with the certificate authorities to trust for an `https` URL, in place of the system's. A
    /// relative path starts at the folder of the configuration file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1), extend("examples" = ["ca.pem"]))]
    pub ca_file: Option<PathBuf>,
}

/// The form of a backend's credential.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub enum Auth {
    /// `Authorization: Bearer`, as OpenAI's API has it.
    #[default]
    #[serde(rename = "bearer")]
    Bearer,
    /// `x-api-key`, as Anthropic's API has it.
    #[serde(rename = "x-api-key")]
    XApiKey,
}

/// How it is found out whether a backend can serve. Always: three connections in a row that could not be made
/// rest it for five seconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Health {
    /// The path to ask in the background; `null` asks nothing.
    #[schemars(extend("nullable" = true), regex(pattern = r"^/[!-~]*$"), extend("examples" = ["/health"]))]
    pub path: Option<String>,
    /// The time between two questions.
    #[serde(with = "duration")]
    #[schemars(schema_with = "schema::duration")]
    pub interval: Duration,
    /// How many answers in a row must fail until the backend counts as down.
    #[schemars(range(max = 1000))]
    pub failures: NonZeroU32,
}

fn one() -> NonZeroU32 {
    NonZeroU32::MIN
}

impl Default for Health {
    fn default() -> Self {
        Self {
            path: None,
            interval: Duration::from_secs(10),
            failures: const { NonZeroU32::new(3).unwrap() },
        }
    }
}
