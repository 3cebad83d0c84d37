//! What is asked of admission, and what it answers.

use fairlane_fair_queue::{TenantKey, Weight};
use tokio::time::Instant;

use crate::{
    answer::{Dialect, Fault, QuotaStatus, Quotas},
    limits::Charges,
    request::Reservation,
};

/// One request, as admission sees it.
#[derive(Clone, Debug)]
pub struct Ask {
    /// What it is charged, all or nothing.
    pub charges: Charges,
    /// What each of the charges that count tokens reserves, if there are any.
    pub tokens: Option<Reservation>,
    /// Whom it waits as; without a tenant it is never held.
    pub tenant: Option<Tenant>,
    /// When it arrived: its total timeout runs from here.
    pub arrived: Instant,
    /// How much memory holding it takes, in bytes of its body.
    pub body_bytes: u64,
    /// The tightest bucket met before, at the edge.
    pub edge: Option<QuotaStatus>,
    /// Whose error shape a refusal takes.
    pub dialect: Dialect,
}

impl Ask {
    /// A request that is charged nothing, and so is always admitted.
    #[must_use]
    pub fn nothing(arrived: Instant) -> Self {
        Self {
            charges: Charges::default(),
            tokens: None,
            tenant: None,
            arrived,
            body_bytes: 0,
            edge: None,
            dialect: Dialect::default(),
        }
    }

    /// All of it, leaving a request that asks for nothing.
    pub(super) fn take(&mut self) -> Box<Self> {
        let nothing = Self::nothing(self.arrived);
        Box::new(std::mem::replace(self, nothing))
    }
}

/// A tenant and its share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tenant {
    /// The lane.
    pub key: TenantKey,
    /// The share relative to others.
    pub weight: Weight,
}

/// A request that is not admitted.
#[derive(Clone, Debug)]
pub struct Refused {
    /// Why.
    pub fault: Fault,
    /// The tightest buckets, as of the decision.
    pub quotas: Quotas,
}

impl Refused {
    /// The whole answer, quota fields included.
    #[must_use]
    pub fn answer(&self, dialect: Dialect) -> http::Response<crate::body::Body> {
        let mut response = self.fault.answer(dialect);
        self.quotas.write(response.headers_mut(), self.fault.retry_after());
        response
    }
}
