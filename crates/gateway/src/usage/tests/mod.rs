//! Answers of every kind, cut in every way, ended at every point.

mod documents;
mod endings;
mod hiding;
mod hostile;
mod samples;
mod skim;
mod splits;

use std::{
    cell::RefCell,
    collections::VecDeque,
    convert::Infallible,
    num::NonZeroU32,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, header};
use http_body::{Body, Frame};

use super::{Outcome, Usage, Watch, Watched};
use crate::request::Api;

const EVENTS: &str = "text/event-stream; charset=utf-8";
const JSON: &str = "application/json";

/// A body that yields these frames, and is waited for before each.
struct Script<E = Infallible> {
    frames: VecDeque<Result<Frame<Bytes>, E>>,
    is_ready: bool,
    /// Whether it knows its end when it has yielded the last frame.
    knows_end: bool,
}

impl<E> Script<E> {
    fn new(frames: impl IntoIterator<Item = Result<Frame<Bytes>, E>>) -> Self {
        Self { frames: frames.into_iter().collect(), is_ready: false, knows_end: false }
    }
}

impl<E: Unpin> Body for Script<E> {
    type Data = Bytes;
    type Error = E;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, E>>> {
        self.is_ready = !self.is_ready;
        if self.is_ready { Poll::Pending } else { Poll::Ready(self.frames.pop_front()) }
    }

    fn is_end_stream(&self) -> bool {
        self.knows_end && self.frames.is_empty()
    }
}

/// Where a test finds its outcomes.
#[derive(Clone, Default)]
struct Outcomes(Rc<RefCell<Vec<Outcome>>>);

impl Outcomes {
    fn settle(&self) -> impl FnOnce(Outcome) + use<> {
        let outcomes = Rc::clone(&self.0);
        move |outcome| outcomes.borrow_mut().push(outcome)
    }

    /// The one there is.
    fn only(&self) -> Outcome {
        let outcomes = self.0.borrow();
        assert_eq!(outcomes.len(), 1, "an outcome is reported once");
        outcomes[0]
    }

    fn len(&self) -> usize {
        self.0.borrow().len()
    }
}

fn headers(content_type: &'static str) -> HeaderMap {
    HeaderMap::from_iter([(header::CONTENT_TYPE, HeaderValue::from_static(content_type))])
}

fn watch(api: Api, hide_usage: bool) -> Watch {
    Watch { api, bytes_per_token: NonZeroU32::new(4).unwrap(), hide_usage }
}

fn chunks<'a, E>(chunks: impl IntoIterator<Item = &'a [u8]>) -> Script<E> {
    Script::new(chunks.into_iter().map(|chunk| Ok(Frame::data(Bytes::copy_from_slice(chunk)))))
}

/// Polls until there is a frame, or the end.
fn next<B: Body<Data = Bytes> + Unpin>(body: &mut B) -> Option<Result<Frame<Bytes>, B::Error>> {
    let mut cx = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(frame) = Pin::new(&mut *body).poll_frame(&mut cx) {
            return frame;
        }
    }
}

/// What a caller gets, and what is reported, of an answer in these chunks.
fn read<'a>(
    how: Watch,
    content_type: &'static str,
    parts: impl IntoIterator<Item = &'a [u8]>,
) -> (String, Outcome) {
    let outcomes = Outcomes::default();
    let mut body = how.body(&mut headers(content_type), chunks::<Infallible>(parts), outcomes.settle());
    let mut bytes = Vec::new();
    while let Some(Ok(frame)) = next(&mut body) {
        bytes.extend_from_slice(&frame.into_data().unwrap());
    }
    drop(body);
    (String::from_utf8(bytes).unwrap(), outcomes.only())
}

fn usage(prompt: u64, output: u64, total: u64) -> Option<Usage> {
    Some(Usage { prompt, output, total })
}

/// A watched body whose outcome nobody waits for.
type Unheard<B> = Watched<B, fn(Outcome)>;
