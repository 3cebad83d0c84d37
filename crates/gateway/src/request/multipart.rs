//! The model of a multipart form.
//!
//! Readers of forms differ in what they make of odd ones, and a reader that finds another model than this one would serve
//! what the key may not use. So a form that two readers could read differently is refused.

use std::convert::Infallible;

use bytes::Bytes;
use http::{HeaderMap, header};

use super::{
    Counting, OutputCap, PromptSize, Reading, StreamUsage, TokenAsk,
    json::{self, fault},
};
use crate::answer::Fault;

/// A model's name is short; a longer field is a mistake or an attack.
const MAX_FIELD_BYTES: usize = 1_024;
/// Forms of these APIs have about ten; each costs time while others wait.
const MAX_PARTS: usize = 256;

pub(super) async fn read(
    headers: &HeaderMap,
    body: &Bytes,
    counting: Option<Counting>,
) -> Result<Reading, Fault> {
    let boundary = boundary(headers).ok_or_else(|| invalid("The request's body is not a multipart form."))?;
    if !ends_with_boundary(body, &boundary) {
        return Err(invalid("The form does not end with its boundary."));
    }
    let whole = futures_util::stream::iter([Ok::<_, Infallible>(body.clone())]);
    let mut form = multer::Multipart::new(whole, boundary);
    let mut reading = Reading::default();
    let (mut parts, mut prompt, mut answers) = (0, None, None);
    while let Some(field) = form.next_field().await.map_err(unreadable)? {
        parts += 1;
        if parts > MAX_PARTS {
            return Err(invalid("The form has too many parts."));
        }
        if !has_one_plain_name(field.headers()) {
            return Err(invalid("A part of the form has no name, or more than one reading of it."));
        }
        match field.name() {
            Some("model") if reading.model.is_some() => return Err(invalid("The form names a model twice.")),
            Some("model") => reading.model = Some(text(field).await?.into_boxed_str()),
            Some("stream") => reading.stream = text(field).await?.eq_ignore_ascii_case("true"),
            Some("prompt") if counting.is_some() => {
                let bytes = field.bytes().await.map_err(unreadable)?.len() as u64;
                if prompt.replace(bytes).is_some() {
                    return Err(fault("prompt", "The form has two prompts.".to_owned()));
                }
            }
            Some("n") if counting.is_some() => {
                let number = json::whole_number("n", text(field).await?.as_bytes(), 1)?;
                if answers.replace(number).is_some() {
                    return Err(fault("n", "The form gives `n` twice.".to_owned()));
                }
            }
            _ => {}
        }
    }
    // The files of a form are no text, and how many tokens they are the backend tells at best.
    reading.tokens = counting.map(|_| {
        Box::new(TokenAsk {
            prompt: PromptSize { text_bytes: prompt.unwrap_or_default(), ..PromptSize::default() },
            output: OutputCap { per_answer: None, answers: answers.unwrap_or(1) },
            usage: StreamUsage::Unasked,
        })
    });
    Ok(reading)
}

/// The boundary, if there is exactly one.
fn boundary(headers: &HeaderMap) -> Option<String> {
    let mut lines = headers.get_all(header::CONTENT_TYPE).iter();
    let value = lines.next().filter(|_| lines.next().is_none())?.to_str().ok()?;
    let given = value.to_ascii_lowercase().matches("boundary=").count();
    multer::parse_boundary(value).ok().filter(|_| given == 1)
}

/// Whether the form ends at its last boundary: readers differ on what they make of parts behind it.
fn ends_with_boundary(body: &[u8], boundary: &str) -> bool {
    let (open, closing) = (format!("--{boundary}"), format!("--{boundary}--"));
    let find = |text: &[u8], part: &str| memchr::memmem::find(text, part.as_bytes());
    find(body, &closing).is_some_and(|at| {
        let behind = body.get(at + closing.len()..).unwrap_or_default();
        find(behind, &open).is_none()
    })
}

/// Whether a part's name stands once, and in one spelling.
fn has_one_plain_name(headers: &HeaderMap) -> bool {
    let mut lines = headers.get_all(header::CONTENT_DISPOSITION).iter();
    let Some(value) = lines.next().filter(|_| lines.next().is_none()) else { return false };
    let value = value.as_bytes();
    // Readers disagree on escapes.
    if value.contains(&b'\\') {
        return false;
    }
    let names =
        parameters(value).skip(1).filter_map(|parameter| parameter.split(|byte| *byte == b'=').next());
    let mut plain = 0;
    for name in names {
        let name = name.trim_ascii();
        let is_odd =
            name.eq_ignore_ascii_case(b"name*") || (name.eq_ignore_ascii_case(b"name") && name != b"name");
        if is_odd {
            return false;
        }
        plain += usize::from(name == b"name");
    }
    plain == 1
}

/// What stands between semicolons that are not quoted.
fn parameters(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut is_quoted = false;
    value.split(move |byte| {
        is_quoted ^= *byte == b'"';
        *byte == b';' && !is_quoted
    })
}

async fn text(field: multer::Field<'_>) -> Result<String, Fault> {
    let bytes = field.bytes().await.map_err(unreadable)?;
    if bytes.len() > MAX_FIELD_BYTES {
        return Err(invalid("A field of the form is too long."));
    }
    String::from_utf8(bytes.into()).map_err(|_| invalid("A field of the form is not UTF-8."))
}

// By value: it is handed to `map_err`.
#[expect(clippy::needless_pass_by_value, reason = "the shape of `map_err`")]
fn unreadable(error: multer::Error) -> Fault {
    Fault::invalid(format!("The request's form cannot be read: {error}."))
}

fn invalid(message: &str) -> Fault {
    Fault::invalid(message.to_owned())
}
