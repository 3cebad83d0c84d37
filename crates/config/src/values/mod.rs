//! The kinds of values that keys have: each is read once, by its `FromStr`, which serde, the schema's
//! `format` and the checks all share.

use std::borrow::Cow;

pub(crate) mod address;
pub(crate) mod duration;
pub(crate) mod pattern;
pub(crate) mod redis;
pub(crate) mod schema;
pub(crate) mod secret;
pub(crate) mod time;
pub(crate) mod url;

pub use address::{AddressRange, parse_listen};
pub use duration::{format_duration, parse_duration};
pub use pattern::ModelPattern;
pub use redis::{RedisServer, RedisUrl};
pub use secret::{KeyDigest, MASK, Name, Secret};
pub use time::parse_timestamp;
pub use url::{BackendUrl, ServerUrl};

/// Why a text is not a value of the kind that is due. It says what would be right and never repeats the text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ValueError {
    message: Cow<'static, str>,
}

impl ValueError {
    pub(crate) fn new(message: impl Into<Cow<'static, str>>) -> Self {
        Self { message: message.into() }
    }
}

/// Reads a value from a string by its `FromStr`.
macro_rules! from_text {
    ($($kind:ty),*) => {$(
        impl<'de> serde::Deserialize<'de> for $kind {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
            }
        }
    )*};
}

/// Writes a value as its `Display`.
macro_rules! to_text {
    ($($kind:ty),*) => {$(
        impl serde::Serialize for $kind {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
    )*};
}

from_text!(AddressRange, BackendUrl, KeyDigest, ModelPattern, RedisUrl);
to_text!(AddressRange, BackendUrl, ModelPattern, RedisUrl);
