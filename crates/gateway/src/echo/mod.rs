//! An embedded OpenAI-compatible backend, so that Fairlane can be tried with nothing else running.
//!
//! It answers with the last thing the user said, and the same request always gets the same bytes: nothing in an answer
//! is random, or tells the time.
//!
//! - **Text.** At most [`MAX_ANSWER_BYTES`] of the last user message. An output cap cuts it further, and the finish
//!   reason then says so.
//! - **Tokens.** One for every four bytes of text, rounded up: of all messages, the system's and the instructions for the
//!   prompt, of the answer (of each of its `n` choices) for the output; of a prompt in tokens, as many as it has. Streams
//!   send one token per chunk.
//! - **Usage.** Told where the API tells it: in a plain answer; in a stream of chunks with `stream_options.include_usage`,
//!   last; in a stream of messages the input first and the output last; in a stream of a response at its end. A field
//!   `echo_usage` in the request makes it play another backend: `omit` tells no usage at all; `split` tells the prompt's
//!   share with the first chunk too, and `cumulative` with every chunk what it has come to (of messages, the end repeats
//!   the input).
//! - **Paths.** `POST /v1/chat/completions`, `/v1/completions`, `/v1/responses` and `/v1/messages`, plain and streamed;
//!   `POST /v1/embeddings` and `/v1/messages/count_tokens`; `GET /v1/models`. Any other path is a 404.

mod base64;
mod chat;
mod completions;
mod embeddings;
mod messages;
mod refusal;
mod responses;
mod stream;
mod text;
mod usage;

use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Method, Response};
use serde::Serialize;
use serde_json::json;

use crate::body::{Body, full};
use refusal::Refusal;
use stream::Stream;

/// The most text of a message that is answered with, in bytes.
pub const MAX_ANSWER_BYTES: usize = 4096;

/// How the embedded backend behaves.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EchoSettings {
    /// How long it takes before it answers.
    pub latency: Duration,
    /// How long it takes from one chunk of a stream to the next.
    pub chunk_interval: Duration,
}

/// When every answer says it was made: a fixed moment, in seconds since 1970, so that answers stay comparable.
const CREATED: u64 = 1_700_000_000;

/// The model that it lists; it answers for any.
const MODEL: &str = "echo";

/// What an endpoint makes of a request.
enum Answer {
    Json(Vec<u8>),
    Events(Stream),
}

/// Answers one request.
///
/// # Cancel safety
///
/// Nothing outlives the future or the body it answers with.
pub async fn handle(settings: &EchoSettings, method: &Method, path: &str, body: &Bytes) -> Response<Body> {
    if !settings.latency.is_zero() {
        tokio::time::sleep(settings.latency).await;
    }
    match answer(method, path, body) {
        Ok(Answer::Json(json)) => with_type(full(json), "application/json"),
        Ok(Answer::Events(stream)) => {
            with_type(stream.into_body(settings.chunk_interval), "text/event-stream; charset=utf-8")
        }
        Err(refusal) => refusal.into_response(path),
    }
}

fn answer(method: &Method, path: &str, body: &[u8]) -> Result<Answer, Refusal> {
    match (method, path) {
        (&Method::POST, "/v1/chat/completions") => chat::answer(body),
        (&Method::POST, "/v1/completions") => completions::answer(body),
        (&Method::POST, "/v1/responses") => responses::answer(body),
        (&Method::POST, "/v1/embeddings") => embeddings::answer(body),
        (&Method::POST, "/v1/messages") => messages::answer(body),
        (&Method::POST, "/v1/messages/count_tokens") => messages::count(body),
        (&Method::GET, "/v1/models") => models(),
        _ => Err(Refusal::not_found(method, path)),
    }
}

fn models() -> Result<Answer, Refusal> {
    Answer::json(&json!({
        "object": "list",
        "data": [{ "id": MODEL, "object": "model", "created": CREATED, "owned_by": "fairlane" }],
    }))
}

fn with_type(body: Body, content_type: &'static str) -> Response<Body> {
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

// === impl Answer ===

impl Answer {
    fn json(value: &impl Serialize) -> Result<Self, Refusal> {
        Ok(Self::Json(serde_json::to_vec(value)?))
    }
}
