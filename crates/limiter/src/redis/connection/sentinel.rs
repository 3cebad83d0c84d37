//! Asks Sentinels where the master is.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use deadpool_redis::{Pool, PoolError};
use redis::{ErrorKind, RedisError};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use super::dial::Manners;
use crate::redis::settings::Address;

/// The Sentinels of one group of servers.
///
/// All are asked at the same time, and the address that most of them name is taken: one that was cut off from the others
/// goes on naming a master that has been replaced, and one that hangs must not hold up the answer of the others.
#[derive(Debug)]
pub(in crate::redis) struct Sentinels {
    master: Arc<str>,
    asked: Vec<Arc<Sentinel>>,
    /// How long the answers of the others are waited for.
    patience: Duration,
}

/// One Sentinel.
#[derive(Debug)]
struct Sentinel {
    address: Address,
    /// Without a login, as most Sentinels are.
    open: Pool,
    /// With that of the servers, for those that ask for one.
    closed: Pool,
}

impl Sentinels {
    pub(in crate::redis) fn new(
        sentinels: &[Address],
        master: &str,
        manners: &Manners,
    ) -> Result<Self, RedisError> {
        let (anonymous, known) = (manners.anonymous(), manners.without_database());
        let made = Arc::new(AtomicU64::new(0));
        let sentinel = |address: &Address| {
            let (open, closed) = (anonymous.pool(address, &made)?, known.pool(address, &made)?);
            Ok(Arc::new(Sentinel { address: address.clone(), open, closed }))
        };
        let asked = sentinels.iter().map(sentinel).collect::<Result<_, RedisError>>()?;
        // The other half is for the connection to what they name.
        Ok(Self { master: master.into(), asked, patience: manners.dial_time / 2 })
    }

    /// The same Sentinels, asked in other manners over connections of their own.
    pub(in crate::redis) fn with_manners(&self, manners: &Manners) -> Result<Self, RedisError> {
        let addresses: Vec<_> = self.asked.iter().map(|sentinel| sentinel.address.clone()).collect();
        Self::new(&addresses, &self.master, manners)
    }

    /// Where the master is.
    pub(in crate::redis) async fn master(&self) -> Result<Address, RedisError> {
        let mut answers = JoinSet::new();
        for sentinel in &self.asked {
            let (sentinel, master) = (Arc::clone(sentinel), Arc::clone(&self.master));
            answers.spawn(async move { sentinel.master(&master).await });
        }
        let mut votes = Votes::default();
        let mut error = RedisError::from((ErrorKind::EmptySentinelList, "there are no Sentinels"));
        let deadline = Instant::now() + self.patience;
        while let Ok(Some(answer)) = timeout_at(deadline, answers.join_next()).await {
            match answer {
                Ok(Ok(address)) => votes.count(address),
                Ok(Err(failed)) => error = failed,
                Err(ended) => error = io::Error::other(ended).into(),
            }
            if let Some(address) = votes.chosen(self.asked.len()) {
                return Ok(address);
            }
        }
        votes.leading().ok_or(error)
    }
}

impl Sentinel {
    async fn master(&self, name: &str) -> Result<Address, RedisError> {
        match ask(&self.open, name).await {
            Err(error) if error.code() == Some("NOAUTH") || error.code() == Some("NOPERM") => {
                ask(&self.closed, name).await
            }
            outcome => outcome,
        }
    }
}

async fn ask(pool: &Pool, name: &str) -> Result<Address, RedisError> {
    let mut connection = pool.get().await.map_err(|error| match error {
        PoolError::Backend(error) => error,
        other => io::Error::other(other.to_string()).into(),
    })?;
    let mut command = redis::cmd("SENTINEL");
    command.arg("GET-MASTER-ADDR-BY-NAME").arg(name);
    let found: Option<(String, u16)> = command.query_async(&mut connection).await?;
    let unknown =
        || (ErrorKind::MasterNameNotFoundBySentinel, "the Sentinel knows no group of this name").into();
    found.map(|(host, port)| Address::new(host, port)).ok_or_else(unknown)
}

/// What the Sentinels said.
#[derive(Debug, Default)]
struct Votes(Vec<(Address, usize)>);

impl Votes {
    fn count(&mut self, address: Address) {
        match self.0.iter_mut().find(|(known, _)| *known == address) {
            Some((_, votes)) => *votes += 1,
            None => self.0.push((address, 1)),
        }
    }

    /// The address that more than half of all Sentinels name.
    fn chosen(&self, voters: usize) -> Option<Address> {
        self.0.iter().find(|(_, votes)| *votes * 2 > voters).map(|(address, _)| address.clone())
    }

    /// The address that most of those name that have answered; of several, the one that was named first.
    fn leading(&self) -> Option<Address> {
        self.0.iter().rev().max_by_key(|(_, votes)| *votes).map(|(address, _)| address.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn votes(ports: &[u16]) -> Votes {
        let mut votes = Votes::default();
        for port in ports {
            votes.count(Address::new("h", *port));
        }
        votes
    }

    #[test]
    fn most_votes_win() {
        let port = |address: Option<Address>| address.map(|address| address.port);
        assert_eq!(port(votes(&[]).leading()), None);
        assert_eq!(port(votes(&[1, 2]).leading()), Some(1), "of two, the faster");
        assert_eq!(port(votes(&[1, 2, 2]).leading()), Some(2));
        assert_eq!(port(votes(&[1]).chosen(3)), None, "one of three says nothing yet");
        assert_eq!(port(votes(&[1, 2]).chosen(3)), None);
        assert_eq!(port(votes(&[1, 2, 2]).chosen(3)), Some(2));
        assert_eq!(port(votes(&[1]).chosen(1)), Some(1));
    }
}
