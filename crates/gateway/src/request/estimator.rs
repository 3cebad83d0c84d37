//! How the tokens of a prompt are counted before a backend has counted them.

use super::{
    PromptSize,
    prompt::{self, Sink, Text},
    scan::{NotJson, Scan},
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
pub(super) struct Part<'a> {
    /// As it stands.
    pub(super) json: &'a [u8],
    /// Whether the model gets to see it like that.
    pub(super) is_shown: bool,
}

/// Takes the value at `scan`, and tells `sink` of it.
fn tell(scan: &mut Scan<'_>, is_shown: bool, sink: &mut impl Sink) -> Result<(), NotJson> {
    if is_shown { prompt::show(scan, sink) } else { prompt::walk(scan, sink) }
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

    /// The size for `model` of a prompt that is made of `parts`, where it is `bytes` by its bytes.
    pub(super) fn size(self, model: Option<&str>, parts: &[Part<'_>], bytes: PromptSize) -> PromptSize {
        let counter = match self {
            Self::Bytes => None,
            Self::Tiktoken => tiktoken::Counter::new(model, bytes.text_bytes),
        };
        let Some(mut counter) = counter else { return bytes };
        for Part { json, is_shown } in parts {
            // They have been read before.
            if tell(&mut Scan::new(json), *is_shown, &mut counter).is_err() {
                return bytes;
            }
        }
        PromptSize { text_bytes: 0, tokens: bytes.tokens.saturating_add(counter.tokens()), ..bytes }
    }
}

impl<'a> Part<'a> {
    /// Takes the value at `scan`, and adds it to `size`.
    pub(super) fn take(scan: &mut Scan<'a>, is_shown: bool, size: &mut PromptSize) -> Result<Self, NotJson> {
        let json = scan.taking(|scan| tell(scan, is_shown, &mut Bytes(size)))?;
        Ok(Self { json, is_shown })
    }
}

/// Counts bytes.
struct Bytes<'a>(&'a mut PromptSize);

impl Sink for Bytes<'_> {
    fn text(&mut self, text: Text<'_>) {
        let len = match text {
            Text::Quoted(quoted) => quoted.len,
            Text::Json(json) => json.len(),
        };
        self.0.text_bytes += len as u64;
    }

    fn ids(&mut self, count: u64) {
        self.0.tokens += count;
    }

    fn media(&mut self) {
        self.0.media += 1;
    }
}
