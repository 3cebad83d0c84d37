use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::values::{duration, schema};

/// How long the gateway waits for backends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Timeouts {
    /// For a connection to a backend.
    #[serde(with = "duration")]
    #[schemars(schema_with = "schema::duration")]
    pub connect: Duration,
    /// For a request, by its class. The time for which it was held counts.
    #[schemars(extend("examples" = [{ "standard": { "total": "3m" }, "streaming": { "idle": "30s" } }]))]
    pub request: RequestTimeouts,
}

/// For a request, by its class.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RequestTimeouts {
    /// Requests that are answered in one piece.
    #[schemars(extend("examples" = [{ "total": "3m" }]))]
    pub standard: StandardTimeouts,
    /// Requests that ask for a stream.
    #[schemars(extend("examples" = [{ "first_byte": "1m", "idle": "30s", "total": "10m" }]))]
    pub streaming: StreamingTimeouts,
}

impl RequestTimeouts {
    /// The smallest total over all classes: no request can be held for longer.
    #[must_use]
    pub fn smallest_total(&self) -> Duration {
        self.standard.total.min(self.streaming.total)
    }
}

/// Requests that are answered in one piece.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct StandardTimeouts {
    /// From the arrival of the request's head to the end of the answer; sending the body and being held count.
    #[serde(with = "duration")]
    #[schemars(schema_with = "schema::duration")]
    pub total: Duration,
}

/// Requests that ask for a stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct StreamingTimeouts {
    /// From the arrival of the request's head to the first byte of the answer; sending the body and being held count.
    #[serde(with = "duration")]
    #[schemars(schema_with = "schema::duration")]
    pub first_byte: Duration,
    /// Between two pieces of the answer.
    #[serde(with = "duration")]
    #[schemars(schema_with = "schema::duration")]
    pub idle: Duration,
    /// From the arrival of the request's head to the end of the answer; sending the body and being held count.
    #[serde(with = "duration")]
    #[schemars(schema_with = "schema::duration")]
    pub total: Duration,
}

// === defaults ===

impl Default for Timeouts {
    fn default() -> Self {
        Self { connect: Duration::from_secs(5), request: RequestTimeouts::default() }
    }
}

impl Default for StandardTimeouts {
    fn default() -> Self {
        Self { total: Duration::from_secs(180) }
    }
}

impl Default for StreamingTimeouts {
    fn default() -> Self {
        Self {
            first_byte: Duration::from_secs(60),
            idle: Duration::from_secs(30),
            total: Duration::from_secs(600),
        }
    }
}
