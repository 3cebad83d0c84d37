//! The health of all nodes together.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::watch;

use super::node::{Node, State};
use crate::redis::health::{NodeHealth, RedisHealth};

/// Where nodes put up how they are.
#[derive(Debug)]
pub(in crate::redis) struct Board {
    sender: watch::Sender<RedisHealth>,
    listed: Mutex<Listed>,
}

#[derive(Debug, Default)]
struct Listed {
    nodes: Vec<Weak<Node>>,
    /// Whether these are all that are needed.
    complete: bool,
}

impl Board {
    pub(in crate::redis) fn new() -> Self {
        Self { sender: watch::channel(RedisHealth::default()).0, listed: Mutex::default() }
    }

    /// Names the nodes that decisions are made on.
    pub(in crate::redis) fn list<'a>(&self, nodes: impl Iterator<Item = &'a Arc<Node>>, complete: bool) {
        *self.listed.lock() = Listed { nodes: nodes.map(Arc::downgrade).collect(), complete };
        self.refresh();
    }

    /// Looks at all nodes anew. Whoever waits is woken only if something has changed.
    pub(in crate::redis) fn refresh(&self) {
        // Under the lock, so that of two changes the later one is seen last.
        let listed = self.listed.lock();
        let nodes: Vec<_> = listed
            .nodes
            .iter()
            .filter_map(Weak::upgrade)
            .map(|node| NodeHealth { address: node.address(), up: node.state() == State::Up })
            .collect();
        let up = listed.complete && !nodes.is_empty() && nodes.iter().all(|node| node.up);
        let health = RedisHealth { up, nodes };
        self.sender.send_if_modified(|last| {
            let changed = *last != health;
            *last = health;
            changed
        });
    }

    pub(in crate::redis) fn is_up(&self) -> bool {
        self.sender.borrow().up
    }

    pub(in crate::redis) fn subscribe(&self) -> watch::Receiver<RedisHealth> {
        self.sender.subscribe()
    }
}
