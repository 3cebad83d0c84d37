//! What is read from a request before anything is charged or held: its route, its model, whether it wants a stream.

mod api;
mod escape;
mod estimator;
mod json;
mod keys;
mod multipart;
mod nest;
mod number;
mod prompt;
mod route;
mod scan;
mod skip;
mod splice;
mod stream_usage;
mod string;
mod tiktoken;
mod tokens;

use bytes::Bytes;
use http::{HeaderMap, header};

pub use self::{
    api::Api,
    estimator::Estimator,
    route::{Kind, Route, Routes},
    splice::Splice,
    tiktoken::TOKENIZED_BYTES,
    tokens::{
        Counting, MEDIA_TOKENS, MOST_TOKENS, OutputCap, PromptSize, Reservation, StreamUsage, TokenAsk,
        TokenSettings, reserve,
    },
};
use crate::answer::Fault;

/// What a body says that matters here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// The model asked for; absent only where the path does not demand one.
    pub model: Option<Box<str>>,
    /// Whether the answer is to be streamed.
    pub stream: bool,
    /// What it asks for in tokens, if that was to be read.
    pub tokens: Option<Box<TokenAsk>>,
}

/// Reads a whole body.
///
/// The bytes themselves are left alone: they are what the backend gets. What a token reservation needs is read only where
/// `counting` says so.
///
/// # Errors
///
/// [`Fault::Invalid`] when the body is not what the route takes, or names no model where one is due.
pub async fn read(
    kind: Kind,
    headers: &HeaderMap,
    body: &Bytes,
    counting: Option<Counting>,
) -> Result<Reading, Fault> {
    let reading = match kind {
        Kind::Models => Reading::default(),
        Kind::Json { .. } => json::read(body, counting)?,
        // Boxed: the rare form must not make every other request's state larger.
        Kind::Multipart { .. } => Box::pin(multipart::read(headers, body, counting)).await?,
    };
    let demanded =
        Kind::Json { model_required: true } == kind || Kind::Multipart { model_required: true } == kind;
    if demanded && reading.model.is_none() {
        return Err(Fault::Invalid {
            message: "The request names no model.".to_owned(),
            param: Some("model"),
        });
    }
    Ok(reading)
}

/// Refuses a body that is compressed: it could not be read for its charges.
///
/// # Errors
///
/// [`Fault::UnsupportedEncoding`] for anything but `identity`.
pub fn refuse_encoded(headers: &HeaderMap) -> Result<(), Fault> {
    let plain = headers
        .get_all(header::CONTENT_ENCODING)
        .iter()
        .all(|value| value.as_bytes().trim_ascii().eq_ignore_ascii_case(b"identity"));
    if plain { Ok(()) } else { Err(Fault::UnsupportedEncoding) }
}

#[cfg(test)]
mod tests;
