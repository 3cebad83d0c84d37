//! Admission: one atomic decision over all of a request's charges, and the wait for it where the caller may wait.
//!
//! [`Admission::admit`] is the core; [`AdmissionLayer`] is the same as tower middleware.

mod admitting;
mod ask;
mod driver;
mod edge;
mod hint;
mod layer;
mod limiter;
mod permit;
mod wait;

use std::{sync::Arc, time::Duration};

use fairlane_fair_queue::Refusal;
use fairlane_limiter::{Decision, Denied};
use tokio::time::Instant;

pub(crate) use self::limiter::gate_of;
pub use self::{
    admitting::Admitting,
    ask::{Ask, Refused, Tenant},
    edge::{Edge, Passed},
    layer::{AdmissionLayer, AdmissionService, Classify, ResponseFuture},
    limiter::Limiter,
    permit::{Permit, PermitBody},
};
use self::{
    driver::{Again, Driver, Joined, NotHeld, Turn},
    limiter::{binding, levels},
    permit::{Hold, Returns},
    wait::Held,
};
use crate::{
    answer::{Fault, QueueRefusal, QuotaStatus, RateLimited},
    clock::TokioClock,
    dimension::Dimension,
    limits::Charges,
    telemetry::Telemetry,
};

/// How refused requests are held.
#[derive(Clone, Copy, Debug)]
pub struct QueueSettings {
    /// The bounds of the scheduler.
    pub limits: fairlane_fair_queue::Limits,
    /// The longest that one request is held.
    pub max_wait: Duration,
    /// The smallest total timeout of any request class: nothing is held for longer than it may take.
    pub smallest_total: Duration,
    /// The configured tenant dimension, as refusals name it.
    pub tenant_dimension: &'static str,
    /// Bytes of bodies held in all.
    pub max_body_bytes: u64,
}

/// Decides who goes on to a backend, and holds who may wait.
#[derive(Debug)]
pub struct Admission {
    limiter: Arc<Limiter>,
    queue: Option<Queue>,
    returns: Arc<Returns>,
}

#[derive(Debug)]
struct Queue {
    driver: Driver,
    settings: QueueSettings,
}

impl Admission {
    /// Admission over a limiter; with `queue`, refused requests are held. Must be called on a Tokio runtime.
    #[must_use]
    pub fn new(
        limiter: Arc<Limiter>,
        queue: Option<QueueSettings>,
        clock: TokioClock,
        telemetry: Arc<Telemetry>,
    ) -> Self {
        let queue = queue.map(|settings| Queue {
            driver: Driver::spawn(settings.limits, settings.max_body_bytes, clock, telemetry),
            settings,
        });
        let scheduler = queue.as_ref().map(|queue| queue.driver.handle());
        let returns = Arc::new(Returns { limiter: Arc::clone(&limiter), scheduler });
        Self { limiter, queue, returns }
    }

    /// Decides on a request, holding it where that is enabled and it may still be served in time.
    ///
    /// The decision itself is made before this returns; only a request that is held leaves something to await.
    #[must_use = "a place that nobody awaits is given up"]
    pub fn admit(self: &Arc<Self>, ask: Ask) -> Admitting {
        match self.decide(ask) {
            Begun::Decided(decided) => Admitting::decided(decided),
            Begun::Held(ask, joined) => {
                Admitting::held(Box::pin(Arc::clone(self).hold(ask, Held::new(joined))))
            }
        }
    }

    fn decide(&self, ask: Ask) -> Begun {
        if ask.charges.is_empty() {
            return Begun::Decided(Ok(self.permit(ask.charges, ask.edge, None)));
        }
        if let Some(queue) = &self.queue
            && queue.driver.may_be_contended(&ask.charges)
        {
            // No barging: whoever comes to a bucket that others wait for joins them without asking it.
            match ask.tenant {
                Some(tenant) => {
                    let deadline = queue.deadline(&ask);
                    if let Some(joined) = queue.driver.join_contended(&ask, tenant, deadline) {
                        return self.joined(queue, ask, joined);
                    }
                }
                None => {
                    if let Some(at) = queue.driver.contended(&ask.charges) {
                        return Begun::Decided(Err(self.turn_away(&ask, at)));
                    }
                }
            }
        }
        match self.limiter.take_now(ask.charges.as_slice()) {
            Decision::Granted(granted) => {
                let quota = tightest(&ask, granted.balances());
                Begun::Decided(Ok(self.permit(ask.charges, quota, None)))
            }
            Decision::Denied(denied) => match (&self.queue, ask.tenant) {
                (Some(queue), Some(tenant)) => {
                    let levels = levels(&ask.charges, denied.balances());
                    let joined = queue.driver.join(&ask, tenant, &levels, queue.deadline(&ask));
                    self.joined(queue, ask, joined)
                }
                _ => Begun::Decided(Err(refused_now(&ask, &denied))),
            },
            Decision::Impossible(impossible) => Begun::Decided(Err(exceeds(&ask, impossible.exceeding()))),
        }
    }

    fn permit(&self, charges: Charges, quota: Option<QuotaStatus>, hold: Option<Hold>) -> Permit {
        Permit::new(Arc::clone(&self.returns), charges, quota, hold)
    }

    /// Answers everybody who is held, and holds nobody any more; tells how many were held.
    pub fn close(&self) -> usize {
        self.queue.as_ref().map_or(0, |queue| queue.driver.close())
    }

    /// The lanes, for the admin page; `None` where nothing is ever held.
    #[must_use]
    pub fn snapshot(&self) -> Option<fairlane_fair_queue::Snapshot> {
        self.queue.as_ref().map(|queue| queue.driver.snapshot())
    }

    fn joined(&self, queue: &Queue, ask: Ask, joined: Result<Joined, NotHeld>) -> Begun {
        match joined {
            Ok(joined) => Begun::Held(Box::new(ask), joined),
            Err(NotHeld::Refused(refusal)) => Begun::Decided(Err(self.queue_refused(queue, &ask, &refusal))),
            Err(NotHeld::ShuttingDown) => Begun::Decided(Err(fault(&ask, Fault::ShuttingDown))),
        }
    }

    /// Waits for a held request's turns until one of them admits it.
    async fn hold(self: Arc<Self>, ask: Box<Ask>, mut held: Held) -> Result<Permit, Box<Refused>> {
        let since = Instant::now();
        // Only a queue holds requests.
        let Some(queue) = &self.queue else { return Err(fault(&ask, Fault::Internal)) };
        loop {
            match held.turn().await {
                Turn::Attempt => {}
                Turn::Expired(refusal) => return Err(self.queue_refused(queue, &ask, &refusal)),
                Turn::ShuttingDown => return Err(fault(&ask, Fault::ShuttingDown)),
            }
            match self.limiter.take_now(ask.charges.as_slice()) {
                Decision::Granted(granted) => {
                    let hold = Hold {
                        position: held.position(),
                        waited: since.elapsed(),
                        estimated: held.estimate(),
                    };
                    held.admitted(&levels(&ask.charges, granted.balances()));
                    let quota = tightest(&ask, granted.balances());
                    return Ok(self.permit(ask.charges, quota, Some(hold)));
                }
                Decision::Denied(denied) => match held.refused(&levels(&ask.charges, denied.balances())) {
                    Again::Held => {}
                    Again::Refused(refusal) => return Err(self.queue_refused(queue, &ask, &refusal)),
                    Again::Gone => return Err(fault(&ask, Fault::Internal)),
                },
                Decision::Impossible(impossible) => {
                    held.failed();
                    return Err(exceeds(&ask, impossible.exceeding()));
                }
            }
        }
    }

    /// The queue refuses; the quota told is a fresh look, since the decision may be old or never have been made.
    fn queue_refused(&self, queue: &Queue, ask: &Ask, refusal: &Refusal) -> Box<Refused> {
        let limited = RateLimited {
            limit_type: dimension_of(ask, refusal.gate),
            retry_after: refusal.retry_after,
            fair_queue: Some(QueueRefusal {
                tenant_dimension: queue.settings.tenant_dimension,
                reason: refusal.reason.as_str(),
                position: refusal.position,
                waited: refusal.waited,
            }),
        };
        let quota = match self.limiter.peek_now(ask.charges.as_slice()) {
            Decision::Granted(granted) => tightest(ask, granted.balances()),
            Decision::Denied(denied) => tightest(ask, denied.balances()),
            Decision::Impossible(_) => ask.edge,
        };
        Box::new(Refused { fault: Fault::RateLimited(limited), quota })
    }

    /// Others wait for the bucket at `at`, and this request has no lane to wait in.
    fn turn_away(&self, ask: &Ask, at: usize) -> Box<Refused> {
        let looked = self.limiter.peek_now(ask.charges.as_slice());
        // The bucket's own time, as if nobody waited.
        let (limit_type, retry_after, balances) = match &looked {
            Decision::Denied(denied) => {
                (binding(&ask.charges, denied), denied.retry_after(), denied.balances())
            }
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
}

/// How far a decision comes at once.
enum Begun {
    Decided(Result<Permit, Box<Refused>>),
    Held(Box<Ask>, Joined),
}

impl Queue {
    /// The end of a request's patience: the queue's own bound, or the smallest total timeout if that comes first.
    fn deadline(&self, ask: &Ask) -> Instant {
        let longest = Instant::now() + self.settings.max_wait;
        longest.min(ask.arrived + self.settings.smallest_total)
    }
}

/// The tightest of all buckets met so far, edge included.
fn tightest(ask: &Ask, balances: &fairlane_limiter::Balances) -> Option<QuotaStatus> {
    match (ask.edge, ask.charges.tightest(balances)) {
        (Some(edge), Some(identity)) => Some(edge.tighter(identity)),
        (edge, identity) => edge.or(identity),
    }
}

fn dimension_of(ask: &Ask, gate: fairlane_fair_queue::GateKey) -> Dimension {
    let at = ask.charges.as_slice().iter().position(|charge| gate_of(charge) == gate);
    at.and_then(|at| ask.charges.dimension(at)).unwrap_or(Dimension::Model)
}

fn refused_now(ask: &Ask, denied: &Denied) -> Box<Refused> {
    let limited = RateLimited {
        limit_type: binding(&ask.charges, denied).unwrap_or(Dimension::Model),
        retry_after: denied.retry_after(),
        fair_queue: None,
    };
    Box::new(Refused { fault: Fault::RateLimited(limited), quota: tightest(ask, denied.balances()) })
}

fn exceeds(ask: &Ask, charges: &[usize]) -> Box<Refused> {
    let limit_type = charges.first().and_then(|&at| ask.charges.dimension(at)).unwrap_or(Dimension::Model);
    fault(ask, Fault::ExceedsLimit { limit_type })
}

fn fault(ask: &Ask, fault: Fault) -> Box<Refused> {
    Box::new(Refused { fault, quota: ask.edge })
}
