//! A TCP socket that can be watched by others while hyper owns it.

use std::io;
use std::net::Shutdown;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;

/// A silent peer is asked for a sign of life after this long, and then this often.
const KEEP_ALIVE: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(10));

/// hyper's handle on a socket. Dropping it closes the connection, even if somebody watches it.
#[derive(Debug)]
pub(super) struct TcpIo(Arc<TcpStream>);

impl TcpIo {
    /// Takes a socket that was just accepted.
    ///
    /// # Errors
    ///
    /// If it cannot be prepared, which is to say that the peer has gone already.
    pub(super) fn new(socket: TcpStream) -> io::Result<Self> {
        // Answers are written in whole pieces: waiting for more would only delay them.
        socket.set_nodelay(true)?;
        // A peer that vanished without a FIN is found out by the kernel.
        let keep_alive = TcpKeepalive::new().with_time(KEEP_ALIVE.0).with_interval(KEEP_ALIVE.1);
        SockRef::from(&socket).set_tcp_keepalive(&keep_alive)?;
        Ok(Self(Arc::new(socket)))
    }

    pub(super) fn watch(&self) -> Weak<TcpStream> {
        Arc::downgrade(&self.0)
    }
}

/// Resolves when the peer has closed the connection or its sending half, has reset it, or we have closed it,
/// whatever bytes are still unread before.
pub(super) async fn read_closed(socket: Weak<TcpStream>) {
    let Some(socket) = socket.upgrade() else { return };
    #[cfg(any(target_os = "linux", target_os = "android"))]
    {
        // Nobody asks the system for urgent data, so that of this interest only "read closed" can come:
        // unlike readability, it does not come at once when bytes are waiting. An error, too, is an end.
        drop(socket.ready(Interest::PRIORITY).await);
    }
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    read_closed_by_looking(&socket).await;
}

/// The same where readiness cannot be waited for apart from bytes: looks ten times a second.
#[cfg(any(test, not(any(target_os = "linux", target_os = "android"))))]
pub(super) async fn read_closed_by_looking(socket: &TcpStream) {
    let mut looks = tokio::time::interval(Duration::from_millis(100));
    loop {
        looks.tick().await;
        let mut look = std::pin::pin!(socket.ready(Interest::READABLE));
        let ready = std::future::poll_fn(|context| Poll::Ready(look.as_mut().poll(context))).await;
        match ready {
            Poll::Ready(Ok(ready)) if !ready.is_read_closed() => {}
            Poll::Ready(_) => return,
            Poll::Pending => {}
        }
    }
}

impl Drop for TcpIo {
    fn drop(&mut self) {
        if Arc::strong_count(&self.0) > 1 {
            // A watcher keeps the descriptor open: say now that the connection is over, to it and to the peer.
            // An error means that it is over already.
            drop(SockRef::from(&*self.0).shutdown(Shutdown::Both));
        }
    }
}

/// Tells an attempt that used the socket up from one that left it ready.
///
/// `try_io` forgets that the socket is ready when told "would block". Saying so after a short read or write
/// saves the system call that would find it out; what arrived in between is noticed as a new event.
fn exhausting(
    socket: &TcpStream,
    interest: Interest,
    room: usize,
    attempt: impl FnOnce() -> io::Result<usize>,
) -> io::Result<usize> {
    let mut done = None;
    let outcome = socket.try_io(interest, || {
        let count = attempt()?;
        done = Some(count);
        if 0 < count && count < room { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
    });
    match (done, outcome) {
        (Some(count), _) => Ok(count),
        (None, Err(error)) => Err(error),
        (None, Ok(())) => Err(io::ErrorKind::WouldBlock.into()),
    }
}

fn is_would_block(result: &io::Result<usize>) -> bool {
    matches!(result, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
}

impl AsyncRead for TcpIo {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            ready!(self.0.poll_read_ready(context))?;
            let room = buffer.remaining();
            let read = exhausting(&self.0, Interest::READABLE, room, || self.0.try_read_buf(buffer));
            if !is_would_block(&read) {
                return Poll::Ready(read.map(|_| ()));
            }
        }
    }
}

impl AsyncWrite for TcpIo {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.0.poll_write_ready(context))?;
            let written = exhausting(&self.0, Interest::WRITABLE, bytes.len(), || self.0.try_write(bytes));
            if !is_would_block(&written) {
                return Poll::Ready(written);
            }
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let room = slices.iter().map(|slice| slice.len()).sum();
        loop {
            ready!(self.0.poll_write_ready(context))?;
            let written = exhausting(&self.0, Interest::WRITABLE, room, || self.0.try_write_vectored(slices));
            if !is_would_block(&written) {
                return Poll::Ready(written);
            }
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(SockRef::from(&*self.0).shutdown(Shutdown::Write))
    }
}
