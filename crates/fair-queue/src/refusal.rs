use std::fmt;
use std::time::Duration;

use crate::{GateKey, Place};

/// Why a request is not held, or no longer.
///
/// At enqueue the first four are checked in this order, and the first that applies is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// As many requests as the queue may hold are held.
    QueueFull,
    /// As many requests of this tenant as it may have are held.
    TenantQueueFull,
    /// As many tenants as the queue may track are tracked, and none of them can be forgotten.
    TenantTableFull,
    /// The earliest moment at which it could be served lies beyond its budget.
    WaitExceedsBudget,
    /// It was held, and its budget has run out.
    DeadlineExceeded,
}

// === impl Reason ===

impl Reason {
    /// All reasons, in the order of the checks.
    pub const ALL: [Self; 5] = [
        Self::QueueFull,
        Self::TenantQueueFull,
        Self::TenantTableFull,
        Self::WaitExceedsBudget,
        Self::DeadlineExceeded,
    ];

    /// The name told to callers and used in metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::QueueFull => "queue_full",
            Self::TenantQueueFull => "tenant_queue_full",
            Self::TenantTableFull => "tenant_table_full",
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
    /// The gate at which it waited or would have waited.
    pub gate: GateKey,
    /// Its place in its tenant's lane, counted from 1: the one it had, or the one it would have had.
    pub position: usize,
    /// How long it was held.
    pub waited: Duration,
    /// How long to wait before asking again: the estimate for a request of this size, but no longer than the
    /// buckets need for it behind its own lane, and no shorter than they need for it alone.
    pub retry_after: Duration,
}

/// What becomes of a request whose attempt the limiter refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a request refused here has left the queue and waits for its answer"]
pub enum Requeue {
    /// It waits again, in the order of its arrival.
    Requeued(Place),
    /// It cannot be served within its budget and has left the queue.
    Refused(Refusal),
    /// No attempt of that ticket is out.
    Unknown,
}
