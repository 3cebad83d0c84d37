//! Masters that share the slots.

mod slots;

use std::time::Duration;

use redis::Cmd;
use tokio::time::Instant;

pub use self::slots::SlotMove;
use crate::{Server, ServerOptions, admin::field, wait::until};

const MASTERS: usize = 3;
const SLOTS: u16 = 16_384;

/// Three masters that share the slots, and perhaps a replica of each.
#[derive(Debug)]
pub struct Cluster {
    /// The first masters, then their replicas in the same order.
    nodes: Vec<Server>,
}

/// What is special about a cluster.
#[derive(Clone, Debug)]
#[must_use]
pub struct ClusterOptions {
    server: ServerOptions,
    replicas: bool,
    node_timeout: Duration,
}

impl ClusterOptions {
    /// No replicas, a node is held for dead after a second, and the others go on serving their slots.
    pub fn new() -> Self {
        let server = ServerOptions::new()
            .line("cluster-enabled yes")
            .line("cluster-require-full-coverage no")
            .line("cluster-replica-validity-factor 0");
        Self { server, replicas: false, node_timeout: Duration::from_secs(1) }
    }

    /// A replica for each master.
    pub const fn replicas(mut self) -> Self {
        self.replicas = true;
        self
    }

    /// How long a node may be silent, to the millisecond.
    pub const fn node_timeout(mut self, node_timeout: Duration) -> Self {
        self.node_timeout = node_timeout;
        self
    }

    /// The default user's password on all nodes.
    pub fn password(mut self, password: &str) -> Self {
        self.server = self.server.password(password);
        self
    }

    /// A line of every node's `redis.conf`.
    pub fn line(mut self, line: impl Into<String>) -> Self {
        self.server = self.server.line(line);
        self
    }
}

impl Default for ClusterOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// One line of CLUSTER NODES.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Member {
    id: String,
    port: u16,
    flags: Vec<String>,
    master: Option<String>,
    connected: bool,
    slots: Vec<(u16, u16)>,
}

impl Cluster {
    /// Starts three masters, and waits until each of them finds the cluster whole.
    pub async fn start() -> Self {
        Self::start_with(ClusterOptions::new()).await
    }

    /// Starts a cluster with options, and waits until each node finds it whole.
    pub async fn start_with(options: ClusterOptions) -> Self {
        let count = if options.replicas { 2 * MASTERS } else { MASTERS };
        let mut nodes = Vec::new();
        for _ in 0..count {
            let timeout = format!("cluster-node-timeout {}", options.node_timeout.as_millis());
            nodes.push(Server::start_with(options.server.clone().line(timeout)).await);
        }
        let cluster = Self { nodes };
        cluster.join().await;
        cluster.assign().await;
        cluster.whole().await;
        cluster
    }

    /// `redis://<host>:<port>,<host>:<port>,...`: the three first masters.
    #[must_use]
    pub fn url(&self) -> String {
        let hosts: Vec<_> = self.nodes.iter().take(MASTERS).map(|node| node.addr().to_string()).collect();
        format!("redis://{}", hosts.join(","))
    }

    /// All nodes: the three first masters, then the replica of each, if there are any.
    #[must_use]
    pub fn nodes(&self) -> &[Server] {
        &self.nodes
    }

    /// The slot of a key.
    pub async fn slot(&self, key: &str) -> u16 {
        self.answering().await.query(&["CLUSTER", "KEYSLOT", key]).await
    }

    /// The place in [`nodes`](Self::nodes) of the master that has a slot.
    pub async fn owner(&self, slot: u16) -> usize {
        until("a slot to have an owner", || async {
            let members = members(self.answering().await).await?;
            let owner = members.into_iter().find(|member| member.has(slot) && !member.is("fail"))?;
            self.place(&owner)
        })
        .await
    }

    /// Breaks a node, for instance with [`Server::stop`] or [`Server::pause`], and waits until another serves its slots
    /// and every node that answers knows it. Returns how long that took.
    ///
    /// # Panics
    ///
    /// When the node is no master with slots and a replica.
    pub async fn fail_over(&self, master: usize, break_master: impl FnOnce(&Server)) -> Duration {
        let old = &self.nodes[master];
        let known = members(old).await.expect("a node that answers");
        let own = known.iter().find(|member| self.place(member) == Some(master)).expect("it knows itself");
        let slot = own.slots.first().expect("a master with slots").0;
        assert!(known.iter().any(|member| member.master.as_ref() == Some(&own.id)), "it has a replica");
        let start = Instant::now();
        break_master(old);
        until("a replica to take over", || async {
            for node in self.nodes.iter().filter(|node| node.addr() != old.addr()) {
                let Ok(info) = node.glance::<String>(&["CLUSTER", "INFO"]).await else { continue };
                let members = members(node).await?;
                let owner = members.iter().find(|member| member.has(slot))?;
                if field(&info, "cluster_state") != Some("ok") || self.place(owner)? == master {
                    return None;
                }
            }
            Some(())
        })
        .await;
        start.elapsed()
    }

    /// Waits until every node finds the cluster whole: all nodes known and connected, all slots served, all replicas
    /// in step.
    pub async fn whole(&self) {
        for node in &self.nodes {
            until("a node to find the cluster whole", || async {
                let info: String = node.glance(&["CLUSTER", "INFO"]).await.ok()?;
                let members = members(node).await?;
                let masters = members.iter().filter(|member| !member.slots.is_empty()).count();
                let whole = field(&info, "cluster_state") == Some("ok")
                    && field(&info, "cluster_slots_ok") == Some(&SLOTS.to_string())
                    && members.len() == self.nodes.len()
                    && members.iter().all(|member| member.connected)
                    && masters == MASTERS
                    && members.iter().filter(|member| member.is("slave")).count()
                        == self.nodes.len() - MASTERS;
                whole.then_some(())
            })
            .await;
            let role = node.info("replication", "role").await;
            if role.as_deref() == Some("slave") {
                node.synced().await;
            }
        }
    }

    /// Makes the nodes know each other.
    async fn join(&self) {
        for (epoch, node) in self.nodes.iter().enumerate() {
            // Each its own: two masters with one epoch would have to settle that first.
            node.command(&["CLUSTER", "SET-CONFIG-EPOCH", &(epoch + 1).to_string()]).await;
        }
        let first = &self.nodes[0];
        for other in &self.nodes[1..] {
            let addr = other.addr();
            first.command(&["CLUSTER", "MEET", &addr.ip().to_string(), &addr.port().to_string()]).await;
        }
        for node in &self.nodes {
            until("the nodes to meet", || async {
                let members = members(node).await?;
                let met = |member: &Member| member.connected && !member.is("handshake");
                (members.len() == self.nodes.len() && members.iter().all(met)).then_some(())
            })
            .await;
        }
    }

    /// Gives each master its slots, and each replica its master.
    async fn assign(&self) {
        let share = SLOTS.div_ceil(u16::try_from(MASTERS).expect("three"));
        let all: Vec<u16> = (0..SLOTS).collect();
        for (node, slots) in self.nodes.iter().zip(all.chunks(share.into())) {
            let mut command = Cmd::new();
            command.arg("CLUSTER").arg("ADDSLOTS").arg(slots);
            node.send::<()>(&command).await.expect("the slots are free");
        }
        for (master, replica) in self.nodes.iter().zip(&self.nodes[MASTERS..]) {
            let id: String = master.query(&["CLUSTER", "MYID"]).await;
            until("a replica to know its master's slots", || async {
                replica.try_query::<()>(&["CLUSTER", "REPLICATE", &id]).await.ok()
            })
            .await;
            replica.synced().await;
        }
    }

    /// Some node that answers.
    async fn answering(&self) -> &Server {
        until("some node to answer", || async {
            for node in &self.nodes {
                if node.glance::<String>(&["PING"]).await.is_ok() {
                    return Some(node);
                }
            }
            None
        })
        .await
    }

    fn place(&self, member: &Member) -> Option<usize> {
        self.nodes.iter().position(|node| node.addr().port() == member.port)
    }
}

impl Member {
    /// Reads a line: id, address, flags, master, two times, epoch, link, slots.
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_whitespace();
        let id = words.next()?.to_owned();
        let port = words.next()?.split('@').next()?.rsplit(':').next()?.parse().ok()?;
        let flags: Vec<_> = words.next()?.split(',').map(str::to_owned).collect();
        let master = words.next().filter(|master| *master != "-").map(str::to_owned);
        let connected = words.nth(3)? == "connected";
        let slots = words.filter(|slots| !slots.starts_with('[')).filter_map(|slots| {
            let (first, last) = slots.split_once('-').unwrap_or((slots, slots));
            Some((first.parse().ok()?, last.parse().ok()?))
        });
        Some(Self { id, port, master, connected, slots: slots.collect(), flags })
    }

    fn has(&self, slot: u16) -> bool {
        self.slots.iter().any(|(first, last)| (*first..=*last).contains(&slot))
    }

    fn is(&self, flag: &str) -> bool {
        self.flags.iter().any(|own| own == flag)
    }
}

/// The members as a node sees them; none if it does not answer.
async fn members(node: &Server) -> Option<Vec<Member>> {
    let nodes: String = node.glance(&["CLUSTER", "NODES"]).await.ok()?;
    nodes.lines().map(Member::parse).collect()
}

#[test]
fn members_are_read_from_their_lines() {
    let line = "07c3 127.0.0.1:30004@31004,host slave,fail? e7d1 0 1426238317239 4 disconnected";
    let member = Member::parse(line).unwrap();
    assert_eq!((member.port, member.master.as_deref(), member.connected), (30_004, Some("e7d1"), false));
    assert!(member.is("slave") && !member.is("fail"));
    let line = "e7d1 127.0.0.1:30001@31001 myself,master - 0 0 1 connected 0-5460 7000 [93->-292f]";
    let member = Member::parse(line).unwrap();
    assert_eq!(member.slots, [(0, 5460), (7000, 7000)]);
    assert!(member.has(5460) && member.has(7000) && !member.has(93 + 5460));
}
