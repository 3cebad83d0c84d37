//! Where Redis is, and how it is spoken to.

use std::fmt;
use std::time::Duration;

use super::url;

/// The port of a server whose address names none.
pub(super) const SERVER_PORT: u16 = 6_379;

/// The port of a Sentinel whose address names none.
pub(super) const SENTINEL_PORT: u16 = 26_379;

/// How the servers behind a URL are arranged; the URL alone does not always tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// One server.
    Standalone,
    /// One server at a time, which Sentinels name.
    Sentinel,
    /// A Redis Cluster.
    Cluster,
}

/// How the servers are arranged, with the addresses to begin at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Topology {
    /// One server.
    Standalone {
        /// The server.
        server: Address,
    },
    /// The server that Sentinels name as the master of a group.
    Sentinel {
        /// The Sentinels; all are asked, and the address that most of them name is taken.
        sentinels: Vec<Address>,
        /// The name of the group.
        master: String,
    },
    /// A Redis Cluster.
    Cluster {
        /// Nodes to ask for all others.
        seeds: Vec<Address>,
    },
}

/// A host and a port.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address {
    /// A name, or an address without brackets.
    pub host: String,
    /// The TCP port.
    pub port: u16,
}

/// A word that is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(String);

/// That, and how, connections are encrypted.
#[derive(Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tls {
    /// The certificates to trust, in PEM; those of the operating system if there are none.
    pub roots_pem: Option<Vec<u8>>,
}

/// Everything a [`RedisStore`](super::RedisStore) has to know.
///
/// # Examples
///
/// ```
/// use fairlane_limiter::redis::{Mode, RedisSettings};
///
/// # fn main() -> Result<(), fairlane_limiter::redis::SettingsError> {
/// let settings = RedisSettings::parse("redis://limiter:secret@10.0.0.5:6379/2", Mode::Standalone)?;
/// assert_eq!((settings.username.as_deref(), settings.database), (Some("limiter"), 2));
/// assert!(!format!("{settings:?}").contains("secret"));
///
/// RedisSettings::parse("rediss://10.0.0.5,10.0.0.6,10.0.0.7:7000", Mode::Cluster)?;
/// RedisSettings::parse("redis+sentinel://10.0.0.5,10.0.0.6,10.0.0.7/mymaster", Mode::Sentinel)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RedisSettings {
    /// The servers.
    pub topology: Topology,
    /// The user to log in as; the server's default one if there is none.
    pub username: Option<String>,
    /// The password to log in with.
    pub password: Option<Password>,
    /// The number of the database; always 0 in a cluster.
    pub database: u32,
    /// Encryption; none if there is none.
    pub tls: Option<Tls>,
    /// What the name of every key begins with. Default `fairlane`. No braces, spaces or control characters, and at
    /// most 64 bytes.
    pub key_prefix: String,
    /// How long a call may take, connecting included. Default 100 ms.
    pub timeout: Duration,
    /// How long a settlement is tried again before it is given up. Default 5 s.
    pub settle_within: Duration,
}

impl RedisSettings {
    /// The settings that a URL tells, and defaults for everything else.
    ///
    /// - standalone: `redis://[user:password@]host[:port][/database]`
    /// - Sentinel: `redis+sentinel://[user:password@]host[:port],…/master name[/database]`. User and password are
    ///   those of the servers, and of Sentinels that ask for some.
    /// - cluster: `redis://[user:password@]host[:port],…`
    ///
    /// An `s` after `redis` asks for TLS: `rediss://`, `rediss+sentinel://`. User and password may be
    /// percent-encoded; a lone word before the `@` after a colon (`:password@`) is a password.
    ///
    /// # Errors
    ///
    /// The URL is not of the form that the mode asks for. The error never shows the password.
    pub fn parse(url: &str, mode: Mode) -> Result<Self, SettingsError> {
        let parts = url::split(url, mode)?;
        Ok(Self {
            topology: parts.topology,
            username: parts.username,
            password: parts.password.map(Password),
            database: parts.database,
            tls: parts.tls.then(Tls::default),
            key_prefix: "fairlane".to_owned(),
            timeout: Duration::from_millis(100),
            settle_within: Duration::from_secs(5),
        })
    }

    /// Whether the values fit together.
    pub(super) fn check(&self) -> Result<(), SettingsError> {
        let valid = |byte: u8| byte.is_ascii_graphic() && byte != b'{' && byte != b'}';
        if self.key_prefix.is_empty() || self.key_prefix.len() > 64 || !self.key_prefix.bytes().all(valid) {
            return Err(SettingsError::KeyPrefix);
        }
        if self.timeout.is_zero() {
            return Err(SettingsError::Timeout);
        }
        match &self.topology {
            Topology::Cluster { .. } if self.database != 0 => Err(SettingsError::ClusterDatabase),
            Topology::Cluster { seeds: servers } | Topology::Sentinel { sentinels: servers, .. }
                if servers.is_empty() =>
            {
                Err(SettingsError::Host)
            }
            _ => Ok(()),
        }
    }
}

impl Password {
    /// Hides a password.
    #[must_use]
    pub fn new(password: impl Into<String>) -> Self {
        Self(password.into())
    }

    pub(super) fn reveal(&self) -> &str {
        &self.0
    }
}

impl Tls {
    /// TLS that trusts these certificates (PEM) and no others.
    #[must_use]
    pub fn with_roots(roots_pem: impl Into<Vec<u8>>) -> Self {
        Self { roots_pem: Some(roots_pem.into()) }
    }
}

impl Address {
    /// A host and a port.
    #[must_use]
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        Self { host: host.into(), port }
    }
}

// === impl fmt ===

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(***)")
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let roots = if self.roots_pem.is_some() { "given" } else { "the system's" };
        f.debug_struct("Tls").field("roots", &roots).finish()
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// Why a store cannot be made from these settings. Never shows the URL: it may hold a password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// The URL begins with something else.
    #[error("the URL must begin with {expected}")]
    Scheme {
        /// What it should begin with in this mode.
        expected: &'static str,
    },
    /// There is no server in the URL, or one without a name.
    #[error("the URL names no server, or one without a host")]
    Host,
    /// Several servers where there is one.
    #[error("the URL names several servers, which only a cluster or Sentinels have")]
    SeveralServers,
    /// Not a number from 1 to 65535.
    #[error("a port of the URL is not a number from 1 to 65535")]
    Port,
    /// A percent sign without two hexadecimal digits, or bytes that are not UTF-8.
    #[error("the user or the password of the URL is not properly percent-encoded")]
    Encoding,
    /// A Sentinel URL without a path.
    #[error("the URL must name the group of servers after the Sentinels: /<master name>")]
    MasterName,
    /// The database is not a number.
    #[error("the database of the URL is not a number")]
    Database,
    /// A cluster has no databases.
    #[error("a cluster has only the database 0")]
    ClusterDatabase,
    /// Parameters and fragments mean nothing here.
    #[error("the URL has a query or a fragment, which mean nothing here")]
    Query,
    /// See [`RedisSettings::key_prefix`].
    #[error("the key prefix must be 1 to 64 visible ASCII characters without braces")]
    KeyPrefix,
    /// A call needs some time.
    #[error("the timeout is zero")]
    Timeout,
    /// The certificates to trust cannot be read.
    #[error("the certificates to trust cannot be read")]
    Roots,
    /// A store works in the background, which needs a Tokio runtime.
    #[error("there is no Tokio runtime here")]
    NoRuntime,
    /// The client refuses these settings.
    #[error("the Redis client refuses these settings")]
    Client,
}
