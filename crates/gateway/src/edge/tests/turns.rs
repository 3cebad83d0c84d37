//! A request is polled when something has happened to it, and not because its body was read.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use tokio::sync::Notify;

use super::{Serves, TIMEOUTS, answer, pipe, send, soon, text};
use crate::edge::{Connection, Room, read_body};

/// What a test sees of the requests that wait.
#[derive(Default)]
struct Seen {
    polls: AtomicUsize,
    waits: Notify,
    release: Notify,
}

/// Reads the body, says so, and counts its polls until it is released. Answers with the body's length.
fn waiting(seen: Arc<Seen>) -> impl Serves {
    service_fn(move |request: Request<Incoming>| {
        let seen = Arc::clone(&seen);
        async move {
            let connection = request.extensions().get::<Connection>().unwrap().clone();
            let body =
                read_body(request.into_body(), 100_000, TIMEOUTS.body_progress, &Room::new(usize::MAX))
                    .await
                    .unwrap();
            connection.body_was_read();
            let mut released = std::pin::pin!(seen.release.notified());
            poll_fn(|context| {
                seen.polls.fetch_add(1, Ordering::Relaxed);
                seen.waits.notify_one();
                released.as_mut().poll(context)
            })
            .await;
            Ok(text(200, body.bytes.len().to_string()))
        }
    })
}

#[tokio::test]
async fn a_body_that_was_read_needs_no_other_turn() {
    let bodies = [
        ("content-length: 5\r\n\r\nhello".to_owned(), "5"),
        ("transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n".to_owned(), "7"),
        (format!("content-length: 50000\r\n\r\n{}", "x".repeat(50_000)), "50000"),
        ("\r\n".to_owned(), "0"),
    ];
    let seen = Arc::<Seen>::default();
    // One connection for all: each finds it as a body that was read has left it.
    let (mut client, _, _task) = pipe(waiting(Arc::clone(&seen)));
    for (rest, length) in bodies {
        send(&mut client, format!("POST / HTTP/1.1\r\nhost: a\r\n{rest}")).await;
        soon(seen.waits.notified()).await;
        assert_eq!(seen.polls.swap(0, Ordering::Relaxed), 1, "{length} bytes");
        seen.release.notify_one();
        assert!(soon(answer(&mut client)).await.ends_with(&format!("\r\n\r\n{length}")));
        soon(seen.waits.notified()).await;
        seen.polls.store(0, Ordering::Relaxed);
    }
}

#[tokio::test]
async fn a_request_behind_one_with_a_body_is_read() {
    let seen = Arc::<Seen>::default();
    let (mut client, _, _task) = pipe(waiting(Arc::clone(&seen)));
    let one = "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\nhi";
    send(&mut client, one.repeat(3)).await;
    for _ in 0..3 {
        seen.release.notify_one();
        assert!(soon(answer(&mut client)).await.ends_with("\r\n\r\n2"));
    }
}
