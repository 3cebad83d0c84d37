//! Admission: one atomic decision over all of a request's charges, and the wait for it where the caller may wait.
//!
//! [`Admission::admit`] is the core; [`AdmissionLayer`] is the same as tower middleware.

mod admitting;
mod ask;
mod correction;
mod dispatch;
mod driver;
mod edge;
mod generation;
mod hint;
mod layer;
mod limiter;
mod permit;
mod redis;
mod refusals;
mod remote;
mod settling;
mod store;
mod wait;

use std::{collections::HashMap, sync::Arc, time::Duration};

use fairlane_fair_queue::{Limits, Reason, Refusal, TenantKey, Weight};
use fairlane_limiter::{Decision, Denied};
use tokio::time::Instant;

pub(crate) use self::limiter::gate_of;
use self::{
    admitting::Admitted,
    driver::{Driver, Joined, NotHeld, Told},
    limiter::{Undecided, levels},
    permit::{Hold, Returns},
    refusals::{
        balances, exceeds, fault, hold_refused, not_held, refused_now, tightest, tightest_of, turned_away,
    },
    wait::Held,
};
pub use self::{
    admitting::Admitting,
    ask::{Ask, Refused, Tenant},
    dispatch::BackendCharges,
    edge::{Edge, Passed, Passing},
    generation::Generation,
    layer::{AdmissionLayer, AdmissionService, Classify, ResponseFuture},
    limiter::Limiter,
    permit::{Permit, PermitBody},
    store::{Outage, Reach, RemoteStore, SettleFuture, StoreFuture},
};
use crate::{
    answer::{Fault, Quotas},
    clock::TokioClock,
    telemetry::Telemetry,
};

/// Buckets that are looked at in one call when limits have changed.
const LOOKED_AT_ONCE: usize = 64;

/// How refused requests are held.
#[derive(Clone, Copy, Debug)]
pub struct QueueSettings {
    /// The bounds of the scheduler, among them whether requests are queued and whether they are deferred.
    pub limits: fairlane_fair_queue::Limits,
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
    driver: Arc<Driver>,
    queue: Option<QueueSettings>,
    returns: Arc<Returns>,
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
        let (limits, max_body_bytes) = bounds(queue.as_ref());
        let generation = limiter.generation();
        let driver = Arc::new(Driver::spawn(limits, max_body_bytes, generation, clock, telemetry));
        Self::by(limiter, driver, queue, generation)
    }

    fn by(
        limiter: Arc<Limiter>,
        driver: Arc<Driver>,
        queue: Option<QueueSettings>,
        generation: Generation,
    ) -> Self {
        let returns =
            Arc::new(Returns { limiter: Arc::clone(&limiter), scheduler: driver.handle(), generation });
        Self { limiter, driver, queue, returns }
    }

    /// The same admission, with the same requests held, by other settings and for charges of other limits. It goes by them
    /// from [`Admission::take_over`] on.
    #[must_use]
    pub fn successor(&self, queue: Option<QueueSettings>, generation: Generation) -> Self {
        Self::by(Arc::clone(&self.limiter), Arc::clone(&self.driver), queue, generation)
    }

    /// Puts the settings of this admission in force for all who are held, and those whom the earlier ones still admit. Nobody
    /// is dropped: a bound that is exceeded now refuses newcomers. Tenants without an entry in `weights` keep theirs.
    pub fn take_over(&self, weights: &HashMap<TenantKey, Weight>, telemetry: Arc<Telemetry>) {
        let (limits, max_body_bytes) = bounds(self.queue.as_ref());
        self.driver.reconfigure(limits, max_body_bytes, weights, self.returns.generation, telemetry);
    }

    /// Tells those who are held what their buckets hold by the quotas that are in force now. False if the store could not
    /// say it of all of them.
    ///
    /// # Cancel safety
    ///
    /// Dropped, it leaves some of them to find out with their next attempt.
    pub async fn observe(&self) -> bool {
        let gates = self.driver.gates();
        if gates.is_empty() {
            return true;
        }
        let by = self.limiter.generation();
        let (charges, unlimited) = self.limiter.quotas().at(&gates);
        let scheduler = self.driver.handle();
        scheduler.unlimited(&unlimited);
        // A look locks all that it looks at: many buckets are not looked at in one.
        for charges in charges.chunks(LOOKED_AT_ONCE) {
            let Ok(looked) = self.limiter.peek(&charges).await else { return false };
            if let Some(balances) = balances(&looked) {
                scheduler.moved(&charges, balances, by);
            }
        }
        true
    }

    /// Decides on a request, holding it where that is enabled and it may still be served in time.
    ///
    /// A store in memory decides before this returns, and only a request that is held leaves something to await. Any other
    /// store is asked once what comes back is polled.
    #[must_use = "a place that nobody awaits is given up"]
    pub fn admit(self: &Arc<Self>, ask: Ask) -> Admitting {
        self.admit_boxed(Box::new(ask))
    }

    /// The same for what is on the heap already; it stays there for as long as the request does.
    pub(crate) fn admit_boxed(self: &Arc<Self>, ask: Box<Ask>) -> Admitting {
        let begun = self.begin(ask);
        self.go_on(begun)
    }

    /// Has a request that was to be charged by earlier limits be charged by those in force, and tells which these are.
    fn renew(&self, ask: &mut Ask) -> Generation {
        let by = self.limiter.renew(&mut ask.charges, self.returns.generation);
        if by != self.returns.generation
            && let Some(reservation) = &mut ask.tokens
        {
            match ask.charges.smallest_budget() {
                None => ask.tokens = None,
                // What is only assumed makes nothing impossible, however small a budget has become.
                Some(smallest) if reservation.assumed && reservation.total > smallest => {
                    reservation.cut_to(smallest);
                    ask.charges.set_tokens(reservation.total);
                }
                Some(_) => {}
            }
        }
        by
    }

    /// The end of a request's own time: nothing is held for longer than it may take. How long it may be held besides, the
    /// scheduler knows.
    fn deadline(&self, ask: &Ask) -> Instant {
        ask.arrived + self.queue.as_ref().map_or(Duration::ZERO, |queue| queue.smallest_total)
    }

    /// As far as a decision comes without waiting.
    fn begin(&self, mut ask: Box<Ask>) -> Begun {
        let by = self.renew(&mut ask);
        if ask.charges.is_empty() {
            return Begun::Decided(Ok(self.free(ask)));
        }
        // What never fits is told before anything that may change.
        if ask.tokens.is_some()
            && let Some(at) = self.limiter.exceeding(&ask.charges)
        {
            return Begun::Decided(Err(exceeds(&ask, &[at])));
        }
        // While the store is out for what is charged nobody joins a lane: it is asked, and says so.
        if self.driver.may_be_contended(&ask.charges) && self.limiter.is_up_for(&ask.charges) {
            // No barging: whoever comes to a bucket that others wait for joins them without asking it.
            match ask.tenant {
                Some(tenant) => {
                    let deadline = self.deadline(&ask);
                    if let Some(joined) = self.driver.join_contended(&ask, tenant, deadline) {
                        return self.joined(ask, joined, None);
                    }
                }
                None => {
                    if let Some(at) = self.driver.contended(&ask.charges) {
                        return match self.limiter.look_now(ask.charges.as_slice()) {
                            Some(looked) => Begun::Decided(Err(turned_away(&ask, at, &looked))),
                            None => Begun::Outsider(ask, at),
                        };
                    }
                }
            }
        }
        let moves = self.driver.moves();
        let Some(decision) = self.limiter.take_now(ask.charges.as_slice()) else {
            return Begun::Asking(ask, by);
        };
        let begun = self.decided(ask, &decision, by);
        if let Begun::Held(ask, _) = &begun
            && self.driver.moves() != moves
        {
            self.look_again(ask, by);
        }
        begun
    }

    /// Something came back between the refusal of a request and its joining a lane, perhaps to one of its buckets, and
    /// nobody was there to be told.
    fn look_again(&self, ask: &Ask, by: Generation) {
        if let Some(looked) = self.limiter.look_now(ask.charges.as_slice())
            && let Some(balances) = balances(&looked)
        {
            self.driver.handle().moved(&ask.charges, balances, by);
        }
    }

    /// What the limiter's first word on a request, by the limits of `by`, comes to.
    fn decided(&self, ask: Box<Ask>, decision: &Decision, by: Generation) -> Begun {
        match decision {
            Decision::Granted(granted) => {
                let quotas = tightest(&ask, granted.balances());
                Begun::Decided(Ok(self.permit(ask, quotas, None)))
            }
            Decision::Denied(denied) => match (self.queue, ask.tenant) {
                (Some(_), Some(tenant)) => {
                    let levels = levels(&ask.charges, denied.balances());
                    let told = Told { levels: &levels, by };
                    let joined = self.driver.join(&ask, tenant, told, self.deadline(&ask));
                    self.joined(ask, joined, Some(denied))
                }
                _ => Begun::Decided(Err(refused_now(&ask, denied))),
            },
            Decision::Impossible(impossible) => Begun::Decided(Err(exceeds(&ask, impossible.exceeding()))),
        }
    }

    /// What came of joining a lane. `denied`: what the limiter has just said, if it was asked.
    fn joined(&self, ask: Box<Ask>, joined: Result<Joined, NotHeld>, denied: Option<&Denied>) -> Begun {
        match joined {
            Ok(joined) => Begun::Held(ask, joined),
            Err(NotHeld::Refused(refusal)) => {
                let refused = match denied {
                    Some(denied) => Some(self.hold_refused(&ask, &refusal, denied)),
                    None => self.look_and_refuse_now(&ask, &refusal),
                };
                match refused {
                    Some(refused) => Begun::Decided(Err(refused)),
                    None => Begun::Unheld(ask, refusal),
                }
            }
            Err(NotHeld::ShuttingDown) => Begun::Decided(Err(fault(&ask, Fault::ShuttingDown))),
        }
    }

    /// Leaves to be awaited what has to be waited for.
    fn go_on(self: &Arc<Self>, begun: Begun) -> Admitting {
        match begun {
            Begun::Decided(decided) => Admitting::decided(decided),
            Begun::Held(ask, joined) => {
                Admitting::held(Box::pin(Arc::clone(self).hold(ask, Held::new(joined))))
            }
            Begun::Asking(ask, by) => Admitting::asking(Box::pin(Arc::clone(self).ask(ask, by))),
            Begun::Unheld(ask, refusal) => {
                Admitting::asking(Box::pin(Arc::clone(self).look_and_refuse_unheld(ask, refusal)))
            }
            Begun::Outsider(ask, at) => {
                Admitting::asking(Box::pin(Arc::clone(self).look_and_turn_away(ask, at)))
            }
        }
    }

    /// Asks a store that has to be waited for.
    async fn ask(self: Arc<Self>, mut ask: Box<Ask>, by: Generation) -> Admitting {
        let begun = match self.take(&mut ask, by).await {
            Some((Ok(decision), by)) => self.decided(ask, &decision, by),
            Some((Err(undecided), _)) => Begun::Decided(self.undecided(&ask, &undecided, None)),
            None => Begun::Decided(Ok(self.free(ask))),
        };
        self.go_on(begun)
    }

    /// Takes what is asked, by the limits of `by`, from a store that has to be waited for. If limits are changed meanwhile,
    /// a refusal by the earlier ones counts for nothing. `None` if those in force leave nothing to ask for; otherwise also
    /// the limits by which was decided.
    async fn take(
        &self,
        ask: &mut Ask,
        mut by: Generation,
    ) -> Option<(Result<Decision, Undecided>, Generation)> {
        loop {
            let asked = self.limiter.take(&ask.charges).await;
            let is_no = matches!(asked, Ok(Decision::Denied(_) | Decision::Impossible(_)));
            if !is_no || !by.is_before(self.limiter.generation()) {
                return Some((asked, by));
            }
            by = self.renew(ask);
            if ask.charges.is_empty() {
                return None;
            }
        }
    }

    /// Nothing limits it.
    fn free(&self, mut ask: Box<Ask>) -> Permit {
        ask.tokens = None;
        let quotas = ask.edge.into();
        self.permit(ask, quotas, None)
    }

    /// The store could not decide: what the limiter makes of that is done here.
    fn undecided(&self, ask: &Ask, undecided: &Undecided, hold: Option<Hold>) -> Admitted {
        match undecided {
            // Nothing was charged, and so nothing is ever given back.
            Undecided::Unmetered => {
                Ok(self.permit(Box::new(Ask::nothing(ask.arrived)), ask.edge.into(), hold))
            }
            Undecided::Refused(_) => Err(fault(ask, Fault::StoreUnavailable)),
        }
    }

    /// The queue refuses; the quota told is a fresh look, since the decision may be old or never have been made. `None` if
    /// the store has to be waited for.
    fn look_and_refuse_now(&self, ask: &Ask, refusal: &Refusal) -> Option<Box<Refused>> {
        let looked = self.limiter.look_now(ask.charges.as_slice())?;
        Some(self.refused_by_look(ask, refusal, &looked))
    }

    /// The same with a store that has to be waited for. If it is out, that is what the caller is told: an outage never
    /// looks like a limit.
    async fn look_and_refuse(&self, ask: &Ask, refusal: &Refusal, hold: Option<Hold>) -> Admitted {
        match self.limiter.look(&ask.charges).await {
            Ok(looked) => Err(self.refused_by_look(ask, refusal, &looked)),
            Err(undecided) => self.undecided(ask, &undecided, hold),
        }
    }

    async fn look_and_refuse_unheld(self: Arc<Self>, ask: Box<Ask>, refusal: Refusal) -> Admitting {
        Admitting::decided(self.look_and_refuse(&ask, &refusal, None).await)
    }

    async fn look_and_turn_away(self: Arc<Self>, ask: Box<Ask>, at: usize) -> Admitting {
        Admitting::decided(match self.limiter.look(&ask.charges).await {
            Ok(looked) => Err(turned_away(&ask, at, &looked)),
            Err(undecided) => self.undecided(&ask, &undecided, None),
        })
    }

    /// The queue refuses what the limiter has just denied.
    fn hold_refused(&self, ask: &Ask, refusal: &Refusal, denied: &Denied) -> Box<Refused> {
        match refusal.reason {
            Reason::NotHeld => refused_now(ask, denied),
            _ => hold_refused(self.tenant_dimension(), ask, refusal, tightest(ask, denied.balances())),
        }
    }

    /// The queue refuses, and `looked` is a fresh look.
    fn refused_by_look(&self, ask: &Ask, refusal: &Refusal, looked: &Decision) -> Box<Refused> {
        match refusal.reason {
            Reason::NotHeld => not_held(ask, refusal, looked),
            _ => hold_refused(self.tenant_dimension(), ask, refusal, tightest_of(ask, looked)),
        }
    }

    fn tenant_dimension(&self) -> &'static str {
        // Only a queue is asked for it.
        self.queue.as_ref().map_or("", |queue| queue.tenant_dimension)
    }

    /// What was asked has been taken.
    fn permit(&self, ask: Box<Ask>, quotas: Quotas, hold: Option<Hold>) -> Permit {
        Permit::new(Arc::clone(&self.returns), ask, quotas, hold)
    }

    /// Answers everybody who is held, and holds nobody any more; tells how many were held.
    pub fn close(&self) -> usize {
        self.driver.close()
    }

    /// Waits until everything that permits gave back has arrived at the store, or is known to be lost.
    pub async fn settled(&self) {
        self.limiter.settled().await;
    }

    /// How much has been given back that has not arrived yet.
    #[must_use]
    pub fn unsettled(&self) -> usize {
        self.limiter.unsettled()
    }

    /// The lanes, for the admin page; `None` where nothing is held or will be.
    #[must_use]
    pub fn snapshot(&self) -> Option<fairlane_fair_queue::Snapshot> {
        (self.queue.is_some() || self.driver.held() > 0).then(|| self.driver.snapshot())
    }
}

/// How far a decision comes at once.
enum Begun {
    Decided(Admitted),
    /// It has a place in a lane.
    Held(Box<Ask>, Joined),
    /// The store has to be waited for.
    Asking(Box<Ask>, Generation),
    /// The queue refuses it, and the store has to be waited for to say more.
    Unheld(Box<Ask>, Refusal),
    /// Others wait for the bucket of this charge, it has no lane to wait in, and the store has to be waited for to say more.
    Outsider(Box<Ask>, usize),
}

/// What the scheduler is told: without settings it holds nobody.
fn bounds(queue: Option<&QueueSettings>) -> (Limits, u64) {
    queue.map_or_else(
        || (Limits { requests: None, tokens: None, ..Limits::default() }, 0),
        |queue| (queue.limits, queue.max_body_bytes),
    )
}
