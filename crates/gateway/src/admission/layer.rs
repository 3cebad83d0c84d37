//! Admission as tower middleware, for this gateway's stack and for any other service.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use pin_project_lite::pin_project;
use tower::{Layer, Service, ServiceExt as _, util::Oneshot};

use super::{Admission, Admitting, Ask, Permit, PermitBody};
use crate::{answer::Dialect, body::BoxError};

/// Says what a request asks of admission. Any function from a request to an [`Ask`] does.
pub trait Classify<B> {
    /// What is asked for a request.
    fn ask(&self, request: &mut Request<B>) -> Ask;

    /// The request is held: a good moment to let go of what it does not need while it waits.
    fn held(&self, request: &mut Request<B>) {
        _ = request;
    }
}

impl<B, F: Fn(&mut Request<B>) -> Ask> Classify<B> for F {
    fn ask(&self, request: &mut Request<B>) -> Ask {
        self(request)
    }
}

/// Puts admission in front of a service.
///
/// `classify` says what a request is charged and whom it belongs to. Refusals are answered here; admitted requests reach
/// the service with their [`Permit`] among the extensions, and the permit rides on the answer's body to its end. A
/// service that has passed a request on calls [`Permit::keep_charges`]; one that never does gets its charges returned.
#[derive(Clone)]
pub struct AdmissionLayer<C> {
    admission: Arc<Admission>,
    classify: C,
}

impl<C> AdmissionLayer<C> {
    /// Puts `admission` in front of services, with requests read by `classify`.
    pub const fn new(admission: Arc<Admission>, classify: C) -> Self {
        Self { admission, classify }
    }
}

impl<C> fmt::Debug for AdmissionLayer<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdmissionLayer").finish_non_exhaustive()
    }
}

impl<S, C: Clone> Layer<S> for AdmissionLayer<C> {
    type Service = AdmissionService<S, C>;

    fn layer(&self, inner: S) -> Self::Service {
        AdmissionService { admission: Arc::clone(&self.admission), classify: self.classify.clone(), inner }
    }
}

/// A service behind admission.
///
/// It is always ready: whom a request belongs to is known only when it is there, and readiness of the inner service
/// taken before that would hold a place while the request waits.
#[derive(Clone)]
pub struct AdmissionService<S, C> {
    admission: Arc<Admission>,
    classify: C,
    inner: S,
}

impl<S: fmt::Debug, C> fmt::Debug for AdmissionService<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdmissionService").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl<S, C, B, R> Service<Request<B>> for AdmissionService<S, C>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
    C: Classify<B> + Clone,
    R: Body<Data = Bytes>,
    R::Error: Into<BoxError>,
{
    type Response = Response<PermitBody<R>>;
    type Error = S::Error;
    type Future = ResponseFuture<S, C, B>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let ask = self.classify.ask(&mut request);
        let dialect = ask.dialect;
        let admitting = self.admission.admit(ask);
        // A store that has to be waited for may yet refuse it, and have it held.
        let unheld = if admitting.is_held() {
            self.classify.held(&mut request);
            None
        } else {
            Some(self.classify.clone())
        };
        ResponseFuture {
            state: State::Admitting { admitting, next: Some((self.inner.clone(), request)), unheld, dialect },
        }
    }
}

pin_project! {
    /// The answer to come: first admission, then the inner service.
    ///
    /// # Cancel safety
    ///
    /// Dropping it in any state gives the place, the grant or the charges back, exactly once.
    pub struct ResponseFuture<S: Service<Request<B>>, C, B> {
        #[pin]
        state: State<S, C, B>,
    }
}

pin_project! {
    #[project = StateProjected]
    #[project_replace = StateReplaced]
    enum State<S: Service<Request<B>>, C, B> {
        Admitting {
            admitting: Admitting,
            next: Option<(S, Request<B>)>,
            // Who is to be told when it comes to be held, until it is.
            unheld: Option<C>,
            dialect: Dialect,
        },
        Running { #[pin] running: Oneshot<S, Request<B>>, permit: Option<Permit> },
        Done,
    }
}

impl<S: Service<Request<B>>, C, B> fmt::Debug for ResponseFuture<S, C, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.state {
            State::Admitting { .. } => "admitting",
            State::Running { .. } => "running",
            State::Done => "done",
        };
        f.debug_tuple("ResponseFuture").field(&state).finish()
    }
}

impl<S, C, B, R> Future for ResponseFuture<S, C, B>
where
    S: Service<Request<B>, Response = Response<R>>,
    C: Classify<B>,
    R: Body<Data = Bytes>,
    R::Error: Into<BoxError>,
{
    type Output = Result<Response<PermitBody<R>>, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            match this.state.as_mut().project() {
                StateProjected::Admitting { admitting, next, unheld, dialect } => {
                    let Poll::Ready(admitted) = Pin::new(&mut *admitting).poll(cx) else {
                        if admitting.is_held()
                            && let (Some(classify), Some((_, request))) = (unheld.take(), next)
                        {
                            classify.held(request);
                        }
                        return Poll::Pending;
                    };
                    let (next, dialect) = (next.take(), *dialect);
                    match (admitted, next) {
                        (Ok(permit), Some((service, mut request))) => {
                            request.extensions_mut().insert(permit.clone());
                            let running = service.oneshot(request);
                            this.state.set(State::Running { running, permit: Some(permit) });
                        }
                        (Err(refused), _) => {
                            this.state.set(State::Done);
                            let answer = refused.answer(dialect);
                            return Poll::Ready(Ok(answer.map(PermitBody::refused)));
                        }
                        // The request is taken only in leaving this state.
                        (Ok(_), None) => this.state.set(State::Done),
                    }
                }
                StateProjected::Running { running, permit } => {
                    let answered = ready!(running.poll(cx));
                    let permit = permit.take();
                    this.state.set(State::Done);
                    let Some(permit) = permit else { continue };
                    return Poll::Ready(answered.map(|mut response| {
                        permit.write_headers(response.headers_mut());
                        response.map(|body| PermitBody::served(body, permit))
                    }));
                }
                // A future that is polled after its end stays silent.
                StateProjected::Done => return Poll::Pending,
            }
        }
    }
}
