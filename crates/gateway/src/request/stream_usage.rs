//! What a caller's `stream_options` say of usage, and how a stream is made to tell it all the same.

use std::{borrow::Cow, fmt};

use bytes::Bytes;
use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, Visitor},
};
use serde_json::value::RawValue;

use super::{Splice, StreamUsage, json::fault, keys::is_variant};
use crate::answer::Fault;

const OPTIONS: &str = "stream_options";
const INCLUDE_USAGE: &str = "include_usage";
/// Its name in a refusal.
const PARAM: &str = "stream_options.include_usage";

/// Whether a stream tells its usage, where `options` are what `body` gives as its `stream_options`, if it does.
pub(super) fn read(body: &Bytes, options: Option<&[u8]>) -> Result<StreamUsage, Fault> {
    let splice = match options {
        None => {
            let start = body.iter().position(|byte| *byte == b'{').map_or(0, |brace| brace + 1);
            // There are members behind it: at least the one that asks for a stream.
            Splice::new(start..start, r#""stream_options":{"include_usage":true},"#)
        }
        Some(options @ b"null") => Splice::instead_of(options, body, r#"{"include_usage":true}"#),
        Some(options) => match within(options)? {
            Given { include_usage: Some("true"), .. } => return Ok(StreamUsage::Asked),
            Given { include_usage: Some(value @ ("false" | "null")), .. } => {
                Splice::instead_of(value.as_bytes(), body, "true")
            }
            Given { include_usage: Some(_), .. } => {
                return Err(fault(PARAM, format!("`{PARAM}` is neither true nor false.")));
            }
            Given { is_empty: true, .. } => Splice::instead_of(options, body, r#"{"include_usage":true}"#),
            Given { .. } => {
                Splice::instead_of(options.get(..1).unwrap_or_default(), body, r#"{"include_usage":true,"#)
            }
        },
    };
    Ok(StreamUsage::Hidden(splice))
}

/// What `options` say, if they are options.
fn within(options: &[u8]) -> Result<Given<'_>, Fault> {
    if !options.starts_with(b"{") {
        return Err(fault(OPTIONS, format!("`{OPTIONS}` is not an object.")));
    }
    let given: Given<'_> = serde_json::from_slice(options)
        .map_err(|error| fault(OPTIONS, format!("`{OPTIONS}` cannot be read: {error}.")))?;
    match given {
        Given { is_odd: true, .. } => {
            Err(fault(PARAM, format!("`{PARAM}` is given once and in lower case, or not at all.")))
        }
        given => Ok(given),
    }
}

/// What is read of stream options.
#[derive(Debug)]
struct Given<'a> {
    /// As it stands.
    include_usage: Option<&'a str>,
    /// Whether two readers could read it differently.
    is_odd: bool,
    /// Whether there is no option at all.
    is_empty: bool,
}

impl<'de: 'a, 'a> Deserialize<'de> for Given<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(GivenVisitor)
    }
}

struct GivenVisitor;

impl<'de> Visitor<'de> for GivenVisitor {
    type Value = Given<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Given<'de>, M::Error> {
        let mut given = Given { include_usage: None, is_odd: false, is_empty: true };
        while let Some(Key(key)) = map.next_key()? {
            given.is_empty = false;
            if key == INCLUDE_USAGE {
                let value: &'de RawValue = map.next_value()?;
                given.is_odd |= given.include_usage.replace(value.get()).is_some();
            } else {
                given.is_odd |= is_variant(&key, INCLUDE_USAGE);
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(given)
    }
}

/// A string that is borrowed where it has no escapes.
#[derive(Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);
