//! The service behind admission: an admitted request goes to a backend.

use std::{
    convert::Infallible,
    future::Future,
    net::IpAddr,
    num::NonZeroU32,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
};

use arc_swap::ArcSwap;
use bytes::Bytes;
use fairlane_fair_queue::Class;
use fairlane_limiter::Balances;
use http::{HeaderValue, Request, Response, header::ACCEPT_ENCODING, uri::PathAndQuery};
use http_body_util::BodyExt as _;
use tokio::time::Instant;
use tower::Service;

use crate::{
    admission::{Ask, Classify, Permit},
    answer::{Dialect, Fault, Quotas},
    body::Body,
    detach::detach,
    dimension::Dimension,
    limits::Charges,
    proxy::{ForwardError, Forwarded, Outbound, Payload, Proxy},
    request::{Api, Reading, StreamUsage},
    usage::{Ended, Ending, Outcome, Watch},
};

/// What has been understood of a request on its way to admission, its body among it. Boxed wherever it goes: it is large,
/// and handed on often.
#[derive(Debug)]
pub(crate) struct Understood {
    /// What it asks of admission; taken when it is asked.
    pub(crate) ask: Option<Box<Ask>>,
    pub(crate) body: Bytes,
    /// The body came in several pieces, and is in memory of its own.
    pub(crate) is_joined: bool,
    pub(crate) reading: Reading,
    pub(crate) api: Api,
    pub(crate) peer: IpAddr,
    pub(crate) arrived: Instant,
    pub(crate) id: HeaderValue,
    pub(crate) dialect: Dialect,
    /// From a client that no limit counts.
    pub(crate) is_exempt: bool,
}

/// Reads what admission is asked from what has been understood.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FromUnderstood;

impl Classify<Box<Understood>> for FromUnderstood {
    fn ask(&self, request: &mut Request<Box<Understood>>) -> Ask {
        *self.boxed_ask(request)
    }

    fn boxed_ask(&self, request: &mut Request<Box<Understood>>) -> Box<Ask> {
        let arrived = request.body().arrived;
        request.body_mut().ask.take().unwrap_or_else(|| Box::new(Ask::nothing(arrived)))
    }

    fn held(&self, request: &mut Request<Box<Understood>>) {
        detach(request);
    }
}

/// Sends admitted requests to backends: those that there are when the request is admitted. Clones send to the same.
#[derive(Clone, Debug)]
pub(crate) struct Forward(Arc<ArcSwap<Backends>>);

/// Where admitted requests go.
#[derive(Debug)]
pub(crate) struct Backends {
    proxy: Arc<Proxy>,
    /// By name, in order; where a caller is told of a backend's limit.
    charges: Box<[(Arc<str>, Charges)]>,
    /// How much output is taken for a token, where a backend does not tell.
    bytes_per_token: NonZeroU32,
}

impl Forward {
    pub(crate) fn new(backends: Backends) -> Self {
        Self(Arc::new(ArcSwap::from_pointee(backends)))
    }

    /// Sends to other backends from here on.
    pub(crate) fn replace(&self, backends: Backends) {
        self.0.store(Arc::new(backends));
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
        let backends = self.0.load_full();
        let permit = request.extensions_mut().remove::<Permit>();
        let dialect = request.body().dialect;
        // Without a permit nobody has been asked; the answer to that is no.
        let Some(permit) = permit else {
            return Box::pin(std::future::ready(Ok(Fault::Internal.answer(dialect))));
        };
        Box::pin(forward(backends, permit, request))
    }
}

/// Not an `async fn`, which would keep the whole request beside what is made of it.
fn forward(
    backends: Arc<Backends>,
    permit: Permit,
    request: Request<Box<Understood>>,
) -> impl Future<Output = Result<Response<Body>, Infallible>> + Send {
    let (http::request::Parts { method, uri, mut headers, .. }, understood) = request.into_parts();
    let Understood { body: bytes, reading, api, peer, arrived, id, dialect, is_exempt, .. } = *understood;
    let uri = uri.into_parts();
    let (mut body, mut hide_usage) = (None, false);
    let tokens = permit.reservation().map(|reservation| reservation.total);
    if tokens.is_some() {
        // What is compressed hides its usage, and official clients ask for compression.
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        if let Some(StreamUsage::Hidden(splice)) = reading.tokens.as_ref().map(|tokens| &tokens.usage) {
            body = Some(Payload::from(splice.apply(&bytes)));
            hide_usage = true;
        }
    }
    let body = body.unwrap_or_else(|| bytes.into());
    async move {
        let outbound = Outbound {
            method,
            path_and_query: uri.path_and_query.unwrap_or_else(|| PathAndQuery::from_static("/")),
            authority: uri.authority,
            headers,
            body,
            model: reading.model.as_deref(),
            stream: reading.stream,
            dialect,
            arrived,
            request_id: Some(id),
            peer: Some(peer),
            is_exempt,
        };
        // The permit learns at once that a backend is reached, also if the caller leaves in the middle.
        let forwarded = {
            let forwarding = pin!(backends.proxy.forward_noting(outbound, permit.reached()));
            forwarding.await
        };
        Ok(match forwarded {
            Ok(Forwarded { response, backend, granted }) => {
                if let Some(granted) = &granted {
                    permit.met(backends.quotas(&backend, granted.balances()), None);
                }
                if tokens.is_none() {
                    return Ok(response);
                }
                let watch = Watch { api, bytes_per_token: backends.bytes_per_token, hide_usage };
                settled_at_its_end(response, watch, permit)
            }
            Err(error) => {
                if let ForwardError::AllExhausted { backend, denied, retry_after } = &error {
                    permit.met(backends.quotas(backend, denied.balances()), Some(*retry_after));
                }
                if permit.reached().is_accepted() {
                    permit.settle(Ending::Abandoned);
                } else if permit.reached().get() {
                    permit.settle(Ending::Unanswered);
                }
                backends.fault(&error, reading.model.as_deref()).answer(dialect)
            }
        })
    }
}

/// Watches an answer for what it used of its caller's budgets.
fn settled_at_its_end(response: Response<Body>, watch: Watch, permit: Permit) -> Response<Body> {
    let (mut head, body) = response.into_parts();
    let status = head.status;
    if !status.is_success() {
        // Nothing that its body says could make it cost something.
        let outcome = Outcome { usage: None, observed_output: 0, ended: Ended::Complete };
        permit.settle(Ending::Answered { status, outcome });
        return Response::from_parts(head, body);
    }
    let settle = move |outcome| permit.settle(Ending::Answered { status, outcome });
    let body = watch.body(&mut head.headers, body, settle);
    Response::from_parts(head, body.boxed_unsync())
}

impl Backends {
    /// `charges`: where a caller is told of a backend's limit, by its name.
    pub(crate) fn new(
        proxy: Arc<Proxy>,
        charges: impl IntoIterator<Item = (Arc<str>, Charges)>,
        bytes_per_token: NonZeroU32,
    ) -> Self {
        let mut charges: Box<[_]> = charges.into_iter().collect();
        charges.sort_by(|(one, _), (other, _)| one.cmp(other));
        Self { proxy, charges, bytes_per_token }
    }

    fn quotas(&self, backend: &str, balances: &Balances) -> Quotas {
        let found = self.charges.binary_search_by(|(name, _)| (**name).cmp(backend));
        let charges = found.ok().and_then(|at| self.charges.get(at));
        charges.map(|(_, charges)| charges.tightest(balances)).unwrap_or_default()
    }

    fn fault(&self, error: &ForwardError, model: Option<&str>) -> Fault {
        match error {
            // It was served when the request came, and it may have been held since.
            ForwardError::NoHealthyBackend if model.is_some_and(|model| !self.proxy.serves(model)) => {
                Fault::ModelNotFound
            }
            error => fault(error),
        }
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
        ForwardError::ExceedsLimit => {
            Fault::ExceedsLimit { limit_type: Dimension::Backend, class: Class::Requests, excess: None }
        }
        ForwardError::StoreUnavailable(_) => Fault::StoreUnavailable,
    }
}
