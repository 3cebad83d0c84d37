//! How long a body takes by itself while it is forwarded, without the body that it wraps.

use std::{
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::Instant,
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use crate::median;

/// The times, in nanoseconds, that bodies took for a frame.
#[derive(Clone, Default)]
pub(crate) struct Times(Arc<Mutex<Vec<f64>>>);

/// What the inner body of one took for its latest poll.
type Inner = Arc<AtomicU64>;

/// Notes the time of each poll.
pub(crate) struct InnerWatch<B>(B, Inner);

/// Notes the time of each poll that yields a frame, less that of the inner body.
pub(crate) struct OuterWatch<B> {
    body: B,
    inner: Inner,
    times: Times,
}

// === impl Times ===

impl Times {
    /// Times what `wrap` makes of `body`.
    pub(crate) fn of<B, W>(&self, body: B, wrap: impl FnOnce(InnerWatch<B>) -> W) -> OuterWatch<W> {
        let inner = Inner::default();
        let body = wrap(InnerWatch(body, Arc::clone(&inner)));
        OuterWatch { body, inner, times: self.clone() }
    }

    /// The median of them, which are forgotten.
    pub(crate) fn take_median(&self) -> f64 {
        median(std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
fn now() -> Instant {
    Instant::now()
}

impl<B: Body<Data = Bytes> + Unpin> Body for InnerWatch<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let start = now();
        let polled = Pin::new(&mut self.0).poll_frame(cx);
        let nanos = u64::try_from((now() - start).as_nanos()).unwrap_or(u64::MAX);
        self.1.fetch_add(nanos, Ordering::Relaxed);
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.size_hint()
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for OuterWatch<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        self.inner.store(0, Ordering::Relaxed);
        let start = now();
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        if let Poll::Ready(Some(_)) = &polled {
            let nanos = (now() - start).as_nanos() as f64 - self.inner.load(Ordering::Relaxed) as f64;
            self.times.0.lock().unwrap_or_else(PoisonError::into_inner).push(nanos);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
