//! Kept HTTP/1 connections to one backend, each driven by the request that uses it.
//!
//! The usual pool gives every connection a task of its own, and hands requests and answers to and from it: two wake-ups
//! a request, often on another thread. Here the task that waits for an answer polls the connection itself. Nobody polls
//! an idle connection; whether it is still good is seen when it is taken out.

mod exchange;
mod link;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crossbeam_utils::CachePadded;
use http::{Request, Response, Uri};
use hyper::client::conn::http1;
use parking_lot::Mutex;
use tokio::time::Instant;
use tower::ServiceExt as _;

pub(super) use self::exchange::PooledBody;
use self::link::{Link, Unsent};
use super::client::{Connector, OutboundBody};
use crate::body::BoxError;

/// Idle connections kept by each thread.
const MAX_IDLE: usize = 1024;

/// The connections to one backend.
pub(super) struct Pool {
    connector: Connector,
    /// Where to: scheme and authority are what counts.
    uri: Uri,
    keep: Duration,
    /// One for each thread that serves: they do not wait for each other, nor take over each other's sockets.
    idle: Box<[CachePadded<Shelf>]>,
}

/// Idle connections, those used last at the end.
type Shelf = Mutex<VecDeque<(Instant, Box<Link>)>>;

impl Pool {
    /// Connections made by `connector` to the server at `uri`, each kept for `keep` after its last use.
    pub(super) fn new(connector: Connector, uri: Uri, keep: Duration) -> Arc<Self> {
        let idle = (0..shelves()).map(|_| CachePadded::default()).collect();
        Arc::new(Self { connector, uri, keep, idle })
    }

    /// Sends a request on a connection that is idle, or on a new one.
    ///
    /// A request that a connection gave back untouched, because the server had closed it meanwhile, goes to the next.
    pub(super) async fn send(
        self: &Arc<Self>,
        mut request: Box<Request<OutboundBody>>,
    ) -> Result<Response<PooledBody>, BoxError> {
        while let Some(link) = self.take_idle() {
            match link.send(request).await {
                Ok((link, response)) => return Ok(self.answered(link, response)),
                Err(Unsent::Untouched(back)) => request = back,
                Err(Unsent::Failed(error)) => return Err(error),
            }
        }
        // Few requests come here, and all are made with room for it: it goes elsewhere.
        let link = Box::pin(self.connect()).await?;
        match link.send(request).await {
            Ok((link, response)) => Ok(self.answered(link, response)),
            Err(Unsent::Untouched(_)) => Err("the backend closed a new connection".into()),
            Err(Unsent::Failed(error)) => Err(error),
        }
    }

    /// Closes connections that have been idle for too long.
    pub(super) fn sweep(&self) {
        let now = Instant::now();
        for shelf in &self.idle {
            let old = self.expired(&mut shelf.lock(), now);
            drop(old);
        }
    }

    fn answered(
        self: &Arc<Self>,
        link: Option<Box<Link>>,
        response: Response<hyper::body::Incoming>,
    ) -> Response<PooledBody> {
        response.map(|incoming| PooledBody::new(incoming, link, Arc::clone(self)))
    }

    async fn connect(&self) -> Result<Box<Link>, BoxError> {
        let io = self.connector.clone().oneshot(self.uri.clone()).await?;
        let (sender, connection) = http1::handshake(io).await?;
        Ok(Box::new(Link::new(sender, connection)))
    }

    fn take_idle(&self) -> Option<Box<Link>> {
        let mut shelf = self.shelf().lock();
        let (since, link) = shelf.pop_back()?;
        if since.elapsed() < self.keep {
            return Some(link);
        }
        // All others have waited even longer.
        let old = std::mem::take(&mut *shelf);
        drop(shelf);
        drop((link, old));
        None
    }

    /// Takes back a connection whose exchange is over.
    fn put_back(&self, mut link: Box<Link>) {
        link.rest();
        let now = Instant::now();
        let mut shelf = self.shelf().lock();
        let mut old = self.expired(&mut shelf, now);
        if shelf.len() == MAX_IDLE {
            old.extend(shelf.pop_front());
        }
        shelf.push_back((now, link));
        drop(shelf);
        // Closing is a system call: outside the lock.
        drop(old);
    }

    fn expired(&self, shelf: &mut VecDeque<(Instant, Box<Link>)>, now: Instant) -> Vec<(Instant, Box<Link>)> {
        let count = shelf.iter().take_while(|(since, _)| now.duration_since(*since) >= self.keep).count();
        shelf.drain(..count).collect()
    }

    fn shelf(&self) -> &Shelf {
        // There is at least one, and the number is taken round them.
        &self.idle[current_thread() % self.idle.len()]
    }
}

/// As many as threads are likely to serve.
fn shelves() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// A number for each thread that asks, in the order in which they first did.
fn current_thread() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static NUMBER: usize = NEXT.fetch_add(1, Ordering::Relaxed));
    NUMBER.with(|number| *number)
}
