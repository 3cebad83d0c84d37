//! Settlements: tried until they have happened, and made to happen once.
//!
//! Each has a number. The server keeps it for a while after the settlement, in a mark that is written together with
//! it, and answers a repetition without doing anything. A repetition that comes when the mark may be gone does
//! nothing, either: each attempt carries the time after which it must not happen any more, by the server's own
//! clock, so one that was stuck on its way for long is void.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::connection::node::Node;
use super::core::Core;
use super::failure::Failure;
use super::plan::Lines;
use super::script::{Answer, Asked, Terms, Verdict};
use super::servers::Spot;
use super::voice::Kind;
use crate::Timestamp;

/// How far the time that we believe to be the server's may be from it.
const CLOCK_ERROR: Duration = Duration::from_secs(2);

/// The pauses between attempts: the first, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(200);

/// Settlements that may be under way at once: each waits out an outage for as long as it is tried.
const MOST_SETTLING: usize = 16_384;

/// Counts settlements under way.
#[derive(Debug, Default)]
pub(super) struct Settling(AtomicUsize);

/// A place among them.
struct Place<'a>(&'a AtomicUsize);

/// When a settlement is given up, and what keeps it from happening twice.
#[derive(Debug)]
pub(super) struct Attempts {
    give_up: Instant,
    id: u128,
    terms: Option<Terms>,
    /// Whether an attempt may have succeeded without anybody knowing.
    uncertain: bool,
    pause: Duration,
}

impl Attempts {
    pub(super) fn new(core: &Core, id: u128) -> Self {
        Self {
            give_up: Instant::now() + core.settle_within.max(core.timeout),
            id,
            terms: None,
            uncertain: false,
            pause: FIRST_PAUSE,
        }
    }

    /// What the next attempt carries: the same as the first, which decides how long the settlement may happen.
    pub(super) fn asked(&mut self, core: &Core, node: &Node) -> Asked {
        let (id, span) = (self.id, core.settle_within.max(core.timeout) + CLOCK_ERROR);
        let server_time = || core.clock.now().unwrap_or_else(|| node.server_time());
        let terms = self.terms.get_or_insert_with(|| terms(id, server_time(), span));
        Asked::Settle(*terms)
    }

    /// The last word on the settlement, or `None` if it is to be tried again after a pause.
    pub(super) fn last_word(
        &mut self,
        node: Option<&Node>,
        outcome: Result<Answer, Failure>,
    ) -> Option<Result<Answer, Failure>> {
        match outcome {
            Ok(answer) if answer.verdict != Verdict::Expired => Some(Ok(answer)),
            // The clocks differ by more than was thought. Without an uncertain attempt before, a later time is as
            // good as the first; with one, its mark may be gone.
            Ok(answer) => {
                if let Some(node) = node {
                    node.learn_time(answer.seen.now);
                }
                if self.uncertain || self.is_over() {
                    return Some(Err(Failure::Timeout));
                }
                self.terms = None;
                None
            }
            Err(failure) => {
                self.uncertain |= failure.may_have_happened();
                self.is_over().then_some(Err(failure))
            }
        }
    }

    fn is_over(&self) -> bool {
        Instant::now() + self.pause >= self.give_up
    }

    pub(super) async fn pause(&mut self) {
        sleep(self.pause).await;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
    }
}

impl Settling {
    fn enter(&self) -> Result<Place<'_>, Failure> {
        let place = Place(&self.0);
        if self.0.fetch_add(1, Ordering::Relaxed) < MOST_SETTLING { Ok(place) } else { Err(Failure::Crowded) }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn terms(id: u128, server_time: Timestamp, span: Duration) -> Terms {
    // From the earliest that the first attempt can happen to the latest that any can, and then some.
    let mark_life = u64::try_from((span + 2 * CLOCK_ERROR).as_millis()).unwrap_or(u64::MAX);
    Terms { id, not_after: server_time.saturating_add(span), mark_life }
}

impl Core {
    /// Settles lines whose buckets are all in one place, however often that has to be tried.
    pub(super) async fn settle_at(self: &Arc<Self>, spot: Spot, lines: Lines<'_>) -> Result<Answer, Failure> {
        let outcome = self.try_to_settle_at(spot, lines).await;
        if let Err(failure) = &outcome {
            let error = failure.to_redis();
            self.voice.say(Kind::Settlement, format_args!("gave up a settlement on Redis: {error}"));
        }
        outcome
    }

    async fn try_to_settle_at(self: &Arc<Self>, spot: Spot, lines: Lines<'_>) -> Result<Answer, Failure> {
        let _place = self.settling.enter()?;
        let mut attempts = Attempts::new(self, self.numbers.next());
        loop {
            let deadline = (Instant::now() + self.timeout).min(attempts.give_up);
            let outcome = match self.node_at(spot, deadline).await {
                Ok(node) => {
                    let asked = attempts.asked(self, &node);
                    let outcome = self.ask_at(spot, lines, asked, deadline).await;
                    attempts.last_word(Some(&node), outcome)
                }
                Err(failure) => attempts.last_word(None, Err(failure)),
            };
            if let Some(outcome) = outcome {
                return outcome;
            }
            attempts.pause().await;
        }
    }
}
