//! The watcher alone: what it adds to polling a body in memory.

use std::{
    convert::Infallible,
    hint::black_box,
    iter::Cloned,
    num::NonZeroU32,
    pin::Pin,
    slice::Iter,
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use bytes::Bytes;
use fairlane_gateway::{
    request::Api,
    usage::{Outcome, Watch},
};
use http::{HeaderMap, HeaderValue, header};
use http_body::{Body, Frame};

use crate::{median, stream};

const EVENTS: usize = 2_000;

/// What hyper reads at once when there is much to read.
const PIECE: usize = 16 * 1024;

/// Yields what it holds.
struct Replay<'a>(Cloned<Iter<'a, Bytes>>);

impl Body for Replay<'_> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.next().map(|chunk| Ok(Frame::data(chunk))))
    }
}

/// Measures the streams of three APIs.
pub(crate) fn measure(passes: usize) {
    println!(
        "{:<22}{:>12}{:>18}{:>18}{:>18}",
        "watcher alone", "bytes/event", "events, ns each", "and hiding", "in 16 KiB pieces"
    );
    for (name, api, stream) in [
        ("chat completion", Api::Chat, stream::chat(EVENTS)),
        ("response", Api::Responses, stream::response(EVENTS)),
        ("message", Api::Messages, stream::message(EVENTS)),
    ] {
        let size = stream.iter().map(Bytes::len).sum::<usize>() / EVENTS;
        let pieces = stream::in_pieces(&stream, PIECE);
        let single = added_ns(api, false, &stream, passes);
        let hiding = added_ns(api, true, &stream, passes);
        let joined = added_ns(api, false, &pieces, passes);
        println!("{name:<22}{size:>12}{single:>18.1}{hiding:>18.1}{joined:>18.1}");
    }
}

/// The time that watching adds to each event.
fn added_ns(api: Api, hide_usage: bool, chunks: &[Bytes], passes: usize) -> f64 {
    let how = Watch { api, bytes_per_token: NonZeroU32::MIN, hide_usage };
    let mut headers =
        HeaderMap::from_iter([(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"))]);
    let added = (0..passes).map(|_| {
        let bare = drain(Replay(chunks.iter().cloned()));
        let mut told = None;
        let settle = |outcome: Outcome| told = Some(outcome);
        let watched = drain(how.body(&mut headers, Replay(chunks.iter().cloned()), settle));
        assert!(told.is_some_and(|outcome| outcome.usage.is_some() && outcome.observed_output == 0));
        (watched.as_secs_f64() - bare.as_secs_f64()) * 1e9 / EVENTS as f64
    });
    median(added.collect())
}

/// Polls a body to its end.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
fn drain(body: impl Body<Data = Bytes, Error = Infallible>) -> Duration {
    let mut body = std::pin::pin!(body);
    let mut cx = Context::from_waker(Waker::noop());
    let start = Instant::now();
    while let Poll::Ready(Some(Ok(frame))) = body.as_mut().poll_frame(&mut cx) {
        black_box(frame);
    }
    start.elapsed()
}
