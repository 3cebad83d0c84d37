//! The limits on the wire: everything, and each client address, before anybody is known.

use std::{net::IpAddr, sync::Arc};

use fairlane_limiter::Decision;

use super::{
    ask::Refused,
    limiter::{Limiter, binding},
};
use crate::{
    answer::{Fault, QuotaStatus, RateLimited},
    dimension::Dimension,
    limits::EdgeLimits,
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

impl Edge {
    /// Decides by `limits` over `limiter`.
    #[must_use]
    pub const fn new(limiter: Arc<Limiter>, limits: EdgeLimits) -> Self {
        Self { limiter, limits }
    }

    /// Charges a request from `client`.
    ///
    /// # Errors
    ///
    /// Why it may not pass; nothing has been taken then.
    pub fn pass(&self, client: IpAddr) -> Result<Passed, Box<Refused>> {
        let bypass = self.limits.bypasses(client);
        let charges = if bypass { None } else { Some(self.limits.charges(client)) };
        let Some(charges) = charges.filter(|charges| !charges.is_empty()) else {
            return Ok(Passed { bypass, quota: None });
        };
        match self.limiter.take_now(charges.as_slice()) {
            Decision::Granted(granted) => Ok(Passed { bypass, quota: charges.tightest(granted.balances()) }),
            Decision::Denied(denied) => Err(Box::new(Refused {
                quota: charges.tightest(denied.balances()),
                fault: Fault::RateLimited(RateLimited {
                    limit_type: binding(&charges, &denied).unwrap_or(Dimension::Global),
                    retry_after: denied.retry_after(),
                    fair_queue: None,
                }),
            })),
            Decision::Impossible(impossible) => {
                let limit_type = impossible.exceeding().first().and_then(|&at| charges.dimension(at));
                let limit_type = limit_type.unwrap_or(Dimension::Global);
                Err(Box::new(Refused { fault: Fault::ExceedsLimit { limit_type }, quota: None }))
            }
        }
    }
}
