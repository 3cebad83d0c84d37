//! A caller that leaves while its request is held is noticed, however it leaves.

use std::sync::Arc;

use http::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, mpsc};

use super::{Edge, TIMEOUTS, answer, rest, send, settings, soon, text};
use crate::edge::socket::{TcpIo, read_closed, read_closed_by_looking};
use crate::edge::{Connection, Room, read_body};

/// What happened to a held request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    Held,
    /// `caller_gone` resolved.
    Gone,
    /// The handler was dropped by hyper.
    Dropped,
    Answered,
}

struct Report(mpsc::UnboundedSender<Event>, bool);

impl Drop for Report {
    fn drop(&mut self) {
        if !self.1 {
            // The test may have seen enough.
            self.0.send(Event::Dropped).ok();
        }
    }
}

/// Reads the body, then holds the request until released or until its caller has gone.
pub(super) fn holding() -> (impl super::Serves, mpsc::UnboundedReceiver<Event>, Arc<Notify>) {
    let (events, received) = mpsc::unbounded_channel();
    let release = Arc::new(Notify::new());
    let released = Arc::clone(&release);
    let service = service_fn(move |request: Request<Incoming>| {
        let (events, released) = (events.clone(), Arc::clone(&released));
        async move {
            let connection = request.extensions().get::<Connection>().unwrap().clone();
            let mut report = Report(events.clone(), false);
            read_body(request.into_body(), 1000, TIMEOUTS.body_progress, &Room::new(usize::MAX))
                .await
                .unwrap();
            events.send(Event::Held).unwrap();
            let event = tokio::select! {
                () = connection.caller_gone() => Event::Gone,
                () = released.notified() => Event::Answered,
            };
            report.1 = true;
            events.send(event).unwrap();
            Ok(text(200, "done"))
        }
    });
    (service, received, release)
}

const GET: &str = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";
const POST: &str = "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\n\r\nabc";
const CHUNKED: &str = "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";

#[derive(Clone, Copy, Debug)]
enum Leave {
    Fin,
    Reset,
    HalfClose,
}

/// Sends `bytes`, waits until the first request is held, sends `more`, leaves; returns how that was noticed.
async fn left(bytes: &str, more: &[u8], leave: Leave) -> Event {
    let (service, mut events, _) = holding();
    let edge = Edge::start(settings(), service);
    let mut client = edge.connect().await;
    send(&mut client, bytes).await;
    assert_eq!(soon(events.recv()).await, Some(Event::Held));
    send(&mut client, more).await;
    let mut kept = None;
    match leave {
        Leave::Fin => drop(client),
        Leave::Reset => {
            socket2::SockRef::from(&client).set_linger(Some(std::time::Duration::ZERO)).unwrap();
            drop(client);
        }
        Leave::HalfClose => {
            client.shutdown().await.unwrap();
            kept = Some(client);
        }
    }
    let event = soon(events.recv()).await.unwrap();
    drop(kept);
    event
}

#[tokio::test]
async fn every_way_to_leave_is_noticed() {
    for leave in [Leave::Fin, Leave::Reset, Leave::HalfClose] {
        for bytes in [GET, POST, CHUNKED] {
            let event = left(bytes, b"", leave).await;
            assert!(matches!(event, Event::Gone | Event::Dropped), "{leave:?} {bytes:?}: {event:?}");
        }
    }
}

#[tokio::test]
async fn leaving_behind_a_pipelined_request_is_noticed() {
    for leave in [Leave::Fin, Leave::Reset, Leave::HalfClose] {
        // In one piece with the first, in a second piece, and half.
        for (bytes, more) in [(format!("{GET}{POST}"), ""), (POST.to_owned(), GET), (GET.to_owned(), "GE")] {
            let event = left(&bytes, more.as_bytes(), leave).await;
            assert!(matches!(event, Event::Gone | Event::Dropped), "{leave:?} {bytes:?} {more:?}: {event:?}");
        }
    }
}

#[tokio::test]
async fn leaving_behind_more_than_hyper_buffers_is_noticed() {
    let event = left(&format!("{GET}{GET}"), &[b'x'; 100_000], Leave::Fin).await;
    assert_eq!(event, Event::Gone);
}

#[tokio::test]
async fn a_caller_that_stays_is_not_gone() {
    let (service, mut events, release) = holding();
    let edge = Edge::start(settings(), service);
    let mut client = edge.connect().await;
    send(&mut client, format!("{GET}{POST}")).await;
    for _ in 0..2 {
        assert_eq!(soon(events.recv()).await, Some(Event::Held));
        release.notify_one();
        assert_eq!(soon(events.recv()).await, Some(Event::Answered));
        assert!(soon(answer(&mut client)).await.ends_with("done"));
    }
}

#[tokio::test]
async fn a_connection_that_is_watched_still_closes() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let io = TcpIo::new(listener.accept().await.unwrap().0).unwrap();
    let watching = tokio::spawn(read_closed(io.watch()));
    // The watcher runs, and holds the socket, before it is dropped here.
    tokio::task::yield_now().await;
    assert!(!watching.is_finished());
    drop(io);
    soon(watching).await.unwrap();
    assert_eq!(soon(rest(&mut client)).await, "");
}

#[tokio::test]
async fn a_connection_that_has_ended_is_gone() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let _client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let io = TcpIo::new(listener.accept().await.unwrap().0).unwrap();
    let watch = io.watch();
    drop(io);
    soon(read_closed(watch)).await;
}

#[tokio::test]
async fn looking_finds_what_waiting_finds() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (server, _) = listener.accept().await.unwrap();
    send(&mut client, "unread").await;
    let mut looking = Box::pin(read_closed_by_looking(&server));
    tokio::select! {
        () = &mut looking => panic!("the client is still there"),
        readable = server.readable() => readable.unwrap(),
    }
    drop(client);
    soon(looking).await;
}
