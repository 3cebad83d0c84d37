//! The few fields that are read from a JSON body, without building the rest of it.

use std::borrow::Cow;

use serde::Deserialize;

use super::Reading;
use crate::answer::Fault;

/// A field that stands twice is an error (serde's rule for structs): two readers could take different ones.
#[derive(Deserialize)]
#[serde(expecting = "a JSON object")]
struct Fields<'a> {
    #[serde(borrow, default)]
    model: Option<Cow<'a, str>>,
    #[serde(default)]
    stream: Option<bool>,
}

pub(super) fn read(body: &[u8]) -> Result<Reading, Fault> {
    // Serde would take an array as a struct too.
    let opens = body.iter().find(|byte| !byte.is_ascii_whitespace());
    if opens != Some(&b'{') {
        return Err(Fault::invalid("The request's body is not a JSON object.".to_owned()));
    }
    let fields: Fields<'_> = serde_json::from_slice(body)
        .map_err(|error| Fault::invalid(format!("The request's body cannot be read as JSON: {error}.")))?;
    Ok(Reading { model: fields.model.map(Into::into), stream: fields.stream.unwrap_or(false) })
}
