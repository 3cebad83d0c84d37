//! The metrics of token budgets, and of those who wait for them.

use std::time::Duration;

use fairlane_fair_queue::{Class, Reason};
use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};

use crate::dimension::Dimension;

/// The dimensions in which tokens are counted.
const COUNTED: [Dimension; 4] = [Dimension::ApiKey, Dimension::User, Dimension::Team, Dimension::Model];

/// The tokens that requests reserved and used, by dimension.
///
/// A request counts once in each dimension that has a budget, however many periods that budget has.
#[derive(Debug)]
pub struct TokenMetrics([Counted; COUNTED.len()]);

#[derive(Debug)]
struct Counted {
    reserved: Counter,
    settled: Counter,
    returned: Counter,
}

/// Which dimensions a request is charged tokens in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenDimensions(u8);

impl TokenMetrics {
    pub(super) fn new() -> Self {
        Self(COUNTED.map(|dimension| {
            let take = |name| {
                let counter = counter!(name, "dimension" => dimension.as_str());
                // It appears before it counts, so that its first increase is seen as one.
                counter.increment(0);
                counter
            };
            Counted {
                reserved: take("rate_limit_tokens_reserved_total"),
                settled: take("rate_limit_tokens_settled_total"),
                returned: take("rate_limit_tokens_returned_total"),
            }
        }))
    }

    /// A request took its reservation.
    pub fn reserved(&self, dimensions: TokenDimensions, tokens: u64) {
        for counted in self.of(dimensions) {
            counted.reserved.increment(tokens);
        }
    }

    /// What a request spent of its reservation is known; it may be more.
    pub fn settled(&self, dimensions: TokenDimensions, reserved: u64, spent: u64) {
        for counted in self.of(dimensions) {
            counted.settled.increment(spent);
            counted.returned.increment(reserved.saturating_sub(spent));
        }
    }

    fn of(&self, dimensions: TokenDimensions) -> impl Iterator<Item = &Counted> {
        let named = COUNTED.iter().zip(&self.0);
        named.filter(move |(dimension, _)| dimensions.contains(**dimension)).map(|(_, counted)| counted)
    }
}

impl TokenDimensions {
    fn contains(self, dimension: Dimension) -> bool {
        self.0 & 1 << dimension.index() != 0
    }
}

impl FromIterator<Dimension> for TokenDimensions {
    fn from_iter<I: IntoIterator<Item = Dimension>>(dimensions: I) -> Self {
        Self(dimensions.into_iter().fold(0, |all, dimension| all | 1 << dimension.index()))
    }
}

/// The metrics of deferred admission.
#[derive(Debug)]
pub struct DeferralMetrics {
    /// Requests deferred now.
    pub held: Gauge,
    wait_seconds: Histogram,
    refused: Vec<(Reason, Counter)>,
}

impl DeferralMetrics {
    pub(super) fn new() -> Self {
        let refused = |reason: &Reason| {
            let name = "rate_limit_deferred_admission_refused_total";
            (*reason, counter!(name, "reason" => reason.as_str()))
        };
        Self {
            held: gauge!("rate_limit_deferred_admission_held"),
            wait_seconds: histogram!("rate_limit_deferred_admission_wait_seconds"),
            refused: Reason::of(Class::Tokens).iter().map(refused).collect(),
        }
    }

    /// A request was deferred for so long until it could try again.
    pub fn waited(&self, deferred: Duration) {
        self.wait_seconds.record(deferred);
    }

    /// Counts one refusal.
    pub fn refused(&self, reason: Reason) {
        if let Some((_, counter)) = self.refused.iter().find(|(counted, _)| *counted == reason) {
            counter.increment(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_counts_once_in_each_of_its_dimensions() {
        let dimensions: TokenDimensions =
            [Dimension::User, Dimension::Model, Dimension::User].into_iter().collect();
        let counted = COUNTED.map(|dimension| dimensions.contains(dimension));
        assert_eq!(counted, [false, true, false, true]);
    }
}
