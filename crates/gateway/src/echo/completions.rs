//! `POST /v1/completions`.

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::chat::{choices, close, finish_reason};
use super::refusal::Refusal;
use super::stream::{Script, Step, Stream, data};
use super::text::{BYTES_PER_TOKEN, Content, Reply, fingerprint};
use super::usage::{StreamOptions, Teller, Telling, Told, Usage};
use super::{Answer, CREATED};

#[derive(Deserialize)]
struct Request {
    model: String,
    #[serde(default)]
    prompt: Prompt,
    #[serde(default)]
    stream: Option<bool>,
    #[serde(default)]
    stream_options: Option<StreamOptions>,
    #[serde(default)]
    max_tokens: Option<u64>,
    #[serde(default)]
    n: Option<u32>,
    #[serde(default)]
    echo_usage: Telling,
}

#[derive(Default, Deserialize)]
#[serde(untagged)]
enum Prompt {
    #[default]
    None,
    One(String),
    Tokens(Vec<u64>),
    Many(Vec<String>),
    TokenLists(Vec<Vec<u64>>),
}

#[derive(Serialize)]
struct Chunk<'a> {
    id: &'a str,
    object: &'a str,
    created: u64,
    model: &'a str,
    choices: &'a [Choice<'a>],
    #[serde(skip_serializing_if = "Told::is_nothing")]
    usage: Told,
}

#[derive(Serialize)]
struct Choice<'a> {
    index: u32,
    text: &'a str,
    logprobs: Option<()>,
    finish_reason: Option<&'a str>,
}

pub(super) fn answer(body: &[u8]) -> Result<Answer, Refusal> {
    let request: Request = serde_json::from_slice(body)?;
    let (said, prompt) = request.prompt.read();
    let reply = Reply::to(&said, request.max_tokens, "max_tokens")?;
    let n = choices(request.n)?;
    let usage = Usage::new(prompt, &reply, n);
    let id = format!("cmpl-echo{:016x}", fingerprint(body));
    if request.stream == Some(true) {
        let teller = Teller::new(usage, request.stream_options.as_ref(), request.echo_usage);
        return Ok(Answer::Events(stream(id, request.model, reply, n, teller)));
    }
    let finish_reason = Some(finish_reason(&reply));
    let choices: Vec<_> =
        (0..n).map(|index| Choice { index, text: &reply.text, logprobs: None, finish_reason }).collect();
    Answer::json(&request.echo_usage.apply(json!({
        "id": id,
        "object": "text_completion",
        "created": CREATED,
        "model": request.model,
        "choices": choices,
        "usage": usage,
    })))
}

fn stream(id: String, model: String, reply: Reply, n: u32, mut teller: Teller) -> Stream {
    let finish_reason = finish_reason(&reply);
    Script::new(reply.text, n).play(move |step| {
        let usage = teller.tell(&step);
        let chunk = |choices: &[Choice<'_>]| {
            let (id, model) = (&*id, &*model);
            data(&Chunk { id, object: "text_completion", created: CREATED, model, choices, usage })
        };
        let one =
            |index, text, finish_reason| chunk(&[Choice { index, text, logprobs: None, finish_reason }]);
        match step {
            Step::Start(index) => one(index, "", None),
            Step::Say(index, piece) => one(index, piece, None),
            Step::End(index) => one(index, "", Some(finish_reason)),
            Step::Close => close((!usage.is_nothing()).then(|| chunk(&[]))),
        }
    })
}

// === impl Prompt ===

impl Prompt {
    /// What is answered to, which is the last of several, and how many bytes of text all of them are.
    fn read(self) -> (Content, usize) {
        // Nothing can be read out of numbers: as prompts they have a length and no words.
        let bytes = |tokens: usize| (Content::None, tokens * BYTES_PER_TOKEN);
        match self {
            Self::None => (Content::None, 0),
            Self::One(text) => {
                let length = text.len();
                (Content::Text(text), length)
            }
            Self::Tokens(tokens) => bytes(tokens.len()),
            Self::TokenLists(lists) => bytes(lists.iter().map(Vec::len).sum()),
            Self::Many(mut texts) => {
                let length = texts.iter().map(String::len).sum();
                (texts.pop().map_or(Content::None, Content::Text), length)
            }
        }
    }
}
