//! The body of an answer, watched on its way.

use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use super::{Ended, Outcome, Settle, Watch};

pin_project! {
    /// An answer's body that reports its outcome once: when it has ended, has failed or is dropped.
    pub struct Watched<B, S: Settle> {
        #[pin]
        body: B,
        report: Report<S>,
    }
}

/// Reports once.
struct Report<S: Settle> {
    settle: Option<S>,
    /// How the answer has ended if nothing more is heard of it.
    ended: Ended,
}

// === impl Watch ===

impl Watch {
    /// Watches `body`, whose head has `headers`; `settle` gets the outcome.
    pub fn body<B: Body, S: Settle>(self, _headers: &mut HeaderMap, body: B, settle: S) -> Watched<B, S> {
        let ended = if body.is_end_stream() { Ended::Complete } else { Ended::Dropped };
        Watched { body, report: Report { settle: Some(settle), ended } }
    }
}

// === impl Watched ===

impl<B: Body<Data = Bytes>, S: Settle> Body for Watched<B, S> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let mut this = self.project();
        let polled = ready!(this.body.as_mut().poll_frame(cx));
        match &polled {
            // Whoever reads a body may stop at its last frame.
            Some(Ok(_)) if this.body.is_end_stream() => this.report.deliver(Ended::Complete),
            Some(Ok(_)) => {}
            Some(Err(_)) => this.report.deliver(Ended::Failed),
            None => this.report.deliver(Ended::Complete),
        }
        Poll::Ready(polled)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<B: fmt::Debug, S: Settle> fmt::Debug for Watched<B, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watched").field("body", &self.body).finish_non_exhaustive()
    }
}

// === impl Report ===

impl<S: Settle> Report<S> {
    fn deliver(&mut self, ended: Ended) {
        if let Some(settle) = self.settle.take() {
            settle.settle(Outcome { usage: None, observed_output: 0, ended });
        }
    }
}

impl<S: Settle> Drop for Report<S> {
    fn drop(&mut self) {
        self.deliver(self.ended);
    }
}
