//! One HTTP/1 connection and whoever polls it.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::http1::{Connection, SendRequest};

use super::super::client::{OutboundBody, Transport};
use crate::body::BoxError;
use crate::rewake::Rewake;

/// A connection that moves on only while its exchange is polled.
pub(super) struct Link {
    sender: SendRequest<OutboundBody>,
    /// Gone once it has ended; it must not be polled after that.
    connection: Option<Connection<Transport, OutboundBody>>,
    /// Connection, answer and body wake each other, all in this task.
    rewake: Rewake,
}

/// Why a request brought no answer.
pub(super) enum Unsent {
    /// The connection had ended before it looked at the request, which is here again.
    Untouched(Box<Request<OutboundBody>>),
    /// The server may have seen it.
    Failed(BoxError),
}

impl Link {
    pub(super) fn new(
        sender: SendRequest<OutboundBody>,
        connection: Connection<Transport, OutboundBody>,
    ) -> Self {
        Self { sender, connection: Some(connection), rewake: Rewake::new() }
    }

    /// Sends a request and waits for the head of its answer. The connection comes back with it, unless it has ended.
    pub(super) async fn send(
        mut self: Box<Self>,
        request: Box<Request<OutboundBody>>,
    ) -> Result<(Option<Box<Self>>, Response<Incoming>), Unsent> {
        let answer = self.sender.try_send_request(*request);
        let mut answer = pin!(answer);
        let answered =
            poll_fn(|context| self.poll_with(context, |context| answer.as_mut().poll(context))).await;
        match answered {
            Ok(response) => Ok((Some(self).filter(|link| link.connection.is_some()), response)),
            Err(mut error) => Err(match error.take_message() {
                Some(request) => Unsent::Untouched(Box::new(request)),
                None => Unsent::Failed(error.into_error().into()),
            }),
        }
    }

    /// Polls the connection, and what waits for something from it.
    pub(super) fn poll_with<T>(
        &mut self,
        context: &mut Context<'_>,
        mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        let Self { connection, rewake, .. } = self;
        rewake.poll_turns(context, |context| {
            // What has come already needs no look at the socket.
            if let Poll::Ready(output) = poll(context) {
                return Poll::Ready(output);
            }
            poll_connection(connection, context);
            poll(context)
        })
    }

    /// Lets the connection finish an exchange whose answer has been read to its end. Whether it can take another one.
    pub(super) fn settle(&mut self, context: &mut Context<'_>) -> bool {
        if !self.sender.is_ready() {
            poll_connection(&mut self.connection, context);
        }
        self.connection.is_some() && self.sender.is_ready()
    }

    /// Forgets whose task was to be woken: it may have ended long before this connection is used again.
    pub(super) fn rest(&mut self) {
        self.rewake.forget();
    }
}

fn poll_connection(connection: &mut Option<Connection<Transport, OutboundBody>>, context: &mut Context<'_>) {
    let Some(running) = connection else { return };
    // Its error, if any, reaches the exchange, too.
    if Pin::new(running).poll(context).is_ready() {
        *connection = None;
    }
}
