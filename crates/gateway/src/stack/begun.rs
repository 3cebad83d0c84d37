//! A request on its way to its one answer.

use std::{convert::Infallible, future::Future, sync::Arc};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;

use super::{Entered, Exchange, Shared, Unread, early};
use crate::{
    admission::{Passed, Refused},
    answer::Mistake,
    body::{Body, BoxError, full},
    edge::Connection,
    finish::Finished,
    request::Kind,
    trace,
};

/// A caller that has gone reads no answer; this status, nginx's, says so in metrics.
const CALLER_GONE: u16 = 499;

/// A request that is counted once, under the status of its answer. Dropped without one, it is counted as one whose caller
/// has gone: of an HTTP/2 stream that was reset there is no other sign.
pub(super) struct Begun {
    shared: Arc<Shared>,
    exchange: Exchange,
    is_answered: bool,
}

// === impl Begun ===

impl Begun {
    pub(super) const fn new(shared: Arc<Shared>, exchange: Exchange) -> Self {
        Self { shared, exchange, is_answered: false }
    }

    pub(super) fn shared(&self) -> &Shared {
        &self.shared
    }

    pub(super) const fn exchange(&self) -> &Exchange {
        &self.exchange
    }

    /// Enters where the limits on the wire are in a store that has to be waited for.
    pub(super) async fn enter_later(
        self,
        asking: impl Future<Output = Result<Passed, Box<Refused>>>,
        request: Request<Incoming>,
    ) -> Result<Response<Body>, Infallible> {
        let passed = asking.await;
        match passed.and_then(|passed| self.shared.enter(&request, &self.exchange, passed)) {
            Ok(entered) => {
                let (head, body) = request.into_parts();
                // On the heap: it is large, and there is none yet while the store is asked.
                Box::pin(self.proceed(head, body, entered)).await
            }
            Err(refused) => Ok(self.refuse(&refused)),
        }
    }

    /// The steps that wait: for the body, for admission, for a backend.
    ///
    /// Not an `async fn`, which would keep its arguments twice: there is one of these for every held request.
    #[expect(clippy::manual_async_fn, reason = "it is smaller by its arguments")]
    pub(super) fn proceed(
        self,
        head: http::request::Parts,
        body: Incoming,
        entered: Entered,
    ) -> impl Future<Output = Result<Response<Body>, Infallible>> + Send + 'static {
        async move {
            if entered.kind == Kind::Models {
                let list = self.shared.list_models(&entered);
                return Ok(self.finish(list, None));
            }
            let quota = entered.passed.quota;
            let understood = match self.shared.read(&head, body, &self.exchange, &entered).await {
                Ok((body, reading)) => self.shared.understand(body, reading, &self.exchange, entered),
                Err(Unread::Refused(fault)) => Err(early(quota)(fault)),
                Err(Unread::CallerGone) => return Ok(self.gone()),
            };
            let understood = match understood {
                Ok(understood) => understood,
                Err(refused) => return Ok(self.refuse(&refused)),
            };
            let connection = head.extensions.get::<Connection>().cloned();
            let gone = connection.as_ref().map(Connection::caller_gone);
            let answering = self.shared.admission.enter(Request::from_parts(head, understood));
            let answered = match gone {
                // A caller that leaves is noticed in every phase, also where hyper does not look.
                Some(gone) => tokio::select! {
                    biased;
                    answered = answering => Some(answered),
                    () = gone => None,
                },
                None => Some(answering.await),
            };
            Ok(match answered {
                Some(Ok(response)) => self.finish(response, connection.as_ref()),
                None => self.gone(),
            })
        }
    }

    /// Answers with a refusal.
    pub(super) fn refuse(self, refused: &Refused) -> Response<Body> {
        let response = refused.answer(self.exchange.dialect);
        self.finish(response, None)
    }

    fn gone(self) -> Response<Body> {
        let mut response = Response::new(full(Bytes::new()));
        *response.status_mut() = caller_gone();
        self.finish(response, None)
    }

    /// Names the answer, and counts it now and at its end. The caller on `connection` is watched meanwhile.
    fn finish<B>(mut self, mut response: Response<B>, connection: Option<&Connection>) -> Response<Body>
    where
        B: http_body::Body<Data = Bytes, Error = BoxError> + Send + 'static,
    {
        self.answered(response.status());
        let id = std::mem::replace(&mut self.exchange.id, HeaderValue::from_static(""));
        if response.extensions().get::<Mistake>().is_some() {
            tracing::error!(request_id = ?id, path = self.path(), "a mistake of the gateway's own: please report it");
        }
        trace::name_answer(response.headers_mut(), id);
        if self.exchange.method == Method::HEAD {
            // The answer to a HEAD ends with its head; HTTP/2 does not see to it by itself.
            self.ended();
            return response.map(|_| full(Bytes::new()));
        }
        let Exchange { arrived, route, .. } = self.exchange;
        let telemetry = Arc::clone(&self.shared.parts.telemetry);
        let gone = connection.map(Connection::caller_gone);
        response.map(|body| Finished::new(body, gone, telemetry, route, arrived).boxed_unsync())
    }

    /// Counts the answer, and logs it.
    fn answered(&mut self, status: StatusCode) {
        self.is_answered = true;
        let Exchange { arrived, id, method, route, .. } = &self.exchange;
        self.shared.parts.telemetry.answered(*route, method, status, arrived.elapsed());
        tracing::debug!(request_id = ?id, path = self.path(), status = status.as_u16(), "answered");
    }

    fn ended(&self) {
        self.shared.parts.telemetry.ended(self.exchange.route, self.exchange.arrived.elapsed());
    }

    fn path(&self) -> &str {
        self.shared.parts.routes.all().get(self.exchange.route).map_or("unknown", |route| &*route.path)
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        // A panic is not the caller's leaving, and is logged as what it is.
        if !self.is_answered && !std::thread::panicking() {
            self.answered(caller_gone());
            self.ended();
        }
    }
}

fn caller_gone() -> StatusCode {
    StatusCode::from_u16(CALLER_GONE).unwrap_or(StatusCode::BAD_REQUEST)
}
