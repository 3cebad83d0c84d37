//! The answer of admission: at hand for most requests, and a wait for those that are held.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use super::{Permit, Refused};

type Admitted = Result<Permit, Box<Refused>>;

/// A request's admission, decided or awaited.
///
/// Small, because every request has one: what a held request needs besides lies on the heap.
///
/// # Cancel safety
///
/// Dropping it leaves the lane, or gives the grant or the charges back, exactly once.
pub struct Admitting(State);

enum State {
    Decided(Option<Admitted>),
    Held(Pin<Box<dyn Future<Output = Admitted> + Send>>),
}

impl Admitting {
    pub(super) const fn decided(admitted: Admitted) -> Self {
        Self(State::Decided(Some(admitted)))
    }

    /// Whether the request is held, and what is to come takes time.
    #[must_use]
    pub const fn is_held(&self) -> bool {
        matches!(self.0, State::Held(_))
    }

    pub(super) fn held(wait: Pin<Box<dyn Future<Output = Admitted> + Send>>) -> Self {
        Self(State::Held(wait))
    }
}

impl Future for Admitting {
    type Output = Admitted;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Admitted> {
        match &mut self.0 {
            // A future that is polled after its end stays silent.
            State::Decided(admitted) => admitted.take().map_or(Poll::Pending, Poll::Ready),
            State::Held(wait) => wait.as_mut().poll(cx),
        }
    }
}

impl fmt::Debug for Admitting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &self.0 {
            State::Decided(_) => "Admitting(decided)",
            State::Held(_) => "Admitting(held)",
        })
    }
}
