//! The limits on the wire: everything, and each client address, before anybody is known.

use std::{fmt, future::Future, net::IpAddr, pin::Pin, sync::Arc};

use fairlane_fair_queue::Class;
use fairlane_limiter::Decision;

use super::{
    ask::Refused,
    limiter::{Limiter, Undecided, binding},
};
use crate::{
    answer::{Fault, QuotaStatus, Quotas, RateLimited},
    dimension::Dimension,
    limits::{Charges, EdgeLimits},
};

/// Decides on `global` and `per_client`. Its refusals are told at once and never queued: there is no tenant yet.
#[derive(Debug)]
pub struct Edge {
    limiter: Arc<Limiter>,
    limits: EdgeLimits,
}

/// A request that the limits on the wire let pass.
#[derive(Clone, Copy, Debug)]
pub struct Passed {
    /// Whether it bypasses all other limits too.
    pub bypass: bool,
    /// The tightest bucket it met.
    pub quota: Option<QuotaStatus>,
}

/// Whether a request passes: known at once, or once a store that has to be waited for has answered.
pub enum Passing {
    /// It is known.
    Decided(Result<Passed, Box<Refused>>),
    /// The store is asked as soon as this is polled.
    Asking(Pin<Box<dyn Future<Output = Result<Passed, Box<Refused>>> + Send>>),
}

impl Edge {
    /// Decides by `limits` over `limiter`.
    #[must_use]
    pub const fn new(limiter: Arc<Limiter>, limits: EdgeLimits) -> Self {
        Self { limiter, limits }
    }

    /// Charges a request from `client`. One that is refused has been charged nothing; one that passes is never given its
    /// charges back.
    #[must_use]
    pub fn pass(&self, client: IpAddr) -> Passing {
        if self.limits.bypasses(client) {
            return Passing::Decided(Ok(Passed { bypass: true, quota: None }));
        }
        let charges = self.limits.charges(client);
        if charges.is_empty() {
            return Passing::Decided(Ok(Passed { bypass: false, quota: None }));
        }
        if let Some(decision) = self.limiter.take_now(charges.as_slice()) {
            return Passing::Decided(passed(&charges, &decision));
        }
        let limiter = Arc::clone(&self.limiter);
        Passing::Asking(Box::pin(async move {
            match limiter.take(&charges).await {
                Ok(decision) => passed(&charges, &decision),
                Err(Undecided::Unmetered) => Ok(Passed { bypass: false, quota: None }),
                Err(Undecided::Refused(_)) => {
                    Err(Box::new(Refused { fault: Fault::StoreUnavailable, quotas: Quotas::default() }))
                }
            }
        }))
    }
}

fn passed(charges: &Charges, decision: &Decision) -> Result<Passed, Box<Refused>> {
    match decision {
        Decision::Granted(granted) => {
            Ok(Passed { bypass: false, quota: charges.tightest(granted.balances()).requests })
        }
        Decision::Denied(denied) => {
            let binding = binding(charges.as_slice(), denied);
            Err(Box::new(Refused {
                quotas: charges.tightest(denied.balances()),
                fault: Fault::RateLimited(RateLimited {
                    limit_type: limit_type(charges, binding),
                    class: Class::Requests,
                    retry_after: denied.retry_after(),
                    held: None,
                    deferred: None,
                }),
            }))
        }
        Decision::Impossible(impossible) => {
            let at = impossible.exceeding().first().copied();
            let (limit_type, excess) = (limit_type(charges, at), at.and_then(|at| charges.excess(at)));
            let fault = Fault::ExceedsLimit { limit_type, class: Class::Requests, excess };
            Err(Box::new(Refused { fault, quotas: Quotas::default() }))
        }
    }
}

fn limit_type(charges: &Charges, binding: Option<usize>) -> Dimension {
    binding.and_then(|at| charges.dimension(at)).unwrap_or(Dimension::Global)
}

impl fmt::Debug for Passing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Decided(passed) => f.debug_tuple("Decided").field(passed).finish(),
            Self::Asking(_) => f.write_str("Asking"),
        }
    }
}
