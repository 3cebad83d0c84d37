//! What a request's handler may know about its connection.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;

use super::Malformed;
use super::socket::read_closed;
use super::state::ConnectionState;

/// The connection a request came on: an extension of every request that [`serve`](super::serve) hands on.
///
/// A clone costs one reference count and keeps no socket open.
#[derive(Clone, Debug)]
pub struct Connection {
    /// The other end of the connection: the caller, or the last proxy before us.
    pub peer: SocketAddr,
    framing: Result<(), Malformed>,
    state: Arc<ConnectionState>,
}

impl Connection {
    pub(super) fn new(state: Arc<ConnectionState>, framing: Result<(), Malformed>) -> Self {
        Self { peer: state.peer, framing, state }
    }

    /// Resolves when the caller has closed the connection, or its sending half, or has reset it.
    ///
    /// In the ordinary case hyper notices this itself and drops the handler. It does not look when bytes of a
    /// further request are already buffered: a request that is held must wait for this future too. Waiting costs
    /// no descriptor, no task and no timer (on Linux; elsewhere a look ten times a second).
    ///
    /// Two things cannot be noticed by anybody: a close behind more unread bytes than the
    /// receive window holds, and a peer that vanished without a word, which the kernel finds out within two
    /// minutes. A reset HTTP/2 stream drops its handler and does not resolve this.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing; a new one resolves at once if the caller has gone.
    pub fn caller_gone(&self) -> impl Future<Output = ()> + Send + 'static {
        let socket = self.state.socket.clone();
        async move {
            match socket {
                Some(socket) => read_closed(socket).await,
                // No socket, no sign: hyper sees the end of a pipe by itself.
                None => std::future::pending().await,
            }
        }
    }

    /// The request's body has just been read to its end; to be told in the same poll.
    pub(crate) fn body_was_read(&self) {
        self.state.body_was_read();
    }

    /// How the request was delimited on the wire.
    pub(super) fn framing(&self) -> Result<(), Malformed> {
        self.framing
    }
}
