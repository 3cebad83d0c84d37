//! Calls on buckets that are in several slots: one request for each, at the same time.
//!
//! All or nothing is brought about by giving back: if one slot refuses, what others have granted is given back before
//! the call is answered. Meanwhile others may be refused for want of what is about to come back, but nobody is ever
//! granted too much.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use tokio::time::{Instant, timeout_at};

use super::Cluster;
use super::slots::slot_of;
use crate::decision::PerCharge;
use crate::redis::core::Core;
use crate::redis::failure::Failure;
use crate::redis::late::Late;
use crate::redis::plan::{Buckets, Line, Lines, Plan, Seen};
use crate::redis::script::{Answer, Asked, Nonsense, Verdict};
use crate::redis::servers::Spot;
use crate::{Charge, Decision, Settled, StoreError};

/// The lines of a call that are in one slot.
#[derive(Debug)]
struct Group {
    slot: u16,
    lines: PerCharge<Line>,
    /// Where they are among all lines.
    places: PerCharge<usize>,
}

impl Cluster {
    /// Whether the servers of all these buckets are asked at present.
    pub(in crate::redis) fn is_up_for(&self, core: &Core, charges: &[Charge]) -> bool {
        charges.iter().all(|charge| self.serves(slot_of(&core.keys.bucket(&charge.key))))
    }

    /// That none of the servers is out: what one of them cannot decide on, the others would take in vain, and those who
    /// wait there would miss it until it is back.
    fn all_asked(&self, groups: &[Group]) -> Result<(), Failure> {
        groups.iter().try_for_each(|group| self.asked(group.slot))
    }

    pub(in crate::redis) async fn take(
        &self,
        core: &Arc<Core>,
        plan: &Plan<'_>,
        deadline: Instant,
    ) -> Result<Decision, StoreError> {
        let groups = groups(core, plan);
        self.all_asked(&groups)?;
        let mut shares = Shares { core, granted: PerCharge::new() };
        let asked = groups
            .iter()
            .map(|group| self.ask(core, group.slot, Lines::Lines(&group.lines), Asked::Take, deadline));
        let answers = all(asked, |place, answer| {
            if let Ok(Answer { verdict: Verdict::Granted, .. }) = answer {
                shares.granted.extend_from_slice(&groups[place].lines);
            }
        })
        .await;
        let answers = match answers.into_iter().collect::<Result<Vec<_>, _>>() {
            Ok(answers) => answers,
            // Dropping the shares gives them back in the background.
            Err(failure) => return Err(failure.into()),
        };
        let seen = together(plan, &groups, &answers).map_err(Failure::from)?;
        let decision = plan.judge(&seen, verdict(&answers))?;
        if decision.is_granted() {
            shares.granted.clear();
        } else {
            shares.give_back(deadline).await;
        }
        Ok(decision)
    }

    pub(in crate::redis) async fn peek(
        &self,
        core: &Arc<Core>,
        plan: &Plan<'_>,
        deadline: Instant,
    ) -> Result<Decision, StoreError> {
        let groups = groups(core, plan);
        self.all_asked(&groups)?;
        let asked = groups
            .iter()
            .map(|group| self.ask(core, group.slot, Lines::Lines(&group.lines), Asked::Peek, deadline));
        let answers = all(asked, |_, _| {}).await.into_iter().collect::<Result<Vec<_>, _>>()?;
        let seen = together(plan, &groups, &answers).map_err(Failure::from)?;
        plan.foresee(&seen, verdict(&answers))
    }

    pub(in crate::redis) async fn settle(&self, core: &Arc<Core>, plan: &Plan<'_>) -> Settled {
        let mut groups = groups(core, plan);
        let settled =
            groups.iter().map(|group| core.settle_at(Spot::Slot(group.slot), Lines::Lines(&group.lines)));
        let outcomes = all(settled, |_, _| {}).await;
        // What one server has not done leaves what the others have.
        let (mut missing, mut error, mut answers) = (PerCharge::new(), None, Vec::new());
        let mut outcomes = outcomes.into_iter();
        groups.retain(|group| {
            let outcome = outcomes.next().unwrap_or(Err(Failure::Down(None)));
            match outcome.and_then(|answer| group.legible(answer)) {
                Ok(answer) => answers.push(answer),
                Err(failure) => {
                    missing.extend_from_slice(&group.places);
                    error.get_or_insert(failure);
                    return false;
                }
            }
            true
        });
        let before = |line: usize| {
            let mut pairs = groups.iter().zip(&answers);
            let own = pairs.find(|(group, _)| group.places.contains(&line));
            own.is_some_and(|(_, answer)| answer.verdict == Verdict::Repeated)
        };
        let settled = together(plan, &groups, &answers).map_err(|nonsense| Failure::from(nonsense).into());
        match (settled.and_then(|seen| plan.settle(&seen, before)), error) {
            (Ok(balances), Some(failure)) => {
                let missing = plan.items_of(&missing);
                Settled::in_part(balances.without(&missing), &missing, failure.into())
            }
            (settled, _) => settled.into(),
        }
    }
}

impl Group {
    /// The answer, if what it shows of the buckets can be read.
    fn legible(&self, answer: Answer) -> Result<Answer, Failure> {
        (0..self.lines.len()).try_for_each(|nth| answer.seen.stored(nth).map(drop))?;
        Ok(answer)
    }
}

fn groups(core: &Core, plan: &Plan<'_>) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for (place, line) in plan.lines().iter().enumerate() {
        let slot = slot_of(&core.keys.bucket(&line.key));
        let known = groups.iter().position(|group| group.slot == slot);
        let at = known.unwrap_or_else(|| {
            groups.push(Group { slot, lines: PerCharge::new(), places: PerCharge::new() });
            groups.len() - 1
        });
        groups[at].lines.push(line);
        groups[at].places.push(place);
    }
    groups
}

/// What all servers said.
fn verdict(answers: &[Answer]) -> Verdict {
    let granted = answers.iter().all(|answer| answer.verdict == Verdict::Granted);
    if granted { Verdict::Granted } else { Verdict::Denied }
}

/// What was seen of all buckets, as if by one clock.
fn together(plan: &Plan<'_>, groups: &[Group], answers: &[Answer]) -> Result<Seen, Nonsense> {
    let now = answers.iter().map(|answer| answer.seen.now).max().unwrap_or_default();
    let mut buckets = vec![None; plan.lines().len()];
    for (group, Answer { seen, .. }) in groups.iter().zip(answers) {
        for (nth, place) in group.places.iter().enumerate() {
            buckets[*place] = seen.stored(nth)?.map(|bucket| bucket.by_another_clock(seen.now, now));
        }
    }
    Ok(Seen { now, buckets: Buckets::Known(buckets) })
}

/// What has been granted of a call that is not granted yet. Given back in the background when dropped.
struct Shares<'a> {
    core: &'a Arc<Core>,
    granted: PerCharge<Line>,
}

impl Shares<'_> {
    /// Gives everything back, and waits for it as long as the call may take.
    async fn give_back(mut self, deadline: Instant) {
        let granted = std::mem::take(&mut self.granted);
        if let Some(returning) = Late::give_back(self.core, granted) {
            // What takes longer goes on in the background, and is counted there.
            drop(timeout_at(deadline, returning).await);
        }
    }
}

impl Drop for Shares<'_> {
    fn drop(&mut self) {
        drop(Late::give_back(self.core, std::mem::take(&mut self.granted)));
    }
}

/// Waits for all futures together, and looks at each output as it comes.
async fn all<F: Future>(
    futures: impl Iterator<Item = F>,
    mut look: impl FnMut(usize, &F::Output),
) -> Vec<F::Output> {
    let mut waiting: Vec<Pin<Box<F>>> = futures.map(Box::pin).collect();
    let mut outputs: Vec<Option<F::Output>> = waiting.iter().map(|_| None).collect();
    poll_fn(|context| {
        let mut ready = true;
        for (place, (future, output)) in waiting.iter_mut().zip(&mut outputs).enumerate() {
            if output.is_none() {
                match future.as_mut().poll(context) {
                    Poll::Ready(outcome) => {
                        look(place, &outcome);
                        *output = Some(outcome);
                    }
                    Poll::Pending => ready = false,
                }
            }
        }
        if ready { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    outputs.into_iter().flatten().collect()
}
