use std::time::Duration;

use crate::{Class, GateKey, Refusal, TenantKey, Ticket};

/// What the driver has to do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "an action that is not carried out leaves a caller without an answer"]
pub enum Action {
    /// Let this request ask the limiter, once, and report what came of it with
    /// [`admitted`](crate::FairQueue::admitted), [`refused`](crate::FairQueue::refused) or
    /// [`refused_otherwise`](crate::FairQueue::refused_otherwise),
    /// [`failed`](crate::FairQueue::failed) or [`cancel`](crate::FairQueue::cancel).
    Grant {
        /// The request.
        ticket: Ticket,
        /// Whose it is.
        tenant: TenantKey,
        /// The gate at which it waited.
        gate: GateKey,
        /// The class in which it is held, which is that of the gate.
        class: Class,
        /// How long it has been held, in both classes together.
        waited: Duration,
        /// Of that, how long it has been deferred.
        deferred: Duration,
    },
    /// Answer this request: its budget has run out, or it cannot be held at the gate where it would have to wait next.
    /// It is no longer held.
    Refuse {
        /// The request.
        ticket: Ticket,
        /// Whose it was.
        tenant: TenantKey,
        /// The answer.
        refusal: Refusal,
    },
}
