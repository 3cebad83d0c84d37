//! How the kinds of values look in the schema.
//!
//! `format` names the reader of the value, so that the loader can run it on every string that the schema says
//! is of this kind. The published schema does not have it: editors know no such formats.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use super::{AddressRange, BackendUrl, KeyDigest, ModelPattern, Name, RedisUrl, Secret, ValueError};

/// Whether a text is a value, and if not, why.
type Reader = fn(&str) -> Result<(), ValueError>;

/// The formats of the internal schema, each with its reader.
pub(crate) const FORMATS: [(&str, Reader); 7] = [
    ("fairlane-listen", |text| super::parse_listen(text).map(drop)),
    ("fairlane-address-range", |text| text.parse::<AddressRange>().map(drop)),
    ("fairlane-duration", |text| super::parse_duration(text).map(drop)),
    ("fairlane-timestamp", |text| super::parse_timestamp(text).map(drop)),
    ("fairlane-backend-url", |text| text.parse::<BackendUrl>().map(drop)),
    ("fairlane-redis-url", |text| text.parse::<RedisUrl>().map(drop)),
    ("fairlane-model", |text| text.parse::<ModelPattern>().map(drop)),
];

pub(crate) fn listen(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "format": "fairlane-listen",
        "pattern": r"^([0-9.]+|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}$",
        "examples": ["127.0.0.1:8080", "0.0.0.0:8080", "[::]:8080"],
    })
}

pub(crate) fn optional_listen(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": ["string", "null"],
        "nullable": true,
        "format": "fairlane-listen",
        "pattern": r"^([0-9.]+|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}$",
        "examples": ["127.0.0.1:9090", null],
    })
}

pub(crate) fn optional_file(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": ["string", "null"],
        "nullable": true,
        "minLength": 1,
        "examples": ["keys.yaml", null],
    })
}

pub(crate) fn duration(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "format": "fairlane-duration",
        "minLength": 2,
        "pattern": super::duration::PATTERN,
        "examples": ["200ms", "30s", "5m"],
    })
}

pub(crate) fn timestamp(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "format": "fairlane-timestamp",
        "pattern": super::time::PATTERN,
        "examples": ["2027-01-31T12:00:00Z"],
    })
}

/// A schema that stands for itself: short ones read better in place than by reference.
macro_rules! inline_schema {
    ($($kind:ty => $json:tt;)*) => {$(
        impl JsonSchema for $kind {
            fn inline_schema() -> bool {
                true
            }
            fn schema_name() -> Cow<'static, str> {
                stringify!($kind).into()
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($json)
            }
        }
    )*};
}

inline_schema! {
    AddressRange => {
        "type": "string",
        "format": "fairlane-address-range",
        "pattern": super::address::PATTERN,
        "examples": ["10.0.0.0/8", "192.0.2.7", "2001:db8::/32"],
    };
    BackendUrl => {
        "type": "string",
        "format": "fairlane-backend-url",
        "pattern": super::url::PATTERN,
        "examples": ["http://127.0.0.1:8000", "https://api.example.com", "builtin:echo?latency_ms=50"],
    };
    KeyDigest => { "type": "string", "pattern": super::secret::DIGEST_PATTERN, "writeOnly": true };
    ModelPattern => {
        "type": "string",
        "format": "fairlane-model",
        "minLength": 1,
        "pattern": super::pattern::PATTERN,
        "examples": ["gpt-4o", "llama-*", "*"],
    };
    RedisUrl => {
        "type": "string",
        "format": "fairlane-redis-url",
        "pattern": super::redis::PATTERN,
        "examples": [
            "redis://127.0.0.1:6379",
            "rediss://fairlane:${REDIS_PASSWORD}@redis.example.com:6379/0",
            "redis://node1:6379,node2:6379,node3:6379",
            "redis+sentinel://sentinel1:26379,sentinel2:26379/mymaster",
        ],
    };
    Name => { "type": "string", "minLength": 1 };
    Secret => { "type": "string", "pattern": super::secret::PATTERN, "writeOnly": true };
}
