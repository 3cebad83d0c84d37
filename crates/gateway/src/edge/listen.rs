//! Listening and accepting.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;

/// Connections that wait to be accepted; the system may bound it lower (`net.core.somaxconn`).
const BACKLOG: i32 = 4096;
/// How long accepting rests after an error that will not go away at once, doubled up to the longest.
const SHORTEST_REST: Duration = Duration::from_millis(10);
const LONGEST_REST: Duration = Duration::from_secs(1);
/// Errors in accepting are logged this often at most.
const LOG_EVERY: Duration = Duration::from_secs(10);

/// Listens on `addr`: with a deep queue, and at once even if connections of a process before still linger.
///
/// # Errors
///
/// Those of the system, such as an address in use.
///
/// # Panics
///
/// Outside a Tokio runtime with I/O enabled.
pub fn bind(addr: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(addr), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&addr.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// Accepts in spite of errors: rests while the system is short of something, and logs now and then.
#[derive(Debug, Default)]
pub(super) struct Acceptor {
    rest: Option<Duration>,
    resting_until: Option<Instant>,
    logged: Option<Instant>,
    unlogged: u64,
}

impl Acceptor {
    /// The next connection.
    ///
    /// # Cancel safety
    ///
    /// No connection is lost; a rest goes on with the next call.
    pub(super) async fn accept(&mut self, listener: &TcpListener) -> (TcpStream, SocketAddr) {
        self.accept_from(|| listener.accept()).await
    }

    pub(super) async fn accept_from<F, C>(&mut self, mut attempt: impl FnMut() -> F) -> C
    where
        F: Future<Output = io::Result<C>>,
    {
        loop {
            if let Some(end) = self.resting_until {
                tokio::time::sleep_until(end).await;
                self.resting_until = None;
            }
            match attempt().await {
                Ok(accepted) => {
                    self.rest = None;
                    return accepted;
                }
                Err(error) => self.failed(&error),
            }
        }
    }

    /// Errors that were not logged since the last that was.
    #[cfg(test)]
    pub(super) fn unlogged(&self) -> u64 {
        self.unlogged
    }

    fn failed(&mut self, error: &io::Error) {
        if concerns_one_connection(error) {
            return;
        }
        let now = Instant::now();
        let rest = self.rest.map_or(SHORTEST_REST, |rest| (rest * 2).min(LONGEST_REST));
        self.rest = Some(rest);
        self.resting_until = Some(now + rest);
        if self.logged.is_some_and(|logged| now < logged + LOG_EVERY) {
            self.unlogged += 1;
            return;
        }
        tracing::error!(
            error = error as &dyn std::error::Error,
            not_logged_before = self.unlogged,
            "cannot accept connections, will try again"
        );
        self.logged = Some(now);
        self.unlogged = 0;
    }
}

/// Errors of a connection that ended while it waited; the next one may be well.
fn concerns_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::Interrupted
            | io::ErrorKind::TimedOut
            | io::ErrorKind::HostUnreachable
            | io::ErrorKind::NetworkUnreachable
            | io::ErrorKind::NetworkDown
    )
}
