//! `POST /v1/messages` and `/v1/messages/count_tokens`, in Anthropic's shape.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::json;

use super::Answer;
use super::refusal::Refusal;
use super::stream::{Script, Step, Stream, event};
use super::text::{Content, Message, Reply, fingerprint, tokens};
use super::usage::Telling;

#[derive(Deserialize)]
struct Request {
    model: String,
    messages: Vec<Message>,
    #[serde(default)]
    system: Content,
    #[serde(default)]
    stream: Option<bool>,
    #[serde(default)]
    max_tokens: Option<u64>,
    #[serde(default)]
    echo_usage: Telling,
}

pub(super) fn answer(body: &[u8]) -> Result<Answer, Refusal> {
    let request = Request::read(body)?;
    let reply = Reply::to_last(&request.messages, request.max_tokens, "max_tokens")?;
    let (input, output) = (request.input_tokens(), reply.tokens());
    let id = format!("msg_echo{:016x}", fingerprint(body));
    if request.stream == Some(true) {
        return Ok(Answer::Events(stream(&id, &request.model, input, reply, request.echo_usage)));
    }
    Answer::json(&request.echo_usage.apply(json!({
        "id": id,
        "type": "message",
        "role": "assistant",
        "model": request.model,
        "content": [{ "type": "text", "text": reply.text }],
        "stop_reason": stop_reason(&reply),
        "stop_sequence": null,
        "usage": { "input_tokens": input, "output_tokens": output },
    })))
}

pub(super) fn count(body: &[u8]) -> Result<Answer, Refusal> {
    let request = Request::read(body)?;
    Answer::json(&json!({ "input_tokens": request.input_tokens() }))
}

/// The input tokens are told at the start and the output tokens at the end, as Anthropic's API does; cumulative, the
/// end tells both.
fn stream(id: &str, model: &str, input: u64, reply: Reply, telling: Telling) -> Stream {
    let message = telling.apply(json!({
        "id": id,
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": null,
        "stop_sequence": null,
        "usage": { "input_tokens": input, "output_tokens": 1 },
    }));
    let (stop_reason, output) = (stop_reason(&reply), reply.tokens());
    let usage = match telling {
        Telling::Cumulative => json!({ "input_tokens": input, "output_tokens": output }),
        _ => json!({ "output_tokens": output }),
    };
    let end = telling.apply(json!({
        "delta": { "stop_reason": stop_reason, "stop_sequence": null },
        "usage": usage,
    }));
    let named = |name: &str, mut value: serde_json::Value| {
        value["type"] = name.into();
        event(name, &value)
    };
    let both = |first: Bytes, second: Bytes| Bytes::from([first, second].concat());
    Script::new(reply.text, 1).play(move |step| match step {
        Step::Start(index) => both(
            named("message_start", json!({ "message": message })),
            named(
                "content_block_start",
                json!({ "index": index, "content_block": { "type": "text", "text": "" } }),
            ),
        ),
        Step::Say(index, piece) => named(
            "content_block_delta",
            json!({ "index": index, "delta": { "type": "text_delta", "text": piece } }),
        ),
        Step::End(index) => named("content_block_stop", json!({ "index": index })),
        Step::Close => both(named("message_delta", end.clone()), named("message_stop", json!({}))),
    })
}

fn stop_reason(reply: &Reply) -> &'static str {
    if reply.is_cut { "max_tokens" } else { "end_turn" }
}

impl Request {
    fn read(body: &[u8]) -> Result<Self, Refusal> {
        let request: Self = serde_json::from_slice(body)?;
        if request.messages.is_empty() {
            return Err(Refusal::invalid("messages", "messages: at least one message is required"));
        }
        Ok(request)
    }

    fn input_tokens(&self) -> u64 {
        let messages: usize = self.messages.iter().map(|message| message.content.len()).sum();
        tokens(messages + self.system.len())
    }
}
