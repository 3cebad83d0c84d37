//! Connections that are kept: when they are used again, and when they are closed.

use super::backend::{Server, plain, post, proxy, soon, text};

#[tokio::test]
async fn each_request_in_flight_has_a_connection_and_all_are_used_again() {
    let server = Server::start().await;
    let proxy = proxy([server.backend("a")]);
    for _ in 0..3 {
        let serve = async {
            let (mut first, mut second) = (server.accept().await, server.accept().await);
            for _ in 0..2 {
                tokio::join!(first.read(), second.read());
                // Both requests are there before either is answered.
                first.write(plain("x")).await;
                second.write(plain("x")).await;
            }
            // Closed, so that the next round makes its own.
        };
        let ask = async {
            for _ in 0..2 {
                let (one, other) = tokio::join!(proxy.forward(post("{}")), proxy.forward(post("{}")));
                let (one, other) = tokio::join!(text(one.unwrap()), text(other.unwrap()));
                assert_eq!((one.as_str(), other.as_str()), ("x", "x"));
            }
        };
        soon(async { tokio::join!(serve, ask) }).await;
    }
}

#[tokio::test]
async fn a_connection_is_good_again_after_an_answer_without_a_body() {
    let server = Server::start().await;
    let proxy = proxy([server.backend("a")]);
    let serve = async {
        let mut connection = server.accept().await;
        connection.read().await;
        connection.write("HTTP/1.1 204 No Content\r\n\r\n").await;
        connection.read().await;
        connection.write(plain("again")).await;
    };
    let ask = async {
        assert_eq!(text(proxy.forward(post("{}")).await.unwrap()).await, "");
        assert_eq!(text(proxy.forward(post("{}")).await.unwrap()).await, "again");
    };
    soon(async { tokio::join!(serve, ask) }).await;
}

#[tokio::test]
async fn an_answer_that_ends_the_connection_is_its_last() {
    let server = Server::start().await;
    let proxy = proxy([server.backend("a")]);
    let serve = async {
        for _ in 0..2 {
            let (mut connection, _) = server.request().await;
            connection.write("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 1\r\n\r\nx").await;
            connection.closed().await;
        }
    };
    let ask = async {
        for _ in 0..2 {
            assert_eq!(text(proxy.forward(post("{}")).await.unwrap()).await, "x");
        }
    };
    soon(async { tokio::join!(serve, ask) }).await;
}

#[tokio::test]
async fn bytes_behind_an_answer_spoil_the_connection_and_not_the_next_answer() {
    let server = Server::start().await;
    let proxy = proxy([server.backend("a")]);
    let serve = async {
        let (mut spoilt, _) = server.request().await;
        spoilt.write(plain("mine") + &plain("somebody else's")).await;
        let (mut connection, _) = server.request().await;
        connection.write(plain("mine")).await;
    };
    let ask = async {
        for _ in 0..2 {
            assert_eq!(text(proxy.forward(post("{}")).await.unwrap()).await, "mine");
        }
    };
    soon(async { tokio::join!(serve, ask) }).await;
}

/// The clock stands still while anything happens, and moves on to the next timer when nothing does.
#[tokio::test(start_paused = true)]
async fn an_idle_connection_is_closed_though_nobody_asks_for_it() {
    let server = Server::start().await;
    let proxy = proxy([server.backend("a")]);
    let _watch = proxy.watch_health();
    let serve = async {
        let (mut connection, _) = server.request().await;
        connection.write(plain("x")).await;
        connection
    };
    let (forwarded, connection) = tokio::join!(proxy.forward(post("{}")), serve);
    assert_eq!(text(forwarded.unwrap()).await, "x");
    soon(connection.closed()).await;
}
