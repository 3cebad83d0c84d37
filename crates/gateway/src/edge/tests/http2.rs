//! HTTP/2: timers, bounds, resets, endings.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode, Version};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, DuplexStream};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use super::gone::{Event, holding};
use super::{Edge, TIMEOUTS, pipe, send, settings, soon, vetted};

type Sender = SendRequest<Empty<Bytes>>;

async fn handshake(io: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> (Sender, JoinHandle<()>) {
    let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(io)).await.unwrap();
    let task = tokio::spawn(async move { drop(connection.await) });
    (sender, task)
}

fn get(uri: &str) -> Request<Empty<Bytes>> {
    Request::builder().uri(uri).version(Version::HTTP_2).body(Empty::new()).unwrap()
}

async fn text(response: Response<Incoming>) -> String {
    String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
}

#[track_caller]
fn assert_elapsed(since: Instant, expected: Duration) {
    let elapsed = since.elapsed();
    assert!(
        (expected..=expected + Duration::from_millis(2)).contains(&elapsed),
        "{elapsed:?}, not {expected:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_is_told_goodbye_after_the_keep_alive_time() {
    let (client, _, server) = pipe(vetted());
    let (mut sender, client) = handshake(client).await;
    sleep(TIMEOUTS.keep_alive - Duration::from_millis(1)).await;
    let response = sender.send_request(get("http://a/x")).await.unwrap();
    assert_eq!((response.status(), text(response).await.as_str()), (StatusCode::OK, "/x"));
    let began = Instant::now();
    client.await.unwrap();
    server.await.unwrap();
    assert_elapsed(began, TIMEOUTS.keep_alive);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_answer_the_goodbye_is_closed_a_second_later() {
    let (mut client, _, server) = pipe(vetted());
    let began = Instant::now();
    // The preface and empty settings; what the server says is never answered.
    send(&mut client, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await;
    server.await.unwrap();
    assert_elapsed(began, TIMEOUTS.keep_alive + Duration::from_secs(1));
    assert!(went_away(&mut client).await);
}

/// Whether a GOAWAY is among the frames a server sent.
async fn went_away(client: &mut DuplexStream) -> bool {
    let mut frames = Vec::new();
    client.read_to_end(&mut frames).await.unwrap();
    let mut frames = frames.as_slice();
    while let [a, b, c, kind, ..] = *frames {
        if kind == 7 {
            return true;
        }
        let length = u32::from_be_bytes([0, a, b, c]) as usize;
        frames = &frames[9 + length..];
    }
    false
}

#[tokio::test(start_paused = true)]
async fn no_timer_runs_while_a_request_is_in_flight() {
    let (service, mut events, release) = holding();
    let (client, _, _) = pipe(service);
    let (mut sender, client) = handshake(client).await;
    let response = sender.send_request(get("http://a/"));
    let (response, ()) = tokio::join!(response, async {
        assert_eq!(events.recv().await, Some(Event::Held));
        sleep(Duration::from_secs(3600)).await;
        release.notify_one();
    });
    assert_eq!(text(response.unwrap()).await, "done");
    let began = Instant::now();
    client.await.unwrap();
    assert_elapsed(began, TIMEOUTS.keep_alive);
}

#[tokio::test]
async fn a_reset_stream_drops_its_handler_and_leaves_the_others() {
    let (service, mut events, release) = holding();
    let edge = Edge::start(settings(), service);
    let (mut sender, _client) = handshake(edge.connect().await).await;
    let first = tokio::spawn(sender.send_request(get("http://a/")));
    assert_eq!(soon(events.recv()).await, Some(Event::Held));
    let second = tokio::spawn(sender.send_request(get("http://a/")));
    assert_eq!(soon(events.recv()).await, Some(Event::Held));
    first.abort();
    assert_eq!(soon(events.recv()).await, Some(Event::Dropped));
    // The first may have taken one leave with it.
    release.notify_waiters();
    release.notify_one();
    assert_eq!(soon(events.recv()).await, Some(Event::Answered));
    assert_eq!(text(soon(second).await.unwrap().unwrap()).await, "done");
}

#[tokio::test]
async fn a_connection_that_ends_takes_its_held_requests_along() {
    let (service, mut events, _) = holding();
    let edge = Edge::start(settings(), service);
    let socket = edge.connect().await;
    let wire = SockRef::from(&socket).try_clone().unwrap();
    let (mut sender, _client) = handshake(socket).await;
    let _first = tokio::spawn(sender.send_request(get("http://a/")));
    let _second = tokio::spawn(sender.send_request(get("http://a/")));
    for _ in 0..2 {
        assert_eq!(soon(events.recv()).await, Some(Event::Held));
    }
    wire.shutdown(std::net::Shutdown::Both).unwrap();
    for _ in 0..2 {
        let event = soon(events.recv()).await.unwrap();
        assert!(matches!(event, Event::Dropped | Event::Gone), "{event:?}");
    }
}

#[tokio::test]
async fn a_drain_lets_streams_finish() {
    let (service, mut events, release) = holding();
    let edge = Edge::start(settings(), service);
    let (_idle_sender, idle) = handshake(edge.connect().await).await;
    let (mut sender, busy) = handshake(edge.connect().await).await;
    let response = tokio::spawn(sender.send_request(get("http://a/")));
    assert_eq!(soon(events.recv()).await, Some(Event::Held));
    edge.drain.cancel();
    soon(idle).await.unwrap();
    assert!(!edge.served.is_finished());
    release.notify_one();
    assert_eq!(text(soon(response).await.unwrap().unwrap()).await, "done");
    soon(busy).await.unwrap();
    soon(edge.served).await.unwrap();
    assert_eq!((edge.activity.connections(), edge.activity.requests()), (0, 0));
}

#[tokio::test]
async fn hosts_are_vetted_as_in_http1() {
    let (client, _, _) = pipe(vetted());
    let (mut sender, _client) = handshake(client).await;
    let mut check = async |request: Request<Empty<Bytes>>, expected: u16| {
        let response = soon(sender.send_request(request)).await.unwrap();
        assert_eq!(response.status().as_u16(), expected, "{}", text(response).await);
    };
    check(get("http://a/"), 200).await;
    let with_host = |host| Request::get("http://a/").header("host", host).body(Empty::new()).unwrap();
    check(with_host("a"), 200).await;
    check(with_host("b"), 400).await;
    let mut two = with_host("a");
    two.headers_mut().append("host", "a".parse().unwrap());
    check(two, 400).await;
    check(Request::connect("a:443").body(Empty::new()).unwrap(), 400).await;
}

#[tokio::test]
async fn a_head_over_the_bound_is_431() {
    let (client, _, _) = pipe(vetted());
    let (mut sender, _client) = handshake(client).await;
    let mut with = async |bytes: usize| {
        let request = Request::get("http://a/").header("x", "y".repeat(bytes)).body(Empty::new()).unwrap();
        soon(sender.send_request(request)).await.map(|response| response.status().as_u16())
    };
    assert_eq!(with(60_000).await.unwrap(), 200);
    assert!(!matches!(with(70_000).await, Ok(200)));
    assert_eq!(with(10).await.unwrap(), 200);
}

#[tokio::test]
async fn the_peer_is_told_to_handlers() {
    let edge = Edge::start(
        settings(),
        hyper::service::service_fn(async |request: Request<Incoming>| {
            let peer = request.extensions().get::<crate::edge::Connection>().unwrap().peer;
            Ok(super::text(200, peer.to_string()))
        }),
    );
    let socket = edge.connect().await;
    let address: SocketAddr = socket.local_addr().unwrap();
    assert_eq!(address.ip(), Ipv4Addr::LOCALHOST);
    let (mut sender, _client) = handshake(socket).await;
    let response = soon(sender.send_request(get("http://a/"))).await.unwrap();
    assert_eq!(text(response).await, address.to_string());
}
