//! Callers that do not take their answers. hyper does not ask their bodies for more, so that no timer of a body is heard.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, Version};
use http_body::Frame;
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, DuplexStream};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use super::{TIMEOUTS, pipe, rest, send, text};
use crate::uptake;

const GET: &str = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";
const SECOND: Duration = Duration::from_secs(1);

/// A body of so many pieces that are all there. Its sender is closed when it is dropped.
struct Pieces {
    piece: Bytes,
    left: usize,
    _alive: mpsc::Sender<()>,
}

impl http_body::Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        self.left -= 1;
        Poll::Ready(Some(Ok(Frame::data(self.piece.clone()))))
    }
}

/// Answers with so many pieces of so many bytes, to be taken within `until` if that is said. Tells when it was given up.
fn giving(bytes: usize, pieces: usize, until: Option<Duration>) -> (impl super::Serves, mpsc::Receiver<()>) {
    let (alive, ended) = mpsc::channel(1);
    let alive = Arc::new(Mutex::new(Some(alive)));
    let service = service_fn(move |_: Request<Incoming>| {
        let alive = alive.lock().unwrap().take();
        async move {
            let Some(alive) = alive else { return Ok(text(200, "short")) };
            if let Some(until) = until {
                uptake::ends_by(Instant::now() + until);
            }
            let body = Pieces { piece: vec![b'x'; bytes].into(), left: pieces, _alive: alive };
            Ok(Response::new(body.map_err(|never| match never {}).boxed_unsync()))
        }
    });
    (service, ended)
}

/// Waits until the body has been dropped, for a day at most.
async fn gave_up(ended: &mut mpsc::Receiver<()>) {
    let given_up = tokio::time::timeout(24 * 3_600 * SECOND, ended.recv()).await;
    given_up.expect("the answer was not given up");
}

async fn over_http2(
    client: DuplexStream,
    window: u32,
) -> (http2::SendRequest<Empty<Bytes>>, Response<Incoming>) {
    let (mut sender, connection) = http2::Builder::new(TokioExecutor::new())
        .initial_stream_window_size(window)
        .handshake(TokioIo::new(client))
        .await
        .unwrap();
    tokio::spawn(connection);
    let request = Request::builder().uri("http://a/").version(Version::HTTP_2).body(Empty::new()).unwrap();
    let response = sender.send_request(request).await.unwrap();
    (sender, response)
}

#[track_caller]
fn assert_elapsed(since: Instant, expected: Duration) {
    let elapsed = since.elapsed();
    let late = Duration::from_millis(2);
    assert!((expected..=expected + late).contains(&elapsed), "{elapsed:?}, not {expected:?}");
}

/// The stream is reset, and the answer dropped, `after` so long, whatever is left of it.
async fn assert_reset(bytes: usize, pieces: usize, window: u32, until: Option<Duration>, after: Duration) {
    let began = Instant::now();
    let (service, mut ended) = giving(bytes, pieces, until);
    let (client, _, _) = pipe(service);
    let (mut sender, response) = over_http2(client, window).await;
    gave_up(&mut ended).await;
    assert_elapsed(began, after);
    let error = response.into_body().collect().await.expect_err("it was not whole");
    assert!(format!("{error:?}").contains("CANCEL"), "{error:?}");
    // The connection is as good as before.
    let request = Request::builder().uri("http://a/").version(Version::HTTP_2).body(Empty::new()).unwrap();
    assert_eq!(sender.send_request(request).await.unwrap().status(), 200);
}

#[tokio::test(start_paused = true)]
async fn a_stream_without_a_window_is_reset_when_its_answer_had_to_have_ended() {
    assert_reset(100, usize::MAX, 0, Some(3 * SECOND), 3 * SECOND).await;
    assert_reset(100, 1, 0, Some(3 * SECOND), 3 * SECOND).await;
}

#[tokio::test(start_paused = true)]
async fn a_stream_of_which_too_little_is_taken_is_reset_too() {
    assert_reset(100_000, usize::MAX, 1_000, Some(3 * SECOND), 3 * SECOND).await;
    assert_reset(100_000, 1, 65_535, Some(3 * SECOND), 3 * SECOND).await;
}

#[tokio::test(start_paused = true)]
async fn one_that_takes_nothing_is_reset_after_the_progress_time() {
    assert_reset(100, 1, 0, None, TIMEOUTS.body_progress).await;
    assert_reset(100, usize::MAX, 0, Some(3_600 * SECOND), TIMEOUTS.body_progress).await;
    assert_reset(100_000, 1, 1_000, None, TIMEOUTS.body_progress).await;
}

#[tokio::test(start_paused = true)]
async fn one_that_goes_on_is_not_reset_however_large_a_piece_is() {
    let (service, mut ended) = giving(400_000, 2, Some(3_600 * SECOND));
    let (client, _, _) = pipe(service);
    let (_sender, response) = over_http2(client, 16 * 1024).await;
    let mut body = response.into_body();
    let mut taken = 0;
    while let Some(frame) = body.frame().await {
        taken += frame.unwrap().into_data().unwrap().len();
        sleep(TIMEOUTS.body_progress / 4).await;
    }
    assert_eq!(taken, 800_000);
    gave_up(&mut ended).await;
}

#[tokio::test(start_paused = true)]
async fn the_connection_of_one_that_reads_too_slowly_is_closed_when_its_answer_had_to_have_ended() {
    let began = Instant::now();
    let (service, mut ended) = giving(4_096, usize::MAX, Some(100 * SECOND));
    let (mut client, _, _) = pipe(service);
    send(&mut client, GET).await;
    let reading = async {
        let mut taken = [0; 1_000];
        while client.read_exact(&mut taken).await.is_ok() {
            sleep(SECOND).await;
        }
    };
    let given_up = async {
        gave_up(&mut ended).await;
        assert_elapsed(began, 100 * SECOND);
    };
    tokio::join!(given_up, reading);
}

#[tokio::test(start_paused = true)]
async fn the_connection_of_one_that_reads_nothing_is_closed_at_the_earlier_of_both() {
    for (until, after) in [(3 * SECOND, 3 * SECOND), (3_600 * SECOND, TIMEOUTS.body_progress)] {
        let began = Instant::now();
        let (service, mut ended) = giving(4_096, usize::MAX, Some(until));
        let (mut client, _, _) = pipe(service);
        send(&mut client, GET).await;
        gave_up(&mut ended).await;
        assert_elapsed(began, after);
        assert!(!rest(&mut client).await.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_was_taken_in_time_says_nothing_of_the_next() {
    let (service, mut ended) = giving(10, 1, Some(3 * SECOND));
    let (mut client, _, _) = pipe(service);
    send(&mut client, GET).await;
    gave_up(&mut ended).await;
    sleep(4 * SECOND).await;
    send(&mut client, GET.replace("\r\n\r\n", "\r\nconnection: close\r\n\r\n")).await;
    let said = rest(&mut client).await;
    assert!(said.starts_with("HTTP/1.1 200") && said.ends_with("short"), "{said}");
}
