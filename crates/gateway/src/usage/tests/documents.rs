//! Answers that are one JSON document, and those that nothing can be read from.

use std::convert::Infallible;

use http::{HeaderValue, header};

use super::{EVENTS, JSON, Outcomes, chunks, headers, next, read, usage, watch};
use crate::{
    request::Api,
    usage::{Usage, anthropic, openai},
};

/// Cut once anywhere, a document gives this usage, this output, and its own bytes.
fn check(api: Api, document: &str, usage: Option<Usage>, observed: u64) {
    for cut in 0..=document.len() {
        let (one, two) = document.as_bytes().split_at(cut);
        let (text, outcome) = read(watch(api, true), JSON, [one, two]);
        assert_eq!(text, document);
        assert_eq!((outcome.usage, outcome.observed_output), (usage, observed), "{document} cut at {cut}");
    }
}

#[test]
fn chat() {
    let document = r#"{"id":"c","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":
        "He said: \"usage\": {\"prompt_tokens\": 9}"},"finish_reason":"stop"}],
        "usage": {"prompt_tokens": 19, "completion_tokens": 10, "total_tokens": 29, "x": {"y": [1]}},"service_tier":"default"}"#;
    check(Api::Chat, document, usage(19, 10, 29), 0);
}

#[test]
fn without_usage_the_text_is_counted() {
    // Ten bytes: the text, and no labels, no log probabilities.
    let chat = r#"{"id":"chatcmpl-0123456789","choices":[{"message":{"role":"assistant","content":"0123456\n\u00e4"},
        "logprobs":{"content":[{"token":"0123456"}]},"finish_reason":"stop"}],"usage":null}"#;
    check(Api::Chat, chat, None, 3);
    check(Api::Completions, r#"{"choices":[{"text":"12345678","finish_reason":"stop"}]}"#, None, 2);
    check(Api::Messages, r#"{"type":"message","content":[{"type":"text","text":"1234"}]}"#, None, 1);
    let responses = r#"{"tools":[{"name":"long enough to matter"}],"output":[{"type":"message","content":[
        {"type":"output_text","text":"12345"}]}]}"#;
    check(Api::Responses, responses, None, 2);
}

#[test]
fn completions_responses_and_messages() {
    check(
        Api::Completions,
        r#"{"choices":[{"text":"a"}],"usage":{"prompt_tokens":1,"completion_tokens":2}}"#,
        usage(1, 2, 3),
        0,
    );
    let responses = r#"{"object":"response","tools":[{"usage":{"input_tokens":5000}}],"output":[],
        "usage":{"input_tokens":36,"output_tokens":87,"total_tokens":123},"user":null,"metadata":{}}"#;
    check(Api::Responses, responses, usage(36, 87, 123), 0);
    let messages = r#"{"type":"message","content":[{"type":"text","text":"a"}],"usage":{"input_tokens":10,
        "cache_creation_input_tokens":5,"cache_read_input_tokens":3,"output_tokens":20,"service_tier":"standard"}}"#;
    check(Api::Messages, messages, usage(18, 20, 38), 0);
}

#[test]
fn embeddings_have_no_output() {
    let behind = r#"{"object":"list","data":[{"embedding":[0.1,-2.5e-3],"index":0},{"embedding":"AAAA"}],
        "usage":{"prompt_tokens":8,"total_tokens":8}}"#;
    let before = r#"{"usage":{"prompt_tokens":8,"total_tokens":8},"data":[{"embedding":[0.1],"index":0}]}"#;
    check(Api::Embeddings, behind, usage(8, 0, 8), 0);
    check(Api::Embeddings, before, usage(8, 0, 8), 0);
    check(Api::Embeddings, r#"{"data":[{"embedding":[0.1]}],"text":"abcdefgh"}"#, None, 0);
    check(Api::Rerank, r#"{"results":[],"usage":{"total_tokens":38}}"#, usage(0, 0, 38), 0);
}

#[test]
fn a_document_of_any_length_is_read() {
    let numbers = "0.0123456789,".repeat(200_000);
    let document = format!("{{\"data\":[{{\"embedding\":[{numbers}0]}}],\"usage\":{{\"prompt_tokens\":8}}}}");
    let (text, outcome) = read(watch(Api::Embeddings, false), JSON, document.as_bytes().chunks(8192));
    assert_eq!((text.len(), outcome.usage), (document.len(), usage(8, 0, 8)));
}

#[test]
fn a_type_that_is_not_told_is_looked_at() {
    let read = |content_type: Option<&'static str>, encoding: Option<&'static str>, text: &str| {
        let mut headers = headers(content_type.unwrap_or("x"));
        if content_type.is_none() {
            headers.clear();
        }
        if let Some(encoding) = encoding {
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static(encoding));
        }
        let outcomes = Outcomes::default();
        let script = chunks::<Infallible>([text.as_bytes()]);
        let mut body = watch(Api::Chat, true).body(&mut headers, script, outcomes.settle());
        assert_eq!(next(&mut body).unwrap().unwrap().into_data().unwrap(), text);
        drop(body);
        (outcomes.only().usage.map(|usage| usage.total), outcomes.only().observed_output)
    };
    let document = "{\"usage\":{\"prompt_tokens\":7}}";
    let event = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7}} ";
    assert_eq!(read(None, None, document), (Some(7), 0));
    assert_eq!(read(Some("Application/JSON"), None, document), (Some(7), 0));
    assert_eq!(read(Some("application/problem+json"), Some("identity"), document), (Some(7), 0));
    assert_eq!(read(None, None, event), (None, 0));
    assert_eq!(read(Some("text/plain"), None, document), (None, 0));
    assert_eq!(read(Some("audio/mpeg"), None, document), (None, 0));
    // Compressed, its length is all there is to go by.
    let length = |text: &str| (None, text.len().div_ceil(4) as u64);
    assert_eq!(read(Some(JSON), Some("gzip"), document), length(document));
    assert_eq!(read(Some(EVENTS), Some("br"), event), length(event));
    assert_eq!(read(Some("audio/mpeg"), Some("gzip"), document), (None, 0));
}

#[test]
fn shapes_know_their_own_counts_only() {
    let both = br#"{"prompt_tokens":1,"input_tokens":5,"cache_read_input_tokens":7,"output_tokens":2}"#;
    assert_eq!((openai::DOCUMENT.read_usage)(both).unwrap().usage(), usage(1, 2, 3).unwrap());
    assert_eq!((anthropic::DOCUMENT.read_usage)(both).unwrap().usage(), usage(12, 2, 14).unwrap());
}
