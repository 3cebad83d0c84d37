//! Notices the end of an answer.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tokio::time::Instant;

use crate::{
    body::{Body, BoxError},
    telemetry::Telemetry,
};

/// An answer's body that tells the metrics when it has ended, or was given up.
#[derive(Debug)]
pub(crate) struct Finished {
    body: Body,
    telemetry: Arc<Telemetry>,
    route: usize,
    arrived: Instant,
}

impl Finished {
    pub(crate) const fn new(body: Body, telemetry: Arc<Telemetry>, route: usize, arrived: Instant) -> Self {
        Self { body, telemetry, route, arrived }
    }
}

impl http_body::Body for Finished {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Finished {
    fn drop(&mut self) {
        self.telemetry.ended(self.route, self.arrived.elapsed());
    }
}
