//! How requests are refused: which limit is named, and what is told of quotas and times.

use fairlane_fair_queue::{GateKey, Refusal};
use fairlane_limiter::{Balances, Decision, Denied};

use super::{
    ask::{Ask, Refused},
    limiter::{binding, gate_of},
};
use crate::{
    answer::{Fault, QueueRefusal, QuotaStatus, RateLimited},
    dimension::Dimension,
};

/// The tightest of all buckets met so far, edge included.
pub(super) fn tightest(ask: &Ask, balances: &Balances) -> Option<QuotaStatus> {
    match (ask.edge, ask.charges.tightest(balances)) {
        (Some(edge), Some(identity)) => Some(edge.tighter(identity)),
        (edge, identity) => edge.or(identity),
    }
}

/// The same of a decision, where nothing more is to be learnt from it.
pub(super) fn tightest_of(ask: &Ask, decision: &Decision) -> Option<QuotaStatus> {
    match decision {
        Decision::Granted(granted) => tightest(ask, granted.balances()),
        Decision::Denied(denied) => tightest(ask, denied.balances()),
        Decision::Impossible(_) => ask.edge,
    }
}

/// The queue refuses. `quota` is the tightest bucket, as of a look or of the last decision.
pub(super) fn queue_refused(
    tenant_dimension: &'static str,
    ask: &Ask,
    refusal: &Refusal,
    quota: Option<QuotaStatus>,
) -> Box<Refused> {
    let limited = RateLimited {
        limit_type: dimension_of(ask, refusal.gate),
        retry_after: refusal.retry_after,
        fair_queue: Some(QueueRefusal {
            tenant_dimension,
            reason: refusal.reason.as_str(),
            position: refusal.position,
            waited: refusal.waited,
        }),
    };
    Box::new(Refused { fault: Fault::RateLimited(limited), quota })
}

/// Others wait for the bucket at `at`, and this request has no lane to wait in. `looked` is a fresh look.
pub(super) fn turned_away(ask: &Ask, at: usize, looked: &Decision) -> Box<Refused> {
    // The bucket's own time, as if nobody waited.
    let (limit_type, retry_after, balances) = match looked {
        Decision::Denied(denied) => (binding(&ask.charges, denied), denied.retry_after(), denied.balances()),
        // There is room, for those who wait: the next is an interval away.
        Decision::Granted(granted) => {
            let interval = ask.charges.as_slice().get(at).map(|charge| charge.quota.unit_interval());
            (None, interval.unwrap_or_default(), granted.balances())
        }
        Decision::Impossible(impossible) => return exceeds(ask, impossible.exceeding()),
    };
    let limit_type = limit_type.or_else(|| ask.charges.dimension(at)).unwrap_or(Dimension::Model);
    Box::new(Refused {
        fault: Fault::RateLimited(RateLimited { limit_type, retry_after, fair_queue: None }),
        quota: tightest(ask, balances),
    })
}

/// The limiter refuses, and nothing is held.
pub(super) fn refused_now(ask: &Ask, denied: &Denied) -> Box<Refused> {
    let limited = RateLimited {
        limit_type: binding(&ask.charges, denied).unwrap_or(Dimension::Model),
        retry_after: denied.retry_after(),
        fair_queue: None,
    };
    Box::new(Refused { fault: Fault::RateLimited(limited), quota: tightest(ask, denied.balances()) })
}

/// The request asks for more than a bucket ever holds.
pub(super) fn exceeds(ask: &Ask, charges: &[usize]) -> Box<Refused> {
    let limit_type = charges.first().and_then(|&at| ask.charges.dimension(at)).unwrap_or(Dimension::Model);
    fault(ask, Fault::ExceedsLimit { limit_type })
}

/// Anything else; of the quotas only the edge's is known.
pub(super) fn fault(ask: &Ask, fault: Fault) -> Box<Refused> {
    Box::new(Refused { fault, quota: ask.edge })
}

fn dimension_of(ask: &Ask, gate: GateKey) -> Dimension {
    let at = ask.charges.as_slice().iter().position(|charge| gate_of(charge) == gate);
    at.and_then(|at| ask.charges.dimension(at)).unwrap_or(Dimension::Model)
}
