//! The body of a backend's answer on its way to the caller.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::time::Instant;

use super::deadline::{Deadline, later};
use crate::answer::{Dialect, Fault};
use crate::body::BoxError;

/// Why the rest of a body did not come.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BodyError {
    /// The backend did not go on in time.
    #[error("the backend did not go on in time")]
    Timeout,
    /// The backend's answer broke off.
    #[error("the backend's answer broke off")]
    Broken(#[source] BoxError),
}

/// The moments by which parts of one answer must be there.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// The first byte of a streamed answer; any other: the whole.
    pub(super) first_byte: Instant,
    /// From one chunk to the next, in a stream.
    pub(super) idle: Option<Duration>,
    /// The last byte.
    pub(super) total: Instant,
}

/// Passes a body on frame by frame, in time or not at all.
pub(super) struct AnswerBody<B> {
    /// Gone once the answer is over, so that the connection to the backend closes before the caller has read on.
    inner: Option<B>,
    /// The frame that was waited for before the status was passed on.
    first: Option<Frame<Bytes>>,
    deadline: Deadline,
    limits: Limits,
    dialect: Option<Dialect>,
    /// Why it was cut, until that is told.
    cut: Option<BodyError>,
}

// === impl BodyError ===

impl BodyError {
    /// The event that tells it.
    ///
    /// Official clients raise on such an event just as on an error status. After it the stream ends in order: cutting the
    /// connection as well would make some clients throw away what they have buffered, the event included. An event the
    /// backend had begun is closed first by an empty line; a caller may so see a fragment of it before the error.
    fn event(&self, dialect: Dialect) -> Bytes {
        let fault = match self {
            Self::Timeout => Fault::BackendTimeout,
            Self::Broken(_) => Fault::BackendUnavailable,
        };
        [b"\n\n", fault.event(dialect).as_slice()].concat().into()
    }
}

// === impl AnswerBody ===

impl<B: Body<Data = Bytes>> AnswerBody<B> {
    /// `dialect` is that of an event stream in plain text, and `None` for any other answer.
    pub(super) fn new(
        inner: B,
        first: Option<Frame<Bytes>>,
        deadline: Deadline,
        limits: Limits,
        dialect: Option<Dialect>,
    ) -> Self {
        // An error event would break a length that was promised.
        let dialect = dialect.filter(|_| inner.size_hint().exact().is_none());
        let mut body = Self { inner: Some(inner), first, deadline, limits, dialect, cut: None };
        if body.first.is_some() {
            body.progressed(Instant::now());
        } else {
            body.deadline.set(limits.first_byte);
        }
        body
    }

    fn progressed(&mut self, now: Instant) {
        let next = self.limits.idle.map_or(self.limits.total, |idle| later(now, idle));
        self.deadline.set(next.min(self.limits.total));
    }

    fn fail(&mut self, error: BodyError, cx: &Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        self.inner = None;
        self.first = None;
        tracing::debug!(error = &error as &dyn std::error::Error, "an answer ended early");
        if let Some(dialect) = self.dialect {
            return Poll::Ready(Some(Ok(Frame::data(error.event(dialect)))));
        }
        // An error makes hyper close the connection with whatever it has not written yet, perhaps the status itself.
        // One turn lets it write.
        self.cut = Some(error);
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl<B> Body for AnswerBody<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = self.get_mut();
        if let Some(first) = this.first.take() {
            return Poll::Ready(Some(Ok(first)));
        }
        let Some(inner) = &mut this.inner else {
            return Poll::Ready(this.cut.take().map(|error| Err(error.into())));
        };
        match Pin::new(inner).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                let now = Instant::now();
                // A backend that is always ready never lets the timer be asked.
                if now >= this.limits.total {
                    return this.fail(BodyError::Timeout, cx);
                }
                this.progressed(now);
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(error))) => this.fail(BodyError::Broken(error.into()), cx),
            Poll::Ready(None) => {
                this.inner = None;
                Poll::Ready(None)
            }
            Poll::Pending => {
                ready!(this.deadline.poll_passed(cx));
                this.fail(BodyError::Timeout, cx)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.first.is_none() && self.cut.is_none() && self.inner.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        let first = self.first.as_ref().and_then(Frame::data_ref).map_or(0, |data| data.len() as u64);
        let rest = self.inner.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint);
        let mut hint = SizeHint::new();
        hint.set_lower(rest.lower().saturating_add(first));
        // Without a promised length the end is open: an error event may follow.
        if let Some(upper) = rest.upper().filter(|_| self.dialect.is_none()) {
            hint.set_upper(upper.saturating_add(first));
        }
        hint
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt;
    use std::collections::VecDeque;
    use tokio::time::sleep;

    type Step = (u64, Result<&'static str, &'static str>);

    /// A body that yields each step after its seconds, and then ends.
    struct Script {
        steps: VecDeque<Step>,
        wait: Option<Pin<Box<tokio::time::Sleep>>>,
    }

    fn script(steps: &[Step]) -> Script {
        Script { steps: steps.iter().copied().collect(), wait: None }
    }

    impl Body for Script {
        type Data = Bytes;
        type Error = BoxError;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
            let Some(&(seconds, step)) = self.steps.front() else { return Poll::Ready(None) };
            let wait = self.wait.get_or_insert_with(|| Box::pin(sleep(Duration::from_secs(seconds))));
            std::task::ready!(wait.as_mut().poll(cx));
            self.wait = None;
            self.steps.pop_front();
            Poll::Ready(Some(match step {
                Ok(text) => Ok(Frame::data(Bytes::from_static(text.as_bytes()))),
                Err(text) => Err(text.into()),
            }))
        }
    }

    fn limits(first_byte: u64, idle: Option<u64>, total: u64) -> Limits {
        let now = Instant::now();
        Limits {
            first_byte: now + Duration::from_secs(first_byte),
            idle: idle.map(Duration::from_secs),
            total: now + Duration::from_secs(total),
        }
    }

    /// What the caller reads, whether it ends with an error, and after how many seconds.
    async fn read(steps: &[Step], limits: Limits, dialect: Option<Dialect>) -> (String, Option<String>, u64) {
        let start = Instant::now();
        let deadline = Deadline::new(limits.first_byte);
        let mut body = AnswerBody::new(script(steps), None, deadline, limits, dialect);
        let (mut text, mut error) = (String::new(), None);
        while let Some(frame) = body.frame().await {
            match frame {
                Ok(frame) => text.push_str(std::str::from_utf8(&frame.into_data().unwrap()).unwrap()),
                Err(failed) => error = Some(failed.to_string()),
            }
        }
        assert!(body.is_end_stream());
        (text, error, start.elapsed().as_secs())
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_in_time_passes_whole() {
        let steps = [(9, Ok("a")), (19, Ok("b")), (19, Ok("c"))];
        let read = read(&steps, limits(10, Some(20), 100), Some(Dialect::OpenAi)).await;
        assert_eq!(read, ("abc".into(), None, 47));
    }

    #[tokio::test(start_paused = true)]
    async fn a_stalled_event_stream_ends_with_an_error_event() {
        let steps = [(1, Ok("data: 1\n\n")), (21, Ok("data: 2\n\n"))];
        let (text, error, seconds) = read(&steps, limits(10, Some(20), 100), Some(Dialect::OpenAi)).await;
        let event = text.strip_prefix("data: 1\n\n\n\ndata: ").unwrap().trim_end();
        let event: serde_json::Value = serde_json::from_str(event).unwrap();
        assert_eq!(event["error"]["code"], "backend_timeout");
        assert_eq!((error, seconds), (None, 21));
    }

    #[tokio::test(start_paused = true)]
    async fn a_broken_event_stream_ends_with_the_error_event_of_its_dialect() {
        let steps = [(1, Ok("event: a\ndata: 1\n\n")), (1, Err("gone"))];
        let (text, error, _) = read(&steps, limits(10, Some(20), 100), Some(Dialect::Anthropic)).await;
        let (_, event) = text.split_once("\n\nevent: error\ndata: ").unwrap();
        let event: serde_json::Value = serde_json::from_str(event.trim_end()).unwrap();
        assert_eq!((event["type"].as_str(), error), (Some("error"), None));
        assert_eq!(event["error"]["code"], "backend_unavailable");
    }

    #[tokio::test(start_paused = true)]
    async fn any_other_answer_is_cut_off() {
        let (text, error, seconds) =
            read(&[(1, Ok("a")), (21, Ok("b"))], limits(10, Some(20), 100), None).await;
        assert_eq!((text.as_str(), error.is_some(), seconds), ("a", true, 21));
        let (text, error, _) = read(&[(1, Ok("a")), (1, Err("gone"))], limits(10, Some(20), 100), None).await;
        assert_eq!((text.as_str(), error.is_some()), ("a", true));
    }

    #[tokio::test(start_paused = true)]
    async fn the_total_ends_a_stream_that_never_stalls() {
        let steps: Vec<Step> = (0..50).map(|_| (3, Ok("x"))).collect();
        let (text, error, seconds) = read(&steps, limits(10, Some(20), 100), None).await;
        assert_eq!((text.len(), error.is_some(), seconds), (33, true, 100));
    }

    #[tokio::test(start_paused = true)]
    async fn the_total_ends_a_stream_that_is_always_ready() {
        let limits = limits(10, Some(20), 100);
        let mut body =
            AnswerBody::new(script(&[(0, Ok("a")); 9]), None, Deadline::new(limits.first_byte), limits, None);
        assert!(body.frame().await.unwrap().is_ok());
        tokio::time::advance(Duration::from_secs(100)).await;
        assert!(body.frame().await.unwrap().is_err());
        assert!(body.frame().await.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_promised_length_is_not_broken_by_an_error_event() {
        let limits = limits(10, Some(20), 100);
        let full = http_body_util::Full::new(Bytes::from_static(b"abc"));
        let body =
            AnswerBody::new(full, None, Deadline::new(limits.first_byte), limits, Some(Dialect::OpenAi));
        assert_eq!((body.size_hint().exact(), body.dialect), (Some(3), None));
    }
}
