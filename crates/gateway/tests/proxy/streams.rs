//! Streams: passed on as they come, and never ended silently.

use bytes::Bytes;
use fairlane_gateway::answer::Dialect;
use fairlane_gateway::proxy::{ForwardError, Outbound, Reached};
use http_body_util::BodyExt;

use crate::backend::{STREAM, Server, plain, post, proxy, soon, streamed, text};

#[tokio::test]
async fn a_chunk_reaches_the_caller_before_the_next_is_produced() {
    let server = Server::start().await;
    let proxy = proxy([server.backend("a")]);
    let begin = async {
        let (mut connection, _) = server.request().await;
        connection.write(STREAM).await;
        connection.chunk("data: 1\n\n").await;
        connection
    };
    let (forwarded, mut connection) = soon(async { tokio::join!(proxy.forward(streamed()), begin) }).await;
    let mut body = forwarded.unwrap().response.into_body();
    // Each frame is read before the server writes the next.
    for chunk in ["data: 1\n\n", "data: 2\n\n", "data: 3\n\n"] {
        let frame = soon(body.frame()).await.unwrap().unwrap();
        assert_eq!(frame.into_data().unwrap(), Bytes::from(chunk));
        match chunk {
            "data: 1\n\n" => connection.chunk("data: 2\n\n").await,
            "data: 2\n\n" => connection.chunk("data: 3\n\n").await,
            _ => connection.write("0\r\n\r\n").await,
        }
    }
    assert!(soon(body.frame()).await.is_none());
}

async fn check_dies(dialect: Dialect, sent: &'static str, received: &str, code: &str) {
    let server = Server::start().await;
    let proxy = proxy([server.backend("a")]);
    let serve = async {
        let (mut connection, _) = server.request().await;
        connection.write(STREAM).await;
        connection.chunk(sent).await;
    };
    let outbound = Outbound { dialect, ..streamed() };
    let (forwarded, ()) = soon(async { tokio::join!(proxy.forward(outbound), serve) }).await;
    let text = soon(text(forwarded.unwrap())).await;
    let event = text.strip_prefix(received).unwrap_or_else(|| panic!("{text}"));
    let event: serde_json::Value = serde_json::from_str(event.trim_end()).unwrap();
    assert_eq!(event["error"]["code"], code);
}

#[tokio::test]
async fn a_backend_that_dies_in_mid_stream_is_told_in_the_clients_dialect() {
    check_dies(Dialect::OpenAi, "data: 1\n\n", "data: 1\n\n\n\ndata: ", "backend_unavailable").await;
    check_dies(
        Dialect::Anthropic,
        "event: ping\ndata: {}\n\n",
        "event: ping\ndata: {}\n\n\n\nevent: error\ndata: ",
        "backend_unavailable",
    )
    .await;
}

/// What a caller gets of an event stream in some encoding that breaks off: the text, or `None` if it is cut off.
async fn broken_stream_encoded(encoding: &str) -> Option<String> {
    let server = Server::start().await;
    let proxy = proxy([server.backend("a")]);
    let serve = async {
        let (mut connection, _) = server.request().await;
        let field = format!("\r\ncontent-encoding: {encoding}\r\n\r\n");
        connection.write(STREAM.replace("\r\n\r\n", &field)).await;
        connection.chunk("data: 1\n\n").await;
    };
    let (forwarded, ()) = soon(async { tokio::join!(proxy.forward(streamed()), serve) }).await;
    let body = soon(forwarded.unwrap().response.into_body().collect()).await.ok()?.to_bytes();
    Some(String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn a_compressed_stream_that_breaks_off_is_cut_off_and_not_spoilt() {
    assert_eq!(broken_stream_encoded("gzip").await, None);
    assert_eq!(broken_stream_encoded("identity, br").await, None);
    assert!(broken_stream_encoded("Identity").await.unwrap().contains("backend_unavailable"));
}

#[tokio::test]
async fn any_other_answer_that_breaks_off_is_cut_off() {
    let server = Server::start().await;
    let proxy = proxy([server.backend("a")]);
    let serve = async {
        let (mut connection, _) = server.request().await;
        connection.write("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nbegin").await;
    };
    let (forwarded, ()) = soon(async { tokio::join!(proxy.forward(post("{}")), serve) }).await;
    assert!(soon(forwarded.unwrap().response.into_body().collect()).await.is_err());
}

#[tokio::test]
async fn a_backend_that_dies_before_the_first_byte_of_a_stream_is_unavailable() {
    let server = Server::start().await;
    let proxy = proxy([server.backend("a")]);
    let serve = async {
        let (mut connection, _) = server.request().await;
        connection.write(STREAM).await;
    };
    let reached = Reached::default();
    let (answer, ()) = soon(async { tokio::join!(proxy.forward_noting(streamed(), &reached), serve) }).await;
    let error = answer.unwrap_err();
    assert!(matches!(error, ForwardError::Unavailable { reached: true, .. }), "{error:?}");
    assert!(reached.is_accepted(), "its status was one of success");
}

#[tokio::test]
async fn an_error_in_answer_to_a_streamed_request_passes_at_once() {
    let server = Server::start().await;
    let proxy = proxy([server.backend("a")]);
    let serve = async {
        let (mut connection, _) = server.request().await;
        connection.write("HTTP/1.1 503 Service Unavailable\r\ntransfer-encoding: chunked\r\n\r\n").await;
        connection
    };
    let reached = Reached::default();
    let (forwarded, connection) =
        soon(async { tokio::join!(proxy.forward_noting(streamed(), &reached), serve) }).await;
    assert_eq!(forwarded.unwrap().response.status(), 503);
    assert!(reached.get() && !reached.is_accepted());
    soon(connection.closed()).await;
}

#[tokio::test]
async fn an_empty_stream_is_an_answer() {
    let server = Server::start().await;
    let proxy = proxy([server.backend("a")]);
    let serve = async {
        let (mut connection, _) = server.request().await;
        connection.write(plain("")).await;
    };
    let (forwarded, ()) = soon(async { tokio::join!(proxy.forward(streamed()), serve) }).await;
    assert_eq!(text(forwarded.unwrap()).await, "");
}
