//! `POST /v1/responses`.

use serde::Deserialize;
use serde_json::{Value, json};

use super::refusal::Refusal;
use super::stream::{Script, Step, Stream, event};
use super::text::{Content, Message, Reply, fingerprint, tokens};
use super::usage::Telling;
use super::{Answer, CREATED};

#[derive(Deserialize)]
struct Request {
    model: String,
    #[serde(default)]
    input: Input,
    #[serde(default)]
    instructions: Option<String>,
    #[serde(default)]
    stream: Option<bool>,
    #[serde(default)]
    max_output_tokens: Option<u64>,
    #[serde(default)]
    echo_usage: Telling,
}

#[derive(Default, Deserialize)]
#[serde(untagged)]
enum Input {
    #[default]
    None,
    Text(String),
    Items(Vec<Message>),
}

pub(super) fn answer(body: &[u8]) -> Result<Answer, Refusal> {
    let Request { model, input, instructions, stream, max_output_tokens: cap, echo_usage: telling } =
        serde_json::from_slice(body)?;
    let messages = match input {
        Input::None => Vec::new(),
        Input::Text(text) => vec![Message { role: "user".into(), content: Content::Text(text) }],
        Input::Items(items) => items,
    };
    let reply = Reply::to_last(&messages, cap, "max_output_tokens")?;
    let said: usize = messages.iter().map(|message| message.content.len()).sum();
    let input = tokens(said + instructions.as_ref().map_or(0, String::len));
    let output = reply.tokens();
    let fingerprint = fingerprint(body);
    let message_id = format!("msg_echo{fingerprint:016x}");
    let (status, incomplete) = if reply.is_cut {
        ("incomplete", json!({ "reason": "max_output_tokens" }))
    } else {
        ("completed", Value::Null)
    };
    let response = telling.apply(json!({
        "id": format!("resp_echo{fingerprint:016x}"),
        "object": "response",
        "created_at": CREATED,
        "status": status,
        "error": null,
        "incomplete_details": incomplete,
        "instructions": instructions,
        "max_output_tokens": cap,
        "metadata": {},
        "model": model,
        "output": [{
            "type": "message",
            "id": message_id,
            "status": status,
            "role": "assistant",
            "content": [{ "type": "output_text", "text": reply.text, "annotations": [] }],
        }],
        "parallel_tool_calls": true,
        "previous_response_id": null,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": {
            "input_tokens": input,
            "input_tokens_details": { "cached_tokens": 0 },
            "output_tokens": output,
            "output_tokens_details": { "reasoning_tokens": 0 },
            "total_tokens": input + output,
        },
    }));
    if stream == Some(true) {
        return Ok(Answer::Events(events(message_id, response, reply)));
    }
    Answer::json(&response)
}

/// The beginning, the text, and the end with all of it; the events between, which name items and parts, are left
/// out.
fn events(item_id: String, response: Value, reply: Reply) -> Stream {
    let mut created = response.clone();
    created["status"] = "in_progress".into();
    created["output"] = json!([]);
    created["usage"] = Value::Null;
    created["incomplete_details"] = Value::Null;
    let last = if reply.is_cut { "response.incomplete" } else { "response.completed" };
    let text = reply.text.clone();
    let mut sequence = 0_u64;
    let mut named = move |name: &str, mut value: Value| {
        value["type"] = name.into();
        value["sequence_number"] = sequence.into();
        sequence += 1;
        event(name, &value)
    };
    let part = move |mut value: Value| {
        value["item_id"] = item_id.as_str().into();
        value["output_index"] = 0.into();
        value["content_index"] = 0.into();
        value
    };
    Script::new(reply.text, 1).play(move |step| match step {
        Step::Start(_) => named("response.created", json!({ "response": created })),
        Step::Say(_, piece) => {
            named("response.output_text.delta", part(json!({ "delta": piece, "logprobs": [] })))
        }
        Step::End(_) => named("response.output_text.done", part(json!({ "text": text, "logprobs": [] }))),
        Step::Close => named(last, json!({ "response": response })),
    })
}
