//! `POST /v1/chat/completions`.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::refusal::Refusal;
use super::stream::{Script, Step, Stream, data};
use super::text::{Message, Reply, fingerprint, tokens};
use super::{Answer, CREATED};

/// As many choices as OpenAI's API gives at most.
pub(super) const MAX_CHOICES: u32 = 128;

/// The event after which nothing comes.
const DONE: Bytes = Bytes::from_static(b"data: [DONE]\n\n");

#[derive(Deserialize)]
struct Request {
    model: String,
    messages: Vec<Message>,
    #[serde(default)]
    stream: Option<bool>,
    #[serde(default)]
    stream_options: Option<StreamOptions>,
    #[serde(default)]
    max_tokens: Option<u64>,
    #[serde(default)]
    max_completion_tokens: Option<u64>,
    #[serde(default)]
    n: Option<u32>,
}

#[derive(Default, Deserialize)]
pub(super) struct StreamOptions {
    #[serde(default)]
    pub(super) include_usage: Option<bool>,
}

/// The tokens of a request and its answer.
#[derive(Clone, Copy, Serialize)]
pub(super) struct Usage {
    prompt_tokens: u64,
    completion_tokens: u64,
    total_tokens: u64,
}

/// What a chunk says about usage.
#[derive(Clone, Copy, Serialize)]
#[serde(untagged)]
pub(super) enum StreamedUsage {
    /// Nothing, because nobody asked: the field is absent.
    Absent,
    /// That it comes later: `null`.
    Later,
    /// What it was, in the last chunk.
    Total(Usage),
}

#[derive(Serialize)]
struct Chunk<'a> {
    id: &'a str,
    object: &'a str,
    created: u64,
    model: &'a str,
    choices: &'a [ChunkChoice<'a>],
    #[serde(skip_serializing_if = "StreamedUsage::is_absent")]
    usage: StreamedUsage,
}

#[derive(Serialize)]
struct ChunkChoice<'a> {
    index: u32,
    delta: Delta<'a>,
    logprobs: Option<()>,
    finish_reason: Option<&'a str>,
}

#[derive(Default, Serialize)]
struct Delta<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<&'a str>,
}

pub(super) fn answer(body: &[u8]) -> Result<Answer, Refusal> {
    let request: Request = serde_json::from_slice(body)?;
    if request.messages.is_empty() {
        return Err(Refusal::invalid("messages", "'messages' must hold at least one message."));
    }
    let cap = request.max_completion_tokens.or(request.max_tokens);
    let reply = Reply::to_last(&request.messages, cap, "max_tokens")?;
    let n = choices(request.n)?;
    let prompt = request.messages.iter().map(|message| message.content.len()).sum();
    let usage = Usage::new(prompt, &reply, n);
    let id = format!("chatcmpl-echo{:016x}", fingerprint(body));
    let finish_reason = finish_reason(&reply);
    if request.stream == Some(true) {
        let include_usage = includes_usage(request.stream_options.as_ref());
        return Ok(Answer::Events(stream(id, request.model, reply, n, include_usage.then_some(usage))));
    }
    let choice = |index| {
        json!({
            "index": index,
            "message": { "role": "assistant", "content": reply.text, "refusal": null },
            "logprobs": null,
            "finish_reason": finish_reason,
        })
    };
    Answer::json(&json!({
        "id": id,
        "object": "chat.completion",
        "created": CREATED,
        "model": request.model,
        "choices": (0..n).map(choice).collect::<Vec<_>>(),
        "usage": usage,
    }))
}

fn stream(id: String, model: String, reply: Reply, n: u32, usage: Option<Usage>) -> Stream {
    let (finish_reason, meanwhile) = (finish_reason(&reply), StreamedUsage::before(usage));
    Script::new(reply.text, n).play(move |step| {
        let chunk = |choices: &[ChunkChoice<'_>], usage| {
            data(&Chunk {
                id: &id,
                object: "chat.completion.chunk",
                created: CREATED,
                model: &model,
                choices,
                usage,
            })
        };
        let one = |index, delta, finish_reason| {
            chunk(&[ChunkChoice { index, delta, logprobs: None, finish_reason }], meanwhile)
        };
        match step {
            Step::Start(index) => one(index, Delta { role: Some("assistant"), content: Some("") }, None),
            Step::Say(index, piece) => one(index, Delta { role: None, content: Some(piece) }, None),
            Step::End(index) => one(index, Delta::default(), Some(finish_reason)),
            Step::Close => close(usage.map(|usage| chunk(&[], StreamedUsage::Total(usage)))),
        }
    })
}

/// The end of a stream, after the usage if it was asked for.
pub(super) fn close(usage: Option<Bytes>) -> Bytes {
    match usage {
        Some(usage) => [usage, DONE].concat().into(),
        None => DONE,
    }
}

/// How many choices are asked for.
pub(super) fn choices(n: Option<u32>) -> Result<u32, Refusal> {
    match n.unwrap_or(1) {
        n @ 1..=MAX_CHOICES => Ok(n),
        _ => Err(Refusal::invalid("n", format!("'n' must be between 1 and {MAX_CHOICES}."))),
    }
}

pub(super) fn finish_reason(reply: &Reply) -> &'static str {
    if reply.is_cut { "length" } else { "stop" }
}

pub(super) fn includes_usage(options: Option<&StreamOptions>) -> bool {
    options.is_some_and(|options| options.include_usage == Some(true))
}

// === impl StreamedUsage ===

impl StreamedUsage {
    /// What chunks say before the one that may tell this usage.
    pub(super) fn before(usage: Option<Usage>) -> Self {
        if usage.is_some() { Self::Later } else { Self::Absent }
    }

    pub(super) fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }
}

// === impl Usage ===

impl Usage {
    /// The usage of a prompt of so many bytes that is answered `n` times.
    pub(super) fn new(prompt: usize, reply: &Reply, n: u32) -> Self {
        let (prompt_tokens, completion_tokens) = (tokens(prompt), reply.tokens() * u64::from(n));
        Self { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens }
    }
}
