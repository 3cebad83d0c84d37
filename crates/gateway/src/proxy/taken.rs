//! What was taken of a backend's own limit, and its way back.

use std::sync::Arc;

use super::Reached;
use super::endpoint::Endpoint;

/// A grant of a backend's own limit. Dropping it gives the grant back, unless a backend may have seen the request.
pub(super) struct Taken<'a> {
    endpoint: &'a Arc<Endpoint>,
    reached: &'a Reached,
}

// === impl Taken ===

impl<'a> Taken<'a> {
    pub(super) fn new(endpoint: &'a Arc<Endpoint>, reached: &'a Reached) -> Self {
        Self { endpoint, reached }
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        if !self.reached.get() {
            self.endpoint.give_back();
        }
    }
}
