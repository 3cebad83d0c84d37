//! The accept loop.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::Service;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::EdgeSettings;
use super::activity::Activity;
use super::driver::Protocols;
use super::listen::Acceptor;
use super::registry::Registry;
use super::socket::TcpIo;
use super::state::ConnectionState;
use super::workers::Seat;
use crate::body::Body;

/// Serves HTTP/1 and HTTP/2 (with prior knowledge) on `listener` until `drain` is cancelled, then until every
/// connection has ended.
///
/// Every request carries a [`Connection`](super::Connection) and is to be given to [`vet`](super::vet) first. It counts as in flight
/// from the call of the service to the end, or the drop, of its answer's body. `activity` is kept up to date. When `settings`
/// change, connections that are open keep those that they were made with.
///
/// Once `drain` is cancelled, connections already in the listen queue are still taken, then the listener is closed. Idle
/// connections are closed, busy ones answer what they have begun, the last answer with `connection: close`; a connection on
/// which nothing was sent yet has one second to do so. Nothing bounds the drain as a whole: put a timeout around.
///
/// # Panics
///
/// A panic of the service ends its connection (HTTP/1) or its stream (HTTP/2), and is logged.
///
/// # Cancel safety
///
/// Dropping the future closes the listener at once, and every connection, with its handlers, as soon as its worker gets to
/// it.
pub async fn serve<S>(
    listener: TcpListener,
    settings: watch::Receiver<EdgeSettings>,
    service: S,
    drain: CancellationToken,
    activity: Activity,
) where
    S: Service<Request<Incoming>, Response = Response<Body>, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send + 'static,
{
    let streams = TaskTracker::new();
    let mut changes = settings;
    let settings = changes.borrow_and_update().clone();
    let mut edge = Edge {
        protocols: Arc::new(Protocols::new(&settings, streams.clone())),
        registry: Registry::new(activity.clone()),
        settings,
        activity,
        service,
        open: JoinSet::new(),
    };
    let mut acceptor = Acceptor::default();
    let mut drained = pin!(drain.cancelled());
    let mut may_change = true;
    loop {
        let has_room = edge.has_room();
        tokio::select! {
            biased;
            () = &mut drained => break,
            changed = changes.changed(), if may_change => match changed {
                Ok(()) => edge.change(changes.borrow_and_update().clone(), &streams),
                Err(_) => may_change = false,
            },
            Some(ended) = edge.open.join_next() => report(ended),
            (socket, peer) = acceptor.accept(&listener), if has_room => edge.take(socket, peer),
        }
    }
    edge.registry.drain();
    edge.take_the_queued(listener);
    while let Some(ended) = edge.open.join_next().await {
        report(ended);
    }
    // A stream's task ends by itself once its connection has gone.
    streams.close();
    streams.wait().await;
}

struct Edge<S> {
    protocols: Arc<Protocols>,
    registry: Arc<Registry>,
    settings: EdgeSettings,
    activity: Activity,
    service: S,
    open: JoinSet<()>,
}

impl<S> Edge<S>
where
    S: Service<Request<Incoming>, Response = Response<Body>, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send + 'static,
{
    /// Has connections that are made from here on go by other settings.
    fn change(&mut self, settings: EdgeSettings, streams: &TaskTracker) {
        self.protocols = Arc::new(Protocols::new(&settings, streams.clone()));
        self.settings = settings;
    }

    fn has_room(&self) -> bool {
        self.open.len() < self.settings.max_connections
    }

    fn take(&mut self, socket: TcpStream, peer: SocketAddr) {
        let seat = self.settings.workers.seat();
        // An error is one of this connection, which is closed by it.
        if let Ok(socket) = socket.into_std().and_then(|socket| seated(socket, &seat)) {
            self.start(socket, peer, seat);
        }
    }

    fn start(&mut self, socket: TcpStream, peer: SocketAddr, seat: Seat) {
        let Some(place) = self.registry.admit(peer.ip(), &self.settings) else { return };
        let Ok(io) = TcpIo::new(socket) else { return };
        let state =
            ConnectionState::new(peer, Some(io.watch()), self.settings.timeouts, self.activity.clone());
        place.occupy(&state);
        let protocols = Arc::clone(&self.protocols);
        let service = self.service.clone();
        let runtime = seat.runtime().clone();
        let serving = async move {
            protocols.drive(io, state, service).await;
            drop((place, seat));
        };
        self.open.spawn_on(serving, &runtime);
    }

    /// Takes the connections which the system has accepted for us: closing the listener would reset them.
    fn take_the_queued(&mut self, listener: TcpListener) {
        let Ok(listener) = listener.into_std() else { return };
        while self.has_room() {
            let seat = self.settings.workers.seat();
            let accepted = listener.accept().and_then(|(socket, peer)| {
                socket.set_nonblocking(true)?;
                Ok((seated(socket, &seat)?, peer))
            });
            match accepted {
                Ok((socket, peer)) => self.start(socket, peer, seat),
                // Mostly that none is left.
                Err(_) => return,
            }
        }
    }
}

/// A socket belongs to the runtime it is made on.
fn seated(socket: std::net::TcpStream, seat: &Seat) -> io::Result<TcpStream> {
    let _entered = seat.runtime().enter();
    TcpStream::from_std(socket)
}

fn report(ended: Result<(), JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        // Without the panic's text, which may hold anything.
        tracing::error!("a request's handler panicked, its connection was closed");
    }
}
