//! The embedded backend: what clients of OpenAI's and Anthropic's APIs get from it.

#![allow(clippy::unwrap_used, reason = "a test that meets something else has failed")]

use bytes::Bytes;
use fairlane_gateway::echo::{self, EchoSettings};
use http::{Method, StatusCode};
use http_body_util::BodyExt;
use serde_json::{Value, json};

async fn send(method: Method, path: &str, body: impl Into<Bytes>) -> (StatusCode, String, Bytes) {
    let response = echo::handle(&EchoSettings::default(), &method, path, &body.into()).await;
    let content_type = response.headers()["content-type"].to_str().unwrap().to_owned();
    let status = response.status();
    (status, content_type, response.into_body().collect().await.unwrap().to_bytes())
}

async fn post(path: &str, body: Value) -> Value {
    let (status, content_type, body) = send(Method::POST, path, body.to_string()).await;
    assert_eq!((status, content_type.as_str()), (StatusCode::OK, "application/json"));
    serde_json::from_slice(&body).unwrap()
}

/// The events of a stream: their names, where they have one, and their data.
async fn stream(path: &str, body: Value) -> Vec<(Option<String>, String)> {
    let (status, content_type, body) = send(Method::POST, path, body.to_string()).await;
    assert_eq!((status, content_type.as_str()), (StatusCode::OK, "text/event-stream; charset=utf-8"));
    let text = std::str::from_utf8(&body).unwrap();
    let events = text.strip_suffix("\n\n").unwrap().split("\n\n");
    events
        .map(|event| {
            let (name, data) = match event.strip_prefix("event: ") {
                Some(event) => {
                    event.split_once('\n').map(|(name, data)| (Some(name.to_owned()), data)).unwrap()
                }
                None => (None, event),
            };
            (name, data.strip_prefix("data: ").unwrap().to_owned())
        })
        .collect()
}

/// The data of a stream of chunks, which ends with `[DONE]`.
async fn chunks(path: &str, body: Value) -> Vec<Value> {
    let mut events = stream(path, body).await;
    assert_eq!(events.pop(), Some((None, "[DONE]".to_owned())));
    events.iter().map(|(_, data)| serde_json::from_str(data).unwrap()).collect()
}

fn said(text: &str) -> Value {
    json!([
        { "role": "system", "content": "be brief" },
        { "role": "user", "content": "first" },
        { "role": "assistant", "content": "answer" },
        { "role": "user", "content": [{ "type": "text", "text": text }, { "type": "image_url", "image_url": {} }] },
    ])
}

#[tokio::test]
async fn chat_echoes_the_last_user_message() {
    let answer = post("/v1/chat/completions", json!({ "model": "m", "messages": said("ping pong") })).await;
    assert_eq!(answer["object"], "chat.completion");
    assert_eq!(answer["model"], "m");
    assert!(answer["id"].is_string() && answer["created"].is_u64());
    assert_eq!(
        answer["choices"],
        json!([{
            "index": 0,
            "message": { "role": "assistant", "content": "ping pong", "refusal": null },
            "logprobs": null,
            "finish_reason": "stop",
        }])
    );
    // 8 + 5 + 6 + 9 bytes said, 9 answered.
    assert_eq!(answer["usage"], json!({ "prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10 }));
}

#[tokio::test]
async fn the_same_request_gets_the_same_bytes_and_another_one_another_id() {
    let body = |text| json!({ "model": "m", "messages": said(text) }).to_string();
    let one = send(Method::POST, "/v1/chat/completions", body("a")).await;
    assert_eq!(one, send(Method::POST, "/v1/chat/completions", body("a")).await);
    let id = |answer: &Bytes| serde_json::from_slice::<Value>(answer).unwrap()["id"].clone();
    assert_ne!(id(&one.2), id(&send(Method::POST, "/v1/chat/completions", body("b")).await.2));
}

#[tokio::test]
async fn chat_honours_choices_and_caps() {
    let body = json!({ "model": "m", "messages": said("ping pong"), "n": 2, "max_completion_tokens": 2, "max_tokens": 9 });
    let answer = post("/v1/chat/completions", body).await;
    for index in 0..2 {
        let choice = &answer["choices"][index];
        assert_eq!((&choice["index"], &choice["finish_reason"]), (&json!(index), &json!("length")));
        assert_eq!(choice["message"]["content"], "ping pon");
    }
    assert_eq!(answer["usage"]["completion_tokens"], 4);
}

#[tokio::test]
async fn a_chat_stream_says_the_same_piece_by_piece() {
    let body = json!({ "model": "m", "messages": said("ping pong"), "stream": true });
    let chunks = chunks("/v1/chat/completions", body).await;
    let deltas: Vec<_> = chunks.iter().map(|chunk| chunk["choices"][0]["delta"].clone()).collect();
    assert_eq!(
        deltas,
        [
            json!({ "role": "assistant", "content": "" }),
            json!({ "content": "ping" }),
            json!({ "content": " pon" }),
            json!({ "content": "g" }),
            json!({}),
        ]
    );
    let reasons: Vec<_> = chunks.iter().map(|chunk| chunk["choices"][0]["finish_reason"].as_str()).collect();
    assert_eq!(reasons, [None, None, None, None, Some("stop")]);
    for chunk in &chunks {
        assert_eq!(chunk["object"], "chat.completion.chunk");
        assert_eq!(chunk["id"], chunks[0]["id"]);
        assert_eq!(chunk.get("usage"), None);
    }
}

#[tokio::test]
async fn usage_is_streamed_when_it_is_asked_for() {
    let body = json!({
        "model": "m", "messages": said("ping"), "n": 2, "stream": true, "stream_options": { "include_usage": true },
    });
    let mut chunks = chunks("/v1/chat/completions", body).await;
    let last = chunks.pop().unwrap();
    assert_eq!(last["choices"], json!([]));
    assert_eq!(last["usage"], json!({ "prompt_tokens": 6, "completion_tokens": 2, "total_tokens": 8 }));
    assert!(chunks.iter().all(|chunk| chunk.get("usage") == Some(&Value::Null)));
    let indices: Vec<_> = chunks.iter().map(|chunk| chunk["choices"][0]["index"].as_u64().unwrap()).collect();
    assert_eq!(indices, [0, 1, 0, 1, 0, 1]);
}

#[tokio::test]
async fn usage_is_told_in_parts_or_as_it_grows_on_demand() {
    let usages = async |telling: &str, include_usage: bool| -> Vec<Value> {
        let body = json!({
            "model": "m", "messages": said("ping"), "stream": true, "max_tokens": 1, "echo_usage": telling,
            "stream_options": { "include_usage": include_usage },
        });
        chunks("/v1/chat/completions", body).await.iter().map(|chunk| chunk["usage"].clone()).collect()
    };
    let usage = |completion: u64| json!({ "prompt_tokens": 6, "completion_tokens": completion, "total_tokens": 6 + completion });
    // The beginning, one token, the end, the sum.
    assert_eq!(usages("split", true).await, [usage(0), Value::Null, Value::Null, usage(1)]);
    assert_eq!(usages("cumulative", true).await, [usage(0), usage(1), usage(1), usage(1)]);
    assert_eq!(usages("cumulative", false).await, [Value::Null, Value::Null, Value::Null]);

    let body = json!({
        "model": "m", "prompt": "ping", "stream": true, "echo_usage": "cumulative",
        "stream_options": { "include_usage": true },
    });
    let told = chunks("/v1/completions", body).await;
    let told: Vec<_> = told.iter().map(|chunk| chunk["usage"]["completion_tokens"].as_u64()).collect();
    assert_eq!(told, [Some(0), Some(1), Some(1), Some(1)]);

    let body = json!({ "model": "m", "max_tokens": 9, "messages": said("ping"), "stream": true, "echo_usage": "cumulative" });
    let events = stream("/v1/messages", body).await;
    let end: Value = serde_json::from_str(&events[events.len() - 2].1).unwrap();
    assert_eq!(end["usage"], json!({ "input_tokens": 6, "output_tokens": 1 }));
}

#[tokio::test]
async fn a_backend_without_usage_is_played_on_demand() {
    for (path, mut body) in [
        ("/v1/chat/completions", json!({ "messages": said("ping") })),
        ("/v1/completions", json!({ "prompt": "ping" })),
        ("/v1/responses", json!({ "input": "ping" })),
        ("/v1/embeddings", json!({ "input": "ping" })),
        ("/v1/messages", json!({ "messages": said("ping"), "max_tokens": 9 })),
    ] {
        let has_usage = |text: &str| text.contains("_tokens\":") && text.contains("\"usage\":{");
        body["model"] = "m".into();
        body["stream_options"] = json!({ "include_usage": true });
        for streamed in [false, true] {
            body["stream"] = (streamed && path != "/v1/embeddings").into();
            for (telling, expected) in [(None, true), (Some("omit"), false)] {
                let mut body = body.clone();
                if let Some(telling) = telling {
                    body["echo_usage"] = telling.into();
                }
                let (status, _, answer) = send(Method::POST, path, body.to_string()).await;
                let answer = std::str::from_utf8(&answer).unwrap();
                assert_eq!(
                    (status, has_usage(answer)),
                    (StatusCode::OK, expected),
                    "{path} {streamed} {telling:?} {answer}"
                );
            }
        }
    }
}

#[tokio::test]
async fn prompts_of_tokens_are_as_long_as_they_say() {
    for (prompt, tokens) in [(json!([1, 2, 3]), 3), (json!([[1], [2, 3], [4]]), 4)] {
        let answer = post("/v1/completions", json!({ "model": "m", "prompt": prompt })).await;
        assert_eq!(answer["usage"]["prompt_tokens"], tokens);
    }
}

#[tokio::test]
async fn completions_plain_and_streamed() {
    let answer =
        post("/v1/completions", json!({ "model": "m", "prompt": "ping pong", "max_tokens": 1 })).await;
    assert_eq!(answer["object"], "text_completion");
    assert_eq!(
        answer["choices"],
        json!([{ "index": 0, "text": "ping", "logprobs": null, "finish_reason": "length" }])
    );
    assert_eq!(answer["usage"], json!({ "prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4 }));

    let body = json!({
        "model": "m", "prompt": ["a", "ping pong"], "stream": true, "stream_options": { "include_usage": true },
    });
    let chunks = chunks("/v1/completions", body).await;
    let text: String = chunks.iter().filter_map(|chunk| chunk["choices"][0]["text"].as_str()).collect();
    assert_eq!(text, "ping pong");
    assert_eq!(chunks.last().unwrap()["usage"]["total_tokens"], 6);
}

#[tokio::test]
async fn embeddings_are_unit_vectors_that_depend_on_the_input() {
    let answer =
        post("/v1/embeddings", json!({ "model": "m", "input": ["a", "b", "a"], "dimensions": 8 })).await;
    assert_eq!(answer["object"], "list");
    assert_eq!(answer["usage"], json!({ "prompt_tokens": 3, "total_tokens": 3 }));
    let vectors: Vec<Vec<f64>> = answer["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| serde_json::from_value(item["embedding"].clone()).unwrap())
        .collect();
    assert_eq!(vectors[0], vectors[2]);
    assert_ne!(vectors[0], vectors[1]);
    for vector in vectors {
        assert_eq!(vector.len(), 8);
        assert!((vector.iter().map(|value| value * value).sum::<f64>() - 1.0).abs() < 1e-5);
    }
}

#[tokio::test]
async fn a_small_request_makes_no_huge_answer() {
    let ask = |inputs: usize| json!({ "model": "m", "input": vec!["a"; inputs], "dimensions": 4096 });
    let (status, _, refused) = send(Method::POST, "/v1/embeddings", ask(245).to_string()).await;
    let refused: Value = serde_json::from_slice(&refused).unwrap();
    assert_eq!((status, &refused["error"]["param"]), (StatusCode::BAD_REQUEST, &json!("dimensions")));
    assert_eq!(post("/v1/embeddings", ask(2)).await["data"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn embeddings_come_as_base64_and_take_tokens() {
    for (input, tokens) in [(json!("abcde"), 2), (json!([1, 2, 3]), 3), (json!([[1], [2, 3]]), 3)] {
        let body = json!({ "model": "m", "input": input, "dimensions": 3, "encoding_format": "base64" });
        let answer = post("/v1/embeddings", body).await;
        // Three floats of four bytes.
        assert_eq!(answer["data"][0]["embedding"].as_str().unwrap().len(), 16);
        assert_eq!(answer["usage"]["total_tokens"], tokens);
    }
}

#[tokio::test]
async fn messages_plain_and_streamed() {
    let mut body =
        json!({ "model": "m", "max_tokens": 100, "system": "be brief", "messages": said("ping pong") });
    let answer = post("/v1/messages", body.clone()).await;
    assert_eq!((&answer["type"], &answer["role"]), (&json!("message"), &json!("assistant")));
    assert_eq!(answer["content"], json!([{ "type": "text", "text": "ping pong" }]));
    assert_eq!(answer["stop_reason"], "end_turn");
    assert_eq!(answer["usage"], json!({ "input_tokens": 9, "output_tokens": 3 }));
    assert_eq!(post("/v1/messages/count_tokens", body.clone()).await, json!({ "input_tokens": 9 }));

    body["stream"] = true.into();
    let events = stream("/v1/messages", body).await;
    let names: Vec<_> = events.iter().map(|(name, _)| name.as_deref().unwrap()).collect();
    assert_eq!(
        names,
        [
            "message_start",
            "content_block_start",
            "content_block_delta",
            "content_block_delta",
            "content_block_delta",
            "content_block_stop",
            "message_delta",
            "message_stop",
        ]
    );
    let data: Vec<Value> = events.iter().map(|(_, data)| serde_json::from_str(data).unwrap()).collect();
    for (name, data) in names.iter().zip(&data) {
        assert_eq!(data["type"], *name);
    }
    assert_eq!(data[0]["message"]["usage"]["input_tokens"], 9);
    assert_eq!(data[6]["usage"]["output_tokens"], 3);
    let text: String = data.iter().filter_map(|data| data["delta"]["text"].as_str()).collect();
    assert_eq!(text, "ping pong");
}

#[tokio::test]
async fn responses_plain_and_streamed() {
    let answer =
        post("/v1/responses", json!({ "model": "m", "input": "ping", "instructions": "brief" })).await;
    assert_eq!((&answer["object"], &answer["status"]), (&json!("response"), &json!("completed")));
    assert_eq!(answer["output"][0]["content"][0]["text"], "ping");
    assert_eq!(answer["usage"]["total_tokens"], 4);

    let body = json!({ "model": "m", "input": said("ping pong"), "max_output_tokens": 2, "stream": true });
    let events = stream("/v1/responses", body).await;
    let (name, last) = events.last().unwrap();
    let last: Value = serde_json::from_str(last).unwrap();
    assert_eq!(name.as_deref(), Some("response.incomplete"));
    assert_eq!(last["response"]["output"][0]["content"][0]["text"], "ping pon");
    assert_eq!(last["response"]["usage"]["output_tokens"], 2);
    for (at, (_, data)) in events.iter().enumerate() {
        assert_eq!(serde_json::from_str::<Value>(data).unwrap()["sequence_number"], at);
    }
}

#[tokio::test]
async fn models_are_listed() {
    let (status, _, body) = send(Method::GET, "/v1/models", "").await;
    let models: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!((status, &models["data"][0]["object"]), (StatusCode::OK, &json!("model")));
}

async fn check_refused(path: &str, body: &str, status: StatusCode, kind: &str) {
    let (got, _, answer) = send(Method::POST, path, body.to_owned()).await;
    let answer: Value = serde_json::from_slice(&answer).unwrap();
    assert_eq!((got, answer["error"]["type"].as_str()), (status, Some(kind)), "{path} {body} {answer}");
    assert!(answer["error"]["message"].as_str().is_some_and(|message| !message.contains("canary")));
    assert_eq!(answer.get("type").is_some(), path.starts_with("/v1/messages"));
}

#[tokio::test]
async fn what_is_not_understood_is_refused_in_the_clients_shape() {
    let (bad, missing, kind) = (StatusCode::BAD_REQUEST, StatusCode::NOT_FOUND, "invalid_request_error");
    let chat = "/v1/chat/completions";
    let with =
        |extra: &str| format!(r#"{{"model":"m","messages":[{{"role":"user","content":"x"}}],{extra}}}"#);
    check_refused(chat, "{canary", bad, kind).await;
    check_refused(chat, r#"{"model":"m","messages":"canary"}"#, bad, kind).await;
    check_refused(chat, r#"{"model":"m","messages":[]}"#, bad, kind).await;
    check_refused(chat, &with(r#""n":0"#), bad, kind).await;
    check_refused(chat, &with(r#""max_tokens":0"#), bad, kind).await;
    check_refused(chat, &with(r#""echo_usage":"canary""#), bad, kind).await;
    check_refused("/v1/messages", "[", bad, kind).await;
    check_refused("/v1/embeddings", r#"{"model":"m","input":[]}"#, bad, kind).await;
    check_refused("/v1/embeddings", r#"{"model":"m","input":"a","dimensions":0}"#, bad, kind).await;
    check_refused("/v1/unknown", "{}", missing, kind).await;
    check_refused("/v1/messages/unknown", "{}", missing, "not_found_error").await;
}
