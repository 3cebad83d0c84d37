//! The clock of one answer, and how it is passed on.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use fairlane_limiter::Granted;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, Response, Version};
use http_body::{Body as HttpBody, Frame};
use http_body_util::BodyExt;
use tokio::time::Instant;

use super::answer_body::{AnswerBody, BodyError, Limits};
use super::backend_body::BackendBody;
use super::deadline::{Deadline, later};
use super::endpoint::Endpoint;
use super::{ForwardError, Forwarded, Outbound, Timeouts, headers};
use crate::answer::Dialect;
use crate::body::BoxError;
use crate::uptake;

/// The clock of one answer, and what decides how it is passed on.
pub(super) struct Answering<'t> {
    timeouts: &'t Timeouts,
    arrived: Instant,
    limits: Limits,
    deadline: Deadline,
    dialect: Dialect,
    streamed: bool,
    /// Whether the answer turns out to be a stream of events.
    has_events: bool,
}

// === impl Answering ===

impl<'t> Answering<'t> {
    pub(super) fn new(timeouts: &'t Timeouts, outbound: &Outbound<'_>) -> Self {
        let arrived = outbound.arrived;
        let limits = if outbound.stream {
            stream_limits(timeouts, arrived)
        } else {
            let total = later(arrived, timeouts.standard_total);
            Limits { first_byte: total, idle: None, total }
        };
        Self {
            timeouts,
            arrived,
            limits,
            deadline: Deadline::new(limits.first_byte),
            dialect: outbound.dialect,
            streamed: outbound.stream,
            has_events: false,
        }
    }

    pub(super) fn is_late(&self) -> bool {
        Instant::now() >= self.limits.first_byte
    }

    /// Waits for something, or for the deadline (`None`).
    pub(super) async fn wait<F: Future>(&mut self, mut future: Pin<&mut F>) -> Option<F::Output> {
        poll_fn(|cx| match future.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending => self.deadline.poll_passed(cx).map(|()| None),
        })
        .await
    }

    /// Looks at the head of the answer. Whether it is passed on only with the first byte of its body.
    pub(super) fn waits_for_body(&mut self, response: &Response<BackendBody>) -> bool {
        let headers = response.headers();
        self.has_events = content_type_starts(headers, b"text/event-stream");
        if !self.streamed && (self.has_events || content_type_starts(headers, b"audio/")) {
            self.becomes_streamed();
        }
        self.streamed && response.status().is_success()
    }

    /// Waits for the first byte of the body.
    pub(super) async fn first_frame(
        &mut self,
        endpoint: &Endpoint,
        body: &mut BackendBody,
    ) -> Result<Option<Frame<Bytes>>, ForwardError> {
        let Some(frame) = self.wait(pin!(first_frame(body))).await else {
            return Err(endpoint.timed_out(true));
        };
        frame.map_err(|error| endpoint.unavailable(true, BodyError::Broken(error).into()))
    }

    /// Turns a backend's answer into the caller's. `first`: the frame that was waited for.
    pub(super) fn pass_on(
        self,
        endpoint: &Endpoint,
        granted: Option<Box<Granted>>,
        response: Response<BackendBody>,
        first: Option<Frame<Bytes>>,
    ) -> Forwarded {
        let (mut head, body) = response.into_parts();
        endpoint.metrics.answered(head.status);
        headers::to_caller(&mut head.headers);
        head.version = Version::HTTP_11;
        head.extensions.clear();
        // Plain text within a compressed stream would be garbage to whoever decompresses it.
        let dialect = (self.has_events && !is_encoded(&head.headers)).then_some(self.dialect);
        // Its own timer is heard only while it is asked for more.
        uptake::ends_by(self.limits.total);
        let body = AnswerBody::new(body, first, self.deadline, self.limits, dialect);
        Forwarded {
            response: Response::from_parts(head, body.boxed_unsync()),
            backend: Arc::clone(&endpoint.name),
            granted,
        }
    }

    /// The answer turns out to be a stream though the request did not say so.
    fn becomes_streamed(&mut self) {
        self.streamed = true;
        self.limits = stream_limits(self.timeouts, self.arrived);
        // Its status came within the time of a plain answer, which may be beyond that of a first byte.
        let now = Instant::now();
        self.limits.first_byte =
            self.limits.first_byte.max(later(now, self.timeouts.streaming.idle)).min(self.limits.total);
        self.deadline.set(self.limits.first_byte);
    }
}

fn stream_limits(timeouts: &Timeouts, arrived: Instant) -> Limits {
    let times = &timeouts.streaming;
    let total = later(arrived, times.total);
    Limits { first_byte: later(arrived, times.first_byte).min(total), idle: Some(times.idle), total }
}

/// The first frame with something in it; `None` if the body ends without one.
async fn first_frame(body: &mut BackendBody) -> Result<Option<Frame<Bytes>>, BoxError> {
    loop {
        let frame = poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await.transpose()?;
        if frame.as_ref().and_then(Frame::data_ref).is_none_or(|data| !data.is_empty()) {
            return Ok(frame);
        }
    }
}

/// Whether the body is anything but itself: compressed, as a rule.
fn is_encoded(headers: &HeaderMap) -> bool {
    headers
        .get_all(CONTENT_ENCODING)
        .into_iter()
        .any(|value| !value.as_bytes().eq_ignore_ascii_case(b"identity"))
}

fn content_type_starts(headers: &HeaderMap, start: &[u8]) -> bool {
    headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.as_bytes().get(..start.len()))
        .is_some_and(|begin| begin.eq_ignore_ascii_case(start))
}
