//! What may be held in which class.

use super::FairQueue;
use super::choice::Candidate;
use crate::waiter::Want;
use crate::{Class, Reason, Timestamp};

/// The most requests that are held in all. The costs of so many, at 2^40 for the most that a turn is charged, add up to
/// less than 2^64.
const MOST: usize = (1 << 24) - 1;

impl FairQueue {
    /// Is anything held in this class?
    pub(super) const fn is_held(&self, class: Class) -> bool {
        self.limits.of(class).is_some()
    }

    /// Can what is known of this gate's bucket keep the request waiting? Where nothing is held nobody waits, and so nobody
    /// tells what comes back to the bucket: only what the limiter has told just now counts there.
    pub(super) fn binds(&self, candidate: &Candidate<'_>, want: &Want) -> bool {
        candidate.is_told || self.is_held(self.gates[want.gate].class)
    }

    /// The first reason not to hold a request that asks for it, at `gate`. There is one where the driver has no room.
    pub(super) fn reason_against(
        &mut self,
        candidate: &Candidate<'_>,
        gate: u32,
        deadline: Timestamp,
        has_room: bool,
        now: Timestamp,
    ) -> Option<Reason> {
        let class = self.gates[gate].class;
        if let Some(reason) = self.reached_bound(class, candidate.tenant) {
            return Some(reason);
        }
        if !has_room || self.held() >= MOST {
            return Some(Reason::full(class));
        }
        let full = self.tenants() >= self.limits.max_tenants.get();
        if candidate.tenant.is_none() && full && !self.can_forget_one() {
            return Some(Reason::table_full(class));
        }
        if self.earliest(candidate, Some(gate), now) > deadline {
            return Some(Reason::WaitExceedsBudget);
        }
        // Only now, when it is certain that the place is needed.
        if candidate.tenant.is_none() && full {
            self.forget_one();
        }
        None
    }

    /// The first of a class's bounds that is reached.
    fn reached_bound(&self, class: Class, tenant: Option<u32>) -> Option<Reason> {
        let Some(limits) = self.limits.of(class) else { return Some(Reason::NotHeld) };
        if self.counts[class] >= limits.max_held.get() {
            return Some(Reason::full(class));
        }
        let own = tenant.map_or(0, |tenant| self.tenants[tenant].held[class]);
        (own >= limits.max_held_per_tenant.get()).then(|| Reason::tenant_full(class))
    }

    /// When a request that is held now for the first time must have its answer.
    pub(super) fn first_deadline(&self, class: Class, own: Timestamp, now: Timestamp) -> Timestamp {
        self.limits.of(class).map_or(own, |limits| own.min(now + limits.max_wait))
    }

    /// Why a request that is held already, and whose turn has come elsewhere, cannot wait at `gate`. `None` if it can: it
    /// is held in that gate's class from now on.
    ///
    /// Its deadline stays, or is drawn nearer by what that class allows. No deadline list may contain it.
    pub(super) fn reason_to_leave(
        &mut self,
        waiter: u32,
        tenant: u32,
        gate: u32,
        now: Timestamp,
    ) -> Option<Reason> {
        let (from, class) = (self.waiters[waiter].class, self.gates[gate].class);
        if class != from {
            if let Some(reason) = self.reached_bound(class, Some(tenant)) {
                return Some(reason);
            }
            for counts in [&mut self.counts, &mut self.tenants[tenant].held] {
                counts[from] -= 1;
                counts[class] += 1;
            }
            let arrived = self.waiters[waiter].arrived;
            let deadline = self.first_deadline(class, self.waiters[waiter].deadline, arrived);
            self.waiters[waiter].deadline = deadline;
            self.waiters[waiter].hold_in(class, now);
        }
        let held = &self.waiters[waiter];
        if now >= held.deadline {
            return Some(Reason::DeadlineExceeded);
        }
        let candidate = self.candidate(waiter, tenant);
        // It goes to the head of its lane, or nearly: those that are there now are behind it.
        (self.earliest(&candidate, None, now) > held.deadline).then_some(Reason::WaitExceedsBudget)
    }
}
