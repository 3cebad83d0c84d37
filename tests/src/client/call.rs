//! A request to send.

use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, header};
use http_body_util::Full;
use serde_json::{Value, json};

/// A request, put together in one line.
#[derive(Clone, Debug)]
pub struct Call {
    method: Method,
    path: String,
    headers: HeaderMap,
    body: Bytes,
    pub(super) from: Option<IpAddr>,
}

impl Call {
    /// Any method on any path, without a body.
    #[must_use]
    pub fn new(method: Method, path: &str) -> Self {
        Self { method, path: path.to_owned(), headers: HeaderMap::new(), body: Bytes::new(), from: None }
    }

    /// `GET` a path.
    #[must_use]
    pub fn get(path: &str) -> Self {
        Self::new(Method::GET, path)
    }

    /// `POST` JSON.
    #[must_use]
    pub fn post(path: &str, body: &Value) -> Self {
        Self::new(Method::POST, path).body("application/json", body.to_string())
    }

    /// A small chat completion.
    #[must_use]
    pub fn chat(model: &str) -> Self {
        let messages = json!([{"role": "user", "content": "hello"}]);
        Self::post("/v1/chat/completions", &json!({"model": model, "messages": messages}))
    }

    /// A small chat completion, streamed.
    #[must_use]
    pub fn chat_stream(model: &str) -> Self {
        let messages = json!([{"role": "user", "content": "hello"}]);
        Self::post("/v1/chat/completions", &json!({"model": model, "messages": messages, "stream": true}))
    }

    /// A small message in Anthropic's API.
    #[must_use]
    pub fn message(model: &str) -> Self {
        let messages = json!([{"role": "user", "content": "hello"}]);
        Self::post("/v1/messages", &json!({"model": model, "max_tokens": 16, "messages": messages}))
    }

    /// A body of any type.
    #[must_use]
    pub fn body(mut self, content_type: &str, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self.set("content-type", content_type)
    }

    /// The caller's API key, as a bearer token.
    #[must_use]
    pub fn key(self, key: &str) -> Self {
        self.set("authorization", &format!("Bearer {key}"))
    }

    /// A header line in place of those of its name.
    #[must_use]
    pub fn set(mut self, name: &str, value: &str) -> Self {
        self.headers.insert(named(name), valued(value));
        self
    }

    /// A further header line.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.append(named(name), valued(value));
        self
    }

    /// The address the caller connects from, any in 127.0.0.0/8.
    #[must_use]
    pub fn from(mut self, address: &str) -> Self {
        self.from = Some(address.parse().expect("an address"));
        self
    }

    /// The body's bytes.
    #[must_use]
    pub const fn content(&self) -> &Bytes {
        &self.body
    }

    /// HTTP/2 has the host in the target.
    pub(super) fn request_http2(self, address: SocketAddr) -> Request<Full<Bytes>> {
        let uri = format!("http://{address}{}", self.path);
        let mut request = self.request(address);
        request.headers_mut().remove(header::HOST);
        *request.uri_mut() = uri.parse().expect("a path");
        request
    }

    pub(super) fn request(self, address: SocketAddr) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(self.body));
        *request.method_mut() = self.method;
        *request.uri_mut() = self.path.parse().expect("a path");
        *request.headers_mut() = self.headers;
        let host = valued(&address.to_string());
        request.headers_mut().entry(header::HOST).or_insert(host);
        request
    }
}

fn named(name: &str) -> HeaderName {
    name.parse().expect("a header's name")
}

fn valued(value: &str) -> HeaderValue {
    HeaderValue::from_str(value).expect("a header's value")
}
