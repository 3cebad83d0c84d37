//! Usage as Anthropic's API tells it.
//!
//! A stream tells it twice: `message_start` has the input, within `message`, and `message_delta` the output so far, which
//! may repeat the input. Tokens read from a cache or written to it are not part of `input_tokens`.

use serde::Deserialize;

use super::shape::{Output, Shape};
use super::tally::Tally;

/// An answer that is one JSON document.
pub(super) static DOCUMENT: Shape = Shape { wrapper: b"message", output: Output::Document, read_usage };
/// Events of a stream.
pub(super) static DELTAS: Shape = Shape { wrapper: b"message", output: Output::Deltas, read_usage };

#[derive(Default, Deserialize)]
#[serde(default)]
struct Counts {
    input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    output_tokens: Option<u64>,
}

/// Reads a usage object. One that is not as it should be tells nothing.
fn read_usage(json: &[u8]) -> Option<Tally> {
    let counts: Counts = serde_json::from_slice(json).ok()?;
    let written = counts.cache_creation_input_tokens.unwrap_or(0);
    Tally {
        prompt: counts.input_tokens.unwrap_or(0),
        cached: written.saturating_add(counts.cache_read_input_tokens.unwrap_or(0)),
        output: counts.output_tokens.unwrap_or(0),
        total: 0,
    }
    .checked()
}
