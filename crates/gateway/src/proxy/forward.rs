//! One request to one backend and back.

use std::fmt;
use std::future::poll_fn;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use fairlane_limiter::{Decision, Denied, Granted};
use http::header::CONTENT_TYPE;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Method, Response, Version};
use http_body::{Body as HttpBody, Frame};
use http_body_util::BodyExt;
use smallvec::SmallVec;
use tokio::time::Instant;

use super::answer_body::{AnswerBody, BodyError, Limits};
use super::choice::Rotation;
use super::client::TrustedRoots;
use super::deadline::{Deadline, later};
use super::endpoint::{Attempt, BackendBody, Endpoint};
use super::health::Standing;
use super::telemetry::give_back_lost;
use super::{Backend, Dialect, ForwardError, HealthWatch, ProxyError, Reached, Timeouts, headers};
use crate::body::{Body, BoxError};

/// The backends, and how to get a request answered by one of them.
pub struct Proxy {
    endpoints: Box<[Arc<Endpoint>]>,
    timeouts: Timeouts,
    rotation: Rotation,
}

/// A request as it leaves the gateway.
#[derive(Debug)]
pub struct Outbound<'a> {
    /// Its method.
    pub method: Method,
    /// Its path and query, as the caller gave them.
    pub path_and_query: PathAndQuery,
    /// The caller's headers; what a backend must not see is dropped here.
    pub headers: HeaderMap,
    /// Its whole body, sent byte for byte.
    pub body: Bytes,
    /// The model it asks for. Without one, every backend is a candidate.
    pub model: Option<&'a str>,
    /// Whether the answer is to be streamed, which decides its timeouts.
    pub stream: bool,
    /// When it arrived. Time spent held counts.
    pub arrived: Instant,
    /// Sent to the backend as `x-request-id`.
    pub request_id: Option<HeaderValue>,
    /// Added to `x-forwarded-for`.
    pub peer: Option<IpAddr>,
    /// The tokens reserved for it, for a backend whose own limit counts tokens.
    pub tokens: u64,
}

/// A backend's answer, ready for the caller.
#[derive(Debug)]
pub struct Forwarded {
    /// The answer. Dropping its body closes the connection to the backend.
    pub response: Response<Body>,
    /// Who gave it.
    pub backend: Arc<str>,
    /// What the backend's own limit granted, if it has one.
    pub granted: Option<Granted>,
}

/// The endpoints that may take one request.
struct Candidates<'a> {
    endpoints: SmallVec<[&'a Arc<Endpoint>; 8]>,
    /// Tells this set of serving backends from others.
    set: u64,
}

// === impl Proxy ===

impl Proxy {
    /// Prepares the backends. Connections are made when they are needed.
    ///
    /// # Errors
    ///
    /// When the certificates that an `https` backend is checked against cannot be read.
    pub fn new(backends: Vec<Backend>, timeouts: Timeouts) -> Result<Self, ProxyError> {
        let mut roots = TrustedRoots::default();
        let endpoints = backends
            .into_iter()
            .map(|backend| Endpoint::new(backend, &timeouts, &mut roots).map(Arc::new))
            .collect::<Result<_, _>>()?;
        Ok(Self { endpoints, timeouts, rotation: Rotation::new() })
    }

    /// Starts the active health checks of the backends that have them.
    ///
    /// # Panics
    ///
    /// Outside a Tokio runtime, if a backend has them.
    pub fn watch_health(&self) -> HealthWatch {
        HealthWatch::new(&self.endpoints)
    }

    /// Whether any backend serves the model, healthy or not.
    pub fn serves(&self, model: &str) -> bool {
        self.endpoints.iter().any(|endpoint| endpoint.serves(model))
    }

    /// Sends a request to a backend that serves it, and answers as soon as the backend does: with the status of
    /// a plain answer, with the first byte of a streamed one.
    ///
    /// # Errors
    ///
    /// [`ForwardError`] says why no backend answered. A status, whatever it is, is an answer.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connection it was using. What a backend's own limit was charged stays
    /// charged, since the backend may have seen the request.
    pub async fn forward(&self, outbound: Outbound<'_>) -> Result<Forwarded, ForwardError> {
        self.forward_noting(outbound, &Reached::default()).await
    }

    /// Does what [`forward`](Self::forward) does, and notes when a backend may have seen the request, for a caller
    /// that has to know even if it drops the future.
    ///
    /// # Errors
    ///
    /// See [`forward`](Self::forward).
    ///
    /// # Cancel safety
    ///
    /// See [`forward`](Self::forward).
    pub async fn forward_noting(
        &self,
        outbound: Outbound<'_>,
        reached: &Reached,
    ) -> Result<Forwarded, ForwardError> {
        let mut candidates = self.candidates(outbound.model);
        let mut answer = Answering::new(&self.timeouts, &outbound);
        if candidates.endpoints.is_empty() {
            return Err(ForwardError::NoHealthyBackend);
        }
        if answer.is_late() {
            return Err(ForwardError::Timeout { backend: None, reached: false });
        }
        let Outbound { method, path_and_query: path, mut headers, body, request_id, peer, tokens, .. } =
            outbound;
        headers::to_backend(&mut headers, peer, request_id);

        let mut refusal = Refusal::default();
        let mut failed = None;
        while let Some(endpoint) = candidates.next(&self.rotation) {
            let granted = match take(endpoint, tokens).await? {
                None => None,
                Some(Decision::Granted(granted)) => Some(granted),
                Some(refused) => {
                    refusal.note(endpoint, refused);
                    continue;
                }
            };
            if endpoint.health.standing() == Standing::Due {
                endpoint.health.trial_begins();
            }
            let attempt = Attempt {
                method: method.clone(),
                path: path.clone(),
                // Only a request that may be sent again is worth a copy.
                headers: if candidates.endpoints.is_empty() {
                    std::mem::take(&mut headers)
                } else {
                    headers.clone()
                },
                body: body.clone(),
                reached: reached.clone(),
            };
            let error = match answer.wait(endpoint.send(attempt)).await {
                Some(Ok(response)) => return answer.pass_on(endpoint, granted, response).await,
                Some(Err(source)) => {
                    endpoint.metrics.unavailable();
                    unavailable(endpoint, reached.get(), source)
                }
                None => {
                    endpoint.metrics.timed_out();
                    timed_out(endpoint, reached.get())
                }
            };
            if error.reached_backend() {
                return Err(error);
            }
            give_back(endpoint, tokens).await;
            if matches!(error, ForwardError::Timeout { .. }) {
                return Err(error);
            }
            tracing::debug!(backend = %endpoint.name, error = &error as &dyn std::error::Error, "trying the next");
            failed = Some(error);
        }
        // A backend without a connection counts as unhealthy, and the rest being exhausted is what the caller can
        // wait for.
        Err(refusal.into_error().or(failed).unwrap_or(ForwardError::NoHealthyBackend))
    }

    fn candidates(&self, model: Option<&str>) -> Candidates<'_> {
        let mut candidates = Candidates { endpoints: SmallVec::new(), set: 0 };
        let mut second_choice: SmallVec<[&Arc<Endpoint>; 2]> = SmallVec::new();
        for (index, endpoint) in self.endpoints.iter().enumerate() {
            if !model.is_none_or(|model| endpoint.serves(model)) {
                continue;
            }
            candidates.set |= 1 << (index % 64);
            match endpoint.health.standing() {
                Standing::Up | Standing::Due => candidates.endpoints.push(endpoint),
                Standing::Trying => second_choice.push(endpoint),
                Standing::Out => {}
            }
        }
        if candidates.endpoints.is_empty() {
            candidates.endpoints.extend(second_choice);
        }
        candidates
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.endpoints.iter().map(|endpoint| &endpoint.name);
        f.debug_struct("Proxy").field("backends", &names.collect::<Vec<_>>()).finish_non_exhaustive()
    }
}

// === impl Candidates ===

impl<'a> Candidates<'a> {
    /// Takes out the next one to try.
    fn next(&mut self, rotation: &Rotation) -> Option<&'a Arc<Endpoint>> {
        match self.endpoints.len() {
            0 => None,
            1 => self.endpoints.pop(),
            _ => {
                let weights = self.endpoints.iter().map(|endpoint| endpoint.weight);
                let place = rotation.choose(self.set, weights)?;
                Some(self.endpoints.remove(place))
            }
        }
    }
}

async fn take(endpoint: &Endpoint, tokens: u64) -> Result<Option<Decision>, ForwardError> {
    match &endpoint.quota {
        Some(quota) => quota.take(tokens).await.map(Some).map_err(ForwardError::StoreUnavailable),
        None => Ok(None),
    }
}

async fn give_back(endpoint: &Endpoint, tokens: u64) {
    let Some(quota) = &endpoint.quota else { return };
    if let Err(error) = quota.give_back(tokens).await {
        give_back_lost();
        tracing::debug!(backend = %endpoint.name, error = &error as &dyn std::error::Error, "not given back");
    }
}

/// What the limits of the backends tried so far said.
#[derive(Default)]
struct Refusal {
    shortest: Option<(Duration, Arc<str>, Box<Denied>)>,
    impossible: bool,
}

impl Refusal {
    fn note(&mut self, endpoint: &Endpoint, decision: Decision) {
        match decision {
            Decision::Denied(denied) => {
                let wait = denied.retry_after();
                if self.shortest.as_ref().is_none_or(|(shortest, ..)| wait < *shortest) {
                    self.shortest = Some((wait, Arc::clone(&endpoint.name), Box::new(denied)));
                }
            }
            Decision::Impossible(_) => self.impossible = true,
            Decision::Granted(_) => {}
        }
    }

    fn into_error(self) -> Option<ForwardError> {
        match self.shortest {
            Some((retry_after, backend, denied)) => {
                Some(ForwardError::AllExhausted { backend, retry_after, denied })
            }
            None => self.impossible.then_some(ForwardError::ExceedsLimit),
        }
    }
}

fn unavailable(endpoint: &Endpoint, reached: bool, source: BoxError) -> ForwardError {
    ForwardError::Unavailable { backend: Arc::clone(&endpoint.name), reached, source }
}

fn timed_out(endpoint: &Endpoint, reached: bool) -> ForwardError {
    ForwardError::Timeout { backend: Some(Arc::clone(&endpoint.name)), reached }
}

/// The clock of one answer, and what decides how it is passed on.
struct Answering<'t> {
    timeouts: &'t Timeouts,
    arrived: Instant,
    limits: Limits,
    deadline: Deadline,
    dialect: Dialect,
    streamed: bool,
}

// === impl Answering ===

impl<'t> Answering<'t> {
    fn new(timeouts: &'t Timeouts, outbound: &Outbound<'_>) -> Self {
        let arrived = outbound.arrived;
        let limits = if outbound.stream {
            stream_limits(timeouts, arrived)
        } else {
            let total = later(arrived, timeouts.standard_total);
            Limits { first_byte: total, idle: None, total }
        };
        Self {
            timeouts,
            arrived,
            limits,
            deadline: Deadline::new(limits.first_byte),
            dialect: Dialect::of_path(outbound.path_and_query.path()),
            streamed: outbound.stream,
        }
    }

    fn is_late(&self) -> bool {
        Instant::now() >= self.limits.first_byte
    }

    /// Waits for something, or for the deadline (`None`).
    async fn wait<F: Future>(&mut self, future: F) -> Option<F::Output> {
        let mut future = pin!(future);
        poll_fn(|cx| match future.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending => self.deadline.poll_passed(cx).map(|()| None),
        })
        .await
    }

    /// Turns a backend's answer into the caller's. Of a stream, the first byte is waited for.
    async fn pass_on(
        mut self,
        endpoint: &Endpoint,
        granted: Option<Granted>,
        response: Response<BackendBody>,
    ) -> Result<Forwarded, ForwardError> {
        let (mut head, mut body) = response.into_parts();
        let event_stream = content_type_starts(&head.headers, b"text/event-stream");
        if !self.streamed && (event_stream || content_type_starts(&head.headers, b"audio/")) {
            self.becomes_streamed();
        }
        let mut first = None;
        if self.streamed && head.status.is_success() {
            let Some(frame) = self.wait(first_frame(&mut body)).await else {
                endpoint.metrics.timed_out();
                return Err(ForwardError::Timeout {
                    backend: Some(Arc::clone(&endpoint.name)),
                    reached: true,
                });
            };
            first = frame.map_err(|error| {
                endpoint.metrics.unavailable();
                unavailable(endpoint, true, BodyError::Broken(error).into())
            })?;
        }
        endpoint.metrics.answered(head.status);
        headers::to_caller(&mut head.headers);
        head.version = Version::HTTP_11;
        head.extensions.clear();
        let dialect = event_stream.then_some(self.dialect);
        let body = AnswerBody::new(body, first, self.deadline, self.limits, dialect);
        Ok(Forwarded {
            response: Response::from_parts(head, body.boxed_unsync()),
            backend: Arc::clone(&endpoint.name),
            granted,
        })
    }

    /// The answer turns out to be a stream though the request did not say so.
    fn becomes_streamed(&mut self) {
        self.streamed = true;
        self.limits = stream_limits(self.timeouts, self.arrived);
        // Its status came within the time of a plain answer, which may be beyond that of a first byte.
        let now = Instant::now();
        self.limits.first_byte =
            self.limits.first_byte.max(later(now, self.timeouts.streaming.idle)).min(self.limits.total);
        self.deadline.set(self.limits.first_byte);
    }
}

fn stream_limits(timeouts: &Timeouts, arrived: Instant) -> Limits {
    let times = &timeouts.streaming;
    let total = later(arrived, times.total);
    Limits { first_byte: later(arrived, times.first_byte).min(total), idle: Some(times.idle), total }
}

/// The first frame with something in it; `None` if the body ends without one.
async fn first_frame(body: &mut BackendBody) -> Result<Option<Frame<Bytes>>, BoxError> {
    loop {
        let frame = poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await.transpose()?;
        if frame.as_ref().and_then(Frame::data_ref).is_none_or(|data| !data.is_empty()) {
            return Ok(frame);
        }
    }
}

fn content_type_starts(headers: &HeaderMap, start: &[u8]) -> bool {
    headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.as_bytes().get(..start.len()))
        .is_some_and(|begin| begin.eq_ignore_ascii_case(start))
}
