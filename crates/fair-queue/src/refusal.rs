use std::fmt;
use std::time::Duration;

use crate::{Class, GateKey, Place};

/// Why a request is not held, or no longer.
///
/// When a request asks to be held, and when it moves from one class into the other, what applies to that class is
/// checked in this order, and the first that applies is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// Nothing is held in the class in which it would have to be. It is told as if there were no queue.
    NotHeld,
    /// As many requests are queued as may be.
    QueueFull,
    /// As many requests of this tenant are queued as may be.
    TenantQueueFull,
    /// As many tenants as the queue may track are tracked, and none of them can be forgotten.
    TenantTableFull,
    /// As many requests are deferred as may be, or so many tenants are tracked that nobody can be deferred for another.
    HoldFull,
    /// As many requests of this tenant are deferred as may be.
    TenantHoldFull,
    /// The earliest moment at which it could be served lies beyond its budget.
    WaitExceedsBudget,
    /// It was held, and its budget has run out.
    DeadlineExceeded,
}

// === impl Reason ===

impl Reason {
    /// All reasons, in the order of the checks.
    pub const ALL: [Self; 8] = [
        Self::NotHeld,
        Self::QueueFull,
        Self::TenantQueueFull,
        Self::TenantTableFull,
        Self::HoldFull,
        Self::TenantHoldFull,
        Self::WaitExceedsBudget,
        Self::DeadlineExceeded,
    ];

    /// The reasons for which a class that is held refuses, in the order of the checks.
    ///
    /// # Examples
    ///
    /// ```
    /// use fairlane_fair_queue::{Class, Reason};
    ///
    /// let names: Vec<_> = Reason::of(Class::Tokens).iter().map(|reason| reason.as_str()).collect();
    /// assert_eq!(names, ["hold_full", "tenant_hold_full", "wait_exceeds_budget", "deadline_exceeded"]);
    /// ```
    #[must_use]
    pub const fn of(class: Class) -> &'static [Self] {
        match class {
            Class::Requests => &[
                Self::QueueFull,
                Self::TenantQueueFull,
                Self::TenantTableFull,
                Self::WaitExceedsBudget,
                Self::DeadlineExceeded,
            ],
            Class::Tokens => {
                &[Self::HoldFull, Self::TenantHoldFull, Self::WaitExceedsBudget, Self::DeadlineExceeded]
            }
        }
    }

    pub(crate) const fn full(class: Class) -> Self {
        match class {
            Class::Requests => Self::QueueFull,
            Class::Tokens => Self::HoldFull,
        }
    }

    pub(crate) const fn tenant_full(class: Class) -> Self {
        match class {
            Class::Requests => Self::TenantQueueFull,
            Class::Tokens => Self::TenantHoldFull,
        }
    }

    pub(crate) const fn table_full(class: Class) -> Self {
        match class {
            Class::Requests => Self::TenantTableFull,
            Class::Tokens => Self::HoldFull,
        }
    }

    /// The name told to callers and used in metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotHeld => "not_held",
            Self::QueueFull => "queue_full",
            Self::TenantQueueFull => "tenant_queue_full",
            Self::TenantTableFull => "tenant_table_full",
            Self::HoldFull => "hold_full",
            Self::TenantHoldFull => "tenant_hold_full",
            Self::WaitExceedsBudget => "wait_exceeds_budget",
            Self::DeadlineExceeded => "deadline_exceeded",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The answer to a request that is not held, or no longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("refused by the fair queue: {reason}")]
pub struct Refusal {
    /// Why.
    pub reason: Reason,
    /// What refuses it, queuing or deferral: the class in which it was held, or in which it would have been next.
    pub class: Class,
    /// The gate at which it waited or would have waited.
    pub gate: GateKey,
    /// Its place in its tenant's lane there, counted from 1: the one it had, or the one it would have had.
    pub position: usize,
    /// How long it was held, in both classes together.
    pub waited: Duration,
    /// Of that, how long it was deferred.
    pub deferred: Duration,
    /// How long to wait before asking again: the estimate for a request of this size, but no longer than the
    /// buckets need for it behind its own lane, and no shorter than they need for it alone.
    pub retry_after: Duration,
}

/// What becomes of a request whose attempt the limiter refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a request refused here has left the queue and waits for its answer"]
pub enum Requeue {
    /// It waits again, in the order of its arrival; perhaps at another gate and in the other class.
    Requeued(Place),
    /// It cannot be served within its budget, or cannot be held where it would have to wait, and has left the queue.
    Refused(Refusal),
    /// No attempt of that ticket is out.
    Unknown,
}
