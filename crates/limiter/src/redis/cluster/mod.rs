//! A Redis Cluster: a node for each master, and a map of the slots.
//!
//! The cluster client of `redis` is not used: it sends requests again that may have been carried out, has one state
//! for all servers, and does not say which of them failed. What is needed of it is little: the slot of a key, and
//! what to do with the three answers that say that another server should be asked. All three prove that nothing was
//! done, so such a request may be sent again.

mod calls;
mod refresher;
mod slots;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, timeout_at};

pub(super) use self::refresher::Refresher;
use self::slots::SlotMap;
use super::connection::node::{Node, State};
use super::core::Core;
use super::failure::{Concern, Failure, Redirection};
use super::plan::Lines;
use super::script::{Answer, Asked};
use super::settings::Address;

/// How often one request is sent somewhere else without a pause.
const HOPS_IN_A_ROW: usize = 3;

/// The pause before a request is repeated whose keys are on their way to another server. While half of them are, the
/// cluster serves none of them.
const PAUSE_WHILE_MOVING: Duration = Duration::from_millis(5);

/// Servers that redirections named and the map does not know, at most.
const MOST_STRANGERS: usize = 64;

/// A cluster as it is known.
#[derive(Debug)]
pub(super) struct Cluster {
    map: ArcSwap<SlotMap>,
    /// All nodes that are watched over, by address.
    known: Mutex<HashMap<Address, Arc<Node>>>,
    /// Addresses that redirections named, which are to be watched over, too.
    strangers: Mutex<Vec<Address>>,
    /// Wakes whoever asks the cluster for its slots.
    refresh: Notify,
    /// How often that was done, whatever came of it.
    refreshed: watch::Sender<u64>,
}

impl Cluster {
    pub(super) fn new() -> Self {
        Self {
            map: ArcSwap::default(),
            known: Mutex::default(),
            strangers: Mutex::default(),
            refresh: Notify::new(),
            refreshed: watch::channel(0).0,
        }
    }

    /// The node that has a slot. Waits for it only if the cluster was never asked yet.
    pub(super) async fn owner(&self, slot: u16, deadline: Instant) -> Result<Arc<Node>, Failure> {
        if let Some(owner) = self.map.load().owner(slot) {
            return Ok(Arc::clone(owner));
        }
        self.asked_once(deadline).await;
        let owner = self.map.load().owner(slot).cloned();
        owner.ok_or_else(|| {
            self.refresh.notify_one();
            Failure::Down(None)
        })
    }

    /// Whether the node that has a slot is asked at present. Lock-free.
    pub(super) fn serves(&self, slot: u16) -> bool {
        self.map.load().owner(slot).is_some_and(|owner| owner.state() == State::Up)
    }

    /// That the node that has a slot is not known to be out.
    fn asked(&self, slot: u16) -> Result<(), Failure> {
        let Some(failure) = self.map.load().owner(slot).and_then(|owner| owner.refusal()) else {
            return Ok(());
        };
        // Perhaps somebody else has the slot by now.
        self.refresh.notify_one();
        Err(failure)
    }

    /// All nodes that have slots.
    pub(super) async fn nodes(&self, deadline: Instant) -> Result<Vec<Arc<Node>>, Failure> {
        self.asked_once(deadline).await;
        let nodes = self.map.load().nodes().to_vec();
        if nodes.is_empty() { Err(Failure::Down(None)) } else { Ok(nodes) }
    }

    async fn asked_once(&self, deadline: Instant) {
        let mut refreshed = self.refreshed.subscribe();
        // If it takes too long, whoever waits finds nothing.
        drop(timeout_at(deadline, refreshed.wait_for(|times| *times > 0)).await);
    }

    /// Asks the server that has a slot, and follows its directions if it has it no more.
    pub(super) async fn ask(
        &self,
        core: &Arc<Core>,
        slot: u16,
        lines: Lines<'_>,
        asked: Asked,
        deadline: Instant,
    ) -> Result<Answer, Failure> {
        let mut outcome = self.ask_owner(core, slot, lines, asked, deadline).await;
        let mut hops = 0;
        while let Err(Failure::Elsewhere(to)) = &outcome
            && Instant::now() < deadline
        {
            hops += 1;
            if hops > HOPS_IN_A_ROW {
                sleep(PAUSE_WHILE_MOVING).await;
            }
            outcome = match to {
                Redirection::Moved { slot: moved, address } => {
                    let host = self.host_of(slot);
                    if let Some(node) = self.node_named(address, &host, deadline).await {
                        self.move_slot(*moved, &node);
                    }
                    self.ask_owner(core, slot, lines, asked, deadline).await
                }
                Redirection::Ask { address } => {
                    let host = self.host_of(slot);
                    match self.node_named(address, &host, deadline).await {
                        Some(node) => ask_once(core, &node, lines, asked, deadline).await,
                        None => break,
                    }
                }
                Redirection::Later => {
                    sleep(PAUSE_WHILE_MOVING).await;
                    self.ask_owner(core, slot, lines, asked, deadline).await
                }
            };
        }
        if let Err(failure) = &outcome
            && (failure.concern() != Concern::None
                || matches!(failure, Failure::Down(_) | Failure::Elsewhere(_)))
        {
            // Perhaps somebody else has the slot by now.
            self.refresh.notify_one();
        }
        outcome
    }

    async fn ask_owner(
        &self,
        core: &Arc<Core>,
        slot: u16,
        lines: Lines<'_>,
        asked: Asked,
        deadline: Instant,
    ) -> Result<Answer, Failure> {
        let node = self.owner(slot, deadline).await?;
        core.ask(&node, lines, asked, deadline).await
    }

    fn host_of(&self, slot: u16) -> String {
        let map = self.map.load();
        let address = map.owner(slot).map(|node| node.address()).unwrap_or_default();
        address.rsplit_once(':').map(|(host, _)| host.trim_matches(['[', ']']).to_owned()).unwrap_or_default()
    }

    /// The node at an address that a redirection named. One that is not known is connected to.
    async fn node_named(&self, text: &str, asked: &str, deadline: Instant) -> Option<Arc<Node>> {
        let address = slots::read_address(text, asked)?;
        let mut refreshed = self.refreshed.subscribe();
        if let Some(node) = self.known.lock().get(&address) {
            return Some(Arc::clone(node));
        }
        self.introduce(&address);
        loop {
            timeout_at(deadline, refreshed.changed()).await.ok()?.ok()?;
            if let Some(node) = self.known.lock().get(&address) {
                return Some(Arc::clone(node));
            }
        }
    }

    /// Has a server watched over that no slot is known of.
    fn introduce(&self, address: &Address) {
        let mut strangers = self.strangers.lock();
        if strangers.len() < MOST_STRANGERS && !strangers.contains(address) {
            strangers.push(address.clone());
        }
        drop(strangers);
        self.refresh.notify_one();
    }

    fn move_slot(&self, slot: u16, node: &Arc<Node>) {
        let is_new = |map: &SlotMap| map.owner(slot).is_none_or(|owner| !Arc::ptr_eq(owner, node));
        if is_new(&self.map.load()) {
            self.map
                .rcu(|map| if is_new(map) { Arc::new(map.with_moved(slot, node)) } else { Arc::clone(map) });
            // Where one has moved, others have.
            self.refresh.notify_one();
        }
    }
}

/// Asks a server that does not have the slot yet.
async fn ask_once(
    core: &Arc<Core>,
    node: &Arc<Node>,
    lines: Lines<'_>,
    asked: Asked,
    deadline: Instant,
) -> Result<Answer, Failure> {
    node.ready(deadline).await?;
    let _place = node.enter()?;
    let link = node.link()?;
    core.ask_over(node, &link, lines, asked, deadline, true).await
}
