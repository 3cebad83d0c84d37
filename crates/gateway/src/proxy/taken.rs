//! What was taken of a backend's own limit, and its way back.

use std::sync::Arc;
use std::task::{Context, Waker};

use tokio::runtime::Handle;

use super::Reached;
use super::endpoint::Endpoint;
use super::telemetry::give_back_lost;

/// A grant of a backend's own limit. Dropping it gives the grant back, unless a backend may have seen the request.
pub(super) struct Taken<'a> {
    endpoint: &'a Arc<Endpoint>,
    tokens: u64,
    reached: &'a Reached,
}

// === impl Taken ===

impl<'a> Taken<'a> {
    pub(super) fn new(endpoint: &'a Arc<Endpoint>, tokens: u64, reached: &'a Reached) -> Self {
        Self { endpoint, tokens, reached }
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        if self.reached.get() {
            return;
        }
        let (endpoint, tokens) = (Arc::clone(self.endpoint), self.tokens);
        let mut giving = Box::pin(async move { endpoint.give_back(tokens).await });
        // A store in memory is done at once. Any other is waited for by a task: whoever drops this cannot.
        if giving.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
            return;
        }
        match Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(giving)),
            Err(_) => give_back_lost(),
        }
    }
}
