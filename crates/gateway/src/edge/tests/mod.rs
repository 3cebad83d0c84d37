//! The edge as a client sees it: on pipes with a paused clock where time matters, on sockets where closing does.

mod body;
mod caps;
mod changes;
mod drain;
mod follower;
mod framing;
mod gone;
mod http2;
mod timers;
mod turns;
mod uptake;
mod workers;

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::{Service, service_fn};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::driver::Protocols;
use super::state::ConnectionState;
use super::{Activity, EdgeSettings, EdgeTimeouts, bind, serve, vet};
use crate::body::{Body, full};

/// Every timer different, so that a test sees which one it was.
const TIMEOUTS: EdgeTimeouts = EdgeTimeouts {
    first_byte: Duration::from_secs(11),
    header: Duration::from_secs(7),
    body_progress: Duration::from_secs(31),
    keep_alive: Duration::from_secs(75),
};

fn settings() -> EdgeSettings {
    EdgeSettings { timeouts: TIMEOUTS, ..EdgeSettings::default() }
}

/// What the edge serves in these tests.
trait Serves:
    Service<Request<Incoming>, Response = Response<Body>, Error = Infallible, Future: Send>
    + Clone
    + Send
    + 'static
{
}

impl<S> Serves for S where
    S: Service<Request<Incoming>, Response = Response<Body>, Error = Infallible, Future: Send>
        + Clone
        + Send
        + 'static
{
}

fn text(status: u16, text: impl Into<String>) -> Response<Body> {
    Response::builder().status(status).body(full(text.into())).unwrap()
}

/// Answers 200 with the path, or 400 with the reason.
fn vetted() -> impl Serves {
    service_fn(async |request: Request<Incoming>| {
        Ok(match vet(&request) {
            Ok(()) => text(200, request.uri().path()),
            Err(malformed) => text(400, malformed.to_string()),
        })
    })
}

/// Serves one end of a pipe; returns the other.
fn pipe(service: impl Serves) -> (DuplexStream, Arc<ConnectionState>, JoinHandle<()>) {
    let (client, server) = tokio::io::duplex(64 * 1024);
    let peer = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
    let state = ConnectionState::new(peer, None, TIMEOUTS, Activity::new());
    let protocols = Protocols::new(&settings(), TaskTracker::new());
    let driven = Arc::clone(&state);
    let task = tokio::spawn(async move { protocols.drive(server, driven, service).await });
    (client, state, task)
}

/// An edge on a loopback socket.
struct Edge {
    address: SocketAddr,
    drain: CancellationToken,
    activity: Activity,
    served: JoinHandle<()>,
}

impl Edge {
    fn start(settings: EdgeSettings, service: impl Serves) -> Self {
        Self::start_with(settings.for_ever(), service)
    }

    fn start_with(settings: watch::Receiver<EdgeSettings>, service: impl Serves) -> Self {
        let listener = bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
        let address = listener.local_addr().unwrap();
        let drain = CancellationToken::new();
        let activity = Activity::new();
        let served = tokio::spawn(serve(listener, settings, service, drain.clone(), activity.clone()));
        Self { address, drain, activity, served }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }
}

/// Bounds how long a test on real sockets may hang; not a wait.
async fn soon<T>(event: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(10), event).await.expect("nothing happened")
}

async fn send(client: &mut (impl AsyncWriteExt + Unpin), bytes: impl AsRef<[u8]>) {
    client.write_all(bytes.as_ref()).await.unwrap();
}

/// Everything the server says until it closes.
async fn rest(client: &mut (impl AsyncRead + Unpin)) -> String {
    let mut said = Vec::new();
    // A reset ends the connection too.
    drop(client.read_to_end(&mut said).await);
    String::from_utf8_lossy(&said).into_owned()
}

/// One answer with a `content-length`.
async fn answer(client: &mut (impl AsyncRead + Unpin)) -> String {
    let mut said = Vec::new();
    loop {
        said.push(client.read_u8().await.expect("no answer"));
        let Some(end) = said.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&said).to_lowercase();
        let length = head.split("content-length: ").nth(1).expect("no length").split("\r\n").next().unwrap();
        if said.len() == end + 4 + length.parse::<usize>().unwrap() {
            return String::from_utf8(said).unwrap();
        }
    }
}

fn statuses(said: &str) -> Vec<u16> {
    said.split("HTTP/1.").skip(1).map(|answer| answer[2..5].parse().unwrap()).collect()
}
