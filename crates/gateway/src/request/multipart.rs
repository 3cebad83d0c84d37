//! The model of a multipart form.

use std::convert::Infallible;

use bytes::Bytes;
use http::{HeaderMap, header};

use super::Reading;
use crate::answer::Fault;

/// A model's name is short; a longer field is a mistake or an attack.
const MAX_FIELD_BYTES: usize = 1_024;

pub(super) async fn read(headers: &HeaderMap, body: &Bytes) -> Result<Reading, Fault> {
    let boundary = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| multer::parse_boundary(value).ok())
        .ok_or_else(|| Fault::invalid("The request's body is not a multipart form.".to_owned()))?;
    let whole = futures_util::stream::iter([Ok::<_, Infallible>(body.clone())]);
    let mut form = multer::Multipart::new(whole, boundary);
    let mut reading = Reading::default();
    while let Some(field) = form.next_field().await.map_err(unreadable)? {
        match field.name() {
            Some("model") if reading.model.is_some() => {
                return Err(Fault::invalid("The form names a model twice.".to_owned()));
            }
            Some("model") => reading.model = Some(text(field).await?.into_boxed_str()),
            Some("stream") => reading.stream = text(field).await?.eq_ignore_ascii_case("true"),
            _ => {}
        }
    }
    Ok(reading)
}

async fn text(field: multer::Field<'_>) -> Result<String, Fault> {
    let bytes = field.bytes().await.map_err(unreadable)?;
    if bytes.len() > MAX_FIELD_BYTES {
        return Err(Fault::invalid("A field of the form is too long.".to_owned()));
    }
    String::from_utf8(bytes.into())
        .map_err(|_| Fault::invalid("A field of the form is not UTF-8.".to_owned()))
}

// By value: it is handed to `map_err`.
#[expect(clippy::needless_pass_by_value, reason = "the shape of `map_err`")]
fn unreadable(error: multer::Error) -> Fault {
    Fault::invalid(format!("The request's form cannot be read: {error}."))
}
