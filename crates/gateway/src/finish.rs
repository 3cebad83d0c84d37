//! Notices the end of an answer.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use tokio::time::Instant;

use crate::{body::BoxError, telemetry::Telemetry};

pin_project! {
    /// An answer's body that tells the metrics when it has ended, or was given up.
    #[derive(Debug)]
    pub(crate) struct Finished<B, G> {
        #[pin]
        body: B,
        // Watches a caller whom hyper does not, because more requests are buffered behind this one.
        #[pin]
        gone: Option<G>,
        end: End,
    }
}

/// The caller has left in the middle of its answer.
#[derive(Debug, thiserror::Error)]
#[error("the caller has gone")]
struct CallerGone;

#[derive(Debug)]
struct End {
    telemetry: Arc<Telemetry>,
    route: usize,
    arrived: Instant,
}

impl<B, G> Finished<B, G> {
    pub(crate) const fn new(
        body: B,
        gone: Option<G>,
        telemetry: Arc<Telemetry>,
        route: usize,
        arrived: Instant,
    ) -> Self {
        Self { body, gone, end: End { telemetry, route, arrived } }
    }
}

impl<B, G> Body for Finished<B, G>
where
    B: Body<Data = Bytes, Error = BoxError>,
    G: Future<Output = ()>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = self.project();
        match (this.body.poll_frame(cx), this.gone.as_pin_mut()) {
            (Poll::Pending, Some(gone)) => gone.poll(cx).map(|()| Some(Err(CallerGone.into()))),
            (polled, _) => polled,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for End {
    fn drop(&mut self) {
        self.telemetry.ended(self.route, self.arrived.elapsed());
    }
}
