//! What a backend answers, and when.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Response, header};
use http_body::{Body, Frame};
use serde_json::{Value, json};
use tokio::sync::{Semaphore, mpsc};

use super::Seen;
use crate::wait::within;

/// Holds answers back until a test lets them go. Clones are the same gate.
#[derive(Clone, Debug)]
pub struct Gate(Arc<Semaphore>);

impl Gate {
    /// A closed one.
    #[must_use]
    pub fn new() -> Self {
        Self(Arc::new(Semaphore::new(0)))
    }

    /// Lets `count` answers go, and no more.
    pub fn release(&self, count: usize) {
        self.0.add_permits(count);
    }

    /// Lets all go, now and later.
    pub fn open(&self) {
        self.0.close();
    }

    async fn pass(&self) {
        if let Ok(permit) = self.0.acquire().await {
            permit.forget();
        }
    }
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}

/// An answer to come.
#[derive(Debug)]
pub struct Reply {
    status: u16,
    headers: HeaderMap,
    content: Option<Content>,
    gate: Option<Gate>,
}

impl Reply {
    /// A status with JSON.
    #[must_use]
    pub fn json(status: u16, body: &Value) -> Self {
        Self::bytes(status, "application/json", body.to_string())
    }

    /// A status with any body.
    #[must_use]
    pub fn bytes(status: u16, content_type: &str, body: impl Into<Bytes>) -> Self {
        let whole = Content::Whole(Some(body.into()));
        Self { status, headers: HeaderMap::new(), content: Some(whole), gate: None }
            .header("content-type", content_type)
    }

    /// A small chat completion that names the model asked for.
    #[must_use]
    pub fn completion(seen: &Seen) -> Self {
        let message = json!({"role": "assistant", "content": "hello"});
        Self::json(
            200,
            &json!({
                "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": seen.json()["model"],
                "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
                "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
            }),
        )
    }

    /// A stream of server-sent events, which the test sends one by one; it ends when `Chunks` is dropped.
    #[must_use]
    pub fn stream() -> (Chunks, Self) {
        Self::pieces("text/event-stream")
    }

    /// Any answer of unknown length that the test sends piece by piece.
    #[must_use]
    pub fn pieces(content_type: &str) -> (Chunks, Self) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let reply = Self {
            status: 200,
            headers: HeaderMap::new(),
            content: Some(Content::Pieces(receiver)),
            gate: None,
        };
        (Chunks(sender), reply.header("content-type", content_type))
    }

    /// No answer: the connection is closed.
    #[must_use]
    pub fn cut() -> Self {
        Self { status: 500, headers: HeaderMap::new(), content: None, gate: None }
    }

    /// A further header line.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        let name: HeaderName = name.parse().expect("a header's name");
        self.headers.append(name, HeaderValue::from_str(value).expect("a header's value"));
        self
    }

    /// Waits at a gate before the first byte.
    #[must_use]
    pub fn after(mut self, gate: &Gate) -> Self {
        self.gate = Some(gate.clone());
        self
    }

    pub(super) async fn response(self) -> Result<Response<Content>, io::Error> {
        if let Some(gate) = &self.gate {
            gate.pass().await;
        }
        let content = self.content.ok_or_else(broken)?;
        let mut response = Response::new(content);
        *response.status_mut() = self.status.try_into().expect("a status");
        *response.headers_mut() = self.headers;
        if let Content::Whole(Some(bytes)) = response.body() {
            let length = bytes.len().into();
            response.headers_mut().entry(header::CONTENT_LENGTH).or_insert(length);
        }
        Ok(response)
    }
}

/// The test's end of a stream.
#[derive(Debug)]
pub struct Chunks(mpsc::UnboundedSender<Result<Bytes, io::Error>>);

impl Chunks {
    /// Sends bytes as they are.
    pub fn send(&self, bytes: impl Into<Bytes>) {
        // Nobody there to take it is what some tests are about.
        _ = self.0.send(Ok(bytes.into()));
    }

    /// Sends an event of OpenAI's streams with this content.
    pub fn event(&self, content: &str) {
        let delta = json!({"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": content}}]});
        self.send(format!("data: {delta}\n\n"));
    }

    /// Ends the stream as OpenAI's do.
    pub fn done(self) {
        self.send("data: [DONE]\n\n");
    }

    /// Breaks the connection in the middle of the answer.
    pub fn cut(self) {
        _ = self.0.send(Err(broken()));
    }

    /// Waits until nobody takes the stream any more: its connection is closed.
    pub async fn closed(&self) {
        within("a stream's connection to be closed", self.0.closed()).await;
    }
}

fn broken() -> io::Error {
    io::Error::other("cut, as the test says")
}

/// An answer's body.
#[derive(Debug)]
pub(super) enum Content {
    Whole(Option<Bytes>),
    Pieces(mpsc::UnboundedReceiver<Result<Bytes, io::Error>>),
}

impl Body for Content {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        match self.get_mut() {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Pieces(pieces) => {
                pieces.poll_recv(cx).map(|piece| piece.map(|piece| piece.map(Frame::data)))
            }
        }
    }
}
