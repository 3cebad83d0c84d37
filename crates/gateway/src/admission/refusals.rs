//! How requests are refused: which limit is named, and what is told of quotas and times.

use std::time::Duration;

use fairlane_fair_queue::{Class, GateKey, Refusal};
use fairlane_limiter::{Balances, Decision, Denied};

use super::{
    ask::{Ask, Refused},
    limiter::{binding, gate_of},
};
use crate::{
    answer::{DeferralRefusal, Fault, HoldRefusal, QueueRefusal, Quotas, RateLimited},
    dimension::Dimension,
};

/// The tightest of all buckets met so far, edge included.
pub(super) fn tightest(ask: &Ask, balances: &Balances) -> Quotas {
    Quotas::from(ask.edge).tighter(ask.charges.tightest(balances))
}

/// The same of a decision, where nothing more is to be learnt from it.
pub(super) fn tightest_of(ask: &Ask, decision: &Decision) -> Quotas {
    balances(decision).map_or_else(|| ask.edge.into(), |balances| tightest(ask, balances))
}

/// What a decision says that the buckets hold.
pub(super) const fn balances(decision: &Decision) -> Option<&Balances> {
    match decision {
        Decision::Granted(granted) => Some(granted.balances()),
        Decision::Denied(denied) => Some(denied.balances()),
        Decision::Impossible(_) => None,
    }
}

/// The queue, or deferred admission, refuses. `quotas` are the tightest buckets, as of a look or of the last decision.
pub(super) fn hold_refused(
    tenant_dimension: &'static str,
    ask: &Ask,
    refusal: &Refusal,
    quotas: Quotas,
) -> Box<Refused> {
    let (reason, deferred) = (refusal.reason.as_str(), refusal.deferred);
    let held = match refusal.class {
        Class::Requests => HoldRefusal::Queue(QueueRefusal {
            tenant_dimension,
            reason,
            position: refusal.position,
            waited: refusal.waited.saturating_sub(deferred),
        }),
        Class::Tokens => {
            let tokens = ask.tokens.map_or(0, |reservation| reservation.total);
            HoldRefusal::Deferral(DeferralRefusal { reason, waited: deferred, tokens })
        }
    };
    let was_deferred = refusal.class == Class::Tokens || deferred > Duration::ZERO;
    let limited = RateLimited {
        limit_type: dimension_of(ask, refusal.gate),
        class: refusal.class,
        retry_after: refusal.retry_after,
        held: Some(held),
        deferred: was_deferred.then_some(deferred),
    };
    Box::new(Refused { fault: Fault::RateLimited(limited), quotas })
}

/// Others wait for the bucket at `at`, and this request has no lane to wait in. `looked` is a fresh look.
pub(super) fn turned_away(ask: &Ask, at: usize, looked: &Decision) -> Box<Refused> {
    // The bucket's own time, as if nobody waited.
    let (binding, retry_after, balances) = match looked {
        Decision::Denied(denied) => {
            (binding(ask.charges.as_slice(), denied), denied.retry_after(), denied.balances())
        }
        // There is room, for those who wait: as much again has to flow in first.
        Decision::Granted(granted) => {
            let charge = ask.charges.as_slice().get(at);
            let again = charge.map(|charge| {
                let cost = u32::try_from(charge.cost).unwrap_or(u32::MAX);
                charge.quota.unit_interval().saturating_mul(cost)
            });
            (None, again.unwrap_or_default(), granted.balances())
        }
        Decision::Impossible(impossible) => return exceeds(ask, impossible.exceeding()),
    };
    limited(ask, binding.unwrap_or(at), retry_after, balances)
}

/// The limiter refuses, and nothing is held.
pub(super) fn refused_now(ask: &Ask, denied: &Denied) -> Box<Refused> {
    let binding = binding(ask.charges.as_slice(), denied).unwrap_or_default();
    limited(ask, binding, denied.retry_after(), denied.balances())
}

/// Nothing is held where a request that has not asked the limiter would have to wait. `looked` is a fresh look.
pub(super) fn not_held(ask: &Ask, refusal: &Refusal, looked: &Decision) -> Box<Refused> {
    match looked {
        Decision::Denied(denied) => refused_now(ask, denied),
        _ => {
            let gate = ask.charges.as_slice().iter().position(|charge| gate_of(charge) == refusal.gate);
            turned_away(ask, gate.unwrap_or_default(), looked)
        }
    }
}

fn limited(ask: &Ask, binding: usize, retry_after: Duration, balances: &Balances) -> Box<Refused> {
    let limited = RateLimited {
        limit_type: ask.charges.dimension(binding).unwrap_or(Dimension::Model),
        class: ask.charges.class(binding),
        retry_after,
        held: None,
        deferred: None,
    };
    Box::new(Refused { fault: Fault::RateLimited(limited), quotas: tightest(ask, balances) })
}

/// The request asks for more than a bucket ever holds.
pub(super) fn exceeds(ask: &Ask, charges: &[usize]) -> Box<Refused> {
    let at = charges.first().copied().unwrap_or_default();
    let limit_type = ask.charges.dimension(at).unwrap_or(Dimension::Model);
    let (class, excess) = (ask.charges.class(at), ask.charges.excess(at));
    fault(ask, Fault::ExceedsLimit { limit_type, class, excess })
}

/// Anything else; of the quotas only the edge's is known.
pub(super) fn fault(ask: &Ask, fault: Fault) -> Box<Refused> {
    Box::new(Refused { fault, quotas: ask.edge.into() })
}

fn dimension_of(ask: &Ask, gate: GateKey) -> Dimension {
    let at = ask.charges.as_slice().iter().position(|charge| gate_of(charge) == gate);
    at.and_then(|at| ask.charges.dimension(at)).unwrap_or(Dimension::Model)
}
