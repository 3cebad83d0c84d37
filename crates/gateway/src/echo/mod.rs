//! An embedded OpenAI-compatible backend, so that Fairlane can be tried with nothing else running.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, Response};

use crate::body::{Body, full};

/// How the embedded backend behaves.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EchoSettings {
    /// How long it takes before it answers.
    pub latency: Duration,
    /// How long it takes from one chunk of a stream to the next.
    pub chunk_interval: Duration,
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
    let _ = (method, path, body);
    Response::new(full(Bytes::new()))
}
