//! The answer of admission: at hand for most requests, and a wait for those that are held.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use super::{Permit, Refused};

/// Leave to go on, or why not.
pub(super) type Admitted = Result<Permit, Box<Refused>>;

/// A request's admission: decided, asked for, or awaited in a lane.
///
/// Small, because every request has one: what a held request needs besides lies on the heap.
///
/// # Cancel safety
///
/// Dropping it leaves the lane, or gives the grant or the charges back, exactly once; charges also if the store takes them
/// only after that.
pub struct Admitting(State);

enum State {
    Decided(Option<Admitted>),
    /// A store that has to be waited for is asked; what comes back is where to go on.
    Asking(Pin<Box<dyn Future<Output = Admitting> + Send>>),
    Held(Pin<Box<dyn Future<Output = Admitted> + Send>>),
}

impl Admitting {
    pub(super) const fn decided(admitted: Admitted) -> Self {
        Self(State::Decided(Some(admitted)))
    }

    /// Whether the request is held in a lane. One that asks a store that has to be waited for may yet come to be.
    #[must_use]
    pub const fn is_held(&self) -> bool {
        matches!(self.0, State::Held(_))
    }

    pub(super) fn asking(asking: Pin<Box<dyn Future<Output = Self> + Send>>) -> Self {
        Self(State::Asking(asking))
    }

    pub(super) fn held(wait: Pin<Box<dyn Future<Output = Admitted> + Send>>) -> Self {
        Self(State::Held(wait))
    }
}

impl Future for Admitting {
    type Output = Admitted;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Admitted> {
        loop {
            match &mut self.0 {
                // A future that is polled after its end stays silent.
                State::Decided(admitted) => return admitted.take().map_or(Poll::Pending, Poll::Ready),
                State::Asking(asking) => *self = ready!(asking.as_mut().poll(cx)),
                State::Held(wait) => return wait.as_mut().poll(cx),
            }
        }
    }
}

impl fmt::Debug for Admitting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &self.0 {
            State::Decided(_) => "Admitting(decided)",
            State::Asking(_) => "Admitting(asking)",
            State::Held(_) => "Admitting(held)",
        })
    }
}
