//! Usage as OpenAI's APIs tell it.
//!
//! Chat completions, completions and embeddings have `prompt_tokens` and `completion_tokens`, at the top level of an
//! answer or of a chunk; responses have `input_tokens` and `output_tokens`, within `response` in events. Cached tokens are
//! part of either, and so are reasoning tokens, except where a backend shows them in `total_tokens` alone.

use serde::Deserialize;

use super::shape::{Output, Shape};
use super::tally::Tally;

/// An answer that is one JSON document.
pub(super) static DOCUMENT: Shape = Shape { wrapper: b"response", output: Output::Document, read_usage };
/// Events of chat completions and responses.
pub(super) static DELTAS: Shape = Shape { wrapper: b"response", output: Output::Deltas, read_usage };
/// Events of completions.
pub(super) static TEXTS: Shape = Shape { wrapper: b"response", output: Output::Texts, read_usage };

#[derive(Default, Deserialize)]
#[serde(default)]
struct Counts {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    total_tokens: Option<u64>,
}

/// Reads a usage object. One that is not as it should be tells nothing.
fn read_usage(json: &[u8]) -> Option<Tally> {
    let counts: Counts = serde_json::from_slice(json).ok()?;
    Tally {
        prompt: counts.prompt_tokens.or(counts.input_tokens).unwrap_or(0),
        cached: 0,
        output: counts.completion_tokens.or(counts.output_tokens).unwrap_or(0),
        total: counts.total_tokens.unwrap_or(0),
    }
    .checked()
}
