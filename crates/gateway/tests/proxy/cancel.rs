//! A caller that leaves closes the connection to the backend, in every phase.

use std::pin::pin;

use fairlane_gateway::proxy::{Outbound, Proxy, Reached};
use http_body_util::BodyExt;

use crate::backend::{Connection, STREAM, Server, backend, plain, post, proxy, soon, streamed};

/// Forwards until `phase` is over, and then drops the request.
pub(crate) async fn drop_after<T>(
    proxy: &Proxy,
    outbound: Outbound<'_>,
    reached: &Reached,
    phase: impl Future<Output = T>,
) -> T {
    let mut forward = pin!(proxy.forward_noting(outbound, reached));
    tokio::select! {
        answer = &mut forward => panic!("answered too early: {answer:?}"),
        output = phase => output,
    }
}

#[tokio::test]
async fn while_connecting() {
    let server = Server::start().await;
    // The server takes the connection and never says a word of TLS.
    let proxy = proxy([backend("a", &format!("https://{}", server.address))]);
    let reached = Reached::default();
    let connection = soon(drop_after(&proxy, post("{}"), &reached, server.accept())).await;
    soon(connection.closed()).await;
    assert!(!reached.get());
}

#[tokio::test]
async fn while_waiting_for_the_status() {
    let server = Server::start().await;
    let proxy = proxy([server.backend("a")]);
    let reached = Reached::default();
    let (connection, _) = soon(drop_after(&proxy, post("{}"), &reached, server.request())).await;
    soon(connection.closed()).await;
    assert!(reached.get());
}

#[tokio::test]
async fn before_the_first_byte_of_a_stream() {
    let server = Server::start().await;
    let proxy = proxy([server.backend("a")]);
    let phase = async {
        let (mut connection, _) = server.request().await;
        connection.write(STREAM).await;
        connection
    };
    let connection = soon(drop_after(&proxy, streamed(), &Reached::default(), phase)).await;
    soon(connection.closed()).await;
}

/// Lets a server begin an answer, and drops it once it has come as far as the caller.
async fn check_dropped_midway(outbound: Outbound<'static>, begin: impl AsyncFnOnce(&mut Connection)) {
    let server = Server::start().await;
    let proxy = proxy([server.backend("a")]);
    let serve = async {
        let (mut connection, _) = server.request().await;
        begin(&mut connection).await;
        connection
    };
    let (forwarded, connection) = soon(async { tokio::join!(proxy.forward(outbound), serve) }).await;
    let mut body = forwarded.unwrap().response.into_body();
    assert!(soon(body.frame()).await.unwrap().is_ok());
    drop(body);
    soon(connection.closed()).await;
}

#[tokio::test]
async fn in_the_middle_of_a_stream() {
    check_dropped_midway(streamed(), async |connection| {
        connection.write(STREAM).await;
        connection.chunk("data: 1\n\n").await;
    })
    .await;
}

#[tokio::test]
async fn in_the_middle_of_a_plain_answer() {
    check_dropped_midway(post("{}"), async |connection| {
        connection.write("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nbegin").await;
    })
    .await;
}

#[tokio::test]
async fn with_a_status_and_no_body_yet() {
    let server = Server::start().await;
    let proxy = proxy([server.backend("a")]);
    let serve = async {
        let (mut connection, _) = server.request().await;
        connection.write("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n").await;
        connection
    };
    let (forwarded, connection) = soon(async { tokio::join!(proxy.forward(post("{}")), serve) }).await;
    drop(forwarded.unwrap());
    soon(connection.closed()).await;
}

#[tokio::test]
async fn a_thousand_callers_that_leave_do_not_harm_the_next() {
    let server = Server::start().await;
    let proxy = proxy([server.backend("a")]);
    for _ in 0..1_000 {
        let (connection, _) = drop_after(&proxy, post("{}"), &Reached::default(), server.request()).await;
        connection.closed().await;
    }
    let serve = async {
        let (mut connection, _) = server.request().await;
        connection.write(plain("still here")).await;
    };
    let (forwarded, ()) = soon(async { tokio::join!(proxy.forward(post("{}")), serve) }).await;
    assert_eq!(crate::backend::text(forwarded.unwrap()).await, "still here");
}
