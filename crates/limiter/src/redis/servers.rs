//! Which servers there are, and how a call is made on them.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::connection::node::Node;
use super::core::Core;
use super::failure::Failure;
use super::inspect::Inspection;
use super::plan::Plan;
use super::script::{Answer, Asked, Verdict};
use crate::{Balances, Decision, StoreError};

/// How long an inspection may take at least: connecting is part of it.
const INSPECTION_TIME: Duration = Duration::from_secs(2);

/// The servers of a store.
#[derive(Debug)]
pub(super) enum Servers {
    /// One at a time.
    One(Arc<Node>),
}

impl Core {
    pub(super) async fn take(self: &Arc<Self>, plan: &Plan) -> Result<Decision, StoreError> {
        let deadline = Instant::now() + self.timeout;
        let Servers::One(node) = &self.servers;
        let answer = self.ask(node, &plan.lines, Asked::Take, deadline).await?;
        agreed(plan.judge(&answer.seen), &answer)
    }

    pub(super) async fn peek(self: &Arc<Self>, plan: &Plan) -> Result<Decision, StoreError> {
        let deadline = Instant::now() + self.timeout;
        let Servers::One(node) = &self.servers;
        let answer = self.ask(node, &plan.lines, Asked::Peek, deadline).await?;
        agreed(plan.foresee(&answer.seen), &answer)
    }

    pub(super) async fn settle(self: &Arc<Self>, plan: &Plan) -> Result<Balances, StoreError> {
        let Servers::One(node) = &self.servers;
        let answer = self.settle_on(node, &plan.lines).await?;
        Ok(plan.settle(&answer.seen, answer.verdict == Verdict::Repeated))
    }

    pub(super) async fn inspect(&self) -> Result<Inspection, Failure> {
        let deadline = Instant::now() + self.timeout.max(INSPECTION_TIME);
        let Servers::One(node) = &self.servers;
        Ok(Inspection { nodes: vec![self.inspect_node(node, deadline).await?] })
    }
}

/// The server decides, and we work out the same from what it saw: should the two differ, nothing is sure.
fn agreed(decision: Decision, answer: &Answer) -> Result<Decision, StoreError> {
    if decision.is_granted() == (answer.verdict == Verdict::Granted) {
        Ok(decision)
    } else {
        Err(Failure::Nonsense("a verdict that does not follow from the buckets").into())
    }
}
