//! Which API a request speaks: what of its body is prompt, and what bounds its output.

/// The API of one path, as far as tokens go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Api {
    /// OpenAI's chat completions.
    Chat,
    /// OpenAI's completions.
    Completions,
    /// OpenAI's responses.
    Responses,
    /// OpenAI's embeddings. No output.
    Embeddings,
    /// OpenAI's moderations. No output.
    Moderations,
    /// Documents in the order of their relevance. No output.
    Rerank,
    /// OpenAI's images, from a text or from other images.
    Images,
    /// OpenAI's speech from text. Its output is not counted in tokens.
    Speech,
    /// OpenAI's text from speech.
    Transcriptions,
    /// Anthropic's messages.
    Messages,
    /// Anthropic's count of the tokens of a message. No output.
    CountTokens,
    /// A path that configuration added.
    Other,
}

impl Api {
    /// The API at `path`.
    #[must_use]
    pub fn of(path: &str) -> Self {
        match path {
            "/v1/chat/completions" => Self::Chat,
            "/v1/completions" => Self::Completions,
            "/v1/responses" => Self::Responses,
            "/v1/embeddings" => Self::Embeddings,
            "/v1/moderations" => Self::Moderations,
            "/v1/rerank" => Self::Rerank,
            "/v1/images/generations" | "/v1/images/edits" | "/v1/images/variations" => Self::Images,
            "/v1/audio/speech" => Self::Speech,
            "/v1/audio/transcriptions" | "/v1/audio/translations" => Self::Transcriptions,
            "/v1/messages" => Self::Messages,
            "/v1/messages/count_tokens" => Self::CountTokens,
            _ => Self::Other,
        }
    }

    /// Whether a stream of this API tells its usage only to who asks for it (`stream_options.include_usage`).
    #[must_use]
    pub const fn streams_usage_on_demand(self) -> bool {
        matches!(self, Self::Chat | Self::Completions)
    }
}
