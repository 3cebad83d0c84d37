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
use tower::{Layer, Service};

use super::{Admission, Admitting, Ask, Permit, PermitBody};
use crate::{answer::Dialect, body::BoxError};

/// Says what a request asks of admission. Any function from a request to an [`Ask`] does.
pub trait Classify<B> {
    /// What is asked for a request.
    fn ask(&self, request: &mut Request<B>) -> Ask;

    /// The same on the heap, where it stays for as long as the request does; for whoever has it there already.
    fn boxed_ask(&self, request: &mut Request<B>) -> Box<Ask> {
        Box::new(self.ask(request))
    }

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

    fn call(&mut self, request: Request<B>) -> Self::Future {
        self.enter(request)
    }
}

impl<S, C> AdmissionService<S, C> {
    /// Does what `call` does, for whoever shares the service: there is nothing that one request could change for another.
    pub(crate) fn enter<B>(&self, mut request: Request<B>) -> ResponseFuture<S, C, B>
    where
        S: Service<Request<B>> + Clone,
        C: Classify<B> + Clone,
    {
        let ask = self.classify.boxed_ask(&mut request);
        let dialect = ask.dialect;
        let admitting = self.admission.admit_boxed(ask);
        // A store that has to be waited for may yet refuse it, and have it held.
        let unheld = if admitting.is_held() {
            self.classify.held(&mut request);
            None
        } else {
            Some(self.classify.clone())
        };
        let next = Some((self.inner.clone(), request));
        ResponseFuture { next, state: State::Admitting { admitting, unheld, dialect } }
    }
}

pin_project! {
    /// The answer to come: first admission, then the inner service.
    ///
    /// # Cancel safety
    ///
    /// Dropping it in any state gives the place, the grant or the charges back, exactly once.
    pub struct ResponseFuture<S: Service<Request<B>>, C, B> {
        // Stays where it is until the service takes it, since it is large. Gone after that.
        next: Option<(S, Request<B>)>,
        #[pin]
        state: State<S::Future, C>,
    }
}

pin_project! {
    #[project = StateProjected]
    #[project_replace = StateReplaced]
    enum State<F, C> {
        Admitting {
            admitting: Admitting,
            // Who is to be told when it comes to be held, until it is.
            unheld: Option<C>,
            dialect: Dialect,
        },
        // The service has not said yet that it is ready.
        Admitted { permit: Option<Permit> },
        Running { #[pin] running: F, permit: Option<Permit> },
        Done,
    }
}

impl<S: Service<Request<B>>, C, B> fmt::Debug for ResponseFuture<S, C, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.state {
            State::Admitting { .. } => "admitting",
            State::Admitted { .. } => "admitted",
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
                StateProjected::Admitting { admitting, unheld, dialect } => {
                    let Poll::Ready(admitted) = Pin::new(&mut *admitting).poll(cx) else {
                        if admitting.is_held()
                            && let (Some(classify), Some((_, request))) = (unheld.take(), this.next)
                        {
                            classify.held(request);
                        }
                        return Poll::Pending;
                    };
                    match admitted {
                        Ok(permit) => {
                            if let Some((_, request)) = this.next {
                                request.extensions_mut().insert(permit.clone());
                            }
                            this.state.set(State::Admitted { permit: Some(permit) });
                        }
                        Err(refused) => {
                            let answer = refused.answer(*dialect);
                            this.state.set(State::Done);
                            *this.next = None;
                            return Poll::Ready(Ok(answer.map(PermitBody::refused)));
                        }
                    }
                }
                StateProjected::Admitted { permit } => {
                    let ready = match this.next {
                        Some((service, _)) => ready!(service.poll_ready(cx)),
                        // It is taken only in leaving this state.
                        None => Ok(()),
                    };
                    let permit = permit.take();
                    match (ready, this.next.take()) {
                        (Ok(()), Some((mut service, request))) => {
                            this.state.set(State::Running { running: service.call(request), permit });
                        }
                        (Ok(()), None) => this.state.set(State::Done),
                        (Err(error), _) => {
                            this.state.set(State::Done);
                            return Poll::Ready(Err(error));
                        }
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
