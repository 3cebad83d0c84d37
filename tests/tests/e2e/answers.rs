//! A backend's answer crosses as it is, whatever it is.

use fairlane_tests::{Backend, Call, Config, Gateway, Reply};
use http::Method;
use serde_json::json;

use crate::support::assert_named;

async fn permissive() -> (Backend, Gateway) {
    let backend = Backend::start().await;
    let gateway = Gateway::start(&Config::with(&backend).permissive()).await;
    (backend, gateway)
}

#[tokio::test]
async fn bytes_that_are_no_text_cross_unchanged_with_their_encoding() {
    let (backend, gateway) = permissive().await;
    let bytes: Vec<u8> = (0..=255).cycle().take(3_000_000).collect();
    backend.next(Reply::bytes(200, "audio/mpeg", bytes.clone()).header("content-encoding", "gzip"));
    let call = Call::post("/v1/audio/speech", &json!({"model": "m", "input": "x"}))
        .set("accept-encoding", "gzip, br");
    let answer = gateway.call(call).await;
    assert_eq!((answer.status, answer.header("content-type")), (200, "audio/mpeg"));
    assert_eq!(answer.header("content-encoding"), "gzip");
    assert!(answer.complete && answer.body == bytes, "{} of {} bytes", answer.body.len(), bytes.len());
    assert_eq!(backend.request(1).await.header("accept-encoding"), "gzip, br");
}

#[tokio::test]
async fn every_status_crosses_and_a_redirection_is_the_callers_to_follow() {
    let (backend, gateway) = permissive().await;
    for status in [200, 201, 204, 301, 307, 400, 401, 403, 404, 409, 418, 422, 500, 503, 529] {
        let reply = Reply::bytes(status, "application/json", if status == 204 { "" } else { "{\"a\": 1}" });
        backend.next(reply.header("location", "http://127.0.0.1:1/elsewhere"));
        let answer = gateway.call(Call::chat("m")).await;
        assert_eq!(answer.status, status);
        assert_eq!(answer.text(), if status == 204 { "" } else { "{\"a\": 1}" });
        assert_eq!(answer.header("location"), "http://127.0.0.1:1/elsewhere");
        assert_named(&answer);
    }
    assert_eq!(backend.count(), 15, "an answer is never asked for again");
}

#[tokio::test]
async fn header_lines_of_one_name_stay_apart() {
    let (backend, gateway) = permissive().await;
    backend.next(Reply::json(200, &json!({})).header("set-cookie", "a=1").header("set-cookie", "b=2"));
    let answer = gateway.call(Call::chat("m").header("x-several", "1").header("x-several", "2")).await;
    let cookies: Vec<_> = answer.headers.get_all("set-cookie").iter().collect();
    assert_eq!(cookies, ["a=1", "b=2"]);
    let seen = backend.request(1).await;
    let several: Vec<_> = seen.headers.get_all("x-several").iter().collect();
    assert_eq!(several, ["1", "2"]);
}

#[tokio::test]
async fn what_only_the_gateway_may_say_a_backend_cannot() {
    let (backend, gateway) = permissive().await;
    let reply = Reply::json(200, &json!({}))
        .header("x-fair-queue-position", "7")
        .header("x-fair-queue-wait-ms", "1")
        .header("x-ratelimit-remaining-requests", "9")
        .header("ratelimit", "\"theirs\";r=1;t=1")
        .header("ratelimit-policy", "\"theirs\";q=1;w=1");
    backend.next(reply);
    let answer = gateway.call(Call::chat("m")).await;
    for name in [
        "x-fair-queue-position",
        "x-fair-queue-wait-ms",
        "x-ratelimit-remaining-requests",
        "ratelimit",
        "ratelimit-policy",
    ] {
        assert_eq!(answer.header(name), "", "{name}");
        let renamed = format!("x-backend-{}", name.trim_start_matches("x-"));
        assert_ne!(answer.header(&renamed), "", "{renamed}");
    }
}

#[tokio::test]
async fn a_request_id_that_is_none_is_replaced() {
    let (backend, gateway) = permissive().await;
    let long = "x".repeat(1_000);
    for id in ["", " ", "a b", &long] {
        let answer = gateway.call(Call::chat("m").set("x-request-id", id)).await;
        assert_named(&answer);
        assert_ne!(answer.header("x-request-id"), id.trim());
    }
    let two = Call::chat("m").header("x-request-id", "one").header("x-request-id", "two");
    let answer = gateway.call(two).await;
    assert_named(&answer);
    let seen = backend.request(5).await;
    assert_eq!(seen.headers.get_all("x-request-id").iter().count(), 1);
    assert_eq!(seen.header("x-request-id"), answer.header("x-request-id"));
}

#[tokio::test]
async fn a_caller_that_waits_to_be_told_to_go_on_is_told_unless_it_is_refused() {
    let (backend, gateway) = permissive().await;
    let body = json!({"model": "m"}).to_string();
    let head = |path: &str| {
        let length = body.len();
        format!(
            "POST {path} HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n"
        )
    };
    let mut raw = gateway.client().raw().await;
    raw.send(head("/v1/chat/completions")).await;
    raw.until("HTTP/1.1 100 ").await;
    raw.send(&body).await;
    assert!(raw.rest().await.contains("HTTP/1.1 200 "));
    assert_eq!(backend.request(1).await.header("expect"), "");

    let mut raw = gateway.client().raw().await;
    raw.send(head("/nowhere")).await;
    let answer = raw.until("HTTP/1.1").await;
    assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
}

#[tokio::test]
async fn a_body_in_chunks_crosses_whole() {
    let (backend, gateway) = permissive().await;
    let mut raw = gateway.client().raw().await;
    raw.send(
        "POST /v1/embeddings HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n",
    )
    .await;
    for piece in ["{\"model\"", ":\"m\",", "\"input\":\"x\"}"] {
        raw.send(format!("{:x}\r\n{piece}\r\n", piece.len())).await;
    }
    raw.send("0\r\n\r\n").await;
    assert!(raw.rest().await.starts_with("HTTP/1.1 200 "));
    assert_eq!(backend.request(1).await.body, "{\"model\":\"m\",\"input\":\"x\"}");
}

#[tokio::test]
async fn an_unread_body_does_not_become_the_next_request() {
    let (backend, gateway) = permissive().await;
    let smuggled = "GET /v1/models HTTP/1.1\r\nHost: a\r\n\r\n";
    let mut raw = gateway.client().raw().await;
    let length = smuggled.len();
    raw.send(format!("POST /nowhere HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n{smuggled}"))
        .await;
    raw.send("DELETE /nowhere HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await;
    let answers = raw.rest().await;
    assert!(!answers.contains("HTTP/1.1 200"), "{answers}");
    let answer = gateway.call(Call::new(Method::DELETE, "/v1/models")).await;
    assert_eq!((answer.status, backend.count()), (405, 0));
}
