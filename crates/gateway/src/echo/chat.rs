//! `POST /v1/chat/completions`.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::refusal::Refusal;
use super::stream::{Script, Step, Stream, data};
use super::text::{Message, Reply, fingerprint};
use super::usage::{StreamOptions, Teller, Telling, Told, Usage};
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
    #[serde(default)]
    echo_usage: Telling,
}

#[derive(Serialize)]
struct Chunk<'a> {
    id: &'a str,
    object: &'a str,
    created: u64,
    model: &'a str,
    choices: &'a [ChunkChoice<'a>],
    #[serde(skip_serializing_if = "Told::is_nothing")]
    usage: Told,
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
        let teller = Teller::new(usage, request.stream_options.as_ref(), request.echo_usage);
        return Ok(Answer::Events(stream(id, request.model, reply, n, teller)));
    }
    let choice = |index| {
        json!({
            "index": index,
            "message": { "role": "assistant", "content": reply.text, "refusal": null },
            "logprobs": null,
            "finish_reason": finish_reason,
        })
    };
    Answer::json(&request.echo_usage.apply(json!({
        "id": id,
        "object": "chat.completion",
        "created": CREATED,
        "model": request.model,
        "choices": (0..n).map(choice).collect::<Vec<_>>(),
        "usage": usage,
    })))
}

fn stream(id: String, model: String, reply: Reply, n: u32, mut teller: Teller) -> Stream {
    let finish_reason = finish_reason(&reply);
    Script::new(reply.text, n).play(move |step| {
        let usage = teller.tell(&step);
        let chunk = |choices: &[ChunkChoice<'_>]| {
            let (id, model) = (&*id, &*model);
            data(&Chunk { id, object: "chat.completion.chunk", created: CREATED, model, choices, usage })
        };
        let one = |index, delta, finish_reason| {
            chunk(&[ChunkChoice { index, delta, logprobs: None, finish_reason }])
        };
        match step {
            Step::Start(index) => one(index, Delta { role: Some("assistant"), content: Some("") }, None),
            Step::Say(index, piece) => one(index, Delta { role: None, content: Some(piece) }, None),
            Step::End(index) => one(index, Delta::default(), Some(finish_reason)),
            Step::Close => close((!usage.is_nothing()).then(|| chunk(&[]))),
        }
    })
}

/// The end of a stream, after the chunk with the usage if it was asked for.
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
