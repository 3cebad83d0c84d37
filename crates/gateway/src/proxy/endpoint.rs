//! One backend while the gateway runs: its connections, its health, its counters.

use std::pin::Pin;
use std::sync::Arc;

use fairlane_identity::ModelRules;
use fairlane_limiter::{Decision, Granted};
use http::header::HOST;
use http::uri::PathAndQuery;
use http::{HeaderMap, Method, Request, Response, StatusCode};

use super::backend_body::BackendBody;
use super::client::{BackendClient, OutboundBody, TrustedRoots};
use super::health::Health;
use super::server::Server;
use super::telemetry::BackendMetrics;
use super::{
    Backend, BackendQuota, Credential, ForwardError, HealthSettings, HttpTarget, Payload, ProxyError,
    Reached, Timeouts,
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
    server: Arc<Server>,
}

/// What one attempt sends.
#[derive(Clone)]
pub(super) struct Attempt {
    pub(super) method: Method,
    pub(super) path: PathAndQuery,
    pub(super) headers: HeaderMap,
    pub(super) body: Payload,
    pub(super) reached: Reached,
}

/// What a backend's own limit says. Decisions are large, and so are boxed where they go on.
pub(super) enum Asked {
    /// Nothing was charged.
    Free,
    Granted(Box<Granted>),
    Refused(Box<Decision>),
}

impl From<Option<Decision>> for Asked {
    fn from(decision: Option<Decision>) -> Self {
        match decision {
            None => Self::Free,
            Some(Decision::Granted(granted)) => Self::Granted(Box::new(granted)),
            Some(refused) => Self::Refused(Box::new(refused)),
        }
    }
}

/// An attempt that is ready to go.
enum Outgoing<'a> {
    Http(&'a BackendClient, Box<Request<OutboundBody>>),
    Echo(Pin<Box<dyn Future<Output = Response<Body>> + Send + 'a>>),
}

async fn echoed(settings: &EchoSettings, attempt: Attempt) -> Response<Body> {
    attempt.reached.note();
    echo::handle(settings, &attempt.method, attempt.path.path(), &attempt.body.whole()).await
}

// === impl Endpoint ===

impl Endpoint {
    /// Sets a backend up; what is known of it, and its connections, are those of `previous` where it is the same.
    pub(super) fn new(
        backend: Backend,
        timeouts: &Timeouts,
        roots: &mut TrustedRoots,
        previous: Option<&Self>,
    ) -> Result<Self, ProxyError> {
        let Backend { name, target, credential, ca_file, weight, models, health: settings, quota } = backend;
        let same = previous.filter(|previous| previous.server.is_at(&target));
        let health = same.map_or_else(
            || Arc::new(Health::new(Arc::clone(&name))),
            |previous| Arc::clone(&previous.health),
        );
        let kept = same.map(|previous| &previous.server);
        let server = Server::at(target, timeouts.connect, ca_file.as_deref(), roots, &health, kept)?;
        let metrics = BackendMetrics::new(Arc::clone(&name));
        Ok(Self { name, weight: weight.max(1), settings, quota, health, metrics, models, credential, server })
    }

    pub(super) fn serves(&self, model: &str) -> bool {
        self.models.matches(model)
    }

    /// Sends a request once. Dropping the future, or the body it answers with, closes the connection it used.
    ///
    /// What needs no waiting is done before the future is made, which so has little to carry.
    pub(super) fn send(
        &self,
        attempt: Attempt,
    ) -> impl Future<Output = Result<Response<BackendBody>, BoxError>> + Send {
        let outgoing = self.outgoing(attempt);
        async move {
            let (client, request) = match outgoing? {
                Outgoing::Http(client, request) => (client, request),
                Outgoing::Echo(answering) => return Ok(answering.await.map(BackendBody::Echo)),
            };
            let response = client.send(request).await?;
            if response.status() == StatusCode::SWITCHING_PROTOCOLS {
                return Err("the backend switched protocols unasked".into());
            }
            Ok(response)
        }
    }

    fn outgoing(&self, attempt: Attempt) -> Result<Outgoing<'_>, BoxError> {
        let (target, client) = match &*self.server {
            Server::Http(remote) => (remote.target(), &remote.client),
            Server::Echo(settings) => return Ok(Outgoing::Echo(Box::pin(echoed(settings, attempt)))),
        };
        let uri = target.uri(&attempt.path)?;
        let mut request = Box::new(Request::new(OutboundBody::new(attempt.body, attempt.reached)));
        *request.method_mut() = attempt.method;
        *request.uri_mut() = uri;
        *request.headers_mut() = attempt.headers;
        self.sign(target, request.headers_mut());
        Ok(Outgoing::Http(client, request))
    }

    /// Charges the backend's own limit, if it has one. `None` if that has to be waited for.
    pub(super) fn take_now(&self) -> Option<Asked> {
        match &self.quota {
            Some(quota) => quota.take_now().map(|decision| Asked::from(Some(decision))),
            None => Some(Asked::Free),
        }
    }

    /// The same where it has to be waited for.
    pub(super) async fn take(&self) -> Result<Asked, ForwardError> {
        let Some(quota) = &self.quota else { return Ok(Asked::Free) };
        quota.take().await.map(Asked::from).map_err(ForwardError::StoreUnavailable)
    }

    /// Undoes a charge that was granted.
    pub(super) fn give_back(&self) {
        if let Some(quota) = &self.quota {
            quota.give_back();
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
        let Server::Http(remote) = &*self.server else { return true };
        let target = remote.target();
        let Some(uri) = self.settings.path.as_ref().and_then(|path| target.uri(path).ok()) else {
            return true;
        };
        let mut request = Box::new(Request::new(OutboundBody::new(Payload::default(), Reached::default())));
        *request.uri_mut() = uri;
        self.sign(target, request.headers_mut());
        remote.client.send(request).await.is_ok_and(|response| response.status().is_success())
    }

    /// Closes connections that have been idle for too long.
    pub(super) fn sweep(&self) {
        if let Server::Http(remote) = &*self.server {
            remote.client.sweep();
        }
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
