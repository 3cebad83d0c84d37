//! `POST /v1/completions`.

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::chat::{StreamOptions, StreamedUsage, Usage, choices, close, finish_reason, includes_usage};
use super::refusal::Refusal;
use super::stream::{Script, Step, Stream, data};
use super::text::{Content, Reply, fingerprint};
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
}

#[derive(Default, Deserialize)]
#[serde(untagged)]
enum Prompt {
    #[default]
    None,
    One(String),
    Many(Vec<String>),
}

#[derive(Serialize)]
struct Chunk<'a> {
    id: &'a str,
    object: &'a str,
    created: u64,
    model: &'a str,
    choices: &'a [Choice<'a>],
    #[serde(skip_serializing_if = "StreamedUsage::is_absent")]
    usage: StreamedUsage,
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
    let (said, prompt) = match request.prompt {
        Prompt::None => (Content::None, 0),
        Prompt::One(text) => (Content::Text(text.clone()), text.len()),
        Prompt::Many(mut texts) => {
            let prompt = texts.iter().map(String::len).sum();
            (texts.pop().map_or(Content::None, Content::Text), prompt)
        }
    };
    let reply = Reply::to(&said, request.max_tokens, "max_tokens")?;
    let n = choices(request.n)?;
    let usage = Usage::new(prompt, &reply, n);
    let id = format!("cmpl-echo{:016x}", fingerprint(body));
    if request.stream == Some(true) {
        let include_usage = includes_usage(request.stream_options.as_ref());
        return Ok(Answer::Events(stream(id, request.model, reply, n, include_usage.then_some(usage))));
    }
    let finish_reason = Some(finish_reason(&reply));
    let choices: Vec<_> =
        (0..n).map(|index| Choice { index, text: &reply.text, logprobs: None, finish_reason }).collect();
    Answer::json(&json!({
        "id": id,
        "object": "text_completion",
        "created": CREATED,
        "model": request.model,
        "choices": choices,
        "usage": usage,
    }))
}

fn stream(id: String, model: String, reply: Reply, n: u32, usage: Option<Usage>) -> Stream {
    let (finish_reason, meanwhile) = (finish_reason(&reply), StreamedUsage::before(usage));
    Script::new(reply.text, n).play(move |step| {
        let chunk = |choices: &[Choice<'_>], usage| {
            let (id, model) = (&*id, &*model);
            data(&Chunk { id, object: "text_completion", created: CREATED, model, choices, usage })
        };
        let one = |index, text, finish_reason| {
            chunk(&[Choice { index, text, logprobs: None, finish_reason }], meanwhile)
        };
        match step {
            Step::Start(index) => one(index, "", None),
            Step::Say(index, piece) => one(index, piece, None),
            Step::End(index) => one(index, "", Some(finish_reason)),
            Step::Close => close(usage.map(|usage| chunk(&[], StreamedUsage::Total(usage)))),
        }
    })
}
