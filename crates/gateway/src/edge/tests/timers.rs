//! Each timer closes in time and not before; the clock is paused, so that times are exact.

use std::future::poll_fn;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use super::{TIMEOUTS, answer, pipe, rest, send, statuses, text, vetted};
use crate::edge::driver::Watch;
use crate::edge::state::ConnectionState;
use crate::edge::{Activity, Room, read_body};

const GET: &str = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";
const MILLISECOND: Duration = Duration::from_millis(1);

/// Tokio's timers round up to a millisecond.
#[track_caller]
fn assert_elapsed(since: Instant, expected: Duration) {
    let elapsed = since.elapsed();
    assert!((expected..=expected + 2 * MILLISECOND).contains(&elapsed), "{elapsed:?}, not {expected:?}");
}

/// Answers when told to.
fn held(release: &Arc<Notify>) -> impl super::Serves {
    let release = Arc::clone(release);
    service_fn(move |_: Request<Incoming>| {
        let release = Arc::clone(&release);
        async move {
            release.notified().await;
            Ok(text(200, "held"))
        }
    })
}

#[tokio::test(start_paused = true)]
async fn a_client_that_sends_nothing_is_closed_after_the_first_byte_time() {
    let (mut client, _, _) = pipe(vetted());
    let began = Instant::now();
    assert_eq!(rest(&mut client).await, "");
    assert_elapsed(began, TIMEOUTS.first_byte);
}

#[tokio::test(start_paused = true)]
async fn half_a_preface_does_not_stop_the_first_byte_time() {
    let (mut client, _, _) = pipe(vetted());
    let began = Instant::now();
    send(&mut client, "PRI * HT").await;
    sleep(Duration::from_secs(4)).await;
    send(&mut client, "TP/2.0\r\n").await;
    assert_eq!(rest(&mut client).await, "");
    assert_elapsed(began, TIMEOUTS.first_byte);
}

#[tokio::test(start_paused = true)]
async fn half_a_head_is_closed_after_the_header_time_from_its_first_byte() {
    let (mut client, _, _) = pipe(vetted());
    sleep(Duration::from_secs(10)).await;
    let began = Instant::now();
    for byte in "GET / H".bytes() {
        client.write_u8(byte).await.unwrap();
        sleep(Duration::from_millis(900)).await;
    }
    assert_eq!(rest(&mut client).await, "");
    assert_elapsed(began, TIMEOUTS.header);
}

#[tokio::test(start_paused = true)]
async fn a_head_that_ends_just_in_time_is_answered() {
    let (mut client, _, _) = pipe(vetted());
    send(&mut client, "GET /late HTTP/1.1\r\nhost: a\r\n").await;
    sleep(TIMEOUTS.header - MILLISECOND).await;
    send(&mut client, "\r\n").await;
    assert!(answer(&mut client).await.ends_with("/late"));
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_is_closed_after_the_keep_alive_time() {
    let (mut client, _, _) = pipe(vetted());
    for _ in 0..3 {
        send(&mut client, GET).await;
        answer(&mut client).await;
        sleep(TIMEOUTS.keep_alive - MILLISECOND).await;
    }
    send(&mut client, GET).await;
    answer(&mut client).await;
    let began = Instant::now();
    assert_eq!(rest(&mut client).await, "");
    assert_elapsed(began, TIMEOUTS.keep_alive);
}

#[tokio::test(start_paused = true)]
async fn empty_lines_do_not_prolong_the_keep_alive_time() {
    let (mut client, _, _) = pipe(vetted());
    send(&mut client, GET).await;
    answer(&mut client).await;
    let began = Instant::now();
    for _ in 0..7 {
        sleep(Duration::from_secs(10)).await;
        send(&mut client, "\r\n").await;
    }
    assert_eq!(rest(&mut client).await, "");
    assert_elapsed(began, TIMEOUTS.keep_alive);
}

#[tokio::test(start_paused = true)]
async fn the_second_head_is_timed_like_the_first() {
    let (mut client, _, _) = pipe(vetted());
    send(&mut client, GET).await;
    answer(&mut client).await;
    sleep(Duration::from_secs(60)).await;
    let began = Instant::now();
    send(&mut client, "GET").await;
    assert_eq!(rest(&mut client).await, "");
    assert_elapsed(began, TIMEOUTS.header);
}

#[tokio::test(start_paused = true)]
async fn no_timer_runs_while_a_request_is_in_flight() {
    let release = Arc::new(Notify::new());
    let (mut client, _, _) = pipe(held(&release));
    send(&mut client, GET).await;
    sleep(Duration::from_secs(3600)).await;
    release.notify_one();
    assert!(answer(&mut client).await.ends_with("held"));
    let began = Instant::now();
    assert_eq!(rest(&mut client).await, "");
    assert_elapsed(began, TIMEOUTS.keep_alive);
}

#[tokio::test(start_paused = true)]
async fn half_a_head_behind_a_request_in_flight_is_due_once_that_is_answered() {
    let release = Arc::new(Notify::new());
    let (mut client, _, _) = pipe(held(&release));
    send(&mut client, format!("{GET}GET /second HT")).await;
    sleep(Duration::from_secs(3600)).await;
    release.notify_one();
    answer(&mut client).await;
    let began = Instant::now();
    assert_eq!(rest(&mut client).await, "");
    assert_elapsed(began, TIMEOUTS.header);
}

#[tokio::test(start_paused = true)]
async fn half_a_body_is_given_up_after_the_progress_time_from_its_last_byte() {
    let (mut client, _, _) = pipe(service_fn(async |request: Request<Incoming>| {
        Ok(match read_body(request.into_body(), 1000, TIMEOUTS.body_progress, &Room::new(usize::MAX)).await {
            Ok(body) => text(200, format!("{} bytes", body.bytes.len())),
            Err(error) => text(408, error.to_string()),
        })
    }));
    send(&mut client, "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 10\r\n\r\nabc").await;
    for _ in 0..3 {
        sleep(TIMEOUTS.body_progress - MILLISECOND).await;
        send(&mut client, "d").await;
    }
    let began = Instant::now();
    let said = answer(&mut client).await;
    assert_elapsed(began, TIMEOUTS.body_progress);
    assert!(said.starts_with("HTTP/1.1 408") && said.ends_with("came for 31s"), "{said}");
    // The rest of the body is not waited for, longer than it takes to read the answer.
    let began = Instant::now();
    assert_eq!(rest(&mut client).await, "");
    assert_elapsed(began, Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn an_answer_nobody_takes_is_given_up_after_the_progress_time() {
    let (mut client, _, task) = pipe(service_fn(async |_: Request<Incoming>| {
        Ok(http::Response::new(endless::body(Bytes::from_static(&[b'x'; 4096]))))
    }));
    send(&mut client, GET).await;
    let mut taken = [0; 4096];
    for _ in 0..5 {
        // Slow, but it goes on.
        sleep(TIMEOUTS.body_progress - MILLISECOND).await;
        client.read_exact(&mut taken).await.unwrap();
    }
    let began = Instant::now();
    task.await.unwrap();
    assert_elapsed(began, TIMEOUTS.body_progress);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_taken_slowly_may_take_longer_than_the_keep_alive_time() {
    const PIECE: usize = 64 * 1024;
    let (mut client, _, _) =
        pipe(service_fn(async |_: Request<Incoming>| Ok(text(200, "x".repeat(8 * PIECE)))));
    send(&mut client, GET).await;
    let began = Instant::now();
    let mut piece = vec![0; PIECE];
    for _ in 0..8 {
        sleep(TIMEOUTS.body_progress - MILLISECOND).await;
        client.read_exact(&mut piece).await.unwrap();
    }
    assert!(began.elapsed() > 3 * TIMEOUTS.keep_alive);
}

#[tokio::test(start_paused = true)]
async fn an_unread_body_is_thrown_away_for_five_seconds() {
    let (mut client, _, task) = pipe(service_fn(async |_: Request<Incoming>| Ok(text(413, "too large"))));
    send(&mut client, "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1000000000\r\n\r\n").await;
    let began = Instant::now();
    let piece = [b'x'; 16 * 1024];
    let mut sent = 0;
    // More than the pipe holds gets through after the answer, then the connection ends.
    while client.write_all(&piece).await.is_ok() {
        sent += piece.len();
        sleep(Duration::from_millis(100)).await;
    }
    assert!(sent > 10 * 64 * 1024, "only {sent} bytes were taken");
    assert_elapsed(began, Duration::from_secs(5) + 100 * MILLISECOND);
    let said = rest(&mut client).await;
    assert_eq!(statuses(&said), [413]);
    assert!(said.contains("connection: close"), "{said}");
    task.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_body_that_was_not_read_but_had_come_does_not_end_the_connection() {
    let (mut client, _, _) = pipe(vetted());
    for body in ["content-length: 0\r\n\r\n", "content-length: 3\r\n\r\nabc", "\r\n"] {
        send(&mut client, format!("POST / HTTP/1.1\r\nhost: a\r\n{body}")).await;
        let said = answer(&mut client).await;
        assert!(said.starts_with("HTTP/1.1 200") && !said.contains("connection: close"), "{said}");
    }
}

/// With HTTP/2 the last request may end in another task, after the connection's own has gone to sleep.
#[tokio::test(start_paused = true)]
async fn the_end_of_the_last_request_wakes_a_driver_without_a_timer() {
    let peer = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
    let state = ConnectionState::new(peer, None, TIMEOUTS, Activity::new());
    state.http2_began();
    let (first, _) = state.dispatched();
    let (second, _) = state.dispatched();
    let mut watch = Watch::new(Arc::clone(&state));
    let watching = tokio::spawn(poll_fn(move |context| watch.poll_expired(context)));
    sleep(TIMEOUTS.keep_alive * 3).await;
    drop(first);
    sleep(TIMEOUTS.keep_alive * 3).await;
    assert!(!watching.is_finished());
    drop(second);
    let began = Instant::now();
    watching.await.unwrap();
    assert_elapsed(began, TIMEOUTS.keep_alive);
}

/// A body without an end.
mod endless {
    use std::convert::Infallible;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use bytes::Bytes;
    use http_body::Frame;
    use http_body_util::BodyExt;

    use crate::body::Body;

    struct Endless(Bytes);

    impl http_body::Body for Endless {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            Poll::Ready(Some(Ok(Frame::data(self.0.clone()))))
        }
    }

    pub(super) fn body(piece: Bytes) -> Body {
        Endless(piece).map_err(|never| match never {}).boxed_unsync()
    }
}
