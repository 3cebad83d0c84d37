//! A backend that speaks no HTTP, or says it wrong.

use std::{net::SocketAddr, sync::OnceLock};

use bytes::Bytes;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpSocket, TcpStream},
    task::{AbortHandle, JoinSet},
};

/// Answers the head of every request with the same bytes, whatever they are, and closes.
#[derive(Debug)]
pub struct RawBackend {
    address: SocketAddr,
    accepting: AbortHandle,
}

impl RawBackend {
    /// Starts one on a free port.
    pub async fn answering(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let accepting = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(answer(stream, bytes.clone()));
            }
        });
        Self { address, accepting: accepting.abort_handle() }
    }

    /// The URL of an address where nobody listens, and nobody will: the port stays taken.
    #[must_use]
    pub fn nobody() -> String {
        static TAKEN: OnceLock<TcpSocket> = OnceLock::new();
        let socket = TAKEN.get_or_init(|| {
            let socket = TcpSocket::new_v4().expect("a socket");
            socket.bind(([127, 0, 0, 1], 0).into()).expect("a free port");
            socket
        });
        format!("http://{}", socket.local_addr().expect("a bound socket has an address"))
    }

    /// Its base URL.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for RawBackend {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn answer(mut stream: TcpStream, bytes: Bytes) {
    let mut head = Vec::new();
    while !head.windows(4).any(|window| window == b"\r\n\r\n") {
        match stream.read_buf(&mut head).await {
            Ok(read) if read > 0 => {}
            _ => return,
        }
    }
    _ = stream.write_all(&bytes).await;
    _ = stream.shutdown().await;
    // Closing with bytes unread would reset the connection, and the answer with it.
    _ = stream.read_to_end(&mut head).await;
}
