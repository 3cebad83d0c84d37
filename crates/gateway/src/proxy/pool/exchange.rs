//! The body of an answer, which drives the connection that it comes from.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use super::Pool;
use super::link::Link;

/// An answer's body. Read to its end it puts its connection back; dropped before, it closes it.
pub(in crate::proxy) struct PooledBody {
    incoming: Incoming,
    link: Option<Box<Link>>,
    pool: Arc<Pool>,
}

impl PooledBody {
    pub(super) fn new(incoming: Incoming, link: Option<Box<Link>>, pool: Arc<Pool>) -> Self {
        let mut body = Self { incoming, link, pool };
        // An answer without a body is over with its head, and nobody might ever poll it.
        if body.incoming.is_end_stream() {
            body.over(&mut Context::from_waker(std::task::Waker::noop()));
        }
        body
    }

    fn over(&mut self, context: &mut Context<'_>) {
        if let Some(mut link) = self.link.take()
            && link.settle(context)
        {
            self.pool.put_back(link);
        }
    }
}

impl Body for PooledBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let this = self.get_mut();
        let incoming = &mut this.incoming;
        let mut poll = |context: &mut Context<'_>| Pin::new(&mut *incoming).poll_frame(context);
        let frame = ready!(match &mut this.link {
            Some(link) => link.poll_with(context, poll),
            None => poll(context),
        });
        match frame {
            Some(Err(_)) => this.link = None,
            // Whoever reads a body may stop at its last frame.
            _ if this.incoming.is_end_stream() => this.over(context),
            None => this.over(context),
            Some(Ok(_)) => {}
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}
