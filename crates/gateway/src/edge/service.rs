//! Stands between hyper and the service: tells each request of its connection, and counts it until its end.

use std::convert::Infallible;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::header::CONNECTION;
use http::{HeaderValue, Request, Response};
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use hyper::service::Service;
use pin_project_lite::pin_project;

use super::Connection;
use super::state::{ConnectionState, InFlight, Stage};
use crate::body::{Body, BoxError};
use crate::uptake;

/// One connection's view of the service.
#[derive(Debug)]
pub(super) struct EdgeService<S> {
    inner: S,
    state: Arc<ConnectionState>,
}

impl<S> EdgeService<S> {
    pub(super) fn new(inner: S, state: Arc<ConnectionState>) -> Self {
        Self { inner, state }
    }
}

impl<S> Service<Request<Incoming>> for EdgeService<S>
where
    S: Service<Request<Incoming>, Response = Response<Body>, Error = Infallible>,
{
    type Response = Response<EdgeBody>;
    type Error = Infallible;
    type Future = EdgeFuture<S::Future>;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        let (in_flight, framing) = self.state.dispatched();
        request.extensions_mut().insert(Connection::new(Arc::clone(in_flight.state()), framing));
        EdgeFuture { inner: self.inner.call(request), in_flight: Some(in_flight) }
    }
}

pin_project! {
    /// A request with its handler.
    pub(super) struct EdgeFuture<F> {
        #[pin]
        inner: F,
        in_flight: Option<InFlight>,
    }
}

impl<F> Future for EdgeFuture<F>
where
    F: Future<Output = Result<Response<Body>, Infallible>>,
{
    type Output = Result<Response<EdgeBody>, Infallible>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let mut response = ready!(this.inner.poll(context))?;
        let in_flight = this.in_flight.take();
        if in_flight.as_ref().is_some_and(|request| request.state().is_body_due()) {
            // hyper will close rather than read the rest of a body that nobody wants, but tells it only after
            // this head: a client that is not told would send its next request into the closing connection.
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        uptake::moved();
        Poll::Ready(Ok(response.map(|inner| EdgeBody { inner, rest: Bytes::new(), in_flight })))
    }
}

/// The most of an HTTP/2 answer that is handed over at once.
///
/// hyper asks for the next piece when the client has room for more than the last, so that a slow client has made progress
/// with each. A backend's pieces can be twenty times as large.
const PIECE: usize = 16 * 1024;

/// An answer's body; the request is in flight until it is dropped.
#[derive(Debug)]
pub(super) struct EdgeBody {
    inner: Body,
    /// Of the last piece, what was not handed over yet.
    rest: Bytes,
    in_flight: Option<InFlight>,
}

impl EdgeBody {
    fn is_http2(&self) -> bool {
        self.in_flight.as_ref().is_some_and(|request| request.state().stage() == Stage::Http2)
    }

    /// What of `data` is to be handed over now.
    fn piece(&mut self, mut data: Bytes) -> Frame<Bytes> {
        if data.len() > PIECE {
            self.rest = data.split_off(PIECE);
        }
        Frame::data(data)
    }
}

impl http_body::Body for EdgeBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if !self.rest.is_empty() {
            uptake::moved();
            let rest = mem::take(&mut self.rest);
            return Poll::Ready(Some(Ok(self.piece(rest))));
        }
        let Poll::Ready(polled) = Pin::new(&mut self.inner).poll_frame(context) else {
            uptake::awaited();
            return Poll::Pending;
        };
        uptake::moved();
        Poll::Ready(match polled {
            Some(Ok(frame)) if self.is_http2() => Some(Ok(match frame.into_data() {
                Ok(data) => self.piece(data),
                Err(trailers) => trailers,
            })),
            polled => polled,
        })
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (inner, rest) = (self.inner.size_hint(), self.rest.len() as u64);
        if rest == 0 {
            return inner;
        }
        let mut hint = SizeHint::new();
        hint.set_lower(inner.lower().saturating_add(rest));
        if let Some(upper) = inner.upper() {
            hint.set_upper(upper.saturating_add(rest));
        }
        hint
    }
}

impl Drop for EdgeBody {
    fn drop(&mut self) {
        uptake::over();
    }
}
