//! Notices the end of an answer.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use tokio::time::Instant;

use crate::telemetry::Telemetry;

pin_project! {
    /// An answer's body that tells the metrics when it has ended, or was given up.
    #[derive(Debug)]
    pub(crate) struct Finished<B> {
        #[pin]
        body: B,
        end: End,
    }
}

#[derive(Debug)]
struct End {
    telemetry: Arc<Telemetry>,
    route: usize,
    arrived: Instant,
}

impl<B> Finished<B> {
    pub(crate) const fn new(body: B, telemetry: Arc<Telemetry>, route: usize, arrived: Instant) -> Self {
        Self { body, end: End { telemetry, route, arrived } }
    }
}

impl<B: Body<Data = Bytes>> Body for Finished<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        self.project().body.poll_frame(cx)
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
