//! One held request's side of the wait.

use fairlane_fair_queue::{GateLevel, Place};
use tokio::time::Instant;

use super::{
    driver::{Again, Joined, Turn},
    permit::Hold,
};

/// A place in a lane.
///
/// Dropping it in any state leaves the lane, or gives the grant back, exactly once.
#[derive(Debug)]
pub(super) struct Held {
    joined: Joined,
    done: bool,
}

impl Held {
    pub(super) const fn new(joined: Joined) -> Self {
        Self { joined, done: false }
    }

    /// What the hold has come to by now; it began at `since`.
    pub(super) fn so_far(&self, since: Instant) -> Hold {
        let Place { position, estimate, .. } = self.joined.place;
        Hold { position, waited: since.elapsed(), estimated: estimate }
    }

    /// Waits for what comes next.
    pub(super) async fn turn(&mut self) -> Turn {
        // The sender goes only with the scheduler itself.
        (&mut self.joined.turn).await.unwrap_or(Turn::ShuttingDown)
    }

    /// The attempt was granted.
    pub(super) fn admitted(&mut self, levels: &[GateLevel]) {
        self.done = true;
        self.joined.scheduler.admitted(self.joined.place.ticket, self.joined.body_bytes, levels);
    }

    /// The attempt was refused; it may wait on.
    pub(super) fn refused(&mut self, levels: &[GateLevel]) -> Again {
        let (again, turn) = self.joined.scheduler.refused(self.joined.place.ticket, levels);
        if let Some(turn) = turn {
            self.joined.turn = turn;
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
