//! Buckets in Redis, shared by a fleet.
//!
//! One decision is one script call, whatever it charges, and one script decides for everybody: the limits of all
//! processes together are as exact as those of one. [`RedisStore`] is the store, [`RedisSettings`] says where its
//! servers are. Needs Redis 5 or newer.
//!
//! # What is kept
//!
//! | key | value | expires |
//! |---|---|---|
//! | `<prefix>:v1:<dimension>:<digest>` | a bucket | at the millisecond in which it is full |
//! | `<prefix>:v1:settled:{<name of a bucket>}:<number>` | that a settlement has happened | when it can no longer be repeated |
//! | `<prefix>:v1:probe:{…}` | nothing: written to see that the server can be written to | after a second |
//!
//! The digest is that of the [`BucketKey`](crate::BucketKey) in 32 hexadecimal digits; no identity is in any key. The
//! `v1` is the layout: another layout will have another number.
//!
//! A bucket is five doubles of eight bytes, little-endian, all of them integers below 2^53:
//!
//! 1. whole units in it, below zero in debt;
//! 2. the part of the next unit that has flowed in, in 86,400,000,000ths (a day has as many microseconds, so a
//!    refill of `r` units per day is `r` such parts per microsecond, and nothing is ever rounded);
//! 3. the time of both, in microseconds since 1970 by the server's clock;
//! 4. the capacity in units, and
//! 5. the refill in units per day, as they were last seen.
//!
//! A full bucket is not kept. A refused decision writes nothing, except a quota that has changed.
//!
//! # What happens in which fault
//!
//! Whatever goes wrong is a [`StoreError`], never a decision: a grant is a reply of the script whose verdict follows,
//! by the arithmetic of [`Bucket`](crate::Bucket), from the buckets that it shows.
//!
//! - **Every call has a deadline**, [`RedisSettings::timeout`], connecting included. A settlement has
//!   [`RedisSettings::settle_within`].
//! - **A server that fails is not asked.** Three failures in a row, or one that leaves no doubt, open a breaker: calls
//!   then fail at once, while a task looks whether the server serves again, at most ten times a second.
//! - **Nothing is sent twice that may have been done**, except settlements. Only answers that prove that nothing was
//!   done lead to another attempt: an unknown script, and a slot of a cluster that is elsewhere.
//! - **A grant that comes too late is given back**: an answer whose caller has given up is waited for in the
//!   background, for up to ten seconds and a thousand of them at once. See [`RedisStats`].
//! - **What may have been granted and cannot be given back is counted**: an answer that never comes, that is lost with
//!   its connection, or that proves neither a decision nor that nothing was done. See [`RedisStats`], too.
//! - **A settlement happens once.** It is tried again until it is answered, and the server remembers its number. An
//!   attempt that is carried out so late that the number may be forgotten does nothing.
//! - **An answer to another request is noticed**: each repeats a number of its request.
//!
//! What is lost with a server that fails over is lost: a replica may lack the last writes of its master, and a master
//! that was cut off accepts writes that vanish. Limits are then exceeded by what was granted in that time.
//!
//! # Connections
//!
//! All calls to a server share one connection, on which requests follow each other without waiting. It is made,
//! checked and replaced by a pool of `deadpool-redis` of that size, by a check-out twice a second. A check-out for
//! each call would cost a second round trip.
//!
//! With Sentinels, the server that most of them name is asked, and they are asked twice a second. In a cluster, each
//! master has its own connection and breaker: while one is down, decisions on the others are made.
//!
//! # In a cluster
//!
//! The buckets of one decision are in several slots, and nothing ties them to one: that would put a bucket that
//! everybody shares, and so everybody, on one server. The slots are asked at the same time, and if one refuses, what
//! others have granted is given back before the call is answered. For that moment, others may be refused who would
//! have passed; nobody passes who should not.
//!
//! # What the server must allow
//!
//! `EVALSHA` and `SCRIPT LOAD`, or `EVAL`; `TIME`, `MGET`, `SET` and `DEL` on keys with the prefix; `PING` and
//! `UNWATCH`; `SELECT` for a database other than 0; `CLUSTER SLOTS` and `ASKING` in a cluster. `ROLE` and `INFO` are of use: with them a replica is told from a master at
//! once, and a `maxmemory-policy` that throws away buckets is warned of.

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
use crate::{Balances, Charge, Decision, Settled, Settlement, Store, StoreError};

/// Counts of what a [`RedisStore`] did beside answering, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RedisStats {
    /// Grants that came after their caller had given up, and were given back.
    pub late_grants_returned: u64,
    /// Calls that ended without a decision although the server may have granted them, and whose charges, if there were
    /// any, could not be given back: no answer ever came, or one that does not prove that nothing was done.
    pub grants_lost: u64,
}

/// Buckets in Redis, shared with everybody who uses the same servers and the same key prefix.
///
/// Cheap to clone; all clones are one store, which works in the background until the last of them is dropped. See the
/// [module](self) for what it does in which fault.
///
/// # Examples
///
/// ```no_run
/// use fairlane_limiter::redis::{Mode, RedisSettings, RedisStore};
/// use fairlane_limiter::{BucketKey, Charge, Dimension, Quota, Store};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let settings = RedisSettings::parse("redis://127.0.0.1:6379", Mode::Standalone)?;
/// let store = RedisStore::new(settings)?;
/// let user = BucketKey::new(Dimension::new(0), 0x5eed);
/// match store.take(&[Charge::new(user, Quota::per_second(5)?, 1)]).await {
///     Ok(decision) if decision.is_granted() => println!("served"),
///     Ok(_) => println!("too many requests"),
///     Err(error) => println!("unavailable: {error}"),
/// }
/// # Ok(())
/// # }
/// ```
///
/// # Cancel safety
///
/// A dropped [`take`](Store::take) that was sent is still carried out; what it is granted is then given back. In a
/// cluster, the same is true of each part of it. A dropped [`settle`](Store::settle) may have happened or not, and is
/// not tried again.
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

    /// Whether a decision on these charges can be made now, as far as is known: in a cluster only the servers that have
    /// their buckets count. Takes no lock, and looks at nothing but what is known.
    #[must_use]
    pub fn is_up_for(&self, charges: &[Charge]) -> bool {
        self.shared.core.is_up_for(charges)
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
        RedisStats { late_grants_returned: late.returned(), grants_lost: late.lost() }
    }

    /// Applies settlements as [`settle`](Store::settle) does, and tells of each whether it has happened: in a cluster
    /// those on some servers may have, and those on others not.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future may leave each of the settlements applied or not.
    pub async fn settle_each(&self, settlements: &[Settlement]) -> Settled {
        self.shared.core.settle(&Plan::settlements(settlements)).await
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
        self.settle_each(settlements).await.all()
    }
}

impl std::fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisStore").field("servers", &self.shared.core.servers).finish_non_exhaustive()
    }
}
