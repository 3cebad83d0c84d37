//! What goes to a backend and what comes back.

use fairlane_tests::{Backend, Call, Config, Gateway, Reply};
use http::Method;
use serde_json::{Value, json};

use crate::support::{Told, assert_limited, people};

/// Every path that is forwarded with a JSON body.
const JSON_PATHS: [&str; 10] = [
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/responses",
    "/v1/embeddings",
    "/v1/moderations",
    "/v1/rerank",
    "/v1/images/generations",
    "/v1/audio/speech",
    "/v1/messages",
    "/v1/messages/count_tokens",
];
/// Every path that is forwarded with a form.
const FORM_PATHS: [&str; 4] =
    ["/v1/audio/transcriptions", "/v1/audio/translations", "/v1/images/edits", "/v1/images/variations"];

/// As no serialiser would write it, so that a body that was read and written again would show.
const ODD_JSON: &str = "{ \"stream\" : false,\r\n\t\"model\":\"gpt\\u002dx\", \"temperature\": 1.0e+0,\"z\":[1 ,2],\"\\u00e9\":\"\u{e9}\" }  ";

fn odd_form() -> Vec<u8> {
    let mut form =
        b"preamble\r\n--b0undary\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\n\
        Content-Type: audio/wav\r\n\r\nRIFF\x00\xff\xfe--b0undar\r\n"
            .to_vec();
    form.extend_from_slice(
        b"--b0undary\r\ncontent-disposition: form-data; name=\"model\"\r\n\r\ngpt-x\r\n--b0undary--\r\nepilogue",
    );
    form
}

#[tokio::test]
async fn every_path_is_limited_and_reaches_the_backend_once_with_its_body_byte_for_byte() {
    let backend = Backend::start().await;
    let config = people(Config::with(&backend))
        .server("paths: [/v1/classify]")
        .limit("per_user: { requests_per_hour: 15 }");
    let gateway = Gateway::start(&config).await;
    let json = JSON_PATHS.iter().chain(&["/v1/classify"]).map(|path| {
        (
            path,
            Call::new(Method::POST, path)
                .body("application/json; charset=utf-8", ODD_JSON.as_bytes().to_vec()),
        )
    });
    let forms = FORM_PATHS.iter().map(|path| {
        (path, Call::new(Method::POST, path).body("multipart/form-data; boundary=\"b0undary\"", odd_form()))
    });
    let calls: Vec<_> = json.chain(forms).collect();
    assert_eq!(calls.len(), 15);
    for (n, (path, call)) in calls.iter().enumerate() {
        let answer = gateway.call(call.clone().key("key-of-alice")).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.printed());
        assert_eq!(Told::of(&answer).remaining, 14 - n as u64, "{path} is charged once");
        let seen = backend.request(n + 1).await;
        assert_eq!((seen.method.as_str(), seen.path.as_str()), ("POST", **path));
        assert_eq!(&seen.body, call.content(), "{path}");
        assert_eq!(backend.count(), n + 1, "{path} is sent once");
    }
    for (path, call) in calls {
        let answer = gateway.call(call.key("key-of-alice")).await;
        assert_eq!((answer.status, answer.limit_type().as_str()), (429, "user"), "{path}");
    }
    assert_eq!(backend.count(), 15, "what is refused reaches nobody");
}

#[tokio::test]
async fn the_model_of_every_path_is_limited() {
    let backend = Backend::start().await;
    let config =
        people(Config::with(&backend)).limit("per_model: { overrides: { gpt-x: { requests_per_hour: 1 } } }");
    let gateway = Gateway::start(&config).await;
    assert_eq!(gateway.call(Call::chat("gpt-x").key("key-of-bob")).await.status, 200);
    for path in JSON_PATHS.into_iter().filter(|path| !path.starts_with("/v1/messages")) {
        let call = Call::new(Method::POST, path).body("application/json", ODD_JSON.as_bytes().to_vec());
        assert_limited(&gateway.call(call.key("key-of-bob")).await, "model");
    }
    for path in FORM_PATHS {
        let call = Call::new(Method::POST, path).body("multipart/form-data; boundary=b0undary", odd_form());
        assert_limited(&gateway.call(call.key("key-of-bob")).await, "model");
    }
}

#[tokio::test]
async fn a_backend_sees_its_own_credential_and_never_the_callers() {
    let (plain, bearer, header) = (Backend::start().await, Backend::start().await, Backend::start().await);
    let config = people(Config::new())
        .backend("plain", &plain.url(), "models: [plain]")
        .backend("bearer", &bearer.url(), "models: [bearer], api_key: backend-key")
        .backend("header", &header.url(), "models: [header], api_key: backend-key, auth: x-api-key");
    let gateway = Gateway::start(&config).await;
    for model in ["plain", "bearer", "header"] {
        for call in [
            Call::chat(model).key("key-of-alice"),
            Call::message(model).set("x-api-key", "key-of-alice"),
            Call::chat(model).key("key-of-alice").set("x-api-key", "key-of-alice"),
        ] {
            assert_eq!(gateway.call(call.set("proxy-authorization", "Basic eA==")).await.status, 200);
        }
    }
    for (backend, authorization, x_api_key) in
        [(plain, "", ""), (bearer, "Bearer backend-key", ""), (header, "", "backend-key")]
    {
        assert_eq!(backend.count(), 3);
        for seen in backend.seen() {
            assert_eq!((seen.header("authorization"), seen.header("x-api-key")), (authorization, x_api_key));
            assert!(!format!("{:?}", seen.headers).contains("key-of-alice"), "{:?}", seen.headers);
            assert_eq!(seen.header("proxy-authorization"), "");
        }
    }
}

#[tokio::test]
async fn a_request_crosses_with_its_query_and_headers_but_not_those_of_its_connection() {
    let backend = Backend::start().await;
    let config = Config::new().permissive().backend("primary", &format!("{}/base", backend.url()), "");
    let gateway = Gateway::start(&config).await;
    let body = json!({"model": "m"});
    let call = Call::post("/v1/chat/completions?beta=true&x=%20y", &body)
        .set("openai-beta", "assistants=v2")
        .set("accept", "text/plain")
        .set("cookie", "a=b")
        .set("connection", "keep-alive, x-mine")
        .set("x-mine", "1")
        .set("te", "trailers")
        .set("x-forwarded-for", "203.0.113.1");
    assert_eq!(gateway.call(call).await.status, 200);
    let seen = backend.request(1).await;
    assert_eq!(seen.path, "/base/v1/chat/completions?beta=true&x=%20y");
    assert_eq!((seen.header("openai-beta"), seen.header("accept")), ("assistants=v2", "text/plain"));
    assert_eq!((seen.header("x-mine"), seen.header("te")), ("", ""));
    assert!(backend.url().ends_with(seen.header("host")), "{}", seen.header("host"));
}

#[tokio::test]
async fn the_list_of_models_comes_from_the_configuration_and_shows_what_the_key_may_use() {
    let backend = Backend::start().await;
    let config = Config::new()
        .backend("first", &backend.url(), "models: [gpt-x, gpt-y, claude-x]")
        .backend("second", &backend.url(), "models: [gpt-y, embed-1]")
        .key("narrow", "narrow-key", "models: [\"gpt-*\", embed-1]")
        .key("wide", "wide-key", "");
    let gateway = Gateway::start(&config).await;
    let list = async |key: &str| {
        let answer = gateway.call(Call::get("/v1/models").key(key)).await;
        assert_eq!((answer.status, answer.header("content-type")), (200, "application/json"));
        let list = answer.json();
        assert_eq!(list["object"], "list");
        let models = list["data"].as_array().expect("a list").clone();
        assert!(models.iter().all(|model| model["object"] == "model" && model["created"].is_u64()));
        let mut ids: Vec<_> =
            models.iter().filter_map(|model| model["id"].as_str().map(str::to_owned)).collect();
        ids.sort();
        ids
    };
    assert_eq!(list("wide-key").await, ["claude-x", "embed-1", "gpt-x", "gpt-y"]);
    assert_eq!(list("narrow-key").await, ["embed-1", "gpt-x", "gpt-y"]);
    assert_eq!(backend.count(), 0);
}

#[tokio::test]
async fn an_answer_that_comes_in_pieces_is_not_held_back_though_nobody_asked_for_a_stream() {
    let backend = Backend::start().await;
    let gateway = Gateway::start(&Config::with(&backend).permissive()).await;
    let (chunks, reply) = Reply::stream();
    backend.next(reply);
    chunks.event("first");
    let mut opened = gateway.open(Call::chat("gpt-x")).await;
    opened.until("first").await;
    chunks.event("last");
    chunks.done();
    opened.until("[DONE]").await;
    assert_eq!(opened.chunk().await.unwrap(), None);
}

#[tokio::test]
async fn the_echo_backend_answers_chats_streams_completions_embeddings_and_messages() {
    let gateway = Gateway::start(&Config::new().permissive().backend("echo", "builtin:echo", "")).await;
    let answer = gateway.call(Call::chat("gpt-x")).await;
    assert_eq!(answer.status, 200);
    let text = answer.json()["choices"][0]["message"]["content"].clone();
    assert!(text.as_str().is_some_and(|text| text.contains("hello")), "{}", answer.printed());
    assert!(answer.json()["usage"]["total_tokens"].is_u64());

    let answer = gateway.call(Call::chat_stream("gpt-x")).await;
    assert!(answer.header("content-type").starts_with("text/event-stream"));
    let text = answer.text();
    let events =
        text.lines().filter_map(|line| serde_json::from_str::<Value>(line.strip_prefix("data: ")?).ok());
    let pieces =
        events.filter_map(|event| event["choices"][0]["delta"]["content"].as_str().map(str::to_owned));
    assert_eq!(pieces.collect::<String>(), "hello");
    assert!(text.ends_with("data: [DONE]\n\n"), "{text}");

    let bodies = [
        ("/v1/completions", json!({"model": "m", "prompt": "hello"})),
        ("/v1/embeddings", json!({"model": "m", "input": "hello"})),
        ("/v1/responses", json!({"model": "m", "input": "hello"})),
        (
            "/v1/messages",
            json!({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hello"}]}),
        ),
    ];
    for (path, body) in bodies {
        let answer = gateway.call(Call::post(path, &body)).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.printed());
        assert_ne!(answer.json(), Value::Null, "{path}");
    }
}

#[tokio::test]
async fn callers_may_speak_http2() {
    let backend = Backend::start().await;
    let gateway =
        Gateway::start(&people(Config::with(&backend)).limit("per_user: { requests_per_hour: 1 }")).await;
    let call = || Call::chat("m").key("key-of-alice");
    let answer = gateway.client().call_http2(call()).await;
    assert_eq!((answer.status, Told::of(&answer).remaining), (200, 0));
    assert_eq!(backend.request(1).await.body, call().content());
    assert_limited(&gateway.client().call_http2(call()).await, "user");
}
