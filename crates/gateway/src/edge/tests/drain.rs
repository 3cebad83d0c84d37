//! Draining: idle connections close, busy ones finish, new ones are refused, nothing is left behind.

use std::io::Write;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::gone::{Event, holding};
use super::{Edge, TIMEOUTS, answer, pipe, rest, send, settings, soon, statuses, vetted};

const GET: &str = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";

#[tokio::test]
async fn idle_connections_close_and_busy_ones_finish() {
    let (service, mut events, release) = holding();
    let edge = Edge::start(settings(), service);
    let mut idle = edge.connect().await;
    send(&mut idle, GET).await;
    assert_eq!(soon(events.recv()).await, Some(Event::Held));
    release.notify_one();
    assert_eq!(soon(events.recv()).await, Some(Event::Answered));
    soon(answer(&mut idle)).await;
    let mut busy = edge.connect().await;
    send(&mut busy, GET).await;
    assert_eq!(soon(events.recv()).await, Some(Event::Held));

    edge.drain.cancel();
    assert_eq!(soon(rest(&mut idle)).await, "");
    assert!(TcpStream::connect(edge.address).await.is_err(), "nobody listens any more");
    assert!(!edge.served.is_finished());
    assert_eq!((edge.activity.connections(), edge.activity.requests()), (1, 1));

    release.notify_one();
    let said = soon(rest(&mut busy)).await;
    assert!(said.contains("connection: close") && said.ends_with("done"), "{said}");
    soon(edge.served).await.unwrap();
    assert_eq!((edge.activity.connections(), edge.activity.requests()), (0, 0));
}

#[tokio::test]
async fn what_waits_in_the_listen_queue_is_still_answered() {
    let edge = Edge::start(settings(), vetted());
    // The system completes these connections; on this one thread the edge has not run yet.
    let mut clients: Vec<_> = (0..10).map(|_| std::net::TcpStream::connect(edge.address).unwrap()).collect();
    for client in &mut clients {
        client.write_all(GET.as_bytes()).unwrap();
    }
    edge.drain.cancel();
    for client in clients {
        client.set_nonblocking(true).unwrap();
        let said = soon(rest(&mut TcpStream::from_std(client).unwrap())).await;
        assert_eq!(statuses(&said), [200], "{said}");
        assert!(said.contains("connection: close"), "{said}");
    }
    soon(edge.served).await.unwrap();
}

#[tokio::test]
async fn dropping_the_server_drops_every_handler() {
    let (service, mut events, _) = holding();
    let edge = Edge::start(settings(), service);
    let mut client = edge.connect().await;
    send(&mut client, GET).await;
    assert_eq!(soon(events.recv()).await, Some(Event::Held));
    edge.served.abort();
    assert_eq!(soon(events.recv()).await, Some(Event::Dropped));
    assert_eq!(soon(rest(&mut client)).await, "");
    assert!(edge.served.await.unwrap_err().is_cancelled());
    assert_eq!((edge.activity.connections(), edge.activity.requests()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_connection_on_which_nothing_came_has_one_second_more() {
    let (mut client, state, task) = pipe(vetted());
    tokio::task::yield_now().await;
    let began = Instant::now();
    state.drain();
    assert_eq!(client.read(&mut [0]).await.unwrap(), 0);
    assert!(
        began.elapsed().abs_diff(Duration::from_secs(1)) < Duration::from_millis(3),
        "{:?}",
        began.elapsed()
    );
    task.await.unwrap();

    let (mut client, state, task) = pipe(vetted());
    tokio::task::yield_now().await;
    state.drain();
    tokio::time::sleep(Duration::from_millis(900)).await;
    send(&mut client, GET).await;
    let said = rest(&mut client).await;
    assert!(statuses(&said) == [200] && said.contains("connection: close"), "{said}");
    task.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn half_a_head_has_its_header_time() {
    let (mut client, state, task) = pipe(vetted());
    send(&mut client, "GET /slow HTTP/1.1\r\n").await;
    tokio::task::yield_now().await;
    state.drain();
    tokio::time::sleep(TIMEOUTS.header - Duration::from_millis(1)).await;
    send(&mut client, "host: a\r\n\r\n").await;
    let said = rest(&mut client).await;
    assert!(said.ends_with("/slow"), "{said}");
    task.await.unwrap();
}
