//! One backend while the gateway runs: its connections, its health, its counters.

use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use fairlane_identity::ModelRules;
use fairlane_limiter::Decision;
use http::header::HOST;
use http::uri::PathAndQuery;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::body::Incoming;

use super::client::{BackendClient, OutboundBody, TrustedRoots, backend_client};
use super::health::Health;
use super::telemetry::BackendMetrics;
use super::{
    Backend, BackendQuota, Credential, ForwardError, HealthSettings, HttpTarget, ProxyError, Reached, Target,
    Timeouts,
};
use crate::body::{Body, BoxError};
use crate::echo::{self, EchoSettings};

pub(super) struct Endpoint {
    pub(super) name: Arc<str>,
    pub(super) weight: u32,
    pub(super) settings: HealthSettings,
    quota: Option<Arc<dyn BackendQuota>>,
    pub(super) health: Arc<Health>,
    pub(super) metrics: BackendMetrics,
    models: ModelRules,
    credential: Option<Credential>,
    server: Server,
}

enum Server {
    Http { target: HttpTarget, client: Box<BackendClient> },
    Echo(EchoSettings),
}

/// What one attempt sends.
pub(super) struct Attempt {
    pub(super) method: Method,
    pub(super) path: PathAndQuery,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    pub(super) reached: Reached,
}

/// A body from either kind of backend.
pub(super) enum BackendBody {
    Http(Incoming),
    Echo(Body),
}

// === impl Endpoint ===

impl Endpoint {
    pub(super) fn new(
        backend: Backend,
        timeouts: &Timeouts,
        roots: &mut TrustedRoots,
    ) -> Result<Self, ProxyError> {
        let Backend { name, target, credential, ca_file, weight, models, health: settings, quota } = backend;
        let health = Arc::new(Health::new(Arc::clone(&name)));
        let server = match target {
            Target::Http(target) => {
                let tls = roots.config(target.is_https(), ca_file.as_deref().map(Path::new))?;
                let client = Box::new(backend_client(&target, tls, timeouts.connect, Arc::clone(&health)));
                Server::Http { target, client }
            }
            Target::Echo(settings) => Server::Echo(settings),
        };
        let metrics = BackendMetrics::new(Arc::clone(&name));
        Ok(Self { name, weight: weight.max(1), settings, quota, health, metrics, models, credential, server })
    }

    pub(super) fn serves(&self, model: &str) -> bool {
        self.models.matches(model)
    }

    /// Sends a request once. Dropping the future, or the body it answers with, closes the connection it used.
    pub(super) async fn send(&self, attempt: Attempt) -> Result<Response<BackendBody>, BoxError> {
        let (target, client) = match &self.server {
            Server::Http { target, client } => (target, client),
            Server::Echo(settings) => {
                attempt.reached.note();
                let answer =
                    echo::handle(settings, &attempt.method, attempt.path.path(), &attempt.body).await;
                return Ok(answer.map(BackendBody::Echo));
            }
        };
        let uri = target.uri(&attempt.path)?;
        let mut request = Request::new(OutboundBody::new(attempt.body, attempt.reached));
        *request.method_mut() = attempt.method;
        *request.uri_mut() = uri;
        *request.headers_mut() = attempt.headers;
        self.sign(target, request.headers_mut());
        match client.request(request).await {
            Ok(response) if response.status() == StatusCode::SWITCHING_PROTOCOLS => {
                Err("the backend switched protocols unasked".into())
            }
            Ok(response) => Ok(response.map(BackendBody::Http)),
            Err(error) => Err(error.into()),
        }
    }

    /// Charges the backend's own limit, if it has one; `None` if nothing was charged.
    pub(super) async fn take(&self, tokens: u64) -> Result<Option<Decision>, ForwardError> {
        match &self.quota {
            Some(quota) => quota.take(tokens).await.map_err(ForwardError::StoreUnavailable),
            None => Ok(None),
        }
    }

    /// Undoes a charge that was granted.
    pub(super) fn give_back(&self, tokens: u64) {
        if let Some(quota) = &self.quota {
            quota.give_back(tokens);
        }
    }

    /// Counts an attempt that brought no answer.
    pub(super) fn unavailable(&self, reached: bool, source: BoxError) -> ForwardError {
        self.metrics.unavailable();
        ForwardError::Unavailable { backend: Arc::clone(&self.name), reached, source }
    }

    /// Counts an attempt that brought no answer in time.
    pub(super) fn timed_out(&self, reached: bool) -> ForwardError {
        self.metrics.timed_out();
        ForwardError::Timeout { backend: Some(Arc::clone(&self.name)), reached }
    }

    /// Whether the backend answers its health check well.
    pub(super) async fn check(&self) -> bool {
        let Server::Http { target, client } = &self.server else { return true };
        let Some(uri) = self.settings.path.as_ref().and_then(|path| target.uri(path).ok()) else {
            return true;
        };
        let mut request = Request::new(OutboundBody::new(Bytes::new(), Reached::default()));
        *request.uri_mut() = uri;
        self.sign(target, request.headers_mut());
        client.request(request).await.is_ok_and(|response| response.status().is_success())
    }

    fn sign(&self, target: &HttpTarget, headers: &mut HeaderMap) {
        // HTTPS may turn out to be HTTP/2, which has the authority in its place.
        if !target.is_https() {
            headers.insert(HOST, target.host.clone());
        }
        if let Some(credential) = &self.credential {
            headers.insert(credential.name.clone(), credential.value.clone());
        }
    }
}

// === impl BackendBody ===

impl HttpBody for BackendBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match self.get_mut() {
            Self::Http(body) => Pin::new(body).poll_frame(cx).map_err(Into::into),
            Self::Echo(body) => Pin::new(body).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Http(body) => body.is_end_stream(),
            Self::Echo(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Http(body) => body.size_hint(),
            Self::Echo(body) => body.size_hint(),
        }
    }
}
