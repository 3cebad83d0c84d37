//! Admission: one atomic decision over all of a request's charges, and the wait for it where the caller may wait.
//!
//! [`Admission::admit`] is the core; [`AdmissionLayer`] is the same as tower middleware.

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
use fairlane_limiter::{Decision, Denied, Store as _};
use tokio::time::Instant;

pub(crate) use self::limiter::gate_of;
pub use self::{
    ask::{Ask, Refused, Tenant},
    edge::{Edge, Passed},
    layer::{AdmissionLayer, AdmissionService, ResponseFuture},
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
    /// # Errors
    ///
    /// Why it is not admitted; nothing has been taken then.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the lane, or gives the grant back, exactly once.
    pub async fn admit(&self, ask: Ask) -> Result<Permit, Box<Refused>> {
        if ask.charges.is_empty() {
            return Ok(Permit::new(Arc::clone(&self.returns), ask.charges, ask.edge, None));
        }
        if let Some(queue) = &self.queue
            && queue.driver.may_be_contended(&ask.charges)
        {
            // No barging: whoever comes to a bucket that others wait for joins them without asking it.
            match ask.tenant {
                Some(tenant) => {
                    let deadline = queue.deadline(&ask);
                    if let Some(joined) = queue.driver.join_contended(&ask, tenant, deadline) {
                        return self.hold_or_refuse(queue, ask, joined).await;
                    }
                }
                None => {
                    if let Some(at) = queue.driver.contended(&ask.charges) {
                        return Err(self.turn_away(&ask, at).await);
                    }
                }
            }
        }
        match self.limiter.take(ask.charges.as_slice()).await {
            Ok(Decision::Granted(granted)) => {
                let quota = tightest(&ask, granted.balances());
                Ok(Permit::new(Arc::clone(&self.returns), ask.charges, quota, None))
            }
            Ok(Decision::Denied(denied)) => match (&self.queue, ask.tenant) {
                (Some(queue), Some(tenant)) => {
                    let levels = levels(&ask.charges, denied.balances());
                    let joined = queue.driver.join(&ask, tenant, &levels, queue.deadline(&ask));
                    self.hold_or_refuse(queue, ask, joined).await
                }
                _ => Err(refused_now(&ask, &denied)),
            },
            Ok(Decision::Impossible(impossible)) => Err(exceeds(&ask, impossible.exceeding())),
            Err(_) => Err(fault(&ask, Fault::StoreUnavailable)),
        }
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

    async fn hold_or_refuse(
        &self,
        queue: &Queue,
        ask: Ask,
        joined: Result<Joined, NotHeld>,
    ) -> Result<Permit, Box<Refused>> {
        match joined {
            // Boxed: a held request's state must not make every other request's larger.
            Ok(joined) => Box::pin(self.hold(queue, ask, Held::new(joined))).await,
            Err(NotHeld::Refused(refusal)) => Err(self.queue_refused(queue, &ask, &refusal).await),
            Err(NotHeld::ShuttingDown) => Err(fault(&ask, Fault::ShuttingDown)),
        }
    }

    async fn hold(&self, queue: &Queue, ask: Ask, mut held: Held) -> Result<Permit, Box<Refused>> {
        let since = Instant::now();
        loop {
            match held.turn().await {
                Turn::Attempt => {}
                Turn::Expired(refusal) => return Err(self.queue_refused(queue, &ask, &refusal).await),
                Turn::ShuttingDown => return Err(fault(&ask, Fault::ShuttingDown)),
            }
            match self.limiter.take(ask.charges.as_slice()).await {
                Ok(Decision::Granted(granted)) => {
                    let hold = Hold {
                        position: held.position(),
                        waited: since.elapsed(),
                        estimated: held.estimate(),
                    };
                    held.admitted(&levels(&ask.charges, granted.balances()));
                    let quota = tightest(&ask, granted.balances());
                    return Ok(Permit::new(Arc::clone(&self.returns), ask.charges, quota, Some(hold)));
                }
                Ok(Decision::Denied(denied)) => {
                    match held.refused(&levels(&ask.charges, denied.balances())) {
                        Again::Held => {}
                        Again::Refused(refusal) => {
                            return Err(self.queue_refused(queue, &ask, &refusal).await);
                        }
                        Again::Gone => return Err(fault(&ask, Fault::Internal)),
                    }
                }
                Ok(Decision::Impossible(impossible)) => {
                    held.failed();
                    return Err(exceeds(&ask, impossible.exceeding()));
                }
                Err(_) => {
                    held.failed();
                    return Err(fault(&ask, Fault::StoreUnavailable));
                }
            }
        }
    }

    /// The queue refuses; the quota told is a fresh look, since the decision may be old or never have been made.
    async fn queue_refused(&self, queue: &Queue, ask: &Ask, refusal: &Refusal) -> Box<Refused> {
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
        let quota = self.look(ask).await;
        Box::new(Refused { fault: Fault::RateLimited(limited), quota })
    }

    /// Others wait for the bucket at `at`, and this request has no lane to wait in.
    async fn turn_away(&self, ask: &Ask, at: usize) -> Box<Refused> {
        let looked = match self.limiter.peek(ask.charges.as_slice()).await {
            Ok(looked) => looked,
            Err(_) => return fault(ask, Fault::StoreUnavailable),
        };
        // The bucket's own time, as if nobody waited.
        let (limit_type, retry_after, balances) = match &looked {
            Decision::Denied(denied) => {
                (binding(&ask.charges, denied), denied.retry_after(), denied.balances())
            }
            Decision::Granted(granted) => (None, Duration::ZERO, granted.balances()),
            Decision::Impossible(impossible) => return exceeds(ask, impossible.exceeding()),
        };
        let limit_type = limit_type.or_else(|| ask.charges.dimension(at)).unwrap_or(Dimension::Model);
        Box::new(Refused {
            fault: Fault::RateLimited(RateLimited { limit_type, retry_after, fair_queue: None }),
            quota: tightest(ask, balances),
        })
    }

    async fn look(&self, ask: &Ask) -> Option<QuotaStatus> {
        match self.limiter.peek(ask.charges.as_slice()).await.ok()? {
            Decision::Granted(granted) => tightest(ask, granted.balances()),
            Decision::Denied(denied) => tightest(ask, denied.balances()),
            Decision::Impossible(_) => ask.edge,
        }
    }
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
