//! One request to one backend and back.

use std::fmt;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;

use fairlane_limiter::Granted;
use http::uri::{Authority, PathAndQuery};
use http::{HeaderMap, HeaderValue, Method, Response};
use tokio::time::Instant;

use super::answering::Answering;
use super::candidates::{Candidates, Refusal};
use super::choice::Rotation;
use super::client::TrustedRoots;
use super::endpoint::{Asked, Attempt, Endpoint};
use super::headers::{self, Sender};
use super::health::Standing;
use super::taken::Taken;
use super::{Backend, ForwardError, HealthWatch, Payload, ProxyError, Reached, Timeouts};
use crate::answer::Dialect;
use crate::body::Body;

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
    /// The authority of its URI, where there is one: HTTP/2 names the host there. Sent to the backend as
    /// `x-forwarded-host`, without credentials; otherwise its `Host` is.
    pub authority: Option<Authority>,
    /// The caller's headers; what a backend must not see is dropped here.
    pub headers: HeaderMap,
    /// Its whole body, sent byte for byte.
    pub body: Payload,
    /// The model it asks for. Without one, every backend is a candidate.
    pub model: Option<&'a str>,
    /// Whether the answer is to be streamed, which decides its timeouts.
    pub stream: bool,
    /// Whose error events a stream takes that breaks.
    pub dialect: Dialect,
    /// When it arrived. Time spent held counts.
    pub arrived: Instant,
    /// Sent to the backend as `x-request-id`.
    pub request_id: Option<HeaderValue>,
    /// The other end of the caller's connection. Added to `x-forwarded-for`, at its right end.
    pub peer: Option<IpAddr>,
    /// Whether it comes from a client that no limit counts, that of the backend included.
    pub is_exempt: bool,
}

/// A backend's answer, ready for the caller.
#[derive(Debug)]
pub struct Forwarded {
    /// The answer. Dropping its body closes the connection to the backend.
    pub response: Response<Body>,
    /// Who gave it.
    pub backend: Arc<str>,
    /// What the backend's own limit granted, if it has one. Boxed: it is large, and handed on.
    pub granted: Option<Box<Granted>>,
}

// === impl Proxy ===

impl Proxy {
    /// Prepares the backends. Connections are made when they are needed.
    ///
    /// # Errors
    ///
    /// When the certificates that an `https` backend is checked against cannot be read.
    pub fn new(backends: Vec<Backend>, timeouts: Timeouts) -> Result<Self, ProxyError> {
        let first = Self::after(None, backends, timeouts)?;
        first.publish();
        Ok(first)
    }

    /// Prepares backends that are to take the place of these. Where one is the same, by its name and its address, it keeps
    /// what is known of its health, and its connections too, unless they would be made in another way.
    ///
    /// # Errors
    ///
    /// See [`new`](Self::new).
    pub fn successor(&self, backends: Vec<Backend>, timeouts: Timeouts) -> Result<Self, ProxyError> {
        Self::after(Some(self), backends, timeouts)
    }

    fn after(
        previous: Option<&Self>,
        backends: Vec<Backend>,
        timeouts: Timeouts,
    ) -> Result<Self, ProxyError> {
        let mut roots = TrustedRoots::default();
        let endpoint = |backend: Backend| {
            let previous = previous.and_then(|previous| previous.endpoint(&backend.name));
            Endpoint::new(backend, &timeouts, &mut roots, previous).map(Arc::new)
        };
        let endpoints = backends.into_iter().map(endpoint).collect::<Result<_, _>>()?;
        // From where it was, or else reloads would send more than its share to the first of them.
        let rotation = previous.map_or_else(Rotation::new, |previous| previous.rotation.resumed());
        Ok(Self { endpoints, timeouts, rotation })
    }

    fn endpoint(&self, name: &str) -> Option<&Endpoint> {
        self.endpoints.iter().find(|endpoint| *endpoint.name == *name).map(|endpoint| &**endpoint)
    }

    /// Has health and metrics tell of these backends, and no more of those of `previous` that are gone.
    pub fn take_over(&self, previous: &Self) {
        for earlier in &previous.endpoints {
            let now = self.endpoint(&earlier.name);
            if now.is_none_or(|now| !Arc::ptr_eq(&now.health, &earlier.health)) {
                earlier.health.retire(now.is_none());
            }
        }
        self.publish();
    }

    /// Says of each backend whether it is checked, and how it stands.
    fn publish(&self) {
        for endpoint in &self.endpoints {
            endpoint.health.check(endpoint.settings.path.is_some());
            endpoint.health.publish();
        }
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
    /// Dropping the future closes the connection it was using. What a backend's own limit was charged is given back if
    /// no backend can have seen the request, and stays charged otherwise.
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
    // Not an `async fn`, which would copy what it is given once more; all that needs no waiting is done before.
    pub fn forward_noting<'a>(
        &'a self,
        outbound: Outbound<'_>,
        reached: &'a Reached,
    ) -> impl Future<Output = Result<Forwarded, ForwardError>> + Send + use<'a> {
        let mut candidates = Candidates::of(&self.endpoints, outbound.model, &self.rotation);
        let mut answer = Answering::new(&self.timeouts, &outbound);
        let Outbound { method, path_and_query: path, authority, mut headers, body, .. } = outbound;
        let Outbound { peer, request_id, is_exempt, .. } = outbound;
        headers::to_backend(&mut headers, Sender { peer, authority, request_id });
        let mut whole = Some(Attempt { method, path, headers, body, reached: reached.clone() });
        async move {
            if candidates.is_empty() {
                return Err(ForwardError::NoHealthyBackend);
            }
            if answer.is_late() {
                return Err(ForwardError::Timeout { backend: None, reached: false });
            }
            let mut refusal = Refusal::default();
            let mut failed = None;
            while let Some(endpoint) = candidates.next() {
                // What was taken goes back whichever way this attempt ends before the backend sees it: by an error, or
                // by a caller that leaves while the connection is being made.
                let asked = if is_exempt { Some(Asked::Free) } else { endpoint.take_now() };
                let asked = match asked {
                    Some(asked) => asked,
                    // On the heap: few requests have to wait for it, and all are made with room for it.
                    None => Box::pin(endpoint.take()).await?,
                };
                let (granted, _taken) = match asked {
                    Asked::Free => (None, None),
                    Asked::Granted(granted) => (Some(granted), Some(Taken::new(endpoint, reached))),
                    Asked::Refused(refused) => {
                        refusal.note(endpoint, *refused);
                        continue;
                    }
                };
                if endpoint.health.standing() == Standing::Due {
                    endpoint.health.trial_begins();
                }
                // Only a request that may be sent again is worth a copy.
                let attempt = if candidates.is_empty() { whole.take() } else { whole.clone() };
                let Some(attempt) = attempt else { break };
                let sending = pin!(endpoint.send(attempt));
                let error = match answer.wait(sending).await {
                    Some(Ok(mut response)) => {
                        let first = if answer.waits_for_body(&response) {
                            reached.note_accepted();
                            answer.first_frame(endpoint, response.body_mut()).await?
                        } else {
                            None
                        };
                        return Ok(answer.pass_on(endpoint, granted, response, first));
                    }
                    Some(Err(source)) => endpoint.unavailable(reached.get(), source),
                    None => endpoint.timed_out(reached.get()),
                };
                if error.reached_backend() || matches!(error, ForwardError::Timeout { .. }) {
                    return Err(error);
                }
                tracing::debug!(backend = %endpoint.name, error = &error as &dyn std::error::Error, "trying the next");
                failed = Some(error);
            }
            // A backend without a connection counts as unhealthy, and the rest being exhausted is what the caller can
            // wait for.
            Err(refusal.into_error().or(failed).unwrap_or(ForwardError::NoHealthyBackend))
        }
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.endpoints.iter().map(|endpoint| &endpoint.name);
        f.debug_struct("Proxy").field("backends", &names.collect::<Vec<_>>()).finish_non_exhaustive()
    }
}
