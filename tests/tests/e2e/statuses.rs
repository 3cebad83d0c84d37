//! Every answer that is given before a limit is asked: what cannot be read, who may not, what is not there.

use fairlane_tests::{Answer, Backend, Call, Config, Gateway};
use http::Method;
use serde_json::{Value, json};

use crate::support::{assert_named, assert_refused, assert_refused_anthropic};

async fn permissive() -> (Backend, Gateway) {
    let backend = Backend::start().await;
    let gateway = Gateway::start(&Config::with(&backend).permissive()).await;
    (backend, gateway)
}

#[tokio::test]
async fn a_body_that_cannot_be_read_is_400() {
    let (backend, gateway) = permissive().await;
    let chat = |body: &str| {
        Call::new(Method::POST, "/v1/chat/completions").body("application/json", body.to_owned())
    };
    let bad = [
        "",
        "{",
        "[]",
        "null",
        "\"model\"",
        r#"{"model": 1}"#,
        r#"{"model": "a", "model": "b"}"#,
        r#"{"model": "a"} {"model": "b"}"#,
        r#"{"model": "a", "stream": "yes"}"#,
        "{\"model\": \"\u{1}\"}",
    ];
    for body in bad {
        assert_refused(&gateway.call(chat(body)).await, 400, "invalid_request_error");
    }
    let invalid_utf8 = Call::new(Method::POST, "/v1/chat/completions")
        .body("application/json", b"{\"model\": \"\xff\"}".to_vec());
    assert_refused(&gateway.call(invalid_utf8).await, 400, "invalid_request_error");
    assert_eq!(backend.count(), 0);
}

#[tokio::test]
async fn a_request_without_a_model_is_400_and_names_the_field() {
    let (backend, gateway) = permissive().await;
    for path in ["/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/embeddings", "/v1/rerank"] {
        let answer = gateway.call(Call::post(path, &json!({"input": "x"}))).await;
        assert_refused(&answer, 400, "invalid_request_error");
        assert_eq!(answer.error()["param"], "model", "{path}");
    }
    let form = "--b\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\nx\r\n--b--\r\n";
    let call =
        Call::new(Method::POST, "/v1/audio/transcriptions").body("multipart/form-data; boundary=b", form);
    let answer = gateway.call(call).await;
    assert_refused(&answer, 400, "invalid_request_error");
    assert_eq!(answer.error()["param"], "model");
    assert_eq!(backend.count(), 0);
}

#[tokio::test]
async fn a_form_that_cannot_be_read_is_400() {
    let (backend, gateway) = permissive().await;
    let part =
        |value: &str| format!("--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\n{value}\r\n");
    let forms = [
        ("application/json", json!({"model": "a"}).to_string()),
        ("multipart/form-data", part("a")),
        ("multipart/form-data; boundary=b", part("a")),
        ("multipart/form-data; boundary=b", format!("{}{}--b--\r\n", part("a"), part("b"))),
        ("multipart/form-data; boundary=b", String::new()),
    ];
    for (content_type, form) in forms {
        let call = Call::new(Method::POST, "/v1/audio/translations").body(content_type, form.clone());
        let answer = gateway.call(call).await;
        assert_eq!(answer.status, 400, "{content_type}: {form:?}");
        assert_refused(&answer, 400, "invalid_request_error");
    }
    assert_eq!(backend.count(), 0);
}

/// Sends bytes and reads what comes until the gateway closes: the status, and the body as an answer would have it.
async fn raw(gateway: &Gateway, request: &str) -> (u16, Value) {
    let mut raw = gateway.client().raw().await;
    raw.send(request.as_bytes()).await;
    let answer = raw.rest().await;
    let status = answer.split_whitespace().nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    let body = answer.split_once("\r\n\r\n").map(|(_, body)| body).unwrap_or_default();
    (status, serde_json::from_str(body).unwrap_or_default())
}

#[tokio::test]
async fn a_request_that_two_servers_could_read_differently_is_400() {
    let (backend, gateway) = permissive().await;
    let body = json!({"model": "gpt-x"}).to_string();
    let length = body.len();
    let chunked = format!("{length:x}\r\n{body}\r\n0\r\n\r\n");
    let ending = "Connection: close\r\n";
    let requests = [
        (
            "no host",
            format!("POST /v1/chat/completions HTTP/1.1\r\n{ending}Content-Length: {length}\r\n\r\n{body}"),
        ),
        (
            "two hosts",
            format!(
                "POST /v1/chat/completions HTTP/1.1\r\n{ending}Host: a\r\nHost: a\r\nContent-Length: {length}\r\n\r\n{body}"
            ),
        ),
        (
            "length and encoding",
            format!(
                "POST /v1/chat/completions HTTP/1.1\r\n{ending}Host: a\r\nContent-Length: {length}\r\n\
                 Transfer-Encoding: chunked\r\n\r\n{chunked}"
            ),
        ),
        (
            "absolute form with another host",
            format!(
                "POST http://b/v1/chat/completions HTTP/1.1\r\n{ending}Host: a\r\nContent-Length: {length}\r\n\r\n{body}"
            ),
        ),
        ("a tunnel", format!("CONNECT a:443 HTTP/1.1\r\n{ending}Host: a:443\r\n\r\n")),
    ];
    for (what, request) in requests {
        let (status, body) = raw(&gateway, &request).await;
        assert_eq!(status, 400, "{what}: {body}");
        assert_eq!(body["error"]["code"], "invalid_request_error", "{what}: {body}");
    }
    assert_eq!(backend.count(), 0);
    // The control: the same bytes, with one host and one length.
    let good = format!(
        "POST /v1/chat/completions HTTP/1.1\r\n{ending}Host: a\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    assert_eq!(raw(&gateway, &good).await.0, 200);
    assert_eq!(backend.count(), 1);
}

#[tokio::test]
async fn a_key_that_is_missing_or_does_not_count_is_401_with_a_challenge() {
    let backend = Backend::start().await;
    let config = Config::with(&backend)
        .key("good", "good-key", "user: alice")
        .key("off", "disabled-key", "enabled: false")
        .key("old", "expired-key", "expires_at: 2020-01-01T00:00:00Z")
        .key("new", "unexpired-key", "expires_at: 2999-01-01T00:00:00Z");
    let gateway = Gateway::start(&config).await;
    let refused = [
        ("none", Call::chat("m")),
        ("wrong", Call::chat("m").key("wrong-key")),
        ("disabled", Call::chat("m").key("disabled-key")),
        ("expired", Call::chat("m").key("expired-key")),
        ("empty", Call::chat("m").set("authorization", "Bearer ")),
        ("another scheme", Call::chat("m").set("authorization", "Basic Z29vZC1rZXk=")),
        ("no scheme", Call::chat("m").set("authorization", "good-key")),
        ("wrong x-api-key", Call::chat("m").set("x-api-key", "wrong-key")),
        ("two that differ", Call::chat("m").key("good-key").set("x-api-key", "unexpired-key")),
        ("for the list of models", Call::get("/v1/models")),
    ];
    for (what, call) in refused {
        let answer = gateway.call(call).await;
        assert_eq!(answer.status, 401, "{what}");
        assert_refused(&answer, 401, "invalid_api_key");
        assert_eq!(answer.header("www-authenticate"), "Bearer", "{what}");
    }
    assert_eq!(backend.count(), 0);

    for good in [
        Call::chat("m").key("good-key"),
        Call::chat("m").key("unexpired-key"),
        Call::chat("m").set("authorization", "bearer good-key"),
        Call::chat("m").set("x-api-key", "good-key"),
    ] {
        assert_eq!(gateway.call(good).await.status, 200);
    }
    let answer = gateway.call(Call::message("m").set("x-api-key", "wrong-key")).await;
    assert_refused_anthropic(&answer, 401, "authentication_error", "invalid_api_key");
}

#[tokio::test]
async fn a_wrong_key_is_401_even_where_none_is_needed() {
    let backend = Backend::start().await;
    let config = Config::with(&backend).permissive().key("off", "disabled-key", "enabled: false");
    let gateway = Gateway::start(&config).await;
    assert_eq!(gateway.call(Call::chat("m")).await.status, 200);
    for key in ["wrong-key", "disabled-key"] {
        assert_refused(&gateway.call(Call::chat("m").key(key)).await, 401, "invalid_api_key");
    }
    let malformed = Call::chat("m").set("authorization", "Basic eDp5");
    assert_refused(&gateway.call(malformed).await, 401, "invalid_api_key");
    assert_eq!(backend.count(), 1);
}

#[tokio::test]
async fn a_model_that_the_key_may_not_use_is_403_and_one_that_nobody_serves_is_404() {
    let backend = Backend::start().await;
    let config = Config::new()
        .backend("primary", &backend.url(), "models: [gpt-x, claude-*]")
        .key("narrow", "narrow-key", "models: [\"gpt-*\"]")
        .key("wide", "wide-key", "");
    let gateway = Gateway::start(&config).await;

    let answer = gateway.call(Call::chat("claude-x").key("narrow-key")).await;
    assert_refused(&answer, 403, "model_not_allowed");
    assert_eq!(answer.error()["param"], "model");
    let answer = gateway.call(Call::message("claude-x").key("narrow-key")).await;
    assert_refused_anthropic(&answer, 403, "permission_error", "model_not_allowed");

    let answer = gateway.call(Call::chat("gpt-y").key("narrow-key")).await;
    assert_refused(&answer, 404, "model_not_found");
    let answer = gateway.call(Call::message("gpt-y").key("wide-key")).await;
    assert_refused_anthropic(&answer, 404, "not_found_error", "model_not_found");

    // What the key may not use, it is not told whether it exists.
    let answer = gateway.call(Call::chat("nobody-serves-this").key("narrow-key")).await;
    assert_refused(&answer, 403, "model_not_allowed");

    assert_eq!(backend.count(), 0);
    assert_eq!(gateway.call(Call::chat("gpt-x").key("narrow-key")).await.status, 200);
    assert_eq!(gateway.call(Call::chat("claude-3").key("wide-key")).await.status, 200);
}

#[tokio::test]
async fn a_path_that_is_nowhere_is_404_and_a_wrong_method_405_with_allow() {
    let (backend, gateway) = permissive().await;
    let nowhere = [
        "/",
        "/v1",
        "/v1/",
        "/v1/unknown",
        "/v1/chat/completions/",
        "//v1/chat/completions",
        "/V1/CHAT/COMPLETIONS",
        "/v1/chat%2Fcompletions",
        "/v1/chat/../chat/completions",
        "/metrics",
        "/admin/queues",
        "/healthz",
    ];
    for path in nowhere {
        let answer = gateway.call(Call::post(path, &json!({"model": "m"}))).await;
        assert_eq!(answer.status, 404, "{path}");
        assert_refused(&answer, 404, "not_found");
    }
    for method in [Method::GET, Method::PUT, Method::DELETE, Method::PATCH, Method::OPTIONS] {
        let answer = gateway.call(Call::new(method, "/v1/chat/completions")).await;
        assert_refused(&answer, 405, "method_not_allowed");
        assert_eq!(answer.header("allow"), "POST");
    }
    let answer = gateway.call(Call::get("/v1/messages")).await;
    assert_refused_anthropic(&answer, 405, "invalid_request_error", "method_not_allowed");
    let answer = gateway.call(Call::post("/v1/models", &json!({}))).await;
    assert_refused(&answer, 405, "method_not_allowed");
    assert_eq!(answer.header("allow"), "GET");
    let answer = gateway.call(Call::new(Method::HEAD, "/v1/chat/completions")).await;
    assert_eq!((answer.status, answer.header("allow")), (405, "POST"));
    assert_eq!(backend.count(), 0);
}

#[tokio::test]
async fn a_body_that_stops_arriving_is_408() {
    let backend = Backend::start().await;
    let config = Config::with(&backend).permissive().server("timeouts: { body_progress: 200ms }");
    let gateway = Gateway::start(&config).await;
    let mut raw = gateway.client().raw().await;
    raw.send("POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{\"model\":").await;
    let answer = raw.rest().await;
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    assert!(answer.contains("\"code\":\"request_timeout\""), "{answer}");
    assert!(answer.to_lowercase().contains("x-request-id: "), "{answer}");
    assert_eq!(backend.count(), 0);
}

#[tokio::test]
async fn a_body_over_the_bound_is_413_whether_it_tells_its_length_or_not() {
    let backend = Backend::start().await;
    let gateway = Gateway::start(&Config::with(&backend).permissive().server("max_body_bytes: 1000")).await;
    let sized = |bytes: usize| {
        let empty = json!({"model": "m", "input": ""}).to_string().len();
        Call::post("/v1/embeddings", &json!({"model": "m", "input": "x".repeat(bytes - empty)}))
    };
    assert_eq!(sized(1_000).content().len(), 1_000);
    assert_eq!(gateway.call(sized(1_000)).await.status, 200);
    assert_refused(&gateway.call(sized(1_001)).await, 413, "request_too_large");

    let mut raw = gateway.client().raw().await;
    raw.send("POST /v1/messages HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n").await;
    raw.send(format!("258\r\n{0}\r\n258\r\n{0}\r\n", "x".repeat(600))).await;
    let answer = raw.rest().await;
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    assert!(answer.contains("\"type\":\"request_too_large\""), "{answer}");
    assert_eq!(backend.count(), 1);
}

#[tokio::test]
async fn a_body_that_there_is_no_memory_for_is_503() {
    let backend = Backend::start().await;
    let gateway =
        Gateway::start(&Config::with(&backend).permissive().server("max_buffered_bytes: 1000")).await;
    let mut raw = gateway.client().raw().await;
    raw.send("POST /v1/messages HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n").await;
    raw.send(format!("258\r\n{0}\r\n258\r\n{0}\r\n", "x".repeat(600))).await;
    let answer = raw.rest().await;
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    assert!(answer.contains("retry-after: 1\r\n") && answer.contains("\"code\":\"overloaded\""), "{answer}");
    assert_eq!(backend.count(), 0);
    assert_eq!(gateway.call(Call::chat("m")).await.status, 200, "others are served");
}

#[tokio::test]
async fn an_encoded_body_is_415() {
    let (backend, gateway) = permissive().await;
    for encoding in ["gzip", "br", "identity, gzip"] {
        let call = Call::chat("m").set("content-encoding", encoding);
        assert_refused(&gateway.call(call).await, 415, "unsupported_encoding");
    }
    assert_eq!(backend.count(), 0);
    assert_eq!(gateway.call(Call::chat("m").set("content-encoding", "identity")).await.status, 200);
}

#[tokio::test]
async fn an_unreadable_message_is_refused_in_anthropics_shape() {
    let (_backend, gateway) = permissive().await;
    for path in ["/v1/messages", "/v1/messages/count_tokens"] {
        let answer = gateway.call(Call::post(path, &json!({"max_tokens": 1}))).await;
        assert_refused_anthropic(&answer, 400, "invalid_request_error", "invalid_request_error");
        let encoded = Call::post(path, &json!({"model": "m"})).set("content-encoding", "gzip");
        let answer = gateway.call(encoded).await;
        assert_refused_anthropic(&answer, 415, "invalid_request_error", "unsupported_encoding");
    }
}

#[tokio::test]
async fn a_requests_id_is_passed_on_or_made() {
    let (backend, gateway) = permissive().await;
    let answer = gateway.call(Call::chat("m").set("x-request-id", "mine-1")).await;
    assert_eq!((answer.header("x-request-id"), answer.header("request-id")), ("mine-1", "mine-1"));
    assert_eq!(backend.request(1).await.header("x-request-id"), "mine-1");

    let ids: Vec<Answer> =
        vec![gateway.call(Call::chat("m")).await, gateway.call(Call::get("/nowhere")).await];
    ids.iter().for_each(assert_named);
    assert_ne!(ids[0].header("x-request-id"), ids[1].header("x-request-id"));
    assert_eq!(backend.request(2).await.header("x-request-id"), ids[0].header("x-request-id"));

    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    gateway.call(Call::chat("m").set("traceparent", parent)).await;
    assert_eq!(backend.request(3).await.header("traceparent"), parent);
    let made = backend.request(2).await;
    assert_eq!(made.header("traceparent").split('-').map(str::len).collect::<Vec<_>>(), [2, 32, 16, 2]);
}
