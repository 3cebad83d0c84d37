//! Runs one connection: hyper, one timer, and the end of both.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::Service;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, Sleep, sleep_until};
use tokio_util::task::TaskTracker;

use super::EdgeSettings;
use super::io::{EdgeIo, Version};
use super::service::EdgeService;
use super::state::{ConnectionState, Stage};
use super::stream::StreamTasks;
use crate::body::Body;
use crate::rewake::Rewake;
use crate::uptake::Uptake;

/// Streams of one HTTP/2 connection. A held request occupies one, so that a busy client needs many.
const MAX_STREAMS: u32 = 256;
/// Streams the client reset before we took them up (rapid reset): more end the connection.
const MAX_PENDING_RESETS: usize = 20;
/// Bytes a client may send ahead on one stream and on the whole connection.
const STREAM_WINDOW: u32 = 256 * 1024;
const CONNECTION_WINDOW: u32 = 1024 * 1024;
/// Bytes of one answer that wait for the client to take them.
const SEND_BUFFER: usize = 64 * 1024;
/// hyper reads and writes HTTP/1 through buffers of up to this size.
const HTTP1_BUFFER: usize = 128 * 1024;

/// How connections are spoken to; one for the whole edge.
#[derive(Clone, Debug)]
pub(super) struct Protocols {
    http1: http1::Builder,
    http2: http2::Builder<StreamTasks>,
}

impl Protocols {
    /// The tasks of HTTP/2 streams are spawned on `streams`.
    pub(super) fn new(settings: &EdgeSettings, streams: TaskTracker) -> Self {
        let mut http1 = http1::Builder::new();
        http1
            // hyper would look for the end of the connection during every request, into a second buffer as large as the
            // one that the request still refers to. Whoever waits watches the socket itself, for less.
            .half_close(true)
            .max_header_size(settings.max_header_bytes)
            .max_buf_size(HTTP1_BUFFER.max(settings.max_header_bytes));
        let mut http2 = http2::Builder::new(StreamTasks::new(streams, settings.timeouts.body_progress));
        http2
            .max_header_list_size(u32::try_from(settings.max_header_bytes).unwrap_or(u32::MAX))
            .max_concurrent_streams(MAX_STREAMS)
            .max_pending_accept_reset_streams(MAX_PENDING_RESETS)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_send_buf_size(SEND_BUFFER);
        Self { http1, http2 }
    }

    /// Serves one connection to its end, which the client, a timer or a drain brings about.
    pub(super) async fn drive<T, S>(&self, transport: T, state: Arc<ConnectionState>, service: S)
    where
        T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
        S: Service<Request<Incoming>, Response = Response<Body>, Error = Infallible> + Send + 'static,
        S::Future: Send + 'static,
    {
        let mut io = EdgeIo::new(transport, Arc::clone(&state));
        let mut watch = Watch::new(Arc::clone(&state));
        let opening = poll_fn(|context| match io.poll_version(context) {
            Poll::Ready(version) => Poll::Ready(version.ok().flatten()),
            Poll::Pending => watch.poll_expired(context).map(|()| None),
        });
        let Some(version) = opening.await else { return };
        let service = EdgeService::new(service, Arc::clone(&state));
        match version {
            Version::Http1 => {
                let mut http1 = self.http1.clone();
                // A first request during a drain is the last one, and its answer says so.
                http1.keep_alive(!state.is_draining());
                watch.run(pin!(http1.serve_connection(TokioIo::new(io), service))).await;
            }
            Version::Http2 => {
                watch.run(pin!(self.http2.serve_connection(TokioIo::new(io), service))).await;
            }
        }
    }
}

/// A hyper connection that can be asked to end.
trait Ending: Future<Output = hyper::Result<()>> {
    /// Whether the client is told, and may take a while to agree.
    const SAYS_GOODBYE: bool;
    /// Whether its requests are polled with it, rather than each in a task of its own.
    const IS_ONE_TASK: bool;

    fn end(self: Pin<&mut Self>);
}

impl<T, S> Ending for http1::Connection<TokioIo<EdgeIo<T>>, EdgeService<S>>
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: Service<Request<Incoming>, Response = Response<Body>, Error = Infallible> + Send + 'static,
    S::Future: Send + 'static,
{
    const SAYS_GOODBYE: bool = false;
    const IS_ONE_TASK: bool = true;

    fn end(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }
}

impl<T, S> Ending for http2::Connection<TokioIo<EdgeIo<T>>, EdgeService<S>, StreamTasks>
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: Service<Request<Incoming>, Response = Response<Body>, Error = Infallible> + Send + 'static,
    S::Future: Send + 'static,
{
    const SAYS_GOODBYE: bool = true;
    const IS_ONE_TASK: bool = false;

    fn end(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }
}

/// Watches over one connection with one timer.
///
/// The timer is armed for a time at or before the deadline and moved only when it ends or must come sooner: on a
/// busy connection that is once in a keep-alive time, not once a read.
pub(super) struct Watch {
    state: Arc<ConnectionState>,
    timer: Pin<Box<Sleep>>,
    /// If not, the state is parked, so that the end of the last request wakes us.
    armed: bool,
    /// The waker by which others wake the connection's task.
    waker: Option<Waker>,
    /// The answer that is given, which in HTTP/1 is polled with the connection.
    uptake: Uptake,
}

impl Watch {
    pub(super) fn new(state: Arc<ConnectionState>) -> Self {
        let first = state.deadline();
        let armed = first.is_some();
        if !armed {
            state.park();
        }
        let timer = Box::pin(sleep_until(first.unwrap_or_else(Instant::now)));
        Self { state, timer, armed, waker: None, uptake: Uptake::new() }
    }

    async fn run<C: Ending>(mut self, mut connection: Pin<&mut C>) {
        let mut ending = false;
        let mut rewake = Rewake::new();
        if C::IS_ONE_TASK {
            self.state.woken_by(rewake.wakes());
        }
        poll_fn(|context| {
            loop {
                let polled = self.uptake.watch(|| rewake.poll(connection.as_mut(), context));
                if let Poll::Ready(ended) = polled {
                    if let Err(error) = ended {
                        tracing::debug!(error = &error as &dyn std::error::Error, "connection failed");
                    }
                    return Poll::Ready(());
                }
                if self.state.is_draining() && !ending {
                    ending = true;
                    connection.as_mut().end();
                    continue;
                }
                std::task::ready!(self.poll_expired(context));
                if C::SAYS_GOODBYE && !ending && self.state.stage() != Stage::Lingering {
                    self.state.drain();
                    continue;
                }
                return Poll::Ready(());
            }
        })
        .await;
    }

    /// Ready when the client has taken too long. To be polled when the connection waits.
    pub(super) fn poll_expired(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if !self.waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
            self.waker = Some(context.waker().clone());
            self.state.wake_by(context.waker());
        }
        let mut deadline = self.deadline();
        loop {
            match deadline {
                Some(due) if !self.armed || due < self.timer.deadline() => self.arm(due),
                None if !self.armed => return Poll::Pending,
                _ => {}
            }
            std::task::ready!(self.timer.as_mut().poll(context));
            deadline = self.deadline();
            match deadline {
                Some(due) if due <= self.timer.deadline() => {
                    tracing::debug!(peer = %self.state.peer, stage = ?self.state.stage(), "client took too long");
                    return Poll::Ready(());
                }
                Some(due) => self.arm(due),
                None => {
                    // A request is in flight: its end wakes us, unless it has come in between.
                    self.armed = false;
                    self.state.park();
                    deadline = self.deadline();
                }
            }
        }
    }

    /// When the client will have taken too long. That it takes nothing at all of an answer is seen by the bytes.
    fn deadline(&self) -> Option<Instant> {
        match (self.state.deadline(), self.uptake.due(None)) {
            (Some(client), Some(answer)) => Some(client.min(answer)),
            (client, answer) => client.or(answer),
        }
    }

    fn arm(&mut self, due: Instant) {
        if !self.armed {
            self.armed = true;
            self.state.unpark();
        }
        self.timer.as_mut().reset(due);
    }
}
