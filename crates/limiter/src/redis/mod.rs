//! Buckets in Redis, shared by a fleet.

mod health;
mod inspect;
mod settings;
mod url;

use tokio::sync::watch;

pub use self::health::{NodeHealth, RedisHealth};
pub use self::inspect::{Inspection, NodeInspection};
pub use self::settings::{Address, Mode, Password, RedisSettings, SettingsError, Tls, Topology};
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

/// Buckets in Redis.
#[derive(Clone, Debug)]
pub struct RedisStore {
    health: watch::Receiver<RedisHealth>,
}

impl RedisStore {
    /// A store on these servers. Connects in the background.
    ///
    /// # Errors
    ///
    /// Settings that cannot be meant, or no Tokio runtime. Never a server that cannot be reached.
    pub fn new(settings: RedisSettings) -> Result<Self, SettingsError> {
        settings.check()?;
        let (_, health) = watch::channel(RedisHealth::default());
        Ok(Self { health })
    }

    /// Whether every decision can be made now, as far as is known.
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.health.borrow().up
    }

    /// What is known of the servers, to be waited on for changes.
    #[must_use]
    pub fn health(&self) -> watch::Receiver<RedisHealth> {
        self.health.clone()
    }

    /// Counts for metrics.
    #[must_use]
    pub fn stats(&self) -> RedisStats {
        RedisStats::default()
    }

    /// Asks the servers what they are.
    ///
    /// # Errors
    ///
    /// A server could not be asked.
    pub async fn inspect(&self) -> Result<Inspection, StoreError> {
        Err(StoreError::Unavailable(None))
    }
}

impl Store for RedisStore {
    async fn take(&self, _charges: &[Charge]) -> Result<Decision, StoreError> {
        Err(StoreError::Unavailable(None))
    }

    async fn peek(&self, _charges: &[Charge]) -> Result<Decision, StoreError> {
        Err(StoreError::Unavailable(None))
    }

    async fn settle(&self, _settlements: &[Settlement]) -> Result<Balances, StoreError> {
        Err(StoreError::Unavailable(None))
    }
}
