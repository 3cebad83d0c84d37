//! The APIs that tell their usage: requests, answers and streams in the words of each.

use serde_json::{Value, json};

/// What a request's prompt is estimated at, in tokens of four bytes.
pub(super) const PROMPT: i64 = 100;
/// The most that a request lets the model answer.
pub(super) const CAP: i64 = 50;
/// What the backend counts, where it does.
pub(super) const USED_PROMPT: i64 = 60;
/// The same of its output.
pub(super) const USED_OUTPUT: i64 = 30;
/// The text of one chunk, which is two tokens by its length.
pub(super) const CHUNK: &str = "12345678";

/// An API with its paths and shapes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Api {
    Chat,
    Completions,
    Responses,
    Messages,
    Embeddings,
}

impl Api {
    pub(super) const ALL: [Self; 5] =
        [Self::Chat, Self::Completions, Self::Responses, Self::Messages, Self::Embeddings];

    pub(super) const fn path(self) -> &'static str {
        match self {
            Self::Chat => "/v1/chat/completions",
            Self::Completions => "/v1/completions",
            Self::Responses => "/v1/responses",
            Self::Messages => "/v1/messages",
            Self::Embeddings => "/v1/embeddings",
        }
    }

    pub(super) const fn streams(self) -> bool {
        !matches!(self, Self::Embeddings)
    }

    /// What it reserves for a request.
    pub(super) const fn reserved(self) -> i64 {
        if self.streams() { PROMPT + CAP } else { PROMPT }
    }

    /// What the backend counts for one.
    pub(super) const fn used(self) -> i64 {
        if self.streams() { USED_PROMPT + USED_OUTPUT } else { USED_PROMPT }
    }

    pub(super) fn request(self, stream: bool) -> Value {
        let text = "word".repeat(usize::try_from(PROMPT).unwrap());
        let messages = json!([{"role": "user", "content": text}]);
        let mut request = match self {
            Self::Chat => json!({"messages": messages, "max_completion_tokens": CAP}),
            Self::Completions => json!({"prompt": text, "max_tokens": CAP}),
            Self::Responses => json!({"input": text, "max_output_tokens": CAP}),
            Self::Messages => json!({"messages": messages, "max_tokens": CAP}),
            Self::Embeddings => json!({"input": text}),
        };
        request["model"] = json!("m");
        if stream {
            request["stream"] = json!(true);
        }
        request
    }

    fn usage(self) -> Value {
        match self {
            Self::Chat | Self::Completions => json!({
                "prompt_tokens": USED_PROMPT, "completion_tokens": USED_OUTPUT, "total_tokens": USED_PROMPT + USED_OUTPUT,
            }),
            Self::Responses => json!({
                "input_tokens": USED_PROMPT, "output_tokens": USED_OUTPUT, "total_tokens": USED_PROMPT + USED_OUTPUT,
            }),
            Self::Messages => json!({"input_tokens": USED_PROMPT, "output_tokens": USED_OUTPUT}),
            Self::Embeddings => json!({"prompt_tokens": USED_PROMPT, "total_tokens": USED_PROMPT}),
        }
    }

    /// A plain answer whose text is so many chunks.
    pub(super) fn answer(self, chunks: usize, usage: bool) -> Value {
        let text = CHUNK.repeat(chunks);
        let mut answer = match self {
            Self::Chat => json!({"choices": [{"message": {"content": text}, "index": 0}]}),
            Self::Completions => json!({"choices": [{"text": text, "index": 0}]}),
            Self::Responses => json!({"output": [{"content": [{"text": text, "type": "output_text"}]}]}),
            Self::Messages => json!({"content": [{"text": text, "type": "text"}]}),
            Self::Embeddings => json!({"data": [{"embedding": [0.5], "index": 0}]}),
        };
        if usage {
            answer["usage"] = self.usage();
        }
        answer
    }

    /// How a stream begins.
    pub(super) fn head(self) -> String {
        match self {
            // The prompt is counted at the beginning here, and the output at the end.
            Self::Messages => {
                let usage = json!({"input_tokens": USED_PROMPT, "output_tokens": 0});
                event("message_start", json!({"message": {"usage": usage}}))
            }
            _ => String::new(),
        }
    }

    /// One chunk of a stream.
    pub(super) fn chunk(self) -> String {
        match self {
            Self::Chat => data(&json!({"choices": [{"index": 0, "delta": {"content": CHUNK}}]})),
            Self::Completions => data(&json!({"choices": [{"index": 0, "text": CHUNK}]})),
            Self::Responses => event("response.output_text.delta", json!({"delta": CHUNK})),
            Self::Messages => {
                event("content_block_delta", json!({"delta": {"type": "text_delta", "text": CHUNK}}))
            }
            Self::Embeddings => unreachable!("embeddings do not stream"),
        }
    }

    /// What tells the usage at the end of a stream.
    pub(super) fn usage_event(self) -> String {
        match self {
            Self::Chat | Self::Completions => data(&json!({"choices": [], "usage": self.usage()})),
            Self::Responses => event("response.completed", json!({"response": {"usage": self.usage()}})),
            Self::Messages => event("message_delta", json!({"usage": {"output_tokens": USED_OUTPUT}})),
            Self::Embeddings => unreachable!("embeddings do not stream"),
        }
    }

    /// How a stream ends.
    pub(super) fn tail(self) -> String {
        match self {
            Self::Chat | Self::Completions => "data: [DONE]\n\n".to_owned(),
            Self::Messages => event("message_stop", json!({})),
            Self::Responses | Self::Embeddings => String::new(),
        }
    }
}

fn data(json: &Value) -> String {
    format!("data: {json}\n\n")
}

fn event(name: &str, mut json: Value) -> String {
    json["type"] = name.into();
    format!("event: {name}\ndata: {json}\n\n")
}
