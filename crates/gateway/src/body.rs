//! The one body type of the gateway's answers.

use bytes::Bytes;
use http_body_util::{BodyExt, Full, combinators::UnsyncBoxBody};

/// Whatever went wrong while a body was produced.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// An answer's body: whole or streamed, from here or from a backend.
pub type Body = UnsyncBoxBody<Bytes, BoxError>;

/// A body that is known whole.
pub fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}
