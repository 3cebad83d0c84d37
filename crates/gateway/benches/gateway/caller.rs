//! One keep-alive connection of the load generator. It knows of HTTP what the answers here need, and costs little.

use std::net::SocketAddr;

use memchr::memmem;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::BoxError;
use crate::config::{self, MODEL};

/// The turns of a conversation, which make the body the size of an ordinary request.
const QUESTION: &str = "We run one inference server for several teams, and each team is allowed so many requests a \
    second. When one of them sends more than that, its requests wait. How should the server choose whose request is \
    next, so that nobody who keeps to his share waits for those who do not? Please answer in one sentence.";
const REMINDER: &str = "You are an assistant for operators. Be brief, name the algorithm that you would use and where \
    it was described first, and say what it costs per request. Do not repeat the question, and do not apologize.";

/// The head of an answer is never longer.
const BUFFER: usize = 8 * 1024;

/// A caller on its own connection.
#[derive(Debug)]
pub(crate) struct Caller {
    socket: TcpStream,
    request: Vec<u8>,
    buffer: Box<[u8]>,
}

impl Caller {
    /// Connects one that asks for completions.
    pub(crate) async fn connect(to: SocketAddr, number: usize) -> Result<Self, BoxError> {
        let body = format!(
            r#"{{"model":"{MODEL}","messages":[{{"role":"system","content":"{REMINDER}"}},{{"role":"user","content":"{QUESTION}"}}],"temperature":0.2,"max_tokens":64,"top_p":1,"stream":false,"user":"caller-{number}"}}"#
        );
        Self::with(to, number, &body).await
    }

    /// Connects one with a body of its own.
    pub(crate) async fn with(to: SocketAddr, number: usize, body: &str) -> Result<Self, BoxError> {
        let head = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: {to}\r\nauthorization: Bearer {}\r\n\
             content-type: application/json\r\naccept: application/json\r\naccept-encoding: gzip, deflate\r\n\
             user-agent: fairlane-bench/1.0\r\ncontent-length: {}\r\n\r\n",
            config::key(number),
            body.len(),
        );
        Self::open(to, head + body).await
    }

    /// Connects one that gets a page.
    pub(crate) async fn getting(to: SocketAddr, path: &str) -> Result<Self, BoxError> {
        Self::open(to, format!("GET {path} HTTP/1.1\r\nhost: {to}\r\n\r\n")).await
    }

    async fn open(to: SocketAddr, request: String) -> Result<Self, BoxError> {
        let socket = TcpStream::connect(to).await?;
        socket.set_nodelay(true)?;
        Ok(Self { socket, request: request.into_bytes(), buffer: Box::default() })
    }

    /// Sends the request, and does not wait.
    pub(crate) async fn send(&mut self) -> Result<(), BoxError> {
        Ok(self.socket.write_all(&self.request).await?)
    }

    /// Sends the request and reads the answer to its end; returns its body.
    ///
    /// # Errors
    ///
    /// When the answer is not 200, or not of a known length.
    pub(crate) async fn call(&mut self) -> Result<&[u8], BoxError> {
        self.send().await?;
        if self.buffer.is_empty() {
            self.buffer = vec![0; BUFFER].into();
        }
        let mut filled = 0;
        let mut head = None;
        loop {
            let room =
                self.buffer.get_mut(filled..).filter(|room| !room.is_empty()).ok_or("a long answer")?;
            let count = self.socket.read(room).await?;
            if count == 0 {
                return Err("the connection was closed before the answer's end".into());
            }
            filled += count;
            let bytes = self.buffer.get(..filled).unwrap_or_default();
            if head.is_none() {
                head = memmem::find(bytes, b"\r\n\r\n").map(|end| end + 4);
            }
            let Some(body) = head else { continue };
            let end = body + body_length(bytes.get(..body).unwrap_or_default())?;
            if filled >= end {
                return self.buffer.get(body..end).ok_or_else(|| "a long answer".into());
            }
        }
    }
}

/// The length that a head of 200 tells.
fn body_length(head: &[u8]) -> Result<usize, BoxError> {
    let told = || String::from_utf8_lossy(head).into_owned();
    if !head.starts_with(b"HTTP/1.1 200 ") {
        return Err(format!("the answer is not 200:\n{}", told()).into());
    }
    let name = b"content-length:";
    let length = head.split(|byte| *byte == b'\n').find_map(|line| {
        let (field, value) = line.split_at_checked(name.len())?;
        if field.eq_ignore_ascii_case(name) {
            std::str::from_utf8(value).ok()?.trim().parse().ok()
        } else {
            None
        }
    });
    length.ok_or_else(|| format!("the answer tells no length:\n{}", told()).into())
}
