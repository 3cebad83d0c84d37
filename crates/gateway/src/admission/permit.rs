//! What an admitted request holds until its answer has ended.

use std::{
    fmt,
    pin::Pin,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use fairlane_fair_queue::Class;
use http::{HeaderMap, HeaderName};
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use super::{Ask, Generation, correction::Correction, driver::Handle, limiter::Limiter};
use crate::{
    answer::{Quotas, ceil_millis, whole_millis, write_deferral},
    body::BoxError,
    reached::Reached,
    request::Reservation,
    telemetry::TokenDimensions,
    usage::{Ending, correction, spent},
};

/// Leave to go on to a backend.
///
/// Only admission makes one. Clones are the same permit, and when the last of them is dropped the request is settled,
/// exactly once: without [`Permit::keep_charges`] all that it took is given back. With it the request counts, and of the
/// tokens that it reserved those are given back that [`Permit::settle`] says it did not use.
#[derive(Clone)]
pub struct Permit(Arc<Inner>);

struct Inner {
    returns: Arc<Returns>,
    /// Its charges have been taken.
    ask: Box<Ask>,
    tokens: Option<Reserved>,
    reached: Reached,
    quotas: Quotas,
    /// What a backend's own limit said, and when it has room again if it had none.
    at_backend: OnceLock<(Quotas, Option<Duration>)>,
    hold: Option<Hold>,
}

/// Tokens that were taken before it was known how many the request would use.
struct Reserved {
    reservation: Reservation,
    settled: AtomicBool,
}

/// Where charges go back to: the buckets, and the gates of those who wait for them.
#[derive(Debug)]
pub(super) struct Returns {
    pub(super) limiter: Arc<Limiter>,
    pub(super) scheduler: Handle,
    /// The limits by which they were charged.
    pub(super) generation: Generation,
}

impl Returns {
    fn settle(&self, mut correction: Correction) {
        let by = self.limiter.refresh(correction.charges_mut(), self.generation);
        self.limiter.settle(correction, by, Some(&self.scheduler));
    }
}

/// What holding a request came to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hold {
    /// What the queue came to, if it was queued.
    pub(super) queued: Option<Queued>,
    /// How long it was deferred, if it was.
    pub(super) deferred: Option<Duration>,
}

/// What queuing a request came to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queued {
    /// Its place in its lane when it joined.
    pub(super) position: usize,
    /// How long it was queued.
    pub(super) waited: Duration,
    /// How long it was told to expect, when it joined.
    pub(super) estimated: Duration,
}

impl Permit {
    /// What was asked, its charges and what they reserve, has been taken.
    pub(super) fn new(returns: Arc<Returns>, ask: Box<Ask>, quotas: Quotas, hold: Option<Hold>) -> Self {
        let reserved = |reservation| Reserved { reservation, settled: AtomicBool::new(false) };
        let tokens = ask.tokens.map(reserved);
        let inner = Inner {
            returns,
            ask,
            tokens,
            reached: Reached::default(),
            quotas,
            at_backend: OnceLock::new(),
            hold,
        };
        if let Some(reserved) = &inner.tokens {
            let metrics = &inner.returns.limiter.telemetry().tokens;
            metrics.reserved(inner.token_dimensions(), reserved.reservation.total);
        }
        Self(Arc::new(inner))
    }

    /// A backend has been reached: the request counts now, however it ends.
    pub fn keep_charges(&self) {
        self.0.reached.note();
    }

    /// The mark that [`Permit::keep_charges`] sets, for whoever sees the backend being reached.
    #[must_use]
    pub fn reached(&self) -> &Reached {
        &self.0.reached
    }

    /// The tokens that were reserved; `None` if the request is charged none.
    #[must_use]
    pub fn reservation(&self) -> Option<&Reservation> {
        self.0.tokens.as_ref().map(|reserved| &reserved.reservation)
    }

    /// Settles the reserved tokens to what the request spent by its `ending`. Only the first ending counts; a request that
    /// is never told of one was [abandoned](Ending::Abandoned).
    pub fn settle(&self, ending: Ending) {
        self.0.settle(ending);
    }

    /// A backend's own limit was met too. `retry_after`: it refused, and has room again then.
    pub fn met(&self, quotas: Quotas, retry_after: Option<Duration>) {
        // A request is dispatched once, and told of once.
        _ = self.0.at_backend.set((quotas, retry_after));
    }

    /// Writes what the caller is told of its limits and of its wait.
    pub fn write_headers(&self, headers: &mut HeaderMap) {
        match self.0.at_backend.get() {
            None => self.0.quotas.write(headers, None),
            Some((at_backend, retry_after)) => {
                self.0.quotas.clone().tighter(at_backend.clone()).write(headers, *retry_after);
            }
        }
        let Some(hold) = self.0.hold else { return };
        if let Some(queued) = hold.queued {
            headers.insert(HeaderName::from_static("x-fair-queue-position"), queued.position.into());
            headers
                .insert(HeaderName::from_static("x-fair-queue-wait-ms"), whole_millis(queued.waited).into());
            headers.insert(
                HeaderName::from_static("x-fair-queue-estimated-wait-ms"),
                ceil_millis(queued.estimated).into(),
            );
        }
        if let Some(deferred) = hold.deferred {
            write_deferral(headers, deferred);
        }
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit").field("hold", &self.0.hold).finish_non_exhaustive()
    }
}

impl Inner {
    fn settle(&self, ending: Ending) {
        let Some(reserved) = &self.tokens else { return };
        if reserved.settled.swap(true, Ordering::AcqRel) {
            return;
        }
        let Reservation { prompt_estimate, total, .. } = reserved.reservation;
        let spent = spent(prompt_estimate, ending);
        self.returns.limiter.telemetry().tokens.settled(self.token_dimensions(), total, spent);
        let amount = correction(total, spent);
        if amount != 0 {
            self.returns.settle(Correction::of_tokens(&self.ask.charges, amount));
        }
    }

    fn token_dimensions(&self) -> TokenDimensions {
        self.ask.charges.token_dimensions().collect()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if self.reached.get() {
            self.settle(Ending::Abandoned);
            return;
        }
        if self.ask.charges.is_empty() {
            return;
        }
        let mut charges = std::mem::take(&mut self.ask.charges);
        if let Some(reserved) = &mut self.tokens {
            if *reserved.settled.get_mut() {
                charges = charges.of_class(Class::Requests);
            } else {
                let total = reserved.reservation.total;
                let dimensions = charges.token_dimensions().collect();
                self.returns.limiter.telemetry().tokens.settled(dimensions, total, 0);
            }
        }
        // One call for all of it.
        self.returns.settle(Correction::undo(charges));
    }
}

pin_project! {
    /// An answer's body: an admitted request's carries its permit to the body's end.
    #[derive(Debug)]
    pub struct PermitBody<B> {
        #[pin]
        content: Content<B>,
        // Given up with the body, whether it ends or is dropped.
        permit: Option<Permit>,
    }
}

pin_project! {
    #[project = ContentProjected]
    #[derive(Debug)]
    enum Content<B> {
        Served { #[pin] body: B },
        Refused { #[pin] body: crate::body::Body },
    }
}

impl<B> PermitBody<B> {
    pub(super) const fn served(body: B, permit: Permit) -> Self {
        Self { content: Content::Served { body }, permit: Some(permit) }
    }

    pub(super) const fn refused(body: crate::body::Body) -> Self {
        Self { content: Content::Refused { body }, permit: None }
    }
}

impl<B> Body for PermitBody<B>
where
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match self.project().content.project() {
            ContentProjected::Served { body } => body.poll_frame(cx).map_err(Into::into),
            ContentProjected::Refused { body } => body.poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.content {
            Content::Served { body } => body.is_end_stream(),
            Content::Refused { body } => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Served { body } => body.size_hint(),
            Content::Refused { body } => body.size_hint(),
        }
    }
}
