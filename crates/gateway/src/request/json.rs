//! The few fields that are read from a JSON body, without building the rest of it.
//!
//! A backend may read the same body by other rules: the last of two equal keys, or keys in any case. What two readers could
//! read differently is refused, so that the model that is charged and allowed is the one that is served.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{Error as _, IgnoredAny, MapAccess, Visitor},
};

use super::{Counting, Reading};
use crate::answer::Fault;

struct Fields<'a> {
    model: Option<Cow<'a, str>>,
    stream: bool,
}

pub(super) fn read(body: &[u8], _counting: Option<Counting>) -> Result<Reading, Fault> {
    let fields: Fields<'_> = serde_json::from_slice(body).map_err(|error| {
        Fault::invalid(format!("The request's body cannot be read as a JSON object: {error}."))
    })?;
    Ok(Reading { model: fields.model.map(Into::into), stream: fields.stream, tokens: None })
}

impl<'de: 'a, 'a> Deserialize<'de> for Fields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FieldsVisitor)
    }
}

struct FieldsVisitor;

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = Fields<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Fields<'de>, M::Error> {
        let (mut model, mut stream) = (None, None);
        while let Some(Text(key)) = map.next_key()? {
            match &*key {
                "model" if model.is_some() => return Err(M::Error::duplicate_field("model")),
                "model" => model = Some(map.next_value::<Option<Text<'de>>>()?),
                "stream" if stream.is_some() => return Err(M::Error::duplicate_field("stream")),
                "stream" => stream = Some(map.next_value::<Option<bool>>()?),
                other if ["model", "stream"].iter().any(|read| other.eq_ignore_ascii_case(read)) => {
                    return Err(M::Error::custom(format_args!(
                        "`{}` is spelt in lower case",
                        other.to_ascii_lowercase()
                    )));
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(Fields {
            model: model.flatten().map(|Text(model)| model),
            stream: stream.flatten().unwrap_or(false),
        })
    }
}

/// A string that is borrowed where it has no escapes.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);
