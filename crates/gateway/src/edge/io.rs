//! The bytes between a transport and hyper: told apart by version, followed, watched for stalls.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::framing::Framing;
use super::state::{ConnectionState, Stage};

/// What an HTTP/2 client says first (RFC 9113 section 3.4).
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The version a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    Http1,
    Http2,
}

/// A transport that tells [`ConnectionState`] what it sees.
#[derive(Debug)]
pub(super) struct EdgeIo<T> {
    inner: T,
    state: Arc<ConnectionState>,
    /// The first bytes, read to tell the version and then given to hyper.
    opening: [u8; PREFACE.len()],
    opening_read: usize,
    opening_given: usize,
    /// HTTP/1 only.
    framing: Option<Framing>,
    write_stalled: bool,
    peer_closed: bool,
}

impl<T> EdgeIo<T> {
    pub(super) fn new(inner: T, state: Arc<ConnectionState>) -> Self {
        Self {
            inner,
            state,
            opening: [0; PREFACE.len()],
            opening_read: 0,
            opening_given: 0,
            framing: None,
            write_stalled: false,
            peer_closed: false,
        }
    }

    fn followed(&mut self, bytes: &[u8]) {
        let Some(framing) = &mut self.framing else { return };
        let was_in_head = framing.is_in_head();
        framing.feed(bytes);
        self.state.framing_seen(framing.heads(), framing.conflict());
        if framing.is_in_head() {
            // If one head has ended and the next begun in the same bytes, the next is timed from the end of the
            // first one's request.
            if !was_in_head {
                self.state.head_began();
            }
        } else {
            let stage = if framing.is_between() { Stage::Between } else { Stage::Body };
            self.state.message_stage(stage);
        }
    }

    fn wrote(&mut self, written: &Poll<io::Result<usize>>) {
        match (written, self.write_stalled) {
            (Poll::Pending, false) => {
                self.write_stalled = true;
                self.state.write_stalled();
            }
            (Poll::Ready(_), true) => {
                self.write_stalled = false;
                self.state.write_resumed();
            }
            _ => {}
        }
    }
}

impl<T: AsyncRead + Unpin> EdgeIo<T> {
    /// Reads until the version is known; `None` if the client closed before.
    pub(super) fn poll_version(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Option<Version>>> {
        loop {
            let read = &self.opening[..self.opening_read];
            if read == PREFACE {
                self.state.http2_began();
                return Poll::Ready(Ok(Some(Version::Http2)));
            }
            if *read != PREFACE[..read.len()] {
                self.framing = Some(Framing::new());
                return Poll::Ready(Ok(Some(Version::Http1)));
            }
            let mut buffer = ReadBuf::new(&mut self.opening[self.opening_read..]);
            ready!(Pin::new(&mut self.inner).poll_read(context, &mut buffer))?;
            let count = buffer.filled().len();
            if count == 0 {
                return Poll::Ready(Ok(None));
            }
            self.opening_read += count;
        }
    }

    /// Reads and throws away until the peer closes.
    fn poll_linger(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let mut scratch = [0; 8192];
        loop {
            let mut buffer = ReadBuf::new(&mut scratch);
            match ready!(Pin::new(&mut self.inner).poll_read(context, &mut buffer)) {
                Ok(()) if !buffer.filled().is_empty() => {}
                _ => return Poll::Ready(()),
            }
        }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for EdgeIo<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let before = buffer.filled().len();
        if this.opening_given < this.opening_read {
            let count = buffer.remaining().min(this.opening_read - this.opening_given);
            buffer.put_slice(&this.opening[this.opening_given..this.opening_given + count]);
            this.opening_given += count;
            // What is there already goes with it: hyper asks for room for a whole read each time, and would take a second,
            // larger buffer for the life of the connection.
            if buffer.remaining() > 0
                && let Poll::Ready(Err(error)) = Pin::new(&mut this.inner).poll_read(context, buffer)
            {
                return Poll::Ready(Err(error));
            }
        } else {
            ready!(Pin::new(&mut this.inner).poll_read(context, buffer))?;
        }
        let bytes = &buffer.filled()[before..];
        if bytes.is_empty() {
            this.peer_closed = true;
        } else {
            this.followed(bytes);
        }
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncWrite for EdgeIo<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write(context, bytes);
        self.wrote(&written);
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write_vectored(context, slices);
        self.wrote(&written);
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.state.stage() != Stage::Lingering {
            ready!(Pin::new(&mut self.inner).poll_shutdown(context))?;
            // Whole requests were read to their end: nothing more is coming that closing could reset.
            if self.peer_closed || self.framing.as_ref().is_none_or(Framing::is_between) {
                return Poll::Ready(Ok(()));
            }
            self.state.lingering_began();
        }
        self.poll_linger(context).map(Ok)
    }
}
