//! Moving a slot from one master to another, step by step, as a resharding does.

use redis::Cmd;

use super::Cluster;
use crate::{
    Server,
    admin::{PASSWORD, USER},
};

/// How many keys go in one step.
const STEP: usize = 100;

/// How long a step may take, in milliseconds.
const STEP_MS: u64 = 5_000;

/// A slot on its way. Until [`finish`](Self::finish) the old master still has it, and sends those who ask for keys that
/// have gone on to the new one (ASK).
#[derive(Debug)]
#[must_use]
pub struct SlotMove<'a> {
    cluster: &'a Cluster,
    slot: u16,
    from: &'a Server,
    to: &'a Server,
    ids: (String, String),
}

impl Cluster {
    /// Moves a slot with all its keys to another master.
    pub async fn move_slot(&self, slot: u16, to: usize) {
        let moving = self.begin_move(slot, to).await;
        while moving.step().await > 0 {}
        moving.finish().await;
    }

    /// Announces that a slot moves to the master in this place of [`nodes`](Self::nodes). No key has moved yet.
    pub async fn begin_move(&self, slot: u16, to: usize) -> SlotMove<'_> {
        let (from, to) = (&self.nodes[self.owner(slot).await], &self.nodes[to]);
        let ids: (String, String) =
            (from.query(&["CLUSTER", "MYID"]).await, to.query(&["CLUSTER", "MYID"]).await);
        let number = slot.to_string();
        to.command(&["CLUSTER", "SETSLOT", &number, "IMPORTING", &ids.0]).await;
        from.command(&["CLUSTER", "SETSLOT", &number, "MIGRATING", &ids.1]).await;
        SlotMove { cluster: self, slot, from, to, ids }
    }
}

impl SlotMove<'_> {
    /// Moves some keys. Returns how many; none when none is left.
    pub async fn step(&self) -> usize {
        let (slot, step) = (self.slot.to_string(), STEP.to_string());
        let keys: Vec<Vec<u8>> = self.from.query(&["CLUSTER", "GETKEYSINSLOT", &slot, &step]).await;
        if keys.is_empty() {
            return 0;
        }
        let addr = self.to.addr();
        let mut migrate = Cmd::new();
        migrate.arg("MIGRATE").arg(addr.ip().to_string()).arg(addr.port()).arg("").arg(0).arg(STEP_MS);
        migrate.arg("AUTH2").arg(USER).arg(PASSWORD).arg("KEYS").arg(&keys);
        self.from.send::<redis::Value>(&migrate).await.expect("the keys can move");
        keys.len()
    }

    /// Tells all masters that the slot has a new one. Keys that are still in the old place are lost: see
    /// [`step`](Self::step).
    pub async fn finish(self) {
        let slot = self.slot.to_string();
        let command = ["CLUSTER", "SETSLOT", &slot, "NODE", &self.ids.1];
        // First the new owner: if the old one gave it away first, for a moment nobody would have it.
        self.to.command(&command).await;
        self.from.command(&command).await;
        for node in &self.cluster.nodes {
            if node.info("replication", "role").await.as_deref() == Some("master") {
                node.command(&command).await;
            }
        }
    }
}
