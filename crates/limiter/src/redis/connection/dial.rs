//! Makes connections, and finds out where to.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use deadpool_redis::{Hook, Manager, Pool, PoolError, Runtime};
use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisConnectionInfo,
    RedisError, TlsCertificates,
};
use tokio::time::{Instant, sleep_until};

use super::sentinel::Sentinels;
use crate::redis::settings::{Address, RedisSettings, SettingsError, Tls};

/// Making a connection takes several round trips, and a TLS handshake perhaps: it may take this long even if one call
/// may not.
const LEAST_DIAL_TIME: Duration = Duration::from_millis(250);

/// Whatever is lost on its way to a server that is out of reach is lost for good, so an attempt that may take longer than
/// this is not waited for alone: others begin beside it, and the first that succeeds is it. A store that is patient with
/// its calls is then as soon back as any.
pub(in crate::redis) const SHORT_ATTEMPT: Duration = Duration::from_millis(400);

/// Requests that wait for the connection's task to write them. Larger than the client's default, so that a burst
/// does not wake its callers one by one.
const REQUESTS_BUFFERED: usize = 1_024;

/// How a certificate begins in PEM.
const CERTIFICATE: &[u8] = b"-----BEGIN CERTIFICATE-----";

/// What all connections have in common.
#[derive(Clone, Debug)]
pub(in crate::redis) struct Manners {
    login: RedisConnectionInfo,
    /// An address with everything that TLS needs, if connections are encrypted.
    encrypted: Option<ConnectionAddr>,
    /// How long making a connection may take.
    pub(in crate::redis) dial_time: Duration,
}

/// Which server connections are made to.
#[derive(Debug)]
pub(in crate::redis) enum Target {
    Fixed(Address),
    Named(Sentinels),
}

/// Makes the connections of one node.
#[derive(Debug)]
pub(in crate::redis) struct Dialer {
    manners: Arc<Manners>,
    target: Target,
    pool: Option<Pooled>,
    /// How many connections were made.
    made: Arc<AtomicU64>,
}

/// A pool of one connection.
#[derive(Debug)]
struct Pooled {
    address: Address,
    pool: Pool,
}

/// A connection that was just found to work.
pub(in crate::redis) struct CheckedOut {
    pub(in crate::redis) connection: MultiplexedConnection,
    pub(in crate::redis) address: Address,
    /// Whether it is another one than the last.
    pub(in crate::redis) is_new: bool,
}

impl Manners {
    pub(in crate::redis) fn new(settings: &RedisSettings) -> Result<Self, SettingsError> {
        let mut login = RedisConnectionInfo::default().set_db(settings.database.into());
        if let Some(username) = &settings.username {
            login = login.set_username(username);
        }
        if let Some(password) = &settings.password {
            login = login.set_password(password.reveal());
        }
        let encrypted = settings.tls.as_ref().map(encrypted).transpose()?;
        Ok(Self { login, encrypted, dial_time: settings.timeout.max(LEAST_DIAL_TIME) })
    }

    /// The same without a user and a password.
    pub(in crate::redis) fn anonymous(&self) -> Self {
        Self { login: RedisConnectionInfo::default(), ..self.clone() }
    }

    /// The same for a server that has no databases.
    pub(in crate::redis) fn without_database(&self) -> Self {
        Self { login: self.login.clone().set_db(0), ..self.clone() }
    }

    fn connection_to(&self, address: &Address) -> Result<ConnectionInfo, RedisError> {
        let (host, port) = (address.host.clone(), address.port);
        let address = match &self.encrypted {
            Some(ConnectionAddr::TcpTls { tls_params, insecure, .. }) => {
                ConnectionAddr::TcpTls { host, port, insecure: *insecure, tls_params: tls_params.clone() }
            }
            _ => ConnectionAddr::Tcp(host, port),
        };
        let tcp = TcpSettings::default().set_nodelay(true);
        Ok(address.into_connection_info()?.set_redis_settings(self.login.clone()).set_tcp_settings(tcp))
    }

    /// A pool of one connection: calls share it, see [`connection`](super).
    pub(in crate::redis) fn pool(
        &self,
        address: &Address,
        made: &Arc<AtomicU64>,
    ) -> Result<Pool, RedisError> {
        // Every request has its own deadline, and a second one would cost a second timer.
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.dial_time))
            .set_response_timeout(None)
            .set_pipeline_buffer_size(REQUESTS_BUFFERED);
        let manager = Manager::new_with_config(self.connection_to(address)?, config)?;
        let made = Arc::clone(made);
        let count = Hook::sync_fn(move |_, _| {
            made.fetch_add(1, Ordering::Relaxed);
            Ok(())
        });
        let builder = Pool::builder(manager).max_size(1).runtime(Runtime::Tokio1).post_create(count);
        builder.build().map_err(|error| io::Error::other(error).into())
    }
}

impl Dialer {
    pub(in crate::redis) fn new(manners: Arc<Manners>, target: Target) -> Self {
        Self { manners, target, pool: None, made: Arc::default() }
    }

    /// How long a check-out may take.
    pub(in crate::redis) fn dial_time(&self) -> Duration {
        self.manners.dial_time
    }

    /// Makes a connection, and returns it. Never waits longer than a dial may take.
    pub(in crate::redis) async fn dial(&mut self) -> Result<CheckedOut, RedisError> {
        if self.manners.dial_time <= SHORT_ATTEMPT {
            return self.check_out().await;
        }
        let mut short = self.with_short_attempts()?;
        let found = tokio::select! {
            outcome = self.check_out() => return outcome,
            found = short.until_made() => found,
        };
        (self.pool, self.made) = (short.pool, short.made);
        Ok(found)
    }

    fn with_short_attempts(&self) -> Result<Self, RedisError> {
        let manners = Arc::new(Manners { dial_time: SHORT_ATTEMPT, ..(*self.manners).clone() });
        let target = match &self.target {
            Target::Fixed(address) => Target::Fixed(address.clone()),
            Target::Named(sentinels) => Target::Named(sentinels.with_manners(&manners)?),
        };
        Ok(Self::new(manners, target))
    }

    /// Tries again and again, at a steady pace; the first time after as long as one attempt takes.
    async fn until_made(&mut self) -> CheckedOut {
        let mut next = Instant::now() + self.manners.dial_time;
        loop {
            sleep_until(next).await;
            next = Instant::now() + self.manners.dial_time;
            if let Ok(found) = self.check_out().await {
                return found;
            }
            self.discard();
        }
    }

    /// Has the pool check its connection, or make one, and returns it. Never waits longer than a dial may take.
    pub(in crate::redis) async fn check_out(&mut self) -> Result<CheckedOut, RedisError> {
        let limit = self.manners.dial_time;
        match tokio::time::timeout(limit, self.check_out_unhurried()).await {
            Ok(outcome) => outcome,
            Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "no connection in time").into()),
        }
    }

    async fn check_out_unhurried(&mut self) -> Result<CheckedOut, RedisError> {
        let address = match &mut self.target {
            Target::Fixed(address) => address.clone(),
            Target::Named(sentinels) => match (sentinels.master().await, &self.pool) {
                (Ok(address), _) => address,
                // They are asked where the master is, not whether it may serve: one that is connected goes on
                // without them, and without them nobody else becomes the master.
                (Err(_), Some(pooled)) => pooled.address.clone(),
                (Err(error), None) => return Err(error),
            },
        };
        let made = self.made.load(Ordering::Relaxed);
        if self.pool.as_ref().is_none_or(|pooled| pooled.address != address) {
            let pool = self.manners.pool(&address, &self.made)?;
            self.pool = Some(Pooled { address: address.clone(), pool });
        }
        let Some(Pooled { pool, .. }) = &self.pool else { return Err(pool_error(&"no pool")) };
        let connection = pool.get().await.map_err(|error| match error {
            PoolError::Backend(error) => error,
            other => pool_error(&other),
        })?;
        // The pool gets it back at once: whoever uses it has it beside all others.
        let connection = (*connection).clone();
        let is_new = self.made.load(Ordering::Relaxed) != made;
        Ok(CheckedOut { connection, address, is_new })
    }

    /// Has the next check-out make another connection.
    pub(in crate::redis) fn discard(&mut self) {
        self.pool = None;
    }
}

fn pool_error(error: &impl std::fmt::Display) -> RedisError {
    io::Error::other(error.to_string()).into()
}

/// An address that only shows how TLS is to be spoken.
fn encrypted(tls: &Tls) -> Result<ConnectionAddr, SettingsError> {
    // A program that uses several implementations of cryptography has to choose one; if it has not, this does.
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // Somebody else may have been faster, which is as good.
        drop(rustls::crypto::ring::default_provider().install_default());
    }
    let plain =
        ConnectionAddr::TcpTls { host: "localhost".to_owned(), port: 1, insecure: false, tls_params: None };
    if tls.roots_pem.is_none() {
        return Ok(plain);
    }
    // The client takes a text without certificates for no certificates, and then trusts nobody.
    let roots = tls.roots_pem.as_deref().unwrap_or_default();
    if !roots.windows(CERTIFICATE.len()).any(|part| part == CERTIFICATE) {
        return Err(SettingsError::Roots);
    }
    let certificates = TlsCertificates { client_tls: None, root_cert: tls.roots_pem.clone() };
    let info = plain.into_connection_info().map_err(|_| SettingsError::Client)?;
    let client = Client::build_with_tls(info, certificates).map_err(|_| SettingsError::Roots)?;
    Ok(client.get_connection_info().addr().clone())
}
