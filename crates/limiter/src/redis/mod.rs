//! Buckets in Redis, shared by a fleet.

mod cluster;
mod connection;
mod core;
mod failure;
mod health;
mod inspect;
mod keys;
mod late;
mod plan;
mod script;
mod servers;
mod settings;
mod settle;
mod url;
mod voice;

use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use self::cluster::{Cluster, Refresher};
use self::connection::board::Board;
use self::connection::dial::{Dialer, Manners, Target};
use self::connection::node::Node;
use self::connection::sentinel::Sentinels;
use self::connection::supervisor::Supervisor;
use self::core::{Core, Numbers, TestClock};
pub use self::health::{NodeHealth, RedisHealth};
pub use self::inspect::{Inspection, NodeInspection};
use self::keys::Keys;
use self::late::Late;
use self::plan::Plan;
use self::servers::Servers;
pub use self::settings::{Address, Mode, Password, RedisSettings, SettingsError, Tls, Topology};
use self::settle::Settling;
use self::voice::Voice;
use crate::{Balances, Charge, Decision, Settlement, Store, StoreError};

/// Counts of what a [`RedisStore`] did beside answering, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RedisStats {
    /// Grants that came after their caller had given up, and were given back.
    pub late_grants_returned: u64,
    /// Calls that nobody waits for any more and whose charges, if there were any, could not be given back.
    pub late_grants_lost: u64,
}

/// Buckets in Redis, shared with everybody who uses the same servers and the same key prefix.
///
/// Cheap to clone; all clones are one store. See the [module](self) for what it does in which fault.
#[derive(Clone)]
pub struct RedisStore {
    shared: Arc<Shared>,
}

/// What ends with the last clone.
struct Shared {
    core: Arc<Core>,
    board: Arc<Board>,
    /// Aborted when dropped.
    _tasks: JoinSet<()>,
}

impl RedisStore {
    /// A store on these servers. Connects in the background: a server that cannot be reached is no error here, and calls
    /// fail until it can be.
    ///
    /// # Errors
    ///
    /// Settings that cannot be meant, or no Tokio runtime around.
    pub fn new(settings: RedisSettings) -> Result<Self, SettingsError> {
        Self::build(&settings, TestClock::default())
    }

    /// A store that takes the time from a clock instead of the servers, for tests. Keys live an hour longer than
    /// they would, since servers expire them by their own time.
    ///
    /// # Errors
    ///
    /// See [`new`](Self::new).
    #[cfg(any(test, feature = "test-util"))]
    pub fn with_clock(settings: RedisSettings, clock: crate::ManualClock) -> Result<Self, SettingsError> {
        Self::build(&settings, TestClock::new(clock))
    }

    fn build(settings: &RedisSettings, clock: TestClock) -> Result<Self, SettingsError> {
        settings.check()?;
        let runtime = Handle::try_current().map_err(|_| SettingsError::NoRuntime)?;
        let manners = Arc::new(Manners::new(settings)?);
        let (board, origin) = (Arc::new(Board::new()), Instant::now());
        let sentinels = match &settings.topology {
            Topology::Sentinel { sentinels, master } => Some(Sentinels::new(sentinels, master, &manners)),
            Topology::Standalone { .. } | Topology::Cluster { .. } => None,
        };
        let sentinels = sentinels.transpose().map_err(|_| SettingsError::Client)?;
        let node = |name: String| Node::new(name, Arc::clone(&board), origin);
        let servers = match &settings.topology {
            Topology::Standalone { server } => Servers::One(node(server.to_string())),
            Topology::Sentinel { master, .. } => Servers::One(node(master.clone())),
            Topology::Cluster { .. } => Servers::Cluster(Arc::new(Cluster::new())),
        };
        let core = Arc::new(Core {
            servers,
            keys: Keys::new(&settings.key_prefix),
            timeout: settings.timeout,
            settle_within: settings.settle_within,
            settling: Settling::default(),
            late: Late::default(),
            voice: Voice::new(),
            runtime,
            numbers: Numbers::new(),
            clock,
        });
        let mut tasks = JoinSet::new();
        match (&core.servers, &settings.topology, sentinels) {
            (Servers::One(node), Topology::Standalone { server }, _) => {
                board.list(std::iter::once(node), true);
                let dialer = Dialer::new(manners, Target::Fixed(server.clone()));
                tasks.spawn(Supervisor::new(Arc::clone(&core), Arc::clone(node), dialer).run());
            }
            (Servers::One(node), _, Some(sentinels)) => {
                board.list(std::iter::once(node), true);
                let dialer = Dialer::new(manners, Target::Named(sentinels));
                tasks.spawn(Supervisor::new(Arc::clone(&core), Arc::clone(node), dialer).run());
            }
            (Servers::Cluster(cluster), Topology::Cluster { seeds }, _) => {
                let (core, cluster, board) = (Arc::clone(&core), Arc::clone(cluster), Arc::clone(&board));
                let refresher = Refresher::new(core, cluster, board, manners, origin, seeds);
                tasks.spawn(refresher.map_err(|_| SettingsError::Client)?.run());
            }
            _ => return Err(SettingsError::Client),
        }
        Ok(Self { shared: Arc::new(Shared { core, board, _tasks: tasks }) })
    }

    /// Whether every decision can be made now, as far as is known.
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.shared.board.is_up()
    }

    /// What is known of the servers, to be waited on for changes.
    #[must_use]
    pub fn health(&self) -> watch::Receiver<RedisHealth> {
        self.shared.board.subscribe()
    }

    /// Counts for metrics.
    #[must_use]
    pub fn stats(&self) -> RedisStats {
        let late = &self.shared.core.late;
        RedisStats { late_grants_returned: late.returned(), late_grants_lost: late.lost() }
    }

    /// Asks the servers what they are. A server that is reached but cannot serve is asked, too.
    ///
    /// # Errors
    ///
    /// A server could not be asked.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn inspect(&self) -> Result<Inspection, StoreError> {
        Ok(self.shared.core.inspect().await?)
    }
}

impl Store for RedisStore {
    fn take(&self, charges: &[Charge]) -> impl Future<Output = Result<Decision, StoreError>> + Send {
        self.shared.core.take(charges)
    }

    fn peek(&self, charges: &[Charge]) -> impl Future<Output = Result<Decision, StoreError>> + Send {
        self.shared.core.peek(charges)
    }

    async fn settle(&self, settlements: &[Settlement]) -> Result<Balances, StoreError> {
        self.shared.core.settle(&Plan::settlements(settlements)).await
    }
}

impl std::fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisStore").field("servers", &self.shared.core.servers).finish_non_exhaustive()
    }
}
