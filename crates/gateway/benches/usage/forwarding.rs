//! A hyper proxy that forwards streams, bare and watched.

use std::{
    convert::Infallible,
    net::SocketAddr,
    num::NonZeroU32,
    path::PathBuf,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use fairlane_gateway::{
    body::{Body as AnyBody, BoxError},
    request::Api,
    usage::{Outcome, Watch},
};
use http::{HeaderValue, Request, Response, header};
use http_body::{Body, Frame};
use http_body_util::{BodyExt as _, Empty};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioIo},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    runtime,
    sync::oneshot,
    task::JoinSet,
    time::{Interval, MissedTickBehavior, interval},
};

use crate::{median, stopwatch::Times, stream};

/// How often a model writes an event, in each stream.
const PACE: Duration = Duration::from_millis(1);

/// How much is measured.
#[derive(Clone, Copy)]
pub(crate) struct Effort {
    pub(crate) rounds: usize,
    /// Streams at once.
    pub(crate) streams: usize,
    /// Events of each.
    pub(crate) events: usize,
}

/// What was measured.
pub(crate) struct Forwarding {
    /// CPU time that watching adds to forwarding, in percent, by the time the watcher takes within.
    pub(crate) watched_percent: f64,
    /// The same where a chunk is hidden.
    pub(crate) hiding_percent: f64,
}

/// A proxy on a thread of its own.
struct Proxy {
    address: SocketAddr,
    /// Where the system tells the thread's CPU time.
    cpu_time: PathBuf,
    counted: Counted,
}

/// What a proxy counts.
#[derive(Clone, Default)]
struct Counted {
    /// Frames passed on.
    frames: Arc<AtomicUsize>,
    /// What the bodies that are timed took.
    times: Times,
}

pub(crate) fn measure(effort: Effort) -> Result<Forwarding, BoxError> {
    let Effort { rounds, streams, events } = effort;
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let backend = backend(stream::chat(events).into()).await?;
        let proxy = Proxy::start(backend).await?;
        println!("\nforwarding {streams} streams of {events} events, one event each {PACE:?}");
        proxy.round("/bare", effort).await?;
        proxy.counted.frames.store(0, Ordering::Relaxed);
        let (mut bares, mut watcheds, mut hidings) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..rounds {
            // The bare proxy before and after, so that a drift of the machine counts for neither.
            let before = proxy.round("/bare", effort).await?;
            let watched = proxy.round("/watched", effort).await?;
            let hiding = proxy.round("/hiding", effort).await?;
            let bare = f64::midpoint(before, proxy.round("/bare", effort).await?);
            bares.push(bare);
            watcheds.push(watched - bare);
            hidings.push(hiding - bare);
        }
        let per_frame =
            (4 * rounds * streams * events) as f64 / proxy.counted.frames.load(Ordering::Relaxed) as f64;
        let [bare, watched, hiding] = [bares, watcheds, hidings].map(median);
        let mut own = [0.0; 3];
        for (way, own) in ["/timed/bare", "/timed/watched", "/timed/hiding"].into_iter().zip(&mut own) {
            proxy.round(way, effort).await?;
            *own = proxy.counted.times.take_median();
        }
        // Without a watcher it is what reading the clock takes.
        let [watched_own, hiding_own] = [own[1] - own[0], own[2] - own[0]];
        println!("{:<44}{:>14}{:>14}{:>14}", "ns per event, medians", "bare", "watched", "hiding");
        println!("{:<44}{bare:>14.0}{:>14.0}{:>14.0}", "CPU time", bare + watched, bare + hiding);
        println!("{:<44}{:>14}{watched:>14.0}{hiding:>14.0}", "added, as the difference of whole rounds", "");
        println!("{:<44}{:>14}{watched_own:>14.0}{hiding_own:>14.0}", "added, timed within", "");
        println!("{per_frame:.2} events per frame");
        Ok(Forwarding {
            watched_percent: watched_own / bare * 100.0,
            hiding_percent: hiding_own / bare * 100.0,
        })
    })
}

/// A backend that writes one event at a time.
async fn backend(events: Arc<[Bytes]>) -> Result<SocketAddr, BoxError> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let events = Arc::clone(&events);
            let service = service_fn(move |_: Request<Incoming>| {
                let mut pace = interval(PACE);
                pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
                let mut response = Response::new(Paced { events: Arc::clone(&events), next: 0, pace });
                let event_stream = HeaderValue::from_static("text/event-stream");
                response.headers_mut().insert(header::CONTENT_TYPE, event_stream);
                std::future::ready(Ok::<_, Infallible>(response))
            });
            tokio::spawn(serve(socket, service));
        }
    });
    Ok(address)
}

struct Paced {
    events: Arc<[Bytes]>,
    next: usize,
    pace: Interval,
}

impl Body for Paced {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        ready!(self.pace.poll_tick(cx));
        let event = self.events.get(self.next).cloned();
        self.next += 1;
        Poll::Ready(event.map(|event| Ok(Frame::data(event))))
    }
}

async fn serve<S, B>(socket: TcpStream, service: S)
where
    S: hyper::service::HttpService<Incoming, ResBody = B>,
    S::Error: Into<BoxError>,
    B: Body<Data: Send, Error: Into<BoxError>> + 'static,
{
    // Without this, small events are held back and sent together.
    if socket.set_nodelay(true).is_ok() {
        // A caller that has read enough closes its connection, which is an error here and nothing to tell.
        _ = http1::Builder::new().serve_connection(TokioIo::new(socket), service).await;
    }
}

// === impl Proxy ===

impl Proxy {
    async fn start(backend: SocketAddr) -> Result<Self, BoxError> {
        let (started, proxy) = oneshot::channel();
        std::thread::spawn(move || {
            let runtime = runtime::Builder::new_current_thread().enable_all().build();
            runtime.map(|runtime| runtime.block_on(Self::run(backend, started)))
        });
        proxy.await.map_err(Into::into)
    }

    async fn run(backend: SocketAddr, started: oneshot::Sender<Self>) -> Result<(), BoxError> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let thread = std::fs::read_link("/proc/thread-self")?;
        let cpu_time = PathBuf::from("/proc").join(thread).join("schedstat");
        let counted = Counted::default();
        _ = started.send(Self { address: listener.local_addr()?, cpu_time, counted: counted.clone() });
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let client = Client::builder(TokioExecutor::new()).build(connector);
        loop {
            let (socket, _) = listener.accept().await?;
            let (client, counted) = (client.clone(), counted.clone());
            let service =
                service_fn(move |request| forward(client.clone(), backend, counted.clone(), request));
            tokio::spawn(serve(socket, service));
        }
    }

    /// Forwards all streams in one way; the CPU time of one event, in nanoseconds.
    async fn round(&self, way: &'static str, effort: Effort) -> Result<f64, BoxError> {
        let before = self.cpu_ns()?;
        let mut callers = JoinSet::new();
        for _ in 0..effort.streams {
            callers.spawn(call(self.address, way));
        }
        while let Some(called) = callers.join_next().await {
            called??;
        }
        Ok((self.cpu_ns()? - before) / (effort.streams * effort.events) as f64)
    }

    fn cpu_ns(&self) -> Result<f64, BoxError> {
        let told = std::fs::read_to_string(&self.cpu_time)?;
        Ok(told.split_whitespace().next().unwrap_or_default().parse()?)
    }
}

async fn forward(
    client: Client<HttpConnector, Empty<Bytes>>,
    backend: SocketAddr,
    Counted { frames, times }: Counted,
    request: Request<Incoming>,
) -> Result<Response<AnyBody>, BoxError> {
    let way = request.uri().path();
    let uri = format!("http://{backend}{way}");
    let (mut head, body) = client.request(Request::get(uri).body(Empty::new())?).await?.into_parts();
    let counted = body.map_frame(move |frame| {
        frames.fetch_add(1, Ordering::Relaxed);
        frame
    });
    let counted = counted.map_err(BoxError::from);
    let how = |hide_usage| Watch { api: Api::Chat, bytes_per_token: NonZeroU32::MIN, hide_usage };
    let settle = |outcome: Outcome| assert!(outcome.usage.is_some(), "the usage was missed");
    let headers = &mut head.headers;
    let body = match way {
        "/watched" => how(false).body(headers, counted, settle).boxed_unsync(),
        "/hiding" => how(true).body(headers, counted, settle).boxed_unsync(),
        "/timed/bare" => times.of(counted, |body| body).boxed_unsync(),
        "/timed/watched" => times.of(counted, |body| how(false).body(headers, body, settle)).boxed_unsync(),
        "/timed/hiding" => times.of(counted, |body| how(true).body(headers, body, settle)).boxed_unsync(),
        _ => counted.boxed_unsync(),
    };
    Ok(Response::from_parts(head, body))
}

/// Reads one stream to its end.
async fn call(address: SocketAddr, way: &str) -> Result<(), BoxError> {
    let mut socket = TcpStream::connect(address).await?;
    socket
        .write_all(format!("GET {way} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").as_bytes())
        .await?;
    let mut answer = Vec::with_capacity(1 << 20);
    socket.read_to_end(&mut answer).await?;
    let has_usage = answer.windows(16).any(|part| part == b"\"prompt_tokens\":");
    if answer.ends_with(b"[DONE]\n\n\r\n0\r\n\r\n") && has_usage != way.ends_with("/hiding") {
        Ok(())
    } else {
        Err("a stream did not come as it was sent".into())
    }
}
