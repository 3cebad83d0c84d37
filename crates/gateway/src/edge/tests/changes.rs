//! Settings that change while connections are open. The accept loop looks at a change before it takes another connection.

use tokio::sync::watch;

use super::{Edge, answer, rest, send, settings, soon, vetted};
use crate::edge::EdgeSettings;

const GET: &str = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";

/// A request whose head has more than a KiB.
fn large() -> String {
    format!("GET / HTTP/1.1\r\nhost: a\r\nx-long: {}\r\n\r\n", "x".repeat(20_000))
}

#[tokio::test]
async fn a_raised_bound_lets_in_who_waits_at_once() {
    let (change, changes) = watch::channel(EdgeSettings { max_connections: 1, ..settings() });
    let edge = Edge::start_with(changes, vetted());
    let mut first = edge.connect().await;
    send(&mut first, GET).await;
    soon(answer(&mut first)).await;
    let mut second = edge.connect().await;
    send(&mut second, GET).await;
    change.send_modify(|settings| settings.max_connections = 2);
    soon(answer(&mut second)).await;
    assert_eq!(edge.activity.connections(), 2);
}

#[tokio::test]
async fn a_lowered_bound_closes_nothing_that_is_open() {
    let (change, changes) = watch::channel(EdgeSettings { max_connections_per_client: 2, ..settings() });
    let edge = Edge::start_with(changes, vetted());
    let (mut first, mut second) = (edge.connect().await, edge.connect().await);
    for client in [&mut first, &mut second] {
        send(client, GET).await;
        soon(answer(client)).await;
    }
    change.send_modify(|settings| settings.max_connections_per_client = 1);
    assert_eq!(soon(rest(&mut edge.connect().await)).await, "", "one more is refused");
    for client in [&mut first, &mut second] {
        send(client, GET).await;
        soon(answer(client)).await;
    }
}

#[tokio::test]
async fn open_connections_keep_what_they_were_accepted_with() {
    let (change, changes) = watch::channel(settings());
    let edge = Edge::start_with(changes, vetted());
    let mut before = edge.connect().await;
    send(&mut before, GET).await;
    soon(answer(&mut before)).await;
    change.send_modify(|settings| settings.max_header_bytes = 8_192);
    let mut after = edge.connect().await;
    send(&mut after, large()).await;
    assert!(soon(answer(&mut after)).await.contains(" 431 "));
    send(&mut before, large()).await;
    assert!(soon(answer(&mut before)).await.contains(" 200 "));
}
