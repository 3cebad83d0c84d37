//! Answers, whole or as they come.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Response};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use serde_json::Value;

use super::Wire;
use crate::wait::within;

/// A whole answer.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// The header fields.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
    /// Whether the body came to its end; otherwise the connection broke.
    pub complete: bool,
}

impl Answer {
    pub(super) async fn read(response: Response<Incoming>) -> Self {
        let (head, mut body) = response.into_parts();
        let mut content = Vec::new();
        let complete = within("an answer's body", async {
            loop {
                match body.frame().await {
                    Some(Ok(frame)) => content.extend_from_slice(&frame.into_data().unwrap_or_default()),
                    Some(Err(_)) => return false,
                    None => return true,
                }
            }
        })
        .await;
        Self { status: head.status.as_u16(), headers: head.headers, body: content.into(), complete }
    }

    /// A header's value; empty when it is absent.
    #[must_use]
    pub fn header(&self, name: &str) -> &str {
        text(&self.headers, name)
    }

    /// A header's value as a whole number.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<u64> {
        self.header(name).parse().ok()
    }

    /// The body as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON; null when it is none.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The object `error` of the body.
    #[must_use]
    pub fn error(&self) -> Value {
        self.json()["error"].clone()
    }

    /// `error.code`; empty when there is none.
    #[must_use]
    pub fn code(&self) -> String {
        self.error()["code"].as_str().unwrap_or_default().to_owned()
    }

    /// `error.details`.
    #[must_use]
    pub fn details(&self) -> Value {
        self.error()["details"].clone()
    }

    /// `error.details.limit_type`; empty when there is none.
    #[must_use]
    pub fn limit_type(&self) -> String {
        self.details()["limit_type"].as_str().unwrap_or_default().to_owned()
    }

    /// `error.details.fair_queue.reason`; empty when the queue did not refuse.
    #[must_use]
    pub fn reason(&self) -> String {
        self.details()["fair_queue"]["reason"].as_str().unwrap_or_default().to_owned()
    }

    /// `retry-after-ms`.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.number("retry-after-ms").map(Duration::from_millis)
    }

    /// The whole answer as text, for a search through everything.
    #[must_use]
    pub fn printed(&self) -> String {
        format!("{} {:?}\n{}", self.status, self.headers, self.text())
    }
}

/// An answer whose head has come. Dropping it closes the connection: the caller leaves.
#[derive(Debug)]
pub struct Opened {
    /// The status code.
    pub status: u16,
    /// The header fields.
    pub headers: HeaderMap,
    body: Incoming,
    wire: Wire,
}

impl Opened {
    pub(super) fn new(response: Response<Incoming>, wire: Wire) -> Self {
        let (head, body) = response.into_parts();
        Self { status: head.status.as_u16(), headers: head.headers, body, wire }
    }

    /// A header's value; empty when it is absent.
    #[must_use]
    pub fn header(&self, name: &str) -> &str {
        text(&self.headers, name)
    }

    /// The next piece of the body as text: `Ok(None)` at its end, an error where the connection broke.
    ///
    /// # Errors
    ///
    /// When the body ends before its end.
    pub async fn chunk(&mut self) -> Result<Option<String>, hyper::Error> {
        let frame = within("a piece of an answer", self.body.frame()).await.transpose()?;
        let data = frame.and_then(|frame| frame.into_data().ok());
        Ok(data.map(|data| String::from_utf8_lossy(&data).into_owned()))
    }

    /// Reads on until the body holds `part`, and returns what came.
    pub async fn until(&mut self, part: &str) -> String {
        let mut text = String::new();
        while !text.contains(part) {
            match self.chunk().await {
                Ok(Some(chunk)) => text.push_str(&chunk),
                ended => panic!("the body ended with {ended:?} before `{part}`: {text}"),
            }
        }
        text
    }

    /// Reads the rest.
    pub async fn answer(self) -> Answer {
        let mut response = Response::new(self.body);
        *response.status_mut() = self.status.try_into().expect("a status");
        *response.headers_mut() = self.headers;
        let answer = Answer::read(response).await;
        drop(self.wire);
        answer
    }

    /// The caller leaves.
    pub fn leave(self) {
        drop(self);
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}
