//! How many tokens are reserved for a request before a backend has counted them.

use std::num::NonZeroU32;

use super::{Api, Estimator, Splice};

/// The most tokens that are ever reserved: more than any model takes or gives, and nothing overflows below it.
pub const MOST_TOKENS: u64 = 1_000_000_000_000_000;

/// Tokens taken for a picture, a sound or a file, whose size in tokens depends on the model: about a square picture of
/// a thousand pixels.
pub const MEDIA_TOKENS: u64 = 768;

/// How the tokens of a request are to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counting {
    /// What the body is read as.
    pub api: Api,
    /// How its prompt is counted.
    pub estimator: Estimator,
}

/// What a request asks for in tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenAsk {
    /// What it sends.
    pub prompt: PromptSize,
    /// What it lets the model answer.
    pub output: OutputCap,
    /// Whether its stream will tell the usage.
    pub usage: StreamUsage,
}

/// The size of a prompt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PromptSize {
    /// Bytes of text that no tokenizer has counted.
    pub text_bytes: u64,
    /// Tokens that are known: ids, and what a tokenizer counted.
    pub tokens: u64,
    /// Pictures, sounds and files.
    pub media: u64,
}

/// What bounds the output of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputCap {
    /// Tokens of one answer at most: the larger of the request's caps, if it has any.
    pub per_answer: Option<u64>,
    /// How many answers it asks for.
    pub answers: u64,
}

impl OutputCap {
    /// None at all.
    pub const NONE: Self = Self { per_answer: Some(0), answers: 1 };
}

/// Whether a stream will tell its usage to the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamUsage {
    /// It will without being asked, or there is no stream.
    Unasked,
    /// The caller asked for it.
    Asked,
    /// It will not, unless the body is changed like this; then the caller must not see it.
    Hidden(Splice),
}

/// What configuration says of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenSettings {
    /// Tokens reserved for an answer that has no cap.
    pub default_output: NonZeroU32,
    /// Bytes of text that are taken for one token.
    pub bytes_per_token: NonZeroU32,
}

/// What is taken from token buckets before dispatch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reservation {
    /// Tokens for the prompt.
    pub prompt_estimate: u64,
    /// Tokens for all answers.
    pub output: u64,
    /// Both.
    pub total: u64,
    /// Whether the output is an assumption, because the request caps nothing.
    pub assumed: bool,
}

impl Reservation {
    /// Assumes as much less of an output as makes all of it fit into `most`, as far as that can be.
    pub fn cut_to(&mut self, most: u64) {
        self.output = self.output.min(most.saturating_sub(self.prompt_estimate));
        self.total = self.prompt_estimate + self.output;
    }
}

/// What `ask` reserves, where the smallest of its buckets can ever hold `largest_that_fits`.
///
/// What is only assumed (output without a cap, then media) is cut down to what fits: an assumption must not make a request
/// impossible. What the request says itself stays, even if it never fits. The total is [`MOST_TOKENS`] at most.
#[must_use]
pub fn reserve(ask: &TokenAsk, settings: &TokenSettings, largest_that_fits: Option<u64>) -> Reservation {
    let room = largest_that_fits.unwrap_or(MOST_TOKENS).min(MOST_TOKENS);
    let per_answer = ask.output.per_answer.unwrap_or(u64::from(settings.default_output.get()));
    let output = per_answer.saturating_mul(ask.output.answers);
    let assumed = ask.output.per_answer.is_none();
    let capped = if assumed { 0 } else { output };

    let text = ask.prompt.text_bytes.div_ceil(u64::from(settings.bytes_per_token.get()));
    let stated = text.saturating_add(ask.prompt.tokens).min(MOST_TOKENS);
    let media = ask.prompt.media.saturating_mul(MEDIA_TOKENS);
    let prompt_estimate = stated + media.min(room.saturating_sub(stated.saturating_add(capped)));

    let bound = if assumed { room } else { MOST_TOKENS };
    let output = output.min(bound.saturating_sub(prompt_estimate));
    Reservation { prompt_estimate, output, total: prompt_estimate + output, assumed }
}
