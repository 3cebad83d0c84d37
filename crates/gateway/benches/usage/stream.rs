//! Streams as models write them: a word or less in each event.

use bytes::Bytes;

const WORDS: [&str; 8] = ["The", " lanes", " are", " served", " by", " weight", ",", " \\\"fairly\\\""];

/// A chat completion with the usage at its end, in so many events.
pub(crate) fn chat(events: usize) -> Vec<Bytes> {
    let chunk = |choices: &str, usage: &str| {
        Bytes::from(format!(
            "data: {{\"id\":\"chatcmpl-C0ffee0123456789abcdef\",\"object\":\"chat.completion.chunk\",\"created\":1760000000,\
             \"model\":\"gpt-4o-mini-2024-07-18\",\"service_tier\":\"default\",\"system_fingerprint\":\"fp_0123456789\",\
             \"choices\":[{choices}],\"usage\":{usage}}}\n\n"
        ))
    };
    let mut stream: Vec<_> = words(events.saturating_sub(2))
        .map(|word| {
            let choice = format!(
                "{{\"index\":0,\"delta\":{{\"content\":\"{word}\"}},\"logprobs\":null,\"finish_reason\":null}}"
            );
            chunk(&choice, "null")
        })
        .collect();
    stream.push(chunk("", "{\"prompt_tokens\":180,\"completion_tokens\":1998,\"total_tokens\":2178}"));
    stream.push(Bytes::from_static(b"data: [DONE]\n\n"));
    stream
}

/// A response.
pub(crate) fn response(events: usize) -> Vec<Bytes> {
    let event = |name: &str, rest: &str| {
        Bytes::from(format!("event: {name}\ndata: {{\"type\":\"{name}\",{rest}}}\n\n"))
    };
    let mut stream: Vec<_> = (0..)
        .zip(words(events.saturating_sub(1)))
        .map(|(number, word)| {
            let rest = format!(
                "\"sequence_number\":{number},\"item_id\":\"msg_0123456789abcdef0123456789abcdef\",\"output_index\":0,\
                 \"content_index\":0,\"delta\":\"{word}\",\"logprobs\":[],\"obfuscation\":\"{:07x}\"",
                u32::wrapping_mul(number, 0x9e37_79b1) >> 4
            );
            event("response.output_text.delta", &rest)
        })
        .collect();
    let usage = "{\"input_tokens\":180,\"output_tokens\":1999,\"total_tokens\":2179}";
    stream.push(event("response.completed", &format!("\"response\":{{\"id\":\"resp\",\"usage\":{usage}}}")));
    stream
}

/// A message.
pub(crate) fn message(events: usize) -> Vec<Bytes> {
    let event = |name: &str, rest: &str| {
        Bytes::from(format!("event: {name}\ndata: {{\"type\":\"{name}\",{rest}}}\n\n"))
    };
    let start = "\"message\":{\"id\":\"msg\",\"usage\":{\"input_tokens\":180,\"output_tokens\":1}}";
    let mut stream = vec![event("message_start", start)];
    stream.extend(words(events.saturating_sub(2)).map(|word| {
        let rest = format!("\"index\":0,\"delta\":{{\"type\":\"text_delta\",\"text\":\"{word}\"}}");
        event("content_block_delta", &rest)
    }));
    stream.push(event("message_delta", "\"delta\":{},\"usage\":{\"output_tokens\":1998}"));
    stream
}

/// The same stream in pieces of about so many bytes.
pub(crate) fn in_pieces(stream: &[Bytes], size: usize) -> Vec<Bytes> {
    let whole = Bytes::from(stream.concat());
    (0..whole.len()).step_by(size).map(|at| whole.slice(at..whole.len().min(at + size))).collect()
}

fn words(count: usize) -> impl Iterator<Item = &'static str> {
    WORDS.iter().copied().cycle().take(count)
}
