//! What an admitted request holds until its answer has ended.

use std::{
    fmt,
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, HeaderName};
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use super::{driver::Handle, limiter::Limiter};
use crate::{
    answer::{QuotaStatus, ceil_millis, whole_millis},
    body::BoxError,
    limits::Charges,
    reached::Reached,
};

/// Leave to go on to a backend.
///
/// Only admission makes one. Clones are the same permit; when the last of them is dropped without
/// [`Permit::keep_charges`], what the request took is given back, exactly once.
#[derive(Clone)]
pub struct Permit(Arc<Inner>);

struct Inner {
    returns: Arc<Returns>,
    charges: Charges,
    reached: Reached,
    quota: Option<QuotaStatus>,
    /// What a backend's own limit said, and when it has room again if it had none.
    at_backend: OnceLock<(QuotaStatus, Option<Duration>)>,
    hold: Option<Hold>,
}

/// Where charges go back to: the buckets, and the gates of those who wait for them.
#[derive(Debug)]
pub(super) struct Returns {
    pub(super) limiter: Arc<Limiter>,
    pub(super) scheduler: Option<Handle>,
}

impl Returns {
    fn give_back(&self, charges: &Charges) {
        self.limiter.give_back(charges, self.scheduler.as_ref());
    }
}

/// What holding a request came to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hold {
    /// Its place in its lane when it joined.
    pub(super) position: usize,
    /// How long it was held.
    pub(super) waited: Duration,
    /// How long it was told to expect, when it joined.
    pub(super) estimated: Duration,
}

impl Permit {
    pub(super) fn new(
        returns: Arc<Returns>,
        charges: Charges,
        quota: Option<QuotaStatus>,
        hold: Option<Hold>,
    ) -> Self {
        Self(Arc::new(Inner {
            returns,
            charges,
            reached: Reached::default(),
            quota,
            at_backend: OnceLock::new(),
            hold,
        }))
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

    /// A backend's own limit was met too. `retry_after`: it refused, and has room again then.
    pub fn met(&self, quota: Option<QuotaStatus>, retry_after: Option<Duration>) {
        if let Some(quota) = quota {
            // A request is dispatched once, and told of once.
            _ = self.0.at_backend.set((quota, retry_after));
        }
    }

    /// Writes what the caller is told of its limits and of its wait.
    pub fn write_headers(&self, headers: &mut HeaderMap) {
        match (self.0.quota, self.0.at_backend.get()) {
            (Some(quota), None) => quota.write(headers, None),
            (None, Some((at_backend, retry_after))) => at_backend.write(headers, *retry_after),
            (Some(quota), Some((at_backend, retry_after))) => {
                quota.tighter(*at_backend).write(headers, *retry_after);
            }
            (None, None) => {}
        }
        if let Some(hold) = self.0.hold {
            headers.insert(HeaderName::from_static("x-fair-queue-position"), hold.position.into());
            headers.insert(HeaderName::from_static("x-fair-queue-wait-ms"), whole_millis(hold.waited).into());
            headers.insert(
                HeaderName::from_static("x-fair-queue-estimated-wait-ms"),
                ceil_millis(hold.estimated).into(),
            );
        }
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit").field("hold", &self.0.hold).finish_non_exhaustive()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if !self.reached.get() && !self.charges.is_empty() {
            self.returns.give_back(&self.charges);
        }
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
