//! A master that sentinels watch.

use std::{collections::HashMap, time::Duration};

use tokio::time::Instant;

use crate::{Server, ServerOptions, wait::until};

const SENTINELS: usize = 3;

/// Periods of a sentinel that make it act sooner than it would by itself, where the version knows them, and keep a
/// busy machine from making it distrust its own clock.
const HASTE: &[&str] =
    &["SENTINEL", "DEBUG", "publish-period", "200", "info-period", "500", "tilt-trigger", "20000"];

/// The key that tells how far a replica has got.
const MARK: &str = "harness:mark";

/// A master, its replicas and three sentinels that agree by two.
#[derive(Debug)]
pub struct Sentinels {
    servers: Vec<Server>,
    sentinels: Vec<Server>,
}

/// What is special about a master and its sentinels.
#[derive(Clone, Debug)]
#[must_use]
pub struct SentinelsOptions {
    replicas: usize,
    password: Option<String>,
    down_after: Duration,
}

impl SentinelsOptions {
    /// One replica, no password, and a master is held for dead after 500 ms.
    pub const fn new() -> Self {
        Self { replicas: 1, password: None, down_after: Duration::from_millis(500) }
    }

    /// How many replicas there are.
    pub const fn replicas(mut self, replicas: usize) -> Self {
        self.replicas = replicas;
        self
    }

    /// The password of master and replicas.
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self
    }

    /// How long a master may be silent, to the millisecond.
    pub const fn down_after(mut self, down_after: Duration) -> Self {
        self.down_after = down_after;
        self
    }
}

impl Default for SentinelsOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl Sentinels {
    /// What the sentinels call the master.
    pub const MASTER: &str = "fairlane-test";

    /// Starts all with one replica, and waits until they know each other.
    pub async fn start() -> Self {
        Self::start_with(SentinelsOptions::new()).await
    }

    /// Starts all with options, and waits until they know each other.
    pub async fn start_with(options: SentinelsOptions) -> Self {
        let plain = || match &options.password {
            Some(password) => ServerOptions::new().password(password),
            None => ServerOptions::new(),
        };
        let mut servers = vec![Server::start_with(plain()).await];
        for _ in 0..options.replicas {
            let replica = Server::start_with(plain().replica_of(servers[0].addr())).await;
            // The sentinels learn of replicas from the master.
            replica.synced().await;
            servers.push(replica);
        }
        let mut sentinels = Vec::new();
        for _ in 0..SENTINELS {
            let sentinel = Server::start_with(options.sentinel(&servers[0])).await;
            // Not every version can be hurried.
            sentinel.try_query::<redis::Value>(HASTE).await.ok();
            sentinels.push(sentinel);
        }
        let all = Self { servers, sentinels };
        all.acquainted().await;
        all
    }

    /// `redis+sentinel://<host>:<port>,<host>:<port>,<host>:<port>/<master>`.
    #[must_use]
    pub fn url(&self) -> String {
        let hosts: Vec<_> = self.sentinels.iter().map(|sentinel| sentinel.addr().to_string()).collect();
        format!("redis+sentinel://{}/{}", hosts.join(","), Self::MASTER)
    }

    /// Master and replicas, in whatever role they are now.
    #[must_use]
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// The sentinels.
    #[must_use]
    pub fn sentinels(&self) -> &[Server] {
        &self.sentinels
    }

    /// The server that most sentinels hold for the master.
    pub async fn master(&self) -> &Server {
        until("most sentinels to agree on a master", || async {
            let mut votes = HashMap::new();
            for sentinel in &self.sentinels {
                if let Some(master) = self.master_by(sentinel).await {
                    *votes.entry(master).or_insert(0) += 1;
                }
            }
            let (elected, _) = votes.into_iter().find(|(_, votes)| *votes > SENTINELS / 2)?;
            Some(&self.servers[elected])
        })
        .await
    }

    /// Waits until the replicas have all that the master was told so far. What they lack at its end is lost.
    ///
    /// # Panics
    ///
    /// When the master does not take a write.
    pub async fn replicated(&self) {
        let master = self.master().await;
        // They are told in order, so that whoever has this has all before it.
        let mark: u64 = master.query(&["INCR", MARK]).await;
        for replica in self.servers.iter().filter(|server| server.addr() != master.addr()) {
            until("a replica to have what its master has", || async {
                let seen: Option<u64> = replica.glance(&["GET", MARK]).await.ok()?;
                (seen == Some(mark)).then_some(())
            })
            .await;
        }
    }

    /// Breaks the master, for instance with [`Server::stop`] or [`Server::pause`], and waits until most sentinels name
    /// another and that one takes writes. Returns how long that took.
    pub async fn fail_over(&self, break_master: impl FnOnce(&Server)) -> Duration {
        let old = self.master().await;
        let start = Instant::now();
        break_master(old);
        until("another master", || async {
            let new = self.master().await;
            if new.addr() == old.addr() {
                return None;
            }
            let role: Vec<redis::Value> = new.glance(&["ROLE"]).await.ok()?;
            (role.first() == Some(&redis::Value::BulkString(b"master".to_vec()))).then_some(())
        })
        .await;
        start.elapsed()
    }

    /// Waits until every sentinel knows the others and all replicas, and finds nothing wrong.
    async fn acquainted(&self) {
        for sentinel in &self.sentinels {
            until("a sentinel to know the others", || async {
                let master: HashMap<String, String> =
                    sentinel.glance(&["SENTINEL", "MASTER", Self::MASTER]).await.ok()?;
                let others = (SENTINELS - 1).to_string();
                let replicas = (self.servers.len() - 1).to_string();
                let known = master.get("num-other-sentinels") == Some(&others)
                    && master.get("num-slaves") == Some(&replicas)
                    && master.get("flags").is_some_and(|flags| flags == "master");
                if !known {
                    return None;
                }
                let replicas: Vec<HashMap<String, String>> =
                    sentinel.glance(&["SENTINEL", "REPLICAS", Self::MASTER]).await.ok()?;
                let synced = |replica: &HashMap<String, String>| {
                    replica.get("master-link-status").is_some_and(|status| status == "ok")
                        && replica.get("flags").is_some_and(|flags| flags == "slave")
                };
                replicas.iter().all(synced).then_some(())
            })
            .await;
        }
    }

    /// The place of the server that one sentinel holds for the master.
    async fn master_by(&self, sentinel: &Server) -> Option<usize> {
        let (_, port): (String, u16) =
            sentinel.glance(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", Self::MASTER]).await.ok()?;
        self.servers.iter().position(|server| server.addr().port() == port)
    }
}

impl SentinelsOptions {
    fn sentinel(&self, master: &Server) -> ServerOptions {
        let name = Sentinels::MASTER;
        let addr = master.addr();
        let options = ServerOptions::sentinel()
            .line(format!("sentinel monitor {name} {} {} 2", addr.ip(), addr.port()))
            .line(format!("sentinel down-after-milliseconds {name} {}", self.down_after.as_millis()))
            .line(format!("sentinel failover-timeout {name} 3000"));
        match &self.password {
            Some(password) => options.line(format!("sentinel auth-pass {name} {password}")),
            None => options,
        }
    }
}
