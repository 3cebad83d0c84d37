//! The queue, driven by hand: one bucket, three tenants, virtual time.
//!
//! Run it with `cargo run -p fairlane-fair-queue --example by_hand`. It shows a driver's whole duty: after
//! each change drain `poll`, carry out what it says, and come back at `next_wakeup` at the latest.

#![expect(clippy::print_stdout, reason = "it is there to be read")]

use std::collections::BTreeMap;
use std::time::Duration;

use fairlane_fair_queue::{
    Action, Demand, FairQueue, GateKey, GateLevel, Limits, Request, TenantKey, Timestamp, Weight,
};

const GATE: GateKey = GateKey(1);
const INTERVAL: Duration = Duration::from_millis(200);

/// Five units a second, one at a time: the next is there at `next`.
struct ToyBucket {
    next: Timestamp,
}

impl ToyBucket {
    fn level(&self, now: Timestamp) -> GateLevel {
        let wait = self.next.saturating_duration_since(now);
        let is_full = wait.is_zero();
        GateLevel {
            gate: GATE,
            level: i64::from(is_full),
            until_next: if is_full { INTERVAL } else { wait },
            capacity: 1,
            refill: 5,
            period: Duration::from_secs(1),
        }
    }

    fn take(&mut self, now: Timestamp) -> bool {
        let granted = self.next <= now;
        if granted {
            self.next = now + INTERVAL;
        }
        granted
    }
}

fn main() {
    let mut queue = FairQueue::new(Limits::default());
    let mut now = Timestamp::ZERO;
    let mut bucket = ToyBucket { next: now + INTERVAL };

    // Three tenants of weights 5, 1 and 1 send ten requests each, at once, and will wait for three seconds.
    let names = BTreeMap::from([(TenantKey(1), "ada"), (TenantKey(2), "bob"), (TenantKey(3), "cy")]);
    for number in 0..10 {
        for (tenant, weight) in [(TenantKey(1), 5), (TenantKey(2), 1), (TenantKey(3), 1)] {
            let request = Request {
                tenant,
                weight: Weight::new(weight).unwrap_or_default(),
                demands: &[Demand::request(GATE)],
                levels: &[bucket.level(now)],
                arrived: now,
                deadline: now + Duration::from_secs(3),
            };
            match queue.enqueue(request, now) {
                Ok(place) => println!(
                    "{now:>6?}  {:<3} waits at position {}, for {:?} or so",
                    names[&tenant], place.position, place.estimate
                ),
                Err(refusal) => println!(
                    "{now:>6?}  {:<3} is told at once: {} at position {} (request {number}), retry after {:?}",
                    names[&tenant], refusal.reason, refusal.position, refusal.retry_after
                ),
            }
        }
    }

    loop {
        while let Some(action) = queue.poll(now) {
            match action {
                Action::Grant { ticket, tenant, waited, .. } => {
                    if bucket.take(now) {
                        queue.admitted(ticket, &[bucket.level(now)], now);
                        println!("{now:>6?}  {:<3} is admitted after {waited:?}", names[&tenant]);
                    } else if let fairlane_fair_queue::Requeue::Refused(refusal) =
                        queue.refused(ticket, &[bucket.level(now)], now)
                    {
                        println!("{now:>6?}  {:<3} is refused: {}", names[&tenant], refusal.reason);
                    }
                }
                Action::Refuse { tenant, refusal, .. } => println!(
                    "{now:>6?}  {:<3} has waited {:?}: {}",
                    names[&tenant], refusal.waited, refusal.reason
                ),
            }
        }
        if queue.is_empty() {
            break;
        }
        let Some(wakeup) = queue.next_wakeup() else { break };
        now = wakeup;
    }
}
