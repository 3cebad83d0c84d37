//! One held request's side of the wait.

use std::{future::Future, ops::ControlFlow, pin::Pin, sync::Arc, time::Duration};

use fairlane_fair_queue::{Class, Place};
use fairlane_limiter::Decision;
use tokio::time::Instant;

use super::{
    Admission, Ask, Generation, Permit,
    admitting::Admitted,
    driver::{Again, Demands, Joined, Told, Turn, demands},
    limiter::{Undecided, levels},
    permit::{Hold, Queued},
    refusals::{exceeds, fault, tightest},
};
use crate::answer::Fault;

/// A place in a lane.
///
/// Dropping it in any state leaves the lane, or gives the grant back, exactly once.
#[derive(Debug)]
pub(super) struct Held {
    joined: Joined,
    /// It has waited for a bucket of requests.
    queued: bool,
    /// How long it had been deferred at its last attempt, if it was.
    deferred: Option<Duration>,
    done: bool,
}

impl Held {
    pub(super) fn new(joined: Joined) -> Self {
        let queued = joined.place.class == Class::Requests;
        Self { joined, queued, deferred: None, done: false }
    }

    /// What the hold has come to by now; it began at `since`.
    pub(super) fn so_far(&self, since: Instant) -> Hold {
        let Place { position, estimate, .. } = self.joined.place;
        let waited = since.elapsed().saturating_sub(self.deferred.unwrap_or_default());
        let queued = Queued { position, waited, estimated: estimate };
        Hold { queued: self.queued.then_some(queued), deferred: self.deferred }
    }

    /// Waits for what comes next.
    pub(super) async fn turn(&mut self) -> Turn {
        // The sender goes only with the scheduler itself.
        let turn = (&mut self.joined.turn).await.unwrap_or(Turn::ShuttingDown);
        if let Turn::Attempt(granted) = &turn {
            // It may have moved between gates meanwhile.
            self.queued |= granted.class == Class::Requests;
            if granted.class == Class::Tokens || granted.deferred > Duration::ZERO {
                self.deferred = Some(granted.deferred);
            }
        }
        turn
    }

    /// The attempt was granted.
    pub(super) fn admitted(&mut self, told: Told<'_>) {
        self.done = true;
        self.joined.scheduler.admitted(self.joined.place.ticket, self.joined.body_bytes, told);
    }

    /// The attempt was refused; it may wait on, for `demands` if these are others than before.
    pub(super) fn refused(&mut self, demands: Option<&Demands>, told: Told<'_>) -> Again {
        let (again, turn) = self.joined.scheduler.refused(self.joined.place.ticket, demands, told);
        if let Some(turn) = turn {
            self.joined.turn = turn;
        }
        if let Again::Held(place) = &again {
            self.queued |= place.class == Class::Requests;
        }
        again
    }

    /// The attempt could not be made.
    pub(super) fn failed(&mut self) {
        self.done = true;
        self.joined.scheduler.failed(self.joined.place.ticket, self.joined.body_bytes);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if !self.done {
            self.joined.scheduler.left(self.joined.place.ticket, self.joined.body_bytes);
        }
    }
}

/// A held request's step: it goes on waiting, or has its answer.
enum Step<'a> {
    Now(ControlFlow<Admitted>),
    /// The store has to be waited for. On the heap, so that no held request is larger for it.
    Later(Pin<Box<dyn Future<Output = ControlFlow<Admitted>> + Send + 'a>>),
}

impl Admission {
    /// Waits for a held request's turns until one of them admits it.
    ///
    /// Not an `async fn`, which would keep its arguments twice: there is one of these for every held request.
    #[expect(clippy::manual_async_fn, reason = "it is 100 bytes smaller")]
    pub(super) fn hold(
        self: Arc<Self>,
        mut ask: Box<Ask>,
        mut held: Held,
    ) -> impl Future<Output = Admitted> + Send + 'static {
        async move {
            let since = Instant::now();
            loop {
                let turn = held.turn().await;
                let step = match self.step(&mut ask, &mut held, since, turn) {
                    Step::Now(step) => step,
                    Step::Later(step) => step.await,
                };
                if let ControlFlow::Break(admitted) = step {
                    return admitted;
                }
            }
        }
    }

    /// What a held request does with its turn.
    fn step<'a>(&'a self, ask: &'a mut Ask, held: &'a mut Held, since: Instant, turn: Turn) -> Step<'a> {
        match turn {
            Turn::Attempt(_) => {
                let by = self.renew(ask);
                if ask.charges.is_empty() {
                    return Step::Now(ControlFlow::Break(Ok(self.freed(ask, held, since))));
                }
                match self.limiter.take_now(ask.charges.as_slice()) {
                    Some(decision) => Step::Now(self.attempted(ask, held, since, Ok(decision), by)),
                    None => Step::Later(Box::pin(self.attempt(ask, held, since, by))),
                }
            }
            Turn::Refused(refusal) => match self.look_and_refuse_now(ask, &refusal) {
                Some(refused) => Step::Now(ControlFlow::Break(Err(refused))),
                None => Step::Later(Box::pin(async move {
                    let hold = held.so_far(since);
                    ControlFlow::Break(self.look_and_refuse(ask, &refusal, Some(hold)).await)
                })),
            },
            Turn::ShuttingDown => Step::Now(ControlFlow::Break(Err(fault(ask, Fault::ShuttingDown)))),
        }
    }

    /// The limits in force leave a held request nothing to wait for.
    fn freed(&self, ask: &mut Ask, held: &mut Held, since: Instant) -> Permit {
        let (hold, quotas) = (held.so_far(since), ask.edge.into());
        held.failed();
        self.permit(ask.take(), quotas, Some(hold))
    }

    /// An attempt with a store that has to be waited for.
    async fn attempt(
        &self,
        ask: &mut Ask,
        held: &mut Held,
        since: Instant,
        by: Generation,
    ) -> ControlFlow<Admitted> {
        match self.take(ask, by).await {
            Some((asked, by)) => self.attempted(ask, held, since, asked, by),
            None => ControlFlow::Break(Ok(self.freed(ask, held, since))),
        }
    }

    /// What an attempt of a held request by the limits of `by` comes to; it may go on waiting.
    fn attempted(
        &self,
        ask: &mut Ask,
        held: &mut Held,
        since: Instant,
        asked: Result<Decision, Undecided>,
        by: Generation,
    ) -> ControlFlow<Admitted> {
        ControlFlow::Break(match asked {
            Ok(Decision::Granted(granted)) => {
                let hold = held.so_far(since);
                held.admitted(Told { levels: &levels(&ask.charges, granted.balances()), by });
                let quotas = tightest(ask, granted.balances());
                Ok(self.permit(ask.take(), quotas, Some(hold)))
            }
            Ok(Decision::Denied(denied)) => {
                let levels = levels(&ask.charges, denied.balances());
                // By other limits than when it joined it may be charged otherwise.
                let demands = (by != self.returns.generation).then(|| demands(&ask.charges));
                match held.refused(demands.as_ref(), Told { levels: &levels, by }) {
                    Again::Held(_) => return ControlFlow::Continue(()),
                    Again::Refused(refusal) => Err(self.hold_refused(ask, &refusal, &denied)),
                    Again::Gone => Err(fault(ask, Fault::Internal)),
                }
            }
            Ok(Decision::Impossible(impossible)) => {
                held.failed();
                Err(exceeds(ask, impossible.exceeding()))
            }
            Err(undecided) => {
                let hold = held.so_far(since);
                held.failed();
                self.undecided(ask, &undecided, Some(hold))
            }
        })
    }
}
