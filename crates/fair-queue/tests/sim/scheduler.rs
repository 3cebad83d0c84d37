//! What the simulator drives: the queue, and two schedulers that are not fair (the negative controls).

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Debug;
use std::time::Duration;

use fairlane_fair_queue::{
    Action, FairQueue, GateKey, GateLevel, Reason, Request, Requeue, Ticket, Timestamp,
};

pub(crate) enum Step<T> {
    Grant(T),
    Expire(T),
}

pub(crate) trait Scheduler {
    type Ticket: Copy + Ord + Debug;

    fn enqueue(&mut self, request: Request<'_>, now: Timestamp) -> Result<(Self::Ticket, Duration), Reason>;
    fn admitted(&mut self, ticket: Self::Ticket, levels: &[GateLevel], now: Timestamp);
    /// Is it still held?
    fn refused(&mut self, ticket: Self::Ticket, levels: &[GateLevel], now: Timestamp) -> bool;
    fn poll(&mut self, now: Timestamp) -> Option<Step<Self::Ticket>>;
    fn next_wakeup(&self) -> Option<Timestamp>;
    fn contended(&self, gate: GateKey) -> bool;
}

impl Scheduler for FairQueue {
    type Ticket = Ticket;

    fn enqueue(&mut self, request: Request<'_>, now: Timestamp) -> Result<(Ticket, Duration), Reason> {
        let place = Self::enqueue(self, request, now).map_err(|refusal| refusal.reason)?;
        Ok((place.ticket, place.estimate))
    }

    fn admitted(&mut self, ticket: Ticket, levels: &[GateLevel], now: Timestamp) {
        assert!(Self::admitted(self, ticket, levels, now));
    }

    fn refused(&mut self, ticket: Ticket, levels: &[GateLevel], now: Timestamp) -> bool {
        match Self::refused(self, ticket, levels, now) {
            Requeue::Requeued(_) => true,
            Requeue::Refused(_) => false,
            Requeue::Unknown => panic!("{ticket:?} was granted"),
        }
    }

    fn poll(&mut self, now: Timestamp) -> Option<Step<Ticket>> {
        Some(match Self::poll(self, now)? {
            Action::Grant { ticket, .. } => Step::Grant(ticket),
            Action::Refuse { ticket, .. } => Step::Expire(ticket),
        })
    }

    fn next_wakeup(&self) -> Option<Timestamp> {
        Self::next_wakeup(self)
    }

    fn contended(&self, gate: GateKey) -> bool {
        Self::contended(self, gate)
    }
}

#[derive(Debug)]
struct Held {
    tenant: u128,
    cost: u64,
    deadline: Timestamp,
    ready: Timestamp,
}

/// First come, first served: one line for all, as long as the real queue's would be.
#[derive(Debug, Default)]
pub(crate) struct FirstCome {
    line: VecDeque<u64>,
    held: BTreeMap<u64, Held>,
    attempt: Option<u64>,
    opens: Timestamp,
    next: u64,
}

const LINE: usize = 128;

/// Nothing but each one's own Retry-After: no line, no gate, no order.
#[derive(Debug, Default)]
pub(crate) struct NoOp {
    held: BTreeMap<u64, Held>,
    next: u64,
}

/// When the refusing buckets would have the cost, by what they told.
fn opens(levels: &[GateLevel], cost: u64, now: Timestamp) -> Timestamp {
    let wait = |level: &GateLevel| {
        let missing = i128::from(cost) - i128::from(level.level) - 1;
        if missing < 0 {
            return Duration::ZERO;
        }
        let whole = missing.unsigned_abs() * level.period.as_nanos() / u128::from(level.refill);
        level.until_next + Duration::from_nanos(u64::try_from(whole).unwrap())
    };
    now + levels.iter().map(wait).max().unwrap_or_default()
}

fn held(request: &Request<'_>, now: Timestamp) -> Held {
    let cost = request.demands.iter().map(|demand| demand.cost).max().unwrap_or(1);
    let ready = opens(request.levels, cost, now);
    Held { tenant: request.tenant.0, cost, deadline: request.deadline, ready }
}

impl Scheduler for FirstCome {
    type Ticket = u64;

    fn enqueue(&mut self, request: Request<'_>, now: Timestamp) -> Result<(u64, Duration), Reason> {
        if self.held.len() >= LINE {
            return Err(Reason::QueueFull);
        }
        let held = held(&request, now);
        self.opens = self.opens.max(held.ready);
        self.next += 1;
        self.held.insert(self.next, held);
        self.line.push_back(self.next);
        Ok((self.next, Duration::ZERO))
    }

    fn admitted(&mut self, ticket: u64, levels: &[GateLevel], now: Timestamp) {
        self.held.remove(&ticket);
        self.attempt = None;
        self.opens = opens(levels, 1, now);
    }

    fn refused(&mut self, ticket: u64, levels: &[GateLevel], now: Timestamp) -> bool {
        self.attempt = None;
        self.opens = opens(levels, self.held[&ticket].cost, now);
        self.line.push_front(ticket);
        true
    }

    fn poll(&mut self, now: Timestamp) -> Option<Step<u64>> {
        // All have the same budget, so the first of the line runs out first.
        if let Some(&ticket) = self.line.front()
            && self.held[&ticket].deadline < now
        {
            self.line.pop_front();
            self.held.remove(&ticket);
            return Some(Step::Expire(ticket));
        }
        if self.attempt.is_some() || self.opens > now {
            return None;
        }
        self.attempt = self.line.pop_front();
        self.attempt.map(Step::Grant)
    }

    fn next_wakeup(&self) -> Option<Timestamp> {
        let deadline =
            self.line.iter().map(|ticket| self.held[ticket].deadline + Duration::from_nanos(1)).min();
        let opens = (!self.line.is_empty() && self.attempt.is_none()).then_some(self.opens);
        [opens, deadline].into_iter().flatten().min()
    }

    fn contended(&self, _gate: GateKey) -> bool {
        !self.held.is_empty()
    }
}

impl Scheduler for NoOp {
    type Ticket = u64;

    fn enqueue(&mut self, request: Request<'_>, now: Timestamp) -> Result<(u64, Duration), Reason> {
        let held = held(&request, now);
        if self.held.values().filter(|other| other.tenant == held.tenant).count() >= 32 {
            return Err(Reason::TenantQueueFull);
        }
        self.next += 1;
        self.held.insert(self.next, held);
        Ok((self.next, Duration::ZERO))
    }

    fn admitted(&mut self, ticket: u64, _levels: &[GateLevel], _now: Timestamp) {
        self.held.remove(&ticket);
    }

    fn refused(&mut self, ticket: u64, levels: &[GateLevel], now: Timestamp) -> bool {
        let Some(held) = self.held.get_mut(&ticket) else { return false };
        held.ready = opens(levels, held.cost, now).max(now + Duration::from_nanos(1));
        true
    }

    fn poll(&mut self, now: Timestamp) -> Option<Step<u64>> {
        let next = self.held.iter_mut().find(|(_, held)| held.ready.min(held.deadline) <= now)?;
        let (ticket, held) = next;
        if held.deadline <= now {
            let ticket = *ticket;
            self.held.remove(&ticket);
            return Some(Step::Expire(ticket));
        }
        held.ready = Timestamp::MAX;
        Some(Step::Grant(*ticket))
    }

    fn next_wakeup(&self) -> Option<Timestamp> {
        self.held.values().map(|held| held.ready.min(held.deadline)).min()
    }

    fn contended(&self, _gate: GateKey) -> bool {
        false
    }
}
