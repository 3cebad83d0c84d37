//! Callers, each request on a connection of its own unless a test says otherwise.

mod answer;
mod call;
mod http2;
mod raw;

use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use tokio::{
    net::{TcpSocket, TcpStream},
    task::JoinHandle,
};

pub use self::{
    answer::{Answer, Opened},
    call::Call,
    http2::{Http2, Untaken},
    raw::Raw,
};
use crate::wait::within;

/// Sends requests to one address.
#[derive(Clone, Copy, Debug)]
pub struct Client {
    address: SocketAddr,
}

impl Client {
    /// Of a listener.
    #[must_use]
    pub const fn new(address: SocketAddr) -> Self {
        Self { address }
    }

    /// Opens a connection; `from` is the caller's address, any in 127.0.0.0/8.
    pub async fn connect(&self, from: Option<IpAddr>) -> Wire {
        let stream = within("a connection", connect(self.address, from)).await;
        let (sender, connection) = handshake(TokioIo::new(stream)).await.expect("a client connection");
        let driver = tokio::spawn(async move { _ = connection.await });
        Wire { address: self.address, sender, driver: Aborting(driver) }
    }

    /// Opens a connection for bytes of a test's own.
    pub async fn raw(&self) -> Raw {
        Raw::new(within("a connection", connect(self.address, None)).await)
    }

    /// Sends a request, and waits for the whole answer.
    pub async fn call(&self, call: Call) -> Answer {
        self.open(call).await.answer().await
    }

    /// Sends a request, and waits for the head of its answer.
    pub async fn open(&self, call: Call) -> Opened {
        let wire = self.connect(call.from).await;
        wire.open(call).await
    }

    /// Sends a request over HTTP/2 with prior knowledge, and waits for the whole answer.
    pub async fn call_http2(&self, call: Call) -> Answer {
        self.http2(None).await.call(call).await
    }

    /// Opens an HTTP/2 connection; `window` is how many bytes of each answer may come before some are taken.
    pub async fn http2(&self, window: Option<u32>) -> Http2 {
        let stream = within("a connection", connect(self.address, None)).await;
        Http2::new(stream, self.address, window).await
    }

    /// Sends a request, and does not wait.
    #[must_use]
    pub fn begin(self, call: Call) -> Pending {
        Pending(Aborting(tokio::spawn(async move { self.call(call).await })))
    }
}

async fn connect(address: SocketAddr, from: Option<IpAddr>) -> TcpStream {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }.expect("a socket");
    if let Some(from) = from {
        socket.bind(SocketAddr::new(from, 0)).expect("all of 127.0.0.0/8 is ours");
    }
    socket.connect(address).await.expect("the gateway listens")
}

/// A connection, for one request after the other. Dropping it closes it.
#[derive(Debug)]
pub struct Wire {
    address: SocketAddr,
    sender: SendRequest<Full<Bytes>>,
    driver: Aborting<()>,
}

impl Wire {
    /// Sends a request, and waits for the whole answer; the connection stays open.
    pub async fn call(&mut self, call: Call) -> Answer {
        let request = call.request(self.address);
        within("the connection to be ready", self.sender.ready()).await.expect("the connection is open");
        let response = within("an answer", self.sender.send_request(request)).await.expect("an answer");
        Answer::read(response).await
    }

    /// Sends a request; `None` if the gateway closes the connection instead of answering.
    pub async fn try_call(&mut self, call: Call) -> Option<Answer> {
        self.sender.ready().await.ok()?;
        let request = call.request(self.address);
        let response = within("an answer", self.sender.send_request(request)).await.ok()?;
        Some(Answer::read(response).await)
    }

    /// Sends the connection's last request, and waits for the head of its answer.
    pub async fn open(mut self, call: Call) -> Opened {
        let request = call.request(self.address);
        let response = within("the head of an answer", self.sender.send_request(request)).await;
        Opened::new(response.expect("an answer"), self)
    }

    /// Waits until the gateway has closed it.
    pub async fn closed(mut self) {
        _ = within("the gateway to close the connection", &mut self.driver.0).await;
    }
}

/// A request on its way. Dropping it closes its connection.
#[derive(Debug)]
pub struct Pending(Aborting<Answer>);

impl Pending {
    /// Waits for the whole answer.
    pub async fn answer(mut self) -> Answer {
        match within("a pending request's answer", &mut self.0.0).await {
            Ok(answer) => answer,
            Err(failed) => std::panic::resume_unwind(failed.into_panic()),
        }
    }

    /// Whether the answer is there.
    #[must_use]
    pub fn is_answered(&self) -> bool {
        self.0.0.is_finished()
    }

    /// The caller leaves.
    pub fn leave(self) {
        drop(self);
    }
}

/// A task that ends with its handle.
#[derive(Debug)]
struct Aborting<T>(JoinHandle<T>);

impl<T> Drop for Aborting<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
