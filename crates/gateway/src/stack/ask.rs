//! What a request asks for: which tokens are counted, and which buckets are charged with what.

use std::sync::Arc;

use bytes::Bytes;
use fairlane_identity::Identity;

use super::{Entered, Exchange, Shared};
use crate::{
    admission::{Ask, Passed},
    assemble::Parts,
    limits::{Buckets, Charges},
    request::{self, Counting, Reading, Reservation, TokenAsk},
};

impl Shared {
    /// How the tokens of a request are to be read; not at all where none may be charged.
    pub(super) fn counting(&self, entered: &Entered) -> Option<Counting> {
        let Parts { limits, tokens, .. } = &*self.parts;
        if !limits.count_tokens() || entered.passed.bypass {
            return None;
        }
        let plan = entered.identity.as_deref().and_then(|identity| limits.plan(identity));
        limits
            .may_count_tokens(plan.map(Arc::as_ref))
            .then_some(Counting { api: entered.api, estimator: tokens.estimator })
    }

    /// The ask of a request from this caller; of nothing where the limits are bypassed.
    pub(super) fn ask(
        &self,
        identity: Option<&Identity>,
        passed: Passed,
        reading: &Reading,
        body: &Bytes,
        exchange: &Exchange,
    ) -> Ask {
        let limits = &self.parts.limits;
        let plan = identity.and_then(|identity| limits.plan(identity));
        let (mut charges, mut tokens) = (Charges::default(), None);
        let bypass = passed.bypass || plan.is_some_and(|plan| plan.bypass);
        if !bypass {
            let model = limits.model(reading.model.as_deref());
            for buckets in plan.map(|plan| &plan.buckets).into_iter().chain(model) {
                charges.extend(&buckets.requests);
            }
            if let Some(asked) = &reading.tokens {
                tokens = self.reserve(asked, plan.map(|plan| &plan.buckets), model, &mut charges);
            }
        }
        Ask {
            charges,
            tokens,
            tenant: plan.map(|plan| plan.tenant),
            arrived: exchange.arrived,
            body_bytes: body.len() as u64,
            edge: passed.quota,
            dialect: exchange.dialect,
        }
    }

    /// Adds what a request asks for in tokens to its charges: as much in each of its budgets.
    fn reserve(
        &self,
        asked: &TokenAsk,
        caller: Option<&Buckets>,
        model: Option<&Buckets>,
        charges: &mut Charges,
    ) -> Option<Reservation> {
        let budgets = || caller.into_iter().chain(model).map(|buckets| &buckets.tokens);
        // What is only assumed of the output must fit into the smallest of them.
        let smallest = budgets().filter_map(Charges::smallest_capacity).min()?;
        let reservation = request::reserve(asked, &self.parts.tokens.settings, Some(smallest));
        for tokens in budgets() {
            charges.reserve(tokens, reservation.total);
        }
        Some(reservation)
    }
}
