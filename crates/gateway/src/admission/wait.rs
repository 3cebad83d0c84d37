//! One held request's side of the wait.

use std::time::Duration;

use fairlane_fair_queue::{GateLevel, Place};
use tokio::sync::oneshot;

use super::driver::{Again, Handle, Turn};

/// A place in a lane.
///
/// Dropping it in any state leaves the lane, or gives the grant back, exactly once.
#[derive(Debug)]
pub(super) struct Held {
    scheduler: Handle,
    place: Place,
    turn: oneshot::Receiver<Turn>,
    body_bytes: u64,
    done: bool,
}

impl Held {
    pub(super) const fn new(
        scheduler: Handle,
        place: Place,
        turn: oneshot::Receiver<Turn>,
        body_bytes: u64,
    ) -> Self {
        Self { scheduler, place, turn, body_bytes, done: false }
    }

    /// The place when it joined, 1-based.
    pub(super) const fn position(&self) -> usize {
        self.place.position
    }

    /// The wait it was told when it joined.
    pub(super) const fn estimate(&self) -> Duration {
        self.place.estimate
    }

    /// Waits for what comes next.
    pub(super) async fn turn(&mut self) -> Turn {
        // The sender goes only with the scheduler itself.
        (&mut self.turn).await.unwrap_or(Turn::ShuttingDown)
    }

    /// The attempt was granted.
    pub(super) fn admitted(mut self, levels: &[GateLevel]) {
        self.done = true;
        self.scheduler.admitted(self.place.ticket, self.body_bytes, levels);
    }

    /// The attempt was refused; it may wait on.
    pub(super) fn refused(&mut self, levels: &[GateLevel]) -> Again {
        let (again, turn) = self.scheduler.refused(self.place.ticket, levels);
        if let Some(turn) = turn {
            self.turn = turn;
        }
        again
    }

    /// The attempt could not be made.
    pub(super) fn failed(mut self) {
        self.done = true;
        self.scheduler.failed(self.place.ticket, self.body_bytes);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if !self.done {
            self.scheduler.left(self.place.ticket, self.body_bytes);
        }
    }
}
