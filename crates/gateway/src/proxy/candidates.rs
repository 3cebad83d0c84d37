//! The backends that may take one request, and what their limits said.

use std::sync::Arc;
use std::time::Duration;

use fairlane_limiter::{Decision, Denied};
use smallvec::SmallVec;

use super::ForwardError;
use super::choice::{Point, Rotation};
use super::endpoint::Endpoint;
use super::health::Standing;

/// The endpoints that may take one request.
pub(super) struct Candidates<'a> {
    endpoints: SmallVec<[&'a Arc<Endpoint>; 8]>,
    /// Chooses the next one.
    point: Point,
}

/// What the limits of the backends tried so far said.
#[derive(Default)]
pub(super) struct Refusal {
    shortest: Option<(Duration, Arc<str>, Box<Denied>)>,
    impossible: bool,
}

// === impl Candidates ===

impl<'a> Candidates<'a> {
    /// Those of `endpoints` that serve the model and take requests.
    pub(super) fn of(endpoints: &'a [Arc<Endpoint>], model: Option<&str>, rotation: &Rotation) -> Self {
        let mut candidates = SmallVec::new();
        let mut set = 0_u64;
        let mut second_choice: SmallVec<[&Arc<Endpoint>; 2]> = SmallVec::new();
        for (index, endpoint) in endpoints.iter().enumerate() {
            if !model.is_none_or(|model| endpoint.serves(model)) {
                continue;
            }
            set |= 1 << (index % 64);
            match endpoint.health.standing() {
                Standing::Up | Standing::Due => candidates.push(endpoint),
                Standing::Trying => second_choice.push(endpoint),
                Standing::Out => {}
            }
        }
        if candidates.is_empty() {
            candidates.extend(second_choice);
        }
        let point = rotation.next(set);
        Self { endpoints: candidates, point }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.endpoints.is_empty()
    }

    /// Takes out the next one to try.
    pub(super) fn next(&mut self) -> Option<&'a Arc<Endpoint>> {
        let weights = self.endpoints.iter().map(|endpoint| endpoint.weight);
        let (place, rest) = self.point.choose(weights)?;
        self.point = rest;
        Some(self.endpoints.remove(place))
    }
}

// === impl Refusal ===

impl Refusal {
    pub(super) fn note(&mut self, endpoint: &Endpoint, decision: Decision) {
        match decision {
            Decision::Denied(denied) => {
                let wait = denied.retry_after();
                if self.shortest.as_ref().is_none_or(|(shortest, ..)| wait < *shortest) {
                    self.shortest = Some((wait, Arc::clone(&endpoint.name), Box::new(denied)));
                }
            }
            Decision::Impossible(_) => self.impossible = true,
            Decision::Granted(_) => {}
        }
    }

    pub(super) fn into_error(self) -> Option<ForwardError> {
        match self.shortest {
            Some((retry_after, backend, denied)) => {
                Some(ForwardError::AllExhausted { backend, retry_after, denied })
            }
            None => self.impossible.then_some(ForwardError::ExceedsLimit),
        }
    }
}
