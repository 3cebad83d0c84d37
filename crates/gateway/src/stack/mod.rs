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

mod ask;
mod begun;
mod caller;

use std::{convert::Infallible, future::Future, net::IpAddr, pin::Pin, sync::Arc};

use arc_swap::ArcSwap;
use fairlane_identity::{Identity, client_address};
use http::{HeaderValue, Method, Request, Response, Version};
use http_body::Body as _;
use hyper::body::Incoming;
use tokio::time::Instant;
use tower::Layer as _;

use self::begun::Begun;
use crate::{
    admission::{AdmissionLayer, AdmissionService, Passed, Passing, Refused},
    answer::{Dialect, Fault, QuotaStatus},
    assemble::Parts,
    body::Body,
    edge::{self, BodyError, Connection, Pace, Whole},
    forward::{Backends, Forward, FromUnderstood, Understood},
    request::{self, Api, Kind, Reading},
    trace,
};

/// The data plane's service. Clones are the same one.
///
/// A request meets the parts that were there when it came, to its end. Only where it goes once it is admitted is decided by
/// the parts of that moment: whoever was held must not be sent to a backend that is gone.
#[derive(Clone, Debug)]
pub struct Stack {
    current: Arc<ArcSwap<Shared>>,
    forward: Forward,
}

#[derive(Debug)]
struct Shared {
    parts: Arc<Parts>,
    admission: AdmissionService<Forward, FromUnderstood>,
}

impl Stack {
    /// Stacks the parts, and puts them in force.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        let forward = Forward::new(backends(&parts));
        parts.commit();
        let current = Arc::new(ArcSwap::from_pointee(Shared::new(parts, forward.clone())));
        Self { current, forward }
    }

    /// The parts it is made of now.
    #[must_use]
    pub fn parts(&self) -> Arc<Parts> {
        Arc::clone(&self.current.load().parts)
    }

    /// Puts other parts in force in their place.
    pub fn replace(&self, parts: Parts) {
        parts.proxy.take_over(&self.current.load().parts.proxy);
        // First: whom the limits set free is to find the backends that there are with them.
        self.forward.replace(backends(&parts));
        parts.commit();
        self.current.store(Arc::new(Shared::new(parts, self.forward.clone())));
    }
}

fn backends(parts: &Parts) -> Backends {
    Backends::new(
        Arc::clone(&parts.proxy),
        parts.backend_charges.clone(),
        parts.tokens.settings.bytes_per_token,
    )
}

impl hyper::service::Service<Request<Incoming>> for Stack {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        let shared = self.current.load_full();
        let exchange = shared.begin(&mut request);
        let begun = Begun::new(shared, exchange);
        // All steps that need no waiting come before the future is made, which keeps it small: there is one for every
        // held request.
        let passed = match begun.shared().meet(&request, begun.exchange()) {
            Ok(Passing::Decided(passed)) => passed,
            Ok(Passing::Asking(asking)) => return Box::pin(begun.enter_later(asking, request)),
            Err(refused) => Err(refused),
        };
        match passed.and_then(|passed| begun.shared().enter(&request, begun.exchange(), passed)) {
            Ok(entered) => {
                let (head, body) = request.into_parts();
                Box::pin(begun.proceed(head, body, entered))
            }
            Err(refused) => Box::pin(std::future::ready(Ok(begun.refuse(&refused)))),
        }
    }
}

/// What is known of a request from its first moment.
struct Exchange {
    arrived: Instant,
    id: HeaderValue,
    method: Method,
    /// Its path's index in metrics.
    route: usize,
    dialect: Dialect,
    /// The other end of its connection, which may be a proxy.
    peer: IpAddr,
}

/// A request that has passed everything that needs no body.
struct Entered {
    passed: Passed,
    kind: Kind,
    api: Api,
    identity: Option<Arc<Identity>>,
}

/// A refusal on the way to admission, with what the limits on the wire said.
fn early(quota: Option<QuotaStatus>) -> impl Fn(Fault) -> Box<Refused> {
    move |fault| Box::new(Refused { fault, quotas: quota.into() })
}

impl Shared {
    fn new(parts: Parts, forward: Forward) -> Self {
        let layer = AdmissionLayer::new(Arc::clone(&parts.admission), FromUnderstood);
        Self { parts: Arc::new(parts), admission: layer.layer(forward) }
    }

    fn begin(&self, request: &mut Request<Incoming>) -> Exchange {
        let arrived = Instant::now();
        let id = trace::name_request(request.headers_mut());
        let method = request.method().clone();
        let at = self.parts.routes.find(request.uri().path());
        let dialect = at.map_or_else(|| Dialect::of(request.uri().path()), |(_, route)| route.dialect);
        let route = at.map_or_else(|| self.parts.telemetry.unknown_route(), |(index, _)| index);
        // Only a request made inside the process has no connection.
        let inside = IpAddr::from([127, 0, 0, 1]);
        let peer = request.extensions().get::<Connection>().map_or(inside, |connection| connection.peer.ip());
        Exchange { arrived, id, method, route, dialect, peer }
    }

    /// Framing, and the limits on the wire.
    fn meet(&self, request: &Request<Incoming>, exchange: &Exchange) -> Result<Passing, Box<Refused>> {
        edge::vet(request).map_err(|malformed| early(None)(Fault::invalid(malformed.to_string())))?;
        let client = client_address(exchange.peer, request.headers(), &self.parts.trusted_proxies);
        Ok(self.parts.edge.pass(client))
    }

    /// Everything else that needs no body.
    fn enter(
        &self,
        request: &Request<Incoming>,
        exchange: &Exchange,
        passed: Passed,
    ) -> Result<Entered, Box<Refused>> {
        let parts = &self.parts;
        let refused = early(passed.quota);
        let Some(route) = parts.routes.all().get(exchange.route) else {
            return Err(refused(Fault::NotFound));
        };
        if route.method != exchange.method {
            return Err(refused(Fault::MethodNotAllowed { allow: route.method.clone() }));
        }
        let identity = self.identify(request).map_err(&refused)?;
        if route.kind != Kind::Models {
            request::refuse_encoded(request.headers()).map_err(&refused)?;
        }
        Ok(Entered { passed, kind: route.kind, api: route.api, identity })
    }

    async fn read(
        &self,
        head: &http::request::Parts,
        mut body: Incoming,
        exchange: &Exchange,
        entered: &Entered,
    ) -> Result<(Whole, Reading), Unread> {
        let bounds = self.parts.body;
        // A drip that always makes progress must still come to an end.
        let pace = Pace { progress: bounds.progress, until: Some(exchange.arrived + bounds.total) };
        let read = edge::read_body(&mut body, bounds.max_bytes, pace, &self.parts.room).await;
        // A stream that breaks has been reset, most often by its caller, and takes no answer. A reset without an error even
        // looks like the end of the body, which then is not whole.
        let is_reset = head.version == Version::HTTP_2
            && (matches!(read, Err(BodyError::Broken(_))) || read.is_ok() && !body.is_end_stream());
        drop(body);
        if is_reset {
            return Err(Unread::CallerGone);
        }
        let body = read?;
        if let Some(connection) = head.extensions.get::<Connection>() {
            connection.body_was_read();
        }
        let reading = request::read(entered.kind, &head.headers, &body.bytes, self.counting(entered)).await?;
        Ok((body, reading))
    }

    /// What is asked of admission and of a backend, if the key may ask it and somebody serves it.
    fn understand(
        &self,
        body: Whole,
        reading: Reading,
        exchange: &Exchange,
        entered: Entered,
    ) -> Result<Box<Understood>, Box<Refused>> {
        let Entered { passed, identity, api, .. } = entered;
        self.may_use(identity.as_deref(), reading.model.as_deref()).map_err(early(passed.quota))?;
        Ok(Box::new(Understood {
            ask: Some(Box::new(self.ask(identity.as_deref(), passed, &reading, &body.bytes, exchange))),
            body: body.bytes,
            is_joined: body.is_joined,
            reading,
            api,
            peer: exchange.peer,
            arrived: exchange.arrived,
            id: exchange.id.clone(),
            dialect: exchange.dialect,
            is_exempt: passed.bypass,
        }))
    }
}

/// Why there is nothing to understand.
enum Unread {
    Refused(Fault),
    CallerGone,
}

impl From<Fault> for Unread {
    fn from(fault: Fault) -> Self {
        Self::Refused(fault)
    }
}

impl From<BodyError> for Unread {
    fn from(error: BodyError) -> Self {
        Self::Refused(match error {
            BodyError::TooLarge { max_bytes } => Fault::TooLarge { max_bytes: max_bytes as u64 },
            BodyError::Stalled(_) => Fault::BodyStalled,
            BodyError::NoRoom => Fault::Overloaded,
            _ => Fault::invalid("The request's body could not be read.".to_owned()),
        })
    }
}
