//! What a request meets, in order, and why in this order.
//!
//! | step | why here |
//! |---|---|
//! | name it | everything after may log it or answer it |
//! | vet its framing | what two parsers may read differently must not be charged, let alone forwarded |
//! | limits on the wire | they protect all that follows, so nothing costly comes before them |
//! | its path and method | what is nowhere needs no key, and reaches nobody |
//! | who it is | only a known caller may make us read a body |
//! | read the body, whole | a held request must have none left to read, or its caller's leaving would not be seen |
//! | may it, can it | asked before anything is charged |
//! | admission | one decision over all charges of its identity |
//! | a backend | |
//!
//! Each step hands on a type that the next one needs, so that none can be left out.

use std::{
    convert::Infallible,
    future::Future,
    net::IpAddr,
    pin::Pin,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use bytes::Bytes;
use fairlane_identity::{Credential, Identity, client_address};
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::time::Instant;
use tower::{Layer as _, Service as _};

use crate::{
    admission::{AdmissionLayer, AdmissionService, Ask, Passed, Refused},
    answer::{Dialect, Fault, QuotaStatus},
    assemble::Parts,
    body::{Body, full},
    edge::{self, BodyError, Connection},
    finish::Finished,
    forward::{Forward, Understood},
    limits::Charges,
    models,
    request::{self, Kind, Lookup, Reading, Route},
    trace,
};

/// A caller that has gone reads no answer; this status, nginx's, says so in metrics.
const CALLER_GONE: u16 = 499;

type Classify = fn(&mut Request<Bytes>) -> Ask;

/// The data plane's service.
#[derive(Clone, Debug)]
pub struct Stack(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    parts: Parts,
    admission: AdmissionService<Forward, Classify>,
}

impl Stack {
    /// Stacks the parts.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        let layer = AdmissionLayer::new(Arc::clone(&parts.admission), classify as Classify);
        let admission = layer.layer(Forward::new(Arc::clone(&parts.proxy), parts.backend_charges.clone()));
        Self(Arc::new(Shared { parts, admission }))
    }

    /// The parts it is made of.
    #[must_use]
    pub fn parts(&self) -> &Parts {
        &self.0.parts
    }
}

impl hyper::service::Service<Request<Incoming>> for Stack {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let shared = Arc::clone(&self.0);
        Box::pin(async move { Ok(shared.handle(request).await) })
    }
}

/// What admission asks of a request is put together by the steps before it.
fn classify(request: &mut Request<Bytes>) -> Ask {
    request.extensions_mut().remove::<Ask>().unwrap_or_else(|| Ask::nothing(Instant::now()))
}

/// Who asks, as far as a key tells.
struct Caller {
    identity: Option<Arc<Identity>>,
}

/// A refusal on the way to admission, with what the limits on the wire said.
struct Early {
    fault: Fault,
    quota: Option<QuotaStatus>,
}

impl Early {
    fn of(quota: Option<QuotaStatus>) -> impl Fn(Fault) -> Self {
        move |fault| Self { fault, quota }
    }
}

impl Shared {
    async fn handle(self: Arc<Self>, mut request: Request<Incoming>) -> Response<Body> {
        let arrived = Instant::now();
        let id = trace::name_request(request.headers_mut());
        let method = request.method().clone();
        let (route, dialect) = match self.parts.routes.look_up(request.uri().path(), &method) {
            Lookup::Found(index, route) | Lookup::OtherMethod(index, route) => (index, route.dialect),
            Lookup::Nothing => (self.parts.telemetry.unknown_route(), Dialect::default()),
        };
        let connection = request.extensions().get::<Connection>().cloned();
        let answering = self.answer(request, &id, arrived, dialect);
        let mut response = match connection {
            // A caller that leaves is noticed in every phase, also where hyper does not look.
            Some(connection) => tokio::select! {
                biased;
                response = answering => response,
                () = connection.caller_gone() => gone(),
            },
            None => answering.await,
        };
        trace::name_answer(response.headers_mut(), id);
        let telemetry = &self.parts.telemetry;
        telemetry.answered(route, &method, response.status(), arrived.elapsed());
        tracing::debug!(%method, route, status = response.status().as_u16(), "answered");
        let telemetry = Arc::clone(telemetry);
        response.map(|body| Finished::new(body, telemetry, route, arrived).boxed_unsync())
    }

    async fn answer(
        &self,
        request: Request<Incoming>,
        id: &HeaderValue,
        arrived: Instant,
        dialect: Dialect,
    ) -> Response<Body> {
        match self.steps(request, id, arrived).await {
            Ok(response) => response,
            Err(Early { fault, quota }) => Refused { fault, quota }.answer(dialect),
        }
    }

    async fn steps(
        &self,
        request: Request<Incoming>,
        id: &HeaderValue,
        arrived: Instant,
    ) -> Result<Response<Body>, Early> {
        let parts = &self.parts;
        edge::vet(&request).map_err(|malformed| Early::of(None)(Fault::invalid(malformed.to_string())))?;
        let passed = parts.edge.pass(self.client(&request)).await?;
        let refused = Early::of(passed.quota);

        let route = match parts.routes.look_up(request.uri().path(), request.method()) {
            Lookup::Found(_, route) => route,
            Lookup::OtherMethod(_, route) => {
                return Err(refused(Fault::MethodNotAllowed { allow: route.method.clone() }));
            }
            Lookup::Nothing => return Err(refused(Fault::NotFound)),
        };
        let caller = self.identify(&request).map_err(&refused)?;
        if route.kind == Kind::Models {
            return Ok(self.list_models(&caller, passed.quota));
        }
        let (request, reading) = self.read(request, route, arrived).await.map_err(&refused)?;
        self.may_use(&caller, reading.model.as_deref()).map_err(&refused)?;

        let ask = self.ask(&caller, passed, &reading, request.body(), arrived, route.dialect);
        Ok(self.admit(request, ask, reading, passed.client, id, arrived, route.dialect).await)
    }

    /// The address that counts as the caller's.
    fn client<B>(&self, request: &Request<B>) -> IpAddr {
        let peer = request.extensions().get::<Connection>().map_or(
            // Only a request made inside the process has no connection.
            IpAddr::from([127, 0, 0, 1]),
            |connection| connection.peer.ip(),
        );
        client_address(peer, request.headers(), &self.parts.trusted_proxies)
    }

    /// A key that is there must be good; none at all is a matter of the mode.
    fn identify<B>(&self, request: &Request<B>) -> Result<Caller, Fault> {
        let credential = Credential::from_headers(request.headers()).map_err(|_| Fault::InvalidApiKey)?;
        match credential {
            Some(credential) => {
                let identity = self.parts.directory.authenticate(&credential, unix_now());
                let identity = identity.map_err(|_| Fault::InvalidApiKey)?;
                Ok(Caller { identity: Some(Arc::clone(identity)) })
            }
            None if self.parts.permissive => Ok(Caller { identity: None }),
            None => Err(Fault::InvalidApiKey),
        }
    }

    async fn read(
        &self,
        request: Request<Incoming>,
        route: &Route,
        arrived: Instant,
    ) -> Result<(Request<Bytes>, Reading), Fault> {
        request::refuse_encoded(request.headers())?;
        let bounds = self.parts.body;
        let (parts, body) = request.into_parts();
        // A drip that always makes progress must still come to an end.
        let body = edge::read_body(body, bounds.max_bytes, bounds.progress);
        let body = tokio::time::timeout_at(arrived + bounds.total, body).await;
        let body = body.map_err(|_| Fault::BodyStalled)?.map_err(unread)?;
        let reading = request::read(route.kind, &parts.headers, &body).await?;
        Ok((Request::from_parts(parts, body), reading))
    }

    /// Whether the key may use the model, and somebody serves it.
    fn may_use(&self, caller: &Caller, model: Option<&str>) -> Result<(), Fault> {
        // A request that names no model may mean any: only a key for every model may send it.
        let allowed = |identity: &Arc<Identity>| identity.allows_model(model.unwrap_or_default());
        if !caller.identity.as_ref().is_none_or(allowed) {
            return Err(Fault::ModelNotAllowed);
        }
        if !model.is_none_or(|model| self.parts.proxy.serves(model)) {
            return Err(Fault::ModelNotFound);
        }
        Ok(())
    }

    fn ask(
        &self,
        caller: &Caller,
        passed: Passed,
        reading: &Reading,
        body: &Bytes,
        arrived: Instant,
        dialect: Dialect,
    ) -> Ask {
        let limits = &self.parts.limits;
        let plan = caller.identity.as_ref().and_then(|identity| limits.plan(identity));
        let mut charges = Charges::default();
        let bypass = passed.bypass || plan.is_some_and(|plan| plan.bypass);
        if !bypass {
            if let Some(plan) = plan {
                charges.extend(&plan.charges);
            }
            if let Some(model) = limits.models.charges(reading.model.as_deref()) {
                charges.extend(model);
            }
        }
        Ask {
            charges,
            tenant: plan.map(|plan| plan.tenant),
            arrived,
            body_bytes: body.len() as u64,
            edge: passed.quota,
            dialect,
        }
    }

    #[expect(clippy::too_many_arguments, reason = "everything that has been learnt on the way")]
    async fn admit(
        &self,
        mut request: Request<Bytes>,
        ask: Ask,
        reading: Reading,
        client: IpAddr,
        id: &HeaderValue,
        arrived: Instant,
        dialect: Dialect,
    ) -> Response<Body> {
        let understood = Understood { reading, client, arrived, id: id.clone(), dialect };
        request.extensions_mut().insert(understood);
        request.extensions_mut().insert(ask);
        let answered = self.admission.clone().call(request).await;
        let response = answered.unwrap_or_else(|never| match never {});
        response.map(|body| body.boxed_unsync())
    }

    fn list_models(&self, caller: &Caller, quota: Option<QuotaStatus>) -> Response<Body> {
        let mut response = models::list(&self.parts.models, |model| {
            caller.identity.as_ref().is_none_or(|identity| identity.allows_model(model))
        });
        if let Some(quota) = quota {
            quota.write(response.headers_mut(), None);
        }
        response
    }
}

impl From<Refused> for Early {
    fn from(Refused { fault, quota }: Refused) -> Self {
        Self { fault, quota }
    }
}

fn unread(error: BodyError) -> Fault {
    match error {
        BodyError::TooLarge { max_bytes } => Fault::TooLarge { max_bytes: max_bytes as u64 },
        BodyError::Stalled(_) => Fault::BodyStalled,
        _ => Fault::invalid("The request's body could not be read.".to_owned()),
    }
}

fn gone() -> Response<Body> {
    let mut response = Response::new(full(Bytes::new()));
    *response.status_mut() = StatusCode::from_u16(CALLER_GONE).unwrap_or(StatusCode::BAD_REQUEST);
    response
}

#[expect(clippy::disallowed_methods, reason = "keys expire by the calendar, which only the wall clock knows")]
fn unix_now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}
