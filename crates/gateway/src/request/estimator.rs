//! How the tokens of a prompt are counted before a backend has counted them.

use super::{
    PromptSize,
    prompt::{self, Sink, Text},
    tiktoken,
};

/// How the tokens of a prompt are counted before a backend has counted them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Estimator {
    /// By the length of its text: right within a factor for most languages.
    #[default]
    Bytes,
    /// By the tokenizers of OpenAI's models: every byte of up to [`TOKENIZED_BYTES`](super::TOKENIZED_BYTES) of text, and
    /// as many of a longer one, in samples. So what it costs is bounded, and small enough for the thread that serves
    /// others.
    Tiktoken,
}

/// A stretch of a body that is prompt.
#[derive(Clone, Copy, Debug)]
pub(super) enum Part<'a> {
    /// Text, or messages and items with text in them.
    Content(&'a str),
    /// JSON that the model gets to see as it stands.
    Schema(&'a str),
}

impl Part<'_> {
    fn tell(self, sink: &mut impl Sink) {
        match self {
            Self::Content(json) => prompt::walk(json, sink),
            Self::Schema(json) => prompt::show(json, sink),
        }
    }
}

impl Estimator {
    /// Loads what counting needs, some tenth of a second and 40 MiB for [`Tiktoken`](Self::Tiktoken): to be called before
    /// the first request is read, which would wait for it.
    pub fn prepare(self) {
        match self {
            Self::Bytes => {}
            Self::Tiktoken => tiktoken::prepare(),
        }
    }

    /// The size of a prompt for `model`.
    pub(super) fn size(self, model: Option<&str>, parts: &[Part<'_>]) -> PromptSize {
        let mut bytes = Bytes::default();
        for part in parts {
            part.tell(&mut bytes);
        }
        let Bytes(size) = bytes;
        match self {
            Self::Bytes => size,
            Self::Tiktoken => {
                let Some(mut counter) = tiktoken::Counter::new(model, size.text_bytes) else { return size };
                for part in parts {
                    part.tell(&mut counter);
                }
                PromptSize {
                    text_bytes: 0,
                    tokens: size.tokens.saturating_add(counter.tokens()),
                    media: size.media,
                }
            }
        }
    }
}

/// Counts bytes.
#[derive(Debug, Default)]
struct Bytes(PromptSize);

impl Sink for Bytes {
    fn text(&mut self, text: Text<'_>) {
        let len = match text {
            Text::Quoted(quoted) => quoted.len,
            Text::Json(json) => json.len(),
        };
        self.0.text_bytes += len as u64;
    }

    fn id(&mut self) {
        self.0.tokens += 1;
    }

    fn media(&mut self) {
        self.0.media += 1;
    }
}
