use std::{path::PathBuf, time::SystemTime};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::IdentityLimit;
use crate::values::{KeyDigest, ModelPattern, Name, Secret, schema, time};

/// The keys that callers show, as `Authorization: Bearer` or `x-api-key`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ApiKeys {
    /// What happens to a request without a key. (A key that is wrong, disabled or expired is refused always.)
    pub mode: AuthMode,
    /// The known keys.
    #[schemars(extend("examples" = [[{ "id": "k1", "key": "${ALICE_KEY}", "user": "alice", "team": "research" }]]))]
    pub keys: Vec<ApiKey>,
    /// A file (.yaml, .toml or .json) with further `keys` of the same form, such as a mounted secret; `null`: none. A
    /// relative path starts at the folder of the configuration file. No id and no key may be in both.
    #[schemars(schema_with = "schema::optional_file")]
    pub file: Option<PathBuf>,
}

/// What happens to a request without a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum AuthMode {
    /// It is answered 401.
    #[default]
    Blocking,
    /// It passes without an identity: no identity limit counts it, and it is never held.
    Permissive,
}

/// One key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "API key")]
pub struct ApiKey {
    /// A unique name that is no secret, for `per_api_key.overrides` and `bypass_keys`.
    #[schemars(regex(pattern = r"^[!-~]+$"), extend("examples" = ["k1"]))]
    pub id: String,
    /// The key itself, best from the environment. Either this or `sha256`. Visible ASCII without spaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1), extend("examples" = ["${ALICE_KEY}"]))]
    pub key: Option<Secret>,
    /// The SHA-256 digest of the key in hexadecimal, in place of `key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = ["d16a80956c32f3f5fb979bea408abac8c3eef6c54ecb234279e337146cf87b47"]))]
    pub sha256: Option<KeyDigest>,
    /// The user to whom requests with this key belong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = ["alice"]))]
    pub user: Option<Name>,
    /// The team to which requests with this key belong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = ["research"]))]
    pub team: Option<Name>,
    /// The tier of the key, one of `identity.tiers`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = ["gold"]))]
    pub tier: Option<String>,
    /// Whether the key is accepted.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// The time from which the key is refused, as in RFC 3339.
    #[serde(default, with = "time", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::timestamp")]
    pub expires_at: Option<SystemTime>,
    /// The models that the key may use: exact names, or the beginning of names and a final `*`.
    #[serde(default = "every_model")]
    #[schemars(length(min = 1))]
    pub models: Vec<ModelPattern>,
    /// A limit for this key alone, in place of `rate_limiting.limits.per_api_key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = [{ "requests_per_second": 5, "burst_capacity": 10 }]))]
    pub rate_limit: Option<IdentityLimit>,
}

/// What is known of the secret of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyMaterial<'a> {
    /// The key itself.
    Raw(&'a Secret),
    /// Its SHA-256 digest.
    Sha256(&'a KeyDigest),
}

impl ApiKey {
    /// The key or its digest; a validated configuration has exactly one of them in every entry.
    #[must_use]
    pub fn material(&self) -> Option<KeyMaterial<'_>> {
        self.key.as_ref().map(KeyMaterial::Raw).or_else(|| self.sha256.as_ref().map(KeyMaterial::Sha256))
    }
}

fn yes() -> bool {
    true
}

fn every_model() -> Vec<ModelPattern> {
    vec![ModelPattern::any()]
}
