//! Bounds on connections, and accepting in spite of errors.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use tokio::time::Instant;

use super::{Edge, answer, rest, send, settings, soon, text, vetted};
use crate::edge::EdgeSettings;
use crate::edge::listen::Acceptor;
use crate::edge::registry::client_of;

const GET: &str = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";

#[tokio::test]
async fn connections_over_the_bound_wait_in_the_listen_queue() {
    let edge = Edge::start(EdgeSettings { max_connections: 2, ..settings() }, vetted());
    let mut first = edge.connect().await;
    let mut second = edge.connect().await;
    let mut third = edge.connect().await;
    send(&mut third, GET).await;
    for client in [&mut first, &mut second] {
        send(client, GET).await;
        soon(answer(client)).await;
    }
    assert_eq!((edge.activity.accepted(), edge.activity.connections()), (2, 2));
    drop(first);
    soon(answer(&mut third)).await;
    assert_eq!((edge.activity.accepted(), edge.activity.connections()), (3, 2));
}

#[tokio::test]
async fn connections_over_the_bound_of_their_client_are_closed_at_once() {
    let edge = Edge::start(EdgeSettings { max_connections_per_client: 2, ..settings() }, vetted());
    let mut first = edge.connect().await;
    let _second = edge.connect().await;
    let mut third = edge.connect().await;
    assert_eq!(soon(rest(&mut third)).await, "");
    send(&mut first, GET).await;
    soon(answer(&mut first)).await;
    assert_eq!((edge.activity.refused(), edge.activity.connections()), (1, 2));
    send(&mut first, "GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await;
    soon(rest(&mut first)).await;
    // Its place is free once its task has ended; until then another may be refused.
    let mut served = false;
    for _ in 0..1000 {
        let mut fourth = edge.connect().await;
        drop(tokio::io::AsyncWriteExt::write_all(&mut fourth, b"GET / HTTP/1.0\r\n\r\n").await);
        served = soon(rest(&mut fourth)).await.contains("200 OK");
        if served {
            break;
        }
    }
    assert!(served);
}

#[tokio::test]
async fn exempt_peers_have_no_bound_of_their_own() {
    let exempt = Arc::new(|address: IpAddr| address.is_loopback());
    let edge = Edge::start(EdgeSettings { max_connections_per_client: 1, exempt, ..settings() }, vetted());
    let mut clients = Vec::new();
    for _ in 0..4 {
        let mut client = edge.connect().await;
        send(&mut client, GET).await;
        soon(answer(&mut client)).await;
        clients.push(client);
    }
    assert_eq!((edge.activity.refused(), edge.activity.connections()), (0, 4));
}

#[test]
fn a_client_is_a_prefix() {
    let with =
        |ipv4_prefix, ipv6_prefix| EdgeSettings { ipv4_prefix, ipv6_prefix, ..EdgeSettings::default() };
    let check = |settings: &EdgeSettings, peer: &str, expected: &str| {
        assert_eq!(client_of(peer.parse().unwrap(), settings), Some(expected.parse().unwrap()), "{peer}");
    };
    check(&with(32, 64), "192.0.2.77", "192.0.2.77");
    check(&with(32, 64), "::ffff:192.0.2.77", "192.0.2.77");
    check(&with(32, 64), "2001:db8:1:2:3:4:5:6", "2001:db8:1:2::");
    check(&with(24, 48), "192.0.2.77", "192.0.2.0");
    check(&with(24, 48), "2001:db8:1:2:3:4:5:6", "2001:db8:1::");
    check(&with(0, 0), "192.0.2.77", "0.0.0.0");
    check(&with(0, 0), "2001:db8::1", "::");
    check(&with(32, 128), "2001:db8::1", "2001:db8::1");
    let exempt = EdgeSettings { exempt: Arc::new(|address| address.is_ipv4()), ..EdgeSettings::default() };
    assert_eq!(client_of("::ffff:192.0.2.77".parse().unwrap(), &exempt), None);
}

#[tokio::test]
async fn a_handler_that_panics_costs_its_connection_only() {
    let edge = Edge::start(
        settings(),
        service_fn(async |request: Request<Incoming>| {
            assert!(request.uri().path() != "/panic", "on purpose");
            Ok(text(200, "well"))
        }),
    );
    let mut client = edge.connect().await;
    send(&mut client, "GET /panic HTTP/1.1\r\nhost: a\r\n\r\n").await;
    assert_eq!(soon(rest(&mut client)).await, "");
    let mut client = edge.connect().await;
    send(&mut client, GET).await;
    assert!(soon(answer(&mut client)).await.ends_with("well"));
    assert_eq!((edge.activity.connections(), edge.activity.accepted()), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn accepting_rests_on_errors_of_the_system_and_goes_on() {
    let mut acceptor = Acceptor::default();
    let began = Instant::now();
    let mut attempts = 0;
    let accepted = acceptor.accept_from(|| {
        attempts += 1;
        let outcome = match attempts {
            // Of one connection: no rest.
            1 => Err(io::Error::from(io::ErrorKind::ConnectionAborted)),
            // EMFILE: 10 + 20 + 40 + ... + 640 + 1000 + 1000 ms
            2..=10 => Err(io::Error::from_raw_os_error(24)),
            _ => Ok(attempts),
        };
        async move { outcome }
    });
    assert_eq!(accepted.await, 11);
    let expected = Duration::from_millis(1270 + 2000);
    let elapsed = began.elapsed();
    assert!((expected..expected + Duration::from_millis(20)).contains(&elapsed), "{elapsed:?}");
    assert_eq!(acceptor.unlogged(), 8, "of nine errors one is logged");
    // After a success it rests as briefly as at first.
    let began = Instant::now();
    let mut attempts = 0;
    let accepted = acceptor.accept_from(|| {
        attempts += 1;
        let outcome = if attempts == 1 { Err(io::Error::from_raw_os_error(24)) } else { Ok(()) };
        async move { outcome }
    });
    accepted.await;
    assert!(began.elapsed() <= Duration::from_millis(12), "{:?}", began.elapsed());
}
