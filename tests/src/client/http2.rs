//! One HTTP/2 connection with several streams.

use std::{
    convert::Infallible,
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame};
use http_body_util::{BodyExt as _, Full, combinators::UnsyncBoxBody};
use hyper::body::Incoming;
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;

use super::{Aborting, Answer, Call, Pending};
use crate::wait::within;

type Upload = UnsyncBoxBody<Bytes, Infallible>;

/// An HTTP/2 connection, with prior knowledge. Dropping it closes it.
#[derive(Debug)]
pub struct Http2 {
    address: SocketAddr,
    sender: SendRequest<Upload>,
    _driver: Aborting<()>,
}

impl Http2 {
    pub(super) async fn new(stream: TcpStream, address: SocketAddr, window: Option<u32>) -> Self {
        let mut builder = Builder::new(TokioExecutor::new());
        builder.initial_stream_window_size(window);
        let handshake = builder.handshake(TokioIo::new(stream));
        let (sender, connection) = within("an HTTP/2 connection", handshake).await.expect("a connection");
        let driver = Aborting(tokio::spawn(async move { _ = connection.await }));
        Self { address, sender, _driver: driver }
    }

    /// Sends a request, and waits for the whole answer.
    pub async fn call(&self, call: Call) -> Answer {
        self.begin(call).answer().await
    }

    /// Sends a request, and does not wait. Dropping what comes back resets the stream.
    #[must_use]
    pub fn begin(&self, call: Call) -> Pending {
        self.start(call.request_http2(self.address).map(Full::boxed_unsync))
    }

    /// Sends a request whose body comes, but not its end.
    #[must_use]
    pub fn begin_without_end(&self, call: Call) -> Pending {
        self.start(call.request_http2(self.address).map(|body| Endless(body).boxed_unsync()))
    }

    /// Sends a request, waits for the head of its answer, and takes nothing of the body.
    pub async fn open(&self, call: Call) -> Untaken {
        let request = call.request_http2(self.address).map(Full::boxed_unsync);
        let response = within("the head of an answer", self.sender.clone().send_request(request)).await;
        Untaken(response.expect("an answer"))
    }

    fn start(&self, request: Request<Upload>) -> Pending {
        let mut sender = self.sender.clone();
        Pending(Aborting(tokio::spawn(async move {
            let response = within("an answer", sender.send_request(request)).await;
            Answer::read(response.expect("an answer")).await
        })))
    }
}

/// An answer whose body lies where it came in.
#[derive(Debug)]
pub struct Untaken(Response<Incoming>);

impl Untaken {
    /// Takes it after all.
    pub async fn answer(self) -> Answer {
        Answer::read(self.0).await
    }
}

/// A request's body that comes, and does not end.
struct Endless(Full<Bytes>);

impl Body for Endless {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match Pin::new(&mut self.0).poll_frame(cx) {
            // Nobody wakes it: that is the point.
            Poll::Ready(None) => Poll::Pending,
            polled => polled,
        }
    }
}
