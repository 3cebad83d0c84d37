//! The keys that are read: which of a body's members say something about tokens, and how their names are compared.

use super::{Api, string::Quoted};

/// What a member at the top of a body says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    /// Text, or messages and items with text in them.
    Prompt,
    /// As [`Prompt`](Self::Prompt); each of several gets answers of its own.
    Prompts,
    /// JSON that the model gets to see more or less as it stands: tools, and the shape of the answer.
    Schema,
    /// The most tokens of one answer.
    Cap,
    /// How many answers.
    Answers,
    /// Whether a stream tells its usage.
    StreamOptions,
}

/// The members that are read, by name.
pub(super) type Fields = &'static [(&'static str, Field)];

const CHAT: Fields = &[
    ("messages", Field::Prompt),
    ("tools", Field::Schema),
    ("functions", Field::Schema),
    ("response_format", Field::Schema),
    ("max_tokens", Field::Cap),
    ("max_completion_tokens", Field::Cap),
    ("max_output_tokens", Field::Cap),
    ("n", Field::Answers),
    ("stream_options", Field::StreamOptions),
];
const COMPLETIONS: Fields = &[
    ("prompt", Field::Prompts),
    ("suffix", Field::Prompt),
    ("max_tokens", Field::Cap),
    ("max_completion_tokens", Field::Cap),
    ("max_output_tokens", Field::Cap),
    ("n", Field::Answers),
    ("best_of", Field::Answers),
    ("stream_options", Field::StreamOptions),
];
const RESPONSES: Fields = &[
    ("input", Field::Prompt),
    ("instructions", Field::Prompt),
    ("tools", Field::Schema),
    ("text", Field::Schema),
    ("max_tokens", Field::Cap),
    ("max_completion_tokens", Field::Cap),
    ("max_output_tokens", Field::Cap),
];
const EMBEDDINGS: Fields = &[("input", Field::Prompt), ("messages", Field::Prompt)];
const MODERATIONS: Fields = &[("input", Field::Prompt)];
const RERANK: Fields = &[("query", Field::Prompt), ("documents", Field::Prompt)];
const IMAGES: Fields = &[("prompt", Field::Prompt), ("n", Field::Answers)];
const SPEECH: Fields = &[("input", Field::Prompt), ("instructions", Field::Prompt)];
const MESSAGES: Fields = &[
    ("messages", Field::Prompt),
    ("system", Field::Prompt),
    ("tools", Field::Schema),
    ("max_tokens", Field::Cap),
    ("max_completion_tokens", Field::Cap),
    ("max_output_tokens", Field::Cap),
];
const COUNT_TOKENS: Fields =
    &[("messages", Field::Prompt), ("system", Field::Prompt), ("tools", Field::Schema)];
/// What is most likely meant, where nothing is known.
const OTHER: Fields = &[
    ("messages", Field::Prompt),
    ("prompt", Field::Prompt),
    ("input", Field::Prompt),
    ("instructions", Field::Prompt),
    ("system", Field::Prompt),
    ("tools", Field::Schema),
    ("max_tokens", Field::Cap),
    ("max_completion_tokens", Field::Cap),
    ("max_output_tokens", Field::Cap),
];

impl Api {
    /// The members that are read for tokens.
    pub(super) const fn fields(self) -> Fields {
        match self {
            Self::Chat => CHAT,
            Self::Completions => COMPLETIONS,
            Self::Responses => RESPONSES,
            Self::Embeddings => EMBEDDINGS,
            Self::Moderations => MODERATIONS,
            Self::Rerank => RERANK,
            Self::Images => IMAGES,
            Self::Speech => SPEECH,
            Self::Messages => MESSAGES,
            Self::CountTokens => COUNT_TOKENS,
            Self::Transcriptions | Self::Other => OTHER,
        }
    }

    /// Whether its answers are tokens of a model.
    pub(crate) const fn has_output(self) -> bool {
        match self {
            Self::Embeddings | Self::Moderations | Self::Rerank | Self::Speech | Self::CountTokens => false,
            Self::Chat
            | Self::Completions
            | Self::Responses
            | Self::Images
            | Self::Transcriptions
            | Self::Messages
            | Self::Other => true,
        }
    }
}

/// What a member inside a prompt says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Member {
    /// Text, or parts with text in them.
    Text,
    /// Parts with text in them; strings among them are names of other things.
    Parts,
    /// Text, or JSON that the model gets to see as it stands.
    Json,
    /// A picture, a sound or a file, or where one is.
    Media,
    /// A picture or a file, which may be one of text.
    Source,
    /// Nothing of the prompt.
    Aside,
}

/// Bytes of the longest name, were each of its letters the longest that is read as it.
const LONGEST_MEMBER: usize = 3 * "reasoning_content".len();

impl Member {
    /// The member called `key`, in whatever case: a backend may not care about it either.
    #[inline]
    pub(super) fn of(key: &Quoted<'_>) -> Self {
        let member = Self::named(key.raw);
        if member != Self::Aside || key.raw.iter().all(|byte| matches!(byte, b'_' | b'a'..=b'z')) {
            return member;
        }
        if key.len > LONGEST_MEMBER {
            return Self::Aside;
        }
        let folded: String = String::from_utf8_lossy(&key.text()).chars().map(fold).collect();
        Self::named(folded.as_bytes())
    }

    #[inline]
    fn named(key: &[u8]) -> Self {
        match key {
            b"content" | b"text" | b"name" | b"arguments" | b"output" | b"summary" | b"thinking"
            | b"reasoning" | b"reasoning_content" | b"refusal" | b"title" | b"context" => Self::Text,
            b"tool_calls" | b"function_call" | b"function" | b"custom" => Self::Parts,
            b"input" => Self::Json,
            b"image_url" | b"image" | b"input_audio" | b"audio" | b"audio_url" | b"video_url" | b"video"
            | b"file" | b"file_data" | b"file_id" | b"file_url" => Self::Media,
            b"source" => Self::Source,
            _ => Self::Aside,
        }
    }
}

/// Whether a reader that does not care about case would take `key` for `name`, which is in lower case.
pub(super) fn is_variant(key: &str, name: &str) -> bool {
    if key.is_ascii() { key.eq_ignore_ascii_case(name) } else { key.chars().map(fold).eq(name.chars()) }
}

/// A letter in lower case, as readers fold it that do not care: two letters outside ASCII are variants of ones in it.
const fn fold(letter: char) -> char {
    match letter {
        '\u{17f}' => 's',
        '\u{212a}' => 'k',
        other => other.to_ascii_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_is_folded_as_careless_readers_do() {
        for key in ["max_tokens", "MAX_Tokens", "max_to\u{212a}ens", "max_token\u{17f}"] {
            assert!(is_variant(key, "max_tokens"), "{key}");
        }
        for key in ["max_token", "max_tokens_", "maxtokens", "max_tokens\0", ""] {
            assert!(!is_variant(key, "max_tokens"), "{key}");
        }
    }

    #[test]
    fn members_are_known_in_any_spelling() {
        let member = |name: &str| Member::of(&Quoted::read(format!("{name}\"").as_bytes()).unwrap().0);
        assert_eq!(member("file_data"), Member::Media);
        assert_eq!(member("Content"), Member::Text);
        assert_eq!(member("argument\u{17f}"), Member::Text);
        assert_eq!(member("conten\\u0074"), Member::Text);
        assert_eq!(member("contents"), Member::Aside);
        assert_eq!(member(&"A".repeat(100)), Member::Aside);
    }
}
