//! A server of raw bytes, and what a request to it is made of.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use fairlane_gateway::proxy::{
    Backend, ForwardError, Forwarded, HealthSettings, HttpTarget, Outbound, Proxy, Target, Timeouts,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use http_body_util::BodyExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;

/// A listener, one connection of which is taken at a time.
pub(crate) struct Server {
    listener: TcpListener,
    pub(crate) address: SocketAddr,
}

/// One connection, as the server sees it.
pub(crate) struct Connection(TcpStream);

/// A request, as the server saw it.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) line: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Server {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        Self { listener, address }
    }

    pub(crate) async fn accept(&self) -> Connection {
        Connection(self.listener.accept().await.unwrap().0)
    }

    /// Takes a connection and a request on it.
    pub(crate) async fn request(&self) -> (Connection, Seen) {
        let mut connection = self.accept().await;
        let seen = connection.read().await;
        (connection, seen)
    }

    pub(crate) fn backend(&self, name: &str) -> Backend {
        backend(name, &format!("http://{}", self.address))
    }
}

impl Connection {
    pub(crate) async fn read(&mut self) -> Seen {
        let mut bytes = Vec::new();
        let head_end = loop {
            assert_ne!(self.0.read_buf(&mut bytes).await.unwrap(), 0, "closed within the head");
            if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
                break at;
            }
        };
        let head = String::from_utf8(bytes[..head_end].to_vec()).unwrap();
        let (line, fields) = head.split_once("\r\n").unwrap_or((&head, ""));
        let mut headers = HeaderMap::new();
        for field in fields.lines() {
            let (name, value) = field.split_once(':').unwrap();
            let name: HeaderName = name.parse().unwrap();
            headers.append(name, HeaderValue::from_str(value.trim()).unwrap());
        }
        let length: usize =
            headers.get("content-length").map_or(0, |value| value.to_str().unwrap().parse().unwrap());
        let mut body = bytes.split_off(head_end + 4);
        while body.len() < length {
            assert_ne!(self.0.read_buf(&mut body).await.unwrap(), 0, "closed within the body");
        }
        Seen { line: line.to_owned(), headers, body }
    }

    pub(crate) async fn write(&mut self, bytes: impl AsRef<[u8]>) {
        self.0.write_all(bytes.as_ref()).await.unwrap();
    }

    /// Writes one chunk of a chunked body.
    pub(crate) async fn chunk(&mut self, text: &str) {
        self.write(format!("{:x}\r\n{text}\r\n", text.len())).await;
    }

    /// Waits until the other side closes.
    pub(crate) async fn closed(mut self) {
        let mut rest = Vec::new();
        // A reset is a close, too.
        self.0.read_to_end(&mut rest).await.unwrap_or_default();
    }
}

pub(crate) const STREAM: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

pub(crate) fn plain(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

pub(crate) fn backend(name: &str, url: &str) -> Backend {
    Backend {
        name: name.into(),
        target: Target::Http(HttpTarget::parse(url).unwrap()),
        credential: None,
        ca_file: None,
        weight: 1,
        models: std::iter::once("*".parse().unwrap()).collect(),
        health: HealthSettings::default(),
        quota: None,
    }
}

/// A backend that refuses connections: nobody listens where it is said to be.
pub(crate) async fn dead(name: &str) -> Backend {
    Server::start().await.backend(name)
}

pub(crate) fn proxy(backends: impl IntoIterator<Item = Backend>) -> Proxy {
    proxy_within(backends, Timeouts::default())
}

pub(crate) fn proxy_within(backends: impl IntoIterator<Item = Backend>, timeouts: Timeouts) -> Proxy {
    Proxy::new(backends.into_iter().collect(), timeouts).unwrap()
}

pub(crate) fn post(body: &'static str) -> Outbound<'static> {
    Outbound {
        method: Method::POST,
        path_and_query: "/v1/chat/completions".parse().unwrap(),
        authority: None,
        headers: HeaderMap::new(),
        body: Bytes::from_static(body.as_bytes()).into(),
        model: Some("m"),
        stream: false,
        dialect: fairlane_gateway::answer::Dialect::OpenAi,
        arrived: Instant::now(),
        request_id: None,
        peer: None,
        is_exempt: false,
    }
}

pub(crate) fn streamed() -> Outbound<'static> {
    Outbound { stream: true, ..post("{}") }
}

pub(crate) async fn text(forwarded: Forwarded) -> String {
    let body = forwarded.response.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(body.to_vec()).unwrap()
}

/// Sends a request that is answered by whoever listens there, on a connection of its own.
pub(crate) async fn answered_by(proxy: &Proxy, server: &Server) -> Result<Forwarded, ForwardError> {
    let serve = async {
        let (mut connection, _) = server.request().await;
        connection.write("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 6\r\n\r\nserved").await;
        connection
    };
    tokio::join!(proxy.forward(post("{}")), serve).0
}

/// Bounds a wait that a broken proxy would make endless.
pub(crate) async fn soon<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(10), future).await.unwrap()
}
