//! Keeps the map of the slots up to date, and a node for every master in it.

use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use deadpool_redis::{Pool, PoolError};
use redis::{RedisError, Value};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep_until, timeout};

use super::Cluster;
use super::slots::{Range, SlotMap, read, slot_of};
use crate::redis::connection::board::Board;
use crate::redis::connection::dial::{Dialer, Manners, Target};
use crate::redis::connection::node::{Node, State};
use crate::redis::connection::supervisor::Supervisor;
use crate::redis::core::Core;
use crate::redis::keys::probe_bucket;
use crate::redis::settings::Address;
use crate::redis::voice::Kind;

/// How often the cluster is asked when nothing calls for it.
const EVERY: Duration = Duration::from_secs(2);

/// How often it is asked while something is wrong.
const EVERY_IN_TROUBLE: Duration = Duration::from_millis(250);

/// The shortest time between two askings, whatever calls for it.
const AT_MOST_EVERY: Duration = Duration::from_millis(50);

/// How long a server without slots is watched over.
const STRANGERS_STAY: Duration = Duration::from_secs(60);

/// Numbers of probes tried to find one in a slot of a server; even a single slot is hit nearly always.
const PROBE_NUMBERS: u32 = 1 << 18;

/// The task that asks the cluster for its slots. It owns the tasks that watch over the nodes.
pub(in crate::redis) struct Refresher {
    core: Arc<Core>,
    cluster: Arc<Cluster>,
    board: Arc<Board>,
    manners: Arc<Manners>,
    origin: Instant,
    seeds: Vec<Seed>,
    /// Whose turn it is to be asked.
    turn: usize,
    watched: HashMap<Address, Watched>,
    supervisors: JoinSet<()>,
}

/// A node, and the task that watches over it.
struct Watched {
    node: Arc<Node>,
    task: AbortHandle,
    /// When it was last of use.
    used: Instant,
}

/// A server to begin at.
struct Seed {
    address: Address,
    pool: Pool,
}

impl Refresher {
    pub(in crate::redis) fn new(
        core: Arc<Core>,
        cluster: Arc<Cluster>,
        board: Arc<Board>,
        manners: Arc<Manners>,
        origin: Instant,
        seeds: &[Address],
    ) -> Result<Self, RedisError> {
        let made = Arc::new(AtomicU64::new(0));
        let seed =
            |address: &Address| Ok(Seed { address: address.clone(), pool: manners.pool(address, &made)? });
        let seeds = seeds.iter().map(seed).collect::<Result<_, RedisError>>()?;
        let (watched, supervisors) = (HashMap::new(), JoinSet::new());
        Ok(Self { core, cluster, board, manners, origin, seeds, turn: 0, watched, supervisors })
    }

    /// Keeps the map up to date for ever.
    pub(in crate::redis) async fn run(mut self) {
        loop {
            let begin = Instant::now();
            match self.ask().await {
                Ok(ranges) => self.update(&ranges),
                Err(error) => {
                    self.core.voice.say(
                        Kind::Down,
                        format_args!("no node of the Redis cluster tells its slots: {error}"),
                    );
                    self.update_strangers();
                }
            }
            self.cluster.refreshed.send_modify(|times| *times += 1);
            let every = if self.is_troubled() { EVERY_IN_TROUBLE } else { EVERY };
            drop(timeout(every, self.cluster.refresh.notified()).await);
            sleep_until(begin + AT_MOST_EVERY).await;
        }
    }

    fn is_troubled(&self) -> bool {
        let map = self.cluster.map.load();
        !map.is_complete() || map.nodes().iter().any(|node| node.state() != State::Up)
    }

    /// Asks one server after the other, beginning with another one each time: one that was cut off from the others
    /// would tell the same old story for ever.
    async fn ask(&mut self) -> Result<Vec<Range>, RedisError> {
        self.turn = self.turn.wrapping_add(1);
        let mut error = None;
        let nodes: Vec<_> =
            self.watched.iter().filter(|(_, watched)| watched.node.state() == State::Up).collect();
        let first = self.turn % nodes.len().max(1);
        for (address, watched) in nodes.iter().cycle().skip(first).take(nodes.len()) {
            let Ok(link) = watched.node.link() else { continue };
            let deadline = Instant::now() + self.manners.dial_time;
            match self.core.command(&link, slots_command(), deadline).await {
                Ok(answer) => match read(&answer, &address.host) {
                    Ok(ranges) if !ranges.is_empty() => return Ok(ranges),
                    Ok(_) => {}
                    Err(nonsense) => {
                        error = Some(io::Error::new(io::ErrorKind::InvalidData, nonsense).into())
                    }
                },
                Err(failure) => {
                    watched.node.failed(&link, &failure);
                    error = Some(failure.to_redis());
                }
            }
        }
        let first = self.turn % self.seeds.len().max(1);
        for seed in self.seeds.iter().cycle().skip(first).take(self.seeds.len()) {
            match timeout(self.manners.dial_time, seed.slots()).await {
                Ok(Ok(ranges)) if !ranges.is_empty() => return Ok(ranges),
                Ok(Ok(_)) => {}
                Ok(Err(failed)) => error = Some(failed),
                Err(_) => error = Some(io::Error::from(io::ErrorKind::TimedOut).into()),
            }
        }
        Err(error.unwrap_or_else(|| io::Error::other("no slots are served").into()))
    }

    fn update(&mut self, ranges: &[Range]) {
        let now = Instant::now();
        for range in ranges {
            self.watch(&range.master, now);
        }
        self.update_strangers();
        // A server without slots is kept for a while: some may be on their way to it.
        let leaving: HashSet<_> = self
            .watched
            .iter()
            .filter(|(_, watched)| now.saturating_duration_since(watched.used) > STRANGERS_STAY)
            .map(|(address, _)| address.clone())
            .collect();
        for address in leaving {
            if let Some(watched) = self.watched.remove(&address) {
                watched.task.abort();
            }
        }
        let owned = ranges.iter().map(|range| {
            let node = self.watched.get(&range.master).map(|watched| Arc::clone(&watched.node));
            (range, node)
        });
        let map = Arc::new(SlotMap::new(owned));
        self.choose_probes(&map);
        self.publish();
        self.cluster.map.store(Arc::clone(&map));
        self.board.list(map.nodes().iter(), map.is_complete());
    }

    /// Has the servers watched over that redirections named.
    fn update_strangers(&mut self) {
        let now = Instant::now();
        let strangers = std::mem::take(&mut *self.cluster.strangers.lock());
        for stranger in strangers {
            self.watch(&stranger, now);
        }
        self.publish();
    }

    fn publish(&self) {
        let known =
            self.watched.iter().map(|(address, watched)| (address.clone(), Arc::clone(&watched.node)));
        *self.cluster.known.lock() = known.collect();
    }

    fn watch(&mut self, address: &Address, now: Instant) {
        if let Some(watched) = self.watched.get_mut(address) {
            watched.used = now;
            return;
        }
        let node = Node::new(address.to_string(), Arc::clone(&self.board), self.origin);
        let dialer = Dialer::new(Arc::clone(&self.manners), Target::Fixed(address.clone()));
        let supervisor = Supervisor::new(Arc::clone(&self.core), Arc::clone(&node), dialer);
        let task = self.supervisors.spawn(supervisor.run());
        self.watched.insert(address.clone(), Watched { node, task, used: now });
    }

    /// Finds for each node the name of a key that is in one of its slots.
    fn choose_probes(&self, map: &SlotMap) {
        for node in map.nodes() {
            let owns = |number: u32| {
                let slot = slot_of(&self.core.keys.bucket(&probe_bucket(number)));
                map.owner(slot).is_some_and(|owner| Arc::ptr_eq(owner, node))
            };
            if !owns(node.probe_number())
                && let Some(number) = (0..PROBE_NUMBERS).find(|number| owns(*number))
            {
                node.set_probe_number(number);
            }
        }
    }
}

impl Seed {
    async fn slots(&self) -> Result<Vec<Range>, RedisError> {
        let mut connection = self.pool.get().await.map_err(|error| match error {
            PoolError::Backend(error) => error,
            other => io::Error::other(other.to_string()).into(),
        })?;
        let answer: Value = slots_command().query_async(&mut connection).await?;
        read(&answer, &self.address.host)
            .map_err(|nonsense| io::Error::new(io::ErrorKind::InvalidData, nonsense).into())
    }
}

fn slots_command() -> redis::Cmd {
    let mut command = redis::cmd("CLUSTER");
    command.arg("SLOTS");
    command
}
