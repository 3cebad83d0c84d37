//! The body of an answer, from whichever kind of backend.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::body::Incoming;

use super::pool::PooledBody;
use crate::body::{Body, BoxError};

/// A body from any kind of backend.
pub(super) enum BackendBody {
    Plain(PooledBody),
    Negotiated(Incoming),
    Echo(Body),
}

impl HttpBody for BackendBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match self.get_mut() {
            Self::Plain(body) => Pin::new(body).poll_frame(cx).map_err(Into::into),
            Self::Negotiated(body) => Pin::new(body).poll_frame(cx).map_err(Into::into),
            Self::Echo(body) => Pin::new(body).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Plain(body) => body.is_end_stream(),
            Self::Negotiated(body) => body.is_end_stream(),
            Self::Echo(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Plain(body) => body.size_hint(),
            Self::Negotiated(body) => body.size_hint(),
            Self::Echo(body) => body.size_hint(),
        }
    }
}
