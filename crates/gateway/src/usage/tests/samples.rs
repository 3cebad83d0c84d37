//! Streams as backends send them.

use super::{EVENTS, read, usage, watch};
use crate::{
    request::Api,
    usage::{Ended, Outcome, Usage},
};

/// One stream, and what is to be read from it.
pub(super) struct Sample {
    pub(super) name: &'static str,
    pub(super) api: Api,
    pub(super) stream: String,
    pub(super) usage: Option<Usage>,
    /// Tokens of output that no usage covers, of four bytes each.
    pub(super) observed: u64,
    /// The part that is kept from a caller who did not ask for it.
    pub(super) extra: Option<&'static str>,
}

const CHAT_EXTRA: &str = "data: {\"id\":\"c-1\",\"object\":\"chat.completion.chunk\",\"model\":\"m\",\"choices\":[],\"usage\":\
    {\"prompt_tokens\":12,\"completion_tokens\":3,\"total_tokens\":15,\"prompt_tokens_details\":{\"cached_tokens\":4}}}\n\n";
const COMPLETIONS_EXTRA: &str =
    "data: {\"choices\": [ ], \"usage\": {\"prompt_tokens\": 2, \"completion_tokens\": 1}}\n\n";

fn chat_chunk(delta: &str, more: &str) -> String {
    format!(
        "data: {{\"id\":\"c-1\",\"object\":\"chat.completion.chunk\",\"model\":\"m\",\"choices\":[{{\"index\":0,\
         \"delta\":{delta},\"logprobs\":null,\"finish_reason\":null}}]{more}}}\n\n"
    )
}

fn named(name: &str, json: &str) -> String {
    format!("event: {name}\ndata: {{\"type\":\"{name}\",{json}}}\n\n")
}

fn chat() -> Sample {
    let null = ",\"usage\":null";
    let stream = [
        chat_chunk("{\"role\":\"assistant\",\"content\":\"\",\"refusal\":null}", null),
        chat_chunk("{\"content\":\"The \\\"usage\\\": {}\"}", null),
        chat_chunk("{\"content\":\" grüßt\"}", null),
        CHAT_EXTRA.to_owned(),
        "data: [DONE]\n\n".to_owned(),
    ];
    Sample {
        name: "chat",
        api: Api::Chat,
        stream: stream.concat(),
        usage: usage(12, 3, 15),
        observed: 0,
        extra: Some(CHAT_EXTRA),
    }
}

/// Calls of tools, reasoning, several choices in a chunk, and no usage.
fn chat_without_usage() -> Sample {
    let call = "{\"tool_calls\":[{\"index\":0,\"id\":\"call_0123456789\",\"type\":\"function\",\"function\":\
                {\"name\":\"find\",\"arguments\":\"{\\\"q\\\":\\\"\\u4e2d\\ud83d\\ude00\"}}]}";
    let both = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"abcd\"},\"logprobs\":{\"content\":[{\"token\":\
                \"abcd\"}]}},{\"index\":1,\"delta\":{\"content\":\"efgh\"}}]}\n\n";
    let stream = [
        chat_chunk("{\"role\":\"assistant\"}", ",\"obfuscation\":\"q5aZ0\""),
        chat_chunk("{\"reasoning_content\":\"hmm \"}", ""),
        chat_chunk(call, ""),
        both.to_owned(),
        chat_chunk("{}", ""),
        "data: [DONE]\n\n".to_owned(),
    ];
    // hmm_, find, {"q":" and a character of three bytes and one of four, and eight letters.
    let bytes = 4 + 4 + (6 + 3 + 4) + 8_u64;
    Sample {
        name: "chat without usage",
        api: Api::Chat,
        stream: stream.concat(),
        usage: None,
        observed: bytes.div_ceil(4),
        extra: None,
    }
}

/// A running count in every chunk, and zeros at the end.
fn chat_cumulative() -> Sample {
    let counts = |output: u64| {
        let total = 10 + output;
        format!(",\"usage\":{{\"prompt_tokens\":10,\"completion_tokens\":{output},\"total_tokens\":{total}}}")
    };
    let mut stream: String = (1..=5).map(|k| chat_chunk("{\"content\":\"word\"}", &counts(k))).collect();
    stream +=
        &chat_chunk("{}", ",\"usage\":{\"prompt_tokens\":0,\"completion_tokens\":0,\"total_tokens\":0}");
    Sample {
        name: "chat, cumulative",
        api: Api::Chat,
        stream,
        usage: usage(10, 5, 15),
        observed: 0,
        extra: None,
    }
}

fn completions() -> Sample {
    let stream = [
        "data: {\"object\":\"text_completion\",\"choices\":[{\"text\":\"Hi\",\"index\":0,\"logprobs\":{\"tokens\":[\"Hi\"]}}],\
         \"usage\":null}\r\n\r\n",
        COMPLETIONS_EXTRA,
        "data: [DONE]\r\n\r\n",
    ];
    Sample {
        name: "completions",
        api: Api::Completions,
        stream: stream.concat(),
        usage: usage(2, 1, 3),
        observed: 0,
        extra: Some(COMPLETIONS_EXTRA),
    }
}

fn completions_without_usage() -> Sample {
    let chunk =
        "data:{\"choices\":[{\"text\":\"12345\",\"index\":0,\"logprobs\":{\"tokens\":[\"Hi\"]}}]}\r\n\r\n";
    Sample {
        name: "completions without usage",
        api: Api::Completions,
        stream: chunk.repeat(3),
        usage: None,
        observed: 4,
        extra: None,
    }
}

fn responses(last: &str) -> Sample {
    // What the caller wrote comes back in every event that has the response: here a tool that has a `usage`.
    let tools = "\"tools\":[{\"parameters\":{\"usage\":{\"input_tokens\":999,\"output_tokens\":999}}}]";
    let end = format!(
        "\"response\":{{\"id\":\"r\",{tools},\"usage\":{{\"input_tokens\":20,\"input_tokens_details\":{{\"cached_tokens\":0}},\
         \"output_tokens\":7,\"output_tokens_details\":{{\"reasoning_tokens\":5}},\"total_tokens\":27}},\"metadata\":{{}}}}"
    );
    let stream = [
        named("response.created", &format!("\"response\":{{\"id\":\"r\",{tools},\"usage\":null}}")),
        named("response.output_text.delta", "\"item_id\":\"msg\",\"delta\":\"Hello\",\"logprobs\":[]"),
        named("response.output_text.delta", "\"item_id\":\"msg\",\"delta\":\" there\",\"logprobs\":[]"),
        named("response.output_text.done", "\"text\":\"Hello there\""),
        named(last, &end),
    ];
    Sample {
        name: "responses",
        api: Api::Responses,
        stream: stream.concat(),
        usage: usage(20, 7, 27),
        observed: 0,
        extra: None,
    }
}

fn messages() -> Sample {
    let start = "\"message\":{\"id\":\"m\",\"content\":[],\"usage\":{\"input_tokens\":25,\"cache_creation_input_tokens\":100,\
                 \"cache_read_input_tokens\":1000,\"cache_creation\":{\"ephemeral_5m_input_tokens\":100},\"output_tokens\":1}}";
    let text = |text: &str| format!("\"index\":0,\"delta\":{{\"type\":\"text_delta\",\"text\":\"{text}\"}}");
    let end = "\"delta\":{\"stop_reason\":\"end_turn\",\"stop_sequence\":null},\"usage\":{\"input_tokens\":25,\
               \"cache_creation_input_tokens\":100,\"cache_read_input_tokens\":1000,\"output_tokens\":15}";
    let stream = [
        named("message_start", start),
        named("content_block_start", "\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}"),
        ": ping\n\n".to_owned(),
        named("ping", "\"x\":0"),
        named("content_block_delta", &text("Hello")),
        named("content_block_delta", &text("!\\n")),
        named("content_block_stop", "\"index\":0"),
        named("message_delta", end),
        named("message_stop", "\"x\":0"),
    ];
    Sample {
        name: "messages",
        api: Api::Messages,
        stream: stream.concat(),
        usage: usage(1125, 15, 1140),
        observed: 0,
        extra: None,
    }
}

/// The input was told; the output is still to come.
fn messages_cut_short() -> Sample {
    let whole = messages();
    let (begun, _) = whole.stream.split_once("event: message_delta").unwrap();
    // "Hello!" and a line feed are seven bytes.
    Sample {
        name: "messages, cut short",
        stream: begun.to_owned(),
        usage: usage(1125, 1, 1126),
        observed: 2,
        ..whole
    }
}

/// A pretty-printed event over several lines, without anything at its end.
fn in_lines() -> Sample {
    let stream = "\u{FEFF}: hello\r\rid: 1\rdata: {\rdata: \"choices\": [{\"delta\": {\rdata:   \"content\": \"abcd\"}}],\r\
                  data: \"usage\": {\rdata: \"prompt_tokens\": 1,\rdata: \"completion_tokens\": 1}}\r";
    Sample {
        name: "in lines",
        api: Api::Chat,
        stream: stream.to_owned(),
        usage: usage(1, 1, 2),
        observed: 0,
        extra: None,
    }
}

pub(super) fn all() -> Vec<Sample> {
    let mut all = vec![
        chat(),
        chat_without_usage(),
        chat_cumulative(),
        completions(),
        completions_without_usage(),
        responses("response.completed"),
        responses("response.incomplete"),
        messages(),
        messages_cut_short(),
        in_lines(),
    ];
    let crlf = all.iter().filter(|sample| sample.extra.is_none()).map(|sample| Sample {
        stream: sample.stream.replace('\n', "\r\n"),
        ..Sample { name: sample.name, stream: String::new(), ..*sample }
    });
    let crlf: Vec<_> = crlf.collect();
    all.extend(crlf);
    all
}

impl Sample {
    pub(super) fn outcome(&self) -> Outcome {
        Outcome { usage: self.usage, observed_output: self.observed, ended: Ended::Complete }
    }

    /// The stream without what is kept from the caller.
    pub(super) fn without_extra(&self) -> String {
        self.extra.map_or_else(|| self.stream.clone(), |extra| self.stream.replace(extra, ""))
    }
}

#[test]
fn usage_is_read_and_everything_passes() {
    for sample in all() {
        let (text, outcome) = read(watch(sample.api, false), EVENTS, [sample.stream.as_bytes()]);
        assert_eq!((text, outcome), (sample.stream.clone(), sample.outcome()), "{}", sample.name);
    }
}

#[test]
fn every_event_alone_gives_the_same() {
    for sample in all() {
        let events: Vec<_> = sample.stream.split_inclusive("\n\n").map(str::as_bytes).collect();
        let (_, outcome) = read(watch(sample.api, false), EVENTS, events);
        assert_eq!(outcome, sample.outcome(), "{}", sample.name);
    }
}

#[test]
fn what_a_caller_makes_an_answer_repeat_is_not_taken_for_usage() {
    // At the top level it counts; anywhere else it is somebody's text.
    let event =
        |json: &str| read(watch(Api::Responses, false), EVENTS, [format!("data: {json}\n\n").as_bytes()]).1;
    let counts = "\"usage\":{\"input_tokens\":9,\"output_tokens\":9,\"total_tokens\":18}";
    assert_eq!(event(&format!("{{{counts}}}")).usage, usage(9, 9, 18));
    assert_eq!(event(&format!("{{\"response\":{{{counts}}}}}")).usage, usage(9, 9, 18));
    for json in [
        format!("{{\"tools\":[{{{counts}}}]}}"),
        format!("{{\"response\":{{\"tools\":{{{counts}}}}}}}"),
        format!("{{\"request\":{{{counts}}}}}"),
        format!("{{\"message\":{{{counts}}}}}"),
        format!("[{{{counts}}}]"),
        format!("{{\"a\":1}}{{{counts}}}"),
    ] {
        assert_eq!(event(&json).usage, None, "{json}");
    }
}

#[test]
fn usage_of_the_wrong_form_is_none() {
    let read = |usage: &str| {
        let event =
            format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"abcd\"}}}}],\"usage\":{usage}}}\n\n");
        let (text, outcome) = read(watch(Api::Chat, true), EVENTS, [event.as_bytes()]);
        assert_eq!(text, event);
        (outcome.usage, outcome.observed_output)
    };
    for wrong in [
        "null",
        "{}",
        "[]",
        "7",
        "\"seven\"",
        "{\"prompt_tokens\":\"7\"}",
        "{\"prompt_tokens\":-7}",
        "{\"prompt_tokens\":7.5}",
        "{\"prompt_tokens\":7,\"completion_tokens\":{}}",
        "{\"prompt_tokens\":0,\"completion_tokens\":0,\"total_tokens\":0}",
        "{\"prompt_tokens\":99999999999999999999}",
        "{\"prompt_tokens\":1000000000001}",
        "{\"prompt_tokens\":7,}",
    ] {
        assert_eq!(read(wrong), (None, 1), "{wrong}");
    }
    assert_eq!(read("{\"prompt_tokens\":7,\"completion_tokens\":null}"), (usage(7, 0, 7), 1));
    assert_eq!(read(" { \"total_tokens\" : 7 } "), (usage(0, 0, 7), 1));
    assert_eq!(
        read("{\"prompt_tokens\":7,\"completion_tokens\":1,\"total_tokens\":30}"),
        (usage(7, 1, 30), 0)
    );
    assert_eq!(read("{\"prompt_tokens\":7,\"completion_tokens\":1,\"total_tokens\":3}"), (usage(7, 1, 8), 0));
}
