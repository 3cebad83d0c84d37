//! The service behind admission: an admitted request goes to a backend.

use std::{
    collections::HashMap,
    convert::Infallible,
    future::Future,
    net::IpAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use fairlane_limiter::Balances;
use http::{HeaderValue, Request, Response, uri::PathAndQuery};
use tokio::time::Instant;
use tower::Service;

use crate::{
    admission::{Ask, Classify, Permit},
    answer::{Dialect, Fault, QuotaStatus},
    body::Body,
    detach::detach,
    dimension::Dimension,
    limits::Charges,
    proxy::{ForwardError, Outbound, Proxy},
    request::Reading,
};

/// What has been understood of a request on its way to admission, its body among it. Boxed wherever it goes: it is large,
/// and handed on often.
#[derive(Debug)]
pub(crate) struct Understood {
    /// What it asks of admission; taken when it is asked.
    pub(crate) ask: Option<Box<Ask>>,
    pub(crate) body: Bytes,
    pub(crate) reading: Reading,
    pub(crate) peer: IpAddr,
    pub(crate) arrived: Instant,
    pub(crate) id: HeaderValue,
    pub(crate) dialect: Dialect,
}

/// Reads what admission is asked from what has been understood.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FromUnderstood;

impl Classify<Box<Understood>> for FromUnderstood {
    fn ask(&self, request: &mut Request<Box<Understood>>) -> Ask {
        let arrived = request.body().arrived;
        request.body_mut().ask.take().map_or_else(|| Ask::nothing(arrived), |ask| *ask)
    }

    fn held(&self, request: &mut Request<Box<Understood>>) {
        detach(request);
    }
}

/// Sends admitted requests to backends.
#[derive(Clone, Debug)]
pub(crate) struct Forward(Arc<Backends>);

#[derive(Debug)]
struct Backends {
    proxy: Arc<Proxy>,
    /// By name; where a caller is told of a backend's limit.
    charges: HashMap<Arc<str>, Charges>,
}

impl Forward {
    pub(crate) fn new(proxy: Arc<Proxy>, charges: HashMap<Arc<str>, Charges>) -> Self {
        Self(Arc::new(Backends { proxy, charges }))
    }
}

impl Service<Request<Box<Understood>>> for Forward {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Box<Understood>>) -> Self::Future {
        let backends = Arc::clone(&self.0);
        let permit = request.extensions_mut().remove::<Permit>();
        let dialect = request.body().dialect;
        // Without a permit nobody has been asked; the answer to that is no.
        let Some(permit) = permit else {
            return Box::pin(std::future::ready(Ok(Fault::Internal.answer(dialect))));
        };
        Box::pin(async move {
            Ok(forward(&backends, permit, request).await.unwrap_or_else(|fault| fault.answer(dialect)))
        })
    }
}

async fn forward(
    backends: &Backends,
    permit: Permit,
    request: Request<Box<Understood>>,
) -> Result<Response<Body>, Fault> {
    let (parts, understood) = request.into_parts();
    let uri = parts.uri.into_parts();
    let outbound = Outbound {
        method: parts.method,
        path_and_query: uri.path_and_query.unwrap_or_else(|| PathAndQuery::from_static("/")),
        authority: uri.authority,
        headers: parts.headers,
        body: understood.body,
        model: understood.reading.model.as_deref(),
        stream: understood.reading.stream,
        dialect: understood.dialect,
        arrived: understood.arrived,
        request_id: Some(understood.id),
        peer: Some(understood.peer),
        tokens: 0,
    };
    // The permit learns at once that a backend is reached, also if the caller leaves in the middle.
    match backends.proxy.forward_noting(outbound, permit.reached()).await {
        Ok(forwarded) => {
            if let Some(granted) = &forwarded.granted {
                permit.met(backends.quota(&forwarded.backend, granted.balances()), None);
            }
            Ok(forwarded.response)
        }
        Err(error) => {
            if let ForwardError::AllExhausted { backend, denied, retry_after } = &error {
                permit.met(backends.quota(backend, denied.balances()), Some(*retry_after));
            }
            Err(fault(&error))
        }
    }
}

impl Backends {
    fn quota(&self, backend: &str, balances: &Balances) -> Option<QuotaStatus> {
        self.charges.get(backend)?.tightest(balances)
    }
}

fn fault(error: &ForwardError) -> Fault {
    match error {
        ForwardError::NoHealthyBackend => Fault::NoHealthyBackend,
        ForwardError::AllExhausted { retry_after, .. } => {
            Fault::BackendsExhausted { retry_after: *retry_after }
        }
        ForwardError::Unavailable { .. } => Fault::BackendUnavailable,
        ForwardError::Timeout { .. } => Fault::BackendTimeout,
        ForwardError::ExceedsLimit => Fault::ExceedsLimit { limit_type: Dimension::Backend },
        ForwardError::StoreUnavailable(_) => Fault::StoreUnavailable,
    }
}
