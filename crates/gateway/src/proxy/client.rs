//! Connections to one backend: made in time, kept, and reported to its health.

use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, Uri};
use http_body::{Body, Frame, SizeHint};
use hyper_rustls::{ConfigBuilderExt, HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::ClientConfig;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tokio::net::TcpStream;
use tower::{Service, ServiceExt};

use super::backend_body::BackendBody;
use super::health::Health;
use super::pool::Pool;
use super::{HttpTarget, Payload, ProxyError, Reached};
use crate::body::BoxError;

/// How one backend is reached.
pub(super) enum BackendClient {
    /// HTTP/1 in plain text: requests drive their connections themselves.
    Plain(Arc<Pool>),
    /// HTTPS, which may turn out to be HTTP/2, whose connections are shared and so need tasks of their own.
    Negotiated(Box<Client<Connector, OutboundBody>>),
}

/// Idle HTTPS connections kept per backend.
const MAX_IDLE: usize = 1024;
/// How long an idle connection is kept. A server that closes one just when a request is written to it turns that
/// request into a 502, so this stays below what common servers allow: inference servers close after 5 s by
/// default, load balancers in front of public APIs after a minute.
const IDLE_PLAIN: Duration = Duration::from_secs(4);
const IDLE_TLS: Duration = Duration::from_secs(50);
/// A silent HTTP/2 connection is asked for a sign of life after this, and given up after as long again.
const HTTP2_KEEP_ALIVE: Duration = Duration::from_secs(15);

// === impl BackendClient ===

impl BackendClient {
    /// A client that makes each connection within `connect`.
    pub(super) fn new(
        target: &HttpTarget,
        tls: ClientConfig,
        connect: Duration,
        health: Arc<Health>,
    ) -> Self {
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        http.set_nodelay(true);
        let https = HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_all_versions()
            .wrap_connector(http);
        let connector = Connector(Arc::new(Connecting { https, connect, health }));
        if !target.is_https() {
            return Self::Plain(Pool::new(connector, target.root(), IDLE_PLAIN));
        }
        let client = Client::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TLS)
            .pool_max_idle_per_host(MAX_IDLE)
            .http2_keep_alive_interval(HTTP2_KEEP_ALIVE)
            .http2_keep_alive_timeout(HTTP2_KEEP_ALIVE)
            .http2_adaptive_window(true)
            .build(connector);
        Self::Negotiated(Box::new(client))
    }

    /// Sends a request, whose address has scheme and host only where [`HttpTarget::uri`] gives them.
    pub(super) async fn send(
        &self,
        request: Box<Request<OutboundBody>>,
    ) -> Result<Response<BackendBody>, BoxError> {
        match self {
            Self::Plain(pool) => Ok(pool.send(request).await?.map(BackendBody::Plain)),
            Self::Negotiated(client) => Ok(client.request(*request).await?.map(BackendBody::Negotiated)),
        }
    }

    /// Closes connections that have been idle for too long.
    pub(super) fn sweep(&self) {
        // The other has a timer of its own.
        if let Self::Plain(pool) = self {
            pool.sweep();
        }
    }
}

/// What an `https` backend's certificate is checked against.
#[derive(Default)]
pub(super) struct TrustedRoots {
    /// Reading the system's roots costs milliseconds, so it is done once and only if somebody needs them.
    system: Option<ClientConfig>,
}

impl TrustedRoots {
    /// The settings for one backend, `certificates` being the file of its own and what is in it.
    ///
    /// # Errors
    ///
    /// When its certificates, or the system's, cannot be read.
    pub(super) fn config(
        &mut self,
        https: bool,
        certificates: Option<(&Path, &[u8])>,
    ) -> Result<ClientConfig, ProxyError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| ProxyError::Tls(error.into()))?;
        if !https {
            // Never used for a handshake; trusting nobody is the safe value.
            return Ok(builder.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth());
        }
        if let Some((path, pem)) = certificates {
            let roots = read_roots(pem)
                .map_err(|source| ProxyError::Certificates { path: path.to_owned(), source })?;
            return Ok(builder.with_root_certificates(roots).with_no_client_auth());
        }
        if let Some(config) = &self.system {
            return Ok(config.clone());
        }
        let config =
            builder.with_native_roots().map_err(|error| ProxyError::Tls(error.into()))?.with_no_client_auth();
        self.system = Some(config.clone());
        Ok(config)
    }
}

fn read_roots(pem: &[u8]) -> Result<rustls::RootCertStore, BoxError> {
    let mut roots = rustls::RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        roots.add(certificate?)?;
    }
    if roots.is_empty() {
        return Err("no certificate in it".into());
    }
    Ok(roots)
}

/// Makes connections within a time that covers name resolution, TCP and TLS together, and tells the backend's
/// health how each attempt went.
///
/// The client copies its connector for every request, connection or not, so a copy is one count.
#[derive(Clone)]
pub(super) struct Connector(Arc<Connecting>);

struct Connecting {
    https: HttpsConnector<HttpConnector>,
    connect: Duration,
    health: Arc<Health>,
}

/// A connection before anything is said on it.
pub(super) type Transport = MaybeHttpsStream<TokioIo<TcpStream>>;

impl Service<Uri> for Connector {
    type Response = Transport;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Transport, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        // Made ready within the future, under its time.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let Self(this) = self.clone();
        Box::pin(async move {
            let connecting = this.https.clone().oneshot(uri);
            let connected = match tokio::time::timeout(this.connect, connecting).await {
                Ok(connected) => connected,
                Err(_) => Err("no connection within the connect timeout".into()),
            };
            match &connected {
                Ok(_) => this.health.connected(),
                Err(_) => this.health.connection_failed(),
            }
            connected
        })
    }
}

/// A request's body, which knows whether a connection has begun to take the request.
pub(super) struct OutboundBody {
    payload: Payload,
    reached: Reached,
}

impl OutboundBody {
    pub(super) fn new(payload: Payload, reached: Reached) -> Self {
        Self { payload, reached }
    }
}

impl Body for OutboundBody {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.reached.note();
        Poll::Ready(self.payload.next_piece().map(|piece| Ok(Frame::data(piece))))
    }

    /// Asked by a connection, HTTP/1 or 2, when it writes the head, and by nobody before.
    fn is_end_stream(&self) -> bool {
        self.reached.note();
        self.payload.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.payload.len() as u64)
    }
}
