//! Which servers there are, and how a call is made on them.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::cluster::Cluster;
use super::connection::node::{Node, State};
use super::core::Core;
use super::failure::Failure;
use super::inspect::Inspection;
use super::plan::{Lines, Plan, Seen};
use super::script::{Answer, Asked, Verdict};
use crate::{Charge, Decision, Settled, StoreError};

/// How long an inspection may take at least: connecting is part of it.
const INSPECTION_TIME: Duration = Duration::from_secs(2);

/// The servers of a store.
#[derive(Debug)]
pub(super) enum Servers {
    /// One at a time.
    One(Arc<Node>),
    /// Several, each with some slots.
    Cluster(Arc<Cluster>),
}

/// Where buckets are that one request can be about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spot {
    /// On the only server.
    Only,
    /// In a slot of a cluster.
    Slot(u16),
}

impl Core {
    pub(super) async fn take(self: &Arc<Self>, charges: &[Charge]) -> Result<Decision, StoreError> {
        let plan = match Plan::charges(charges) {
            Err(impossible) => return Ok(Decision::Impossible(impossible)),
            Ok(plan) => plan,
        };
        let deadline = Instant::now() + self.timeout;
        match &self.servers {
            // Whoever asks for nothing gets it without a server.
            _ if charges.is_empty() => plan.judge(&Seen::nothing(), Verdict::Granted),
            Servers::One(node) => match self.ask(node, plan.lines(), Asked::Take, deadline).await {
                Ok(answer) => {
                    let decided = plan.judge(&answer.seen, answer.verdict);
                    if decided.is_err() && answer.verdict == Verdict::Granted {
                        // It says that it took what it cannot have had: nobody can tell what to give back.
                        self.late.lose(self);
                    }
                    decided
                }
                Err(failure) => Err(failure.into()),
            },
            Servers::Cluster(cluster) => Box::pin(cluster.take(self, &plan, deadline)).await,
        }
    }

    /// Whether all servers of these buckets are asked at present.
    pub(super) fn is_up_for(&self, charges: &[Charge]) -> bool {
        match &self.servers {
            Servers::One(node) => node.state() == State::Up,
            Servers::Cluster(cluster) => cluster.is_up_for(self, charges),
        }
    }

    pub(super) async fn peek(self: &Arc<Self>, charges: &[Charge]) -> Result<Decision, StoreError> {
        let plan = match Plan::charges(charges) {
            Err(impossible) => return Ok(Decision::Impossible(impossible)),
            Ok(plan) => plan,
        };
        let deadline = Instant::now() + self.timeout;
        match &self.servers {
            _ if charges.is_empty() => plan.foresee(&Seen::nothing(), Verdict::Granted),
            Servers::One(node) => {
                let answer = self.ask(node, plan.lines(), Asked::Peek, deadline).await?;
                plan.foresee(&answer.seen, answer.verdict)
            }
            Servers::Cluster(cluster) => Box::pin(cluster.peek(self, &plan, deadline)).await,
        }
    }

    pub(super) async fn settle(self: &Arc<Self>, plan: &Plan<'_>) -> Settled {
        match &self.servers {
            _ if plan.lines().len() == 0 => plan.settle(&Seen::nothing(), |_| true).into(),
            Servers::One(_) => match self.settle_at(Spot::Only, plan.lines()).await {
                Ok(answer) => plan.settle(&answer.seen, |_| answer.verdict == Verdict::Repeated).into(),
                Err(failure) => Err(failure.into()).into(),
            },
            Servers::Cluster(cluster) => cluster.settle(self, plan).await,
        }
    }

    pub(super) async fn inspect(&self) -> Result<Inspection, Failure> {
        let deadline = Instant::now() + self.timeout.max(INSPECTION_TIME);
        let nodes = match &self.servers {
            Servers::One(node) => vec![Arc::clone(node)],
            Servers::Cluster(cluster) => cluster.nodes(deadline).await?,
        };
        let mut inspection = Inspection::default();
        for node in nodes {
            inspection.nodes.push(self.inspect_node(&node, deadline).await?);
        }
        Ok(inspection)
    }

    /// The server of a place, if it is asked at present.
    pub(super) async fn node_at(&self, spot: Spot, deadline: Instant) -> Result<Arc<Node>, Failure> {
        let node = match (&self.servers, spot) {
            (Servers::One(node), _) => Arc::clone(node),
            (Servers::Cluster(cluster), Spot::Slot(slot)) => cluster.owner(slot, deadline).await?,
            (Servers::Cluster(_), Spot::Only) => return Err(Failure::Down(None)),
        };
        node.ready(deadline).await?;
        Ok(node)
    }

    /// Asks the server of a place, wherever that turns out to be.
    pub(super) async fn ask_at(
        self: &Arc<Self>,
        spot: Spot,
        lines: Lines<'_>,
        asked: Asked,
        deadline: Instant,
    ) -> Result<Answer, Failure> {
        match (&self.servers, spot) {
            (Servers::One(node), _) => self.ask(node, lines, asked, deadline).await,
            (Servers::Cluster(cluster), Spot::Slot(slot)) => {
                cluster.ask(self, slot, lines, asked, deadline).await
            }
            (Servers::Cluster(_), Spot::Only) => Err(Failure::Down(None)),
        }
    }
}
